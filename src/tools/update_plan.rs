//! `update_plan`: the model's own plan, shown to people; it changes nothing.

use super::{Prepared, Tool, ToolFailure, ToolOutput, ToolWorld, arguments};
use crate::protocol::{PlanItem, PlanStatus, ToolInput, ToolPayload, ToolSpec};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;

pub struct UpdatePlan;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    plan: Vec<Entry>,
    #[serde(default)]
    #[allow(dead_code, reason = "accepted from models that send it; the plan says it all")]
    explanation: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    step: String,
    status: PlanStatus,
}

const EXAMPLE: &str = r#"{"plan":[{"step":"Run the tests","status":"in_progress"}]}"#;
const MAX_ENTRIES: usize = 100;

impl Tool for UpdatePlan {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "update_plan".into(),
            description: "Replaces your plan, which people see. At most one step in_progress."
                .into(),
            input: ToolInput::Json(json!({
                "type": "object",
                "properties": {
                    "plan": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "properties": {
                                "step": {"type": "string"},
                                "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]}
                            },
                            "required": ["step", "status"],
                            "additionalProperties": false
                        }
                    }
                },
                "required": ["plan"],
                "additionalProperties": false
            })),
        }
    }

    fn prepare(
        &self,
        payload: &ToolPayload,
        _world: &Arc<ToolWorld>,
    ) -> Result<Prepared, ToolFailure> {
        let arguments: Arguments = arguments::parse("update_plan", payload, EXAMPLE)?;
        let running =
            arguments.plan.iter().filter(|entry| entry.status == PlanStatus::InProgress).count();
        if running > 1 {
            return Err(ToolFailure::bad_arguments(format!(
                "update_plan: {running} steps are in_progress; one at the most"
            )));
        }
        if arguments.plan.len() > MAX_ENTRIES {
            return Err(ToolFailure::bad_arguments(format!(
                "update_plan: {} steps; {MAX_ENTRIES} at the most",
                arguments.plan.len()
            )));
        }
        let items = arguments
            .plan
            .into_iter()
            .map(|entry| PlanItem { step: entry.step, status: entry.status })
            .collect();
        Ok(Prepared::Free(Box::new(move |_| {
            Box::pin(
                async move { ToolOutput { plan: Some(items), ..ToolOutput::ok("plan updated") } },
            )
        })))
    }
}
