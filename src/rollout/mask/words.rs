//! The stated rule for what is not masked although it was declared a secret.

use super::MIN_SECRET;

/// Values of variables that look secret by name but are plain words. Compared in lower case.
const COMMON: &[&str] = &[
    "127.0.0.1",
    "0.0.0.0",
    "admin",
    "anonymous",
    "changeme",
    "debug",
    "default",
    "development",
    "disabled",
    "enabled",
    "example",
    "false",
    "github",
    "gitlab",
    "guest",
    "https",
    "https://",
    "http://",
    "latest",
    "linux",
    "local",
    "localhost",
    "master",
    "never",
    "nobody",
    "none",
    "null",
    "optional",
    "password",
    "plain",
    "postgres",
    "prod",
    "production",
    "public",
    "release",
    "required",
    "root",
    "runner",
    "secret",
    "stable",
    "staging",
    "system",
    "testing",
    "token",
    "true",
    "ubuntu",
    "undefined",
    "unknown",
    "username",
    "warning",
    "workspace",
];

/// The words of our own formats: record types, field names, closed values. A value that is part of
/// one cannot be masked without breaking the record, and a secret it can hardly be.
const FORMAT: &str = "run_started turn_started turn_context step_started world_state item verdict \
    approval hook usage retry process_ended diff verification compacted rolled_back turn_completed \
    turn_aborted turn_failed run_finished schema thread.started turn.started item.started \
    item.updated item.completed turn.completed turn.failed error verify.started verify.completed \
    diff.updated process.ended run.finished agent_message reasoning command_execution file_change \
    todo_list mcp_tool_call in_progress pending declined submission settings sources spec_digest \
    policy_digest policy workspace repository_root start_tree end_tree proven sandbox untrusted \
    parent_run parent_kind version session instructions model base_url options generation limits \
    workspace_root output_schema fingerprint sections response_id kind message fragment \
    project_rules permissions environment check_feedback budget interruption developer assistant \
    tool_call tool_result call_id payload result effect output exit_code duration_ms freeform \
    unknown_tool bad_arguments denied timed_out cancelled aborted internal failed decision asked \
    allow column reason action parts built-in preset command outcome output_tail status cached \
    cached_input_tokens reasoning_output_tokens total output_bytes signal ended_by renamed_from \
    added modified deleted renamed type_changed mode_changed removed binary digest baseline \
    clean_checkout attempt passed changed replaced replacement plan state to_seq last_message steps \
    retryable exit_status artifacts denials changed_files checks tool_calls warnings interrupted \
    unavailable model_failed limit_reached blocked unverified findings changes_found partial \
    completed invalid hooks hook.started hook.completed session_start user_prompt before_tool \
    after_tool run_end context block timeout times errors running description input property grammar aggregated_output arguments \
    structured_content content server changes path cause wait_ms started ended currency prices";

/// Why a value is not masked; `None` where it is.
pub(super) fn not_maskable(value: &[u8]) -> Option<&'static str> {
    let value = value.trim_ascii();
    let characters = match std::str::from_utf8(value) {
        Ok(text) => text.chars().count(),
        Err(_) => value.len(),
    };
    if characters < MIN_SECRET {
        return Some("is shorter than 5 characters");
    }
    if value.len() < 6 && value.iter().all(u8::is_ascii_digit) {
        return Some("is a number of fewer than 6 digits");
    }
    let lower = value.to_ascii_lowercase();
    if COMMON.iter().any(|word| word.as_bytes() == lower) {
        return Some("is a common word");
    }
    let in_format = |word: &str| word.as_bytes().windows(value.len()).any(|part| part == value);
    if FORMAT.split_ascii_whitespace().any(in_format) {
        return Some("is a word of this program's own formats");
    }
    None
}
