//! `edit_file`: one exact piece of text of one file replaced by another.
//!
//! For models that do better with "this becomes that" than with a patch. It takes the way of
//! `apply_patch`, with the same guarantees.

use super::apply_patch::Edit;
use super::{Prepared, Tool, ToolFailure, ToolWorld, arguments};
use crate::protocol::{ToolInput, ToolPayload, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

pub struct EditFile;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    old_text: String,
    new_text: String,
}

const EXAMPLE: &str =
    r#"{"path":"src/lib.rs","old_text":"let limit = 10;","new_text":"let limit = 20;"}"#;

impl Tool for EditFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit_file".into(),
            description: include_str!("edit_file.md").trim().into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The file, relative to the workspace."},
                    "old_text": {
                        "type": "string",
                        "description": "The text as it stands in the file, white space and line breaks included. It must occur exactly once. Empty: make a new file."
                    },
                    "new_text": {"type": "string", "description": "The text to put in its place."}
                },
                "required": ["path", "old_text", "new_text"],
                "additionalProperties": false
            })),
        }
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let Arguments { path, old_text, new_text } =
            arguments::parse("edit_file", payload, EXAMPLE)?;
        let path = crate::patch::normalise(&path)
            .map_err(|why| ToolFailure::bad_arguments(format!("edit_file: {why}")))?;
        Edit::of_text("edit_file", path, old_text, new_text).prepare(world)
    }
}
