//! `read_file`: a text file, or a range of its lines.

use super::{Action, CallContext, Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments};
use crate::context::Cap;
use crate::policy::ReadPermit;
use crate::protocol::{ToolInput, ToolPayload, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

pub struct ReadFile;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    path: String,
    #[serde(default)]
    start_line: Option<usize>,
    #[serde(default)]
    line_count: Option<usize>,
}

const EXAMPLE: &str = r#"{"path":"src/main.rs","start_line":1,"line_count":200}"#;

impl Tool for ReadFile {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read_file".into(),
            description: "Reads a text file of the workspace, whole or a range of lines.".into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "Relative to the workspace."},
                    "start_line": {"type": "integer", "description": "First line, from 1."},
                    "line_count": {"type": "integer", "description": "How many lines."}
                },
                "required": ["path"],
                "additionalProperties": false
            })),
        }
    }

    fn parallel(&self) -> bool {
        true
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let arguments: Arguments = arguments::parse("read_file", payload, EXAMPLE)?;
        let resolved = crate::workspace::resolve(world.root(), &arguments.path).map_err(|why| {
            ToolFailure::bad_arguments(format!("read_file: {:?}: {why}", arguments.path))
        })?;
        let judged = world.policy.judge_read(&resolved);
        let action = judged.permit.map(|permit| -> Action {
            Box::new(move |context| Box::pin(run(arguments, permit, context)))
        });
        Ok(Prepared::Judged { verdict: judged.verdict, action, effect: false })
    }
}

async fn run(arguments: Arguments, permit: ReadPermit, context: CallContext) -> ToolOutput {
    // A range may lie anywhere in a file that is far larger than what is given back.
    const MAX_FILE: u64 = 64 * 1024 * 1024;
    let read =
        context.world.with_workspace(move |workspace| workspace.read(&permit, MAX_FILE)).await;
    match read {
        Ok(content) => render(&arguments, &content.bytes, context.world.limits.output),
        Err(error) => ToolOutput::failed(format!("{}: {error}", arguments.path)),
    }
}

fn render(arguments: &Arguments, bytes: &[u8], limit: usize) -> ToolOutput {
    if bytes.contains(&0) {
        return ToolOutput::ok(format!(
            "{}: a binary file of {} bytes",
            arguments.path,
            bytes.len()
        ));
    }
    let text = String::from_utf8_lossy(bytes);
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = arguments.start_line.unwrap_or(1).max(1);
    let wanted = arguments.line_count.unwrap_or(usize::MAX);
    let chosen: String = lines.iter().skip(first - 1).take(wanted).copied().collect();
    let last = (first - 1).saturating_add(wanted).min(lines.len());
    let header = if lines.is_empty() {
        format!("{}: empty\n", arguments.path)
    } else if first > lines.len() {
        format!("{}: has {} lines; line {first} is past its end\n", arguments.path, lines.len())
    } else {
        format!("{}: lines {first}-{last} of {}\n", arguments.path, lines.len())
    };
    ToolOutput::ok(header + &Cap::middle(&chosen, limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(start: Option<usize>, count: Option<usize>, bytes: &[u8]) -> String {
        let arguments = Arguments { path: "f".into(), start_line: start, line_count: count };
        render(&arguments, bytes, 1000).text
    }

    #[test]
    fn ranges_and_odd_files() {
        assert_eq!(shown(None, None, b"a\nb\n"), "f: lines 1-2 of 2\na\nb\n");
        assert_eq!(shown(Some(2), Some(1), b"a\nb\nc"), "f: lines 2-2 of 3\nb\n");
        assert_eq!(shown(Some(9), None, b"a\n"), "f: has 1 lines; line 9 is past its end\n");
        assert_eq!(shown(None, None, b""), "f: empty\n");
        assert_eq!(shown(None, None, b"\0\0"), "f: a binary file of 2 bytes");
        assert!(shown(None, None, b"\xff\n").contains('\u{fffd}'));
    }
}
