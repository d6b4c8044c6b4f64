//! What a hook answers: strict, because a guess about a guard is no guard.

use crate::rollout::HookRecord;
use crate::spec::HookPoint;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Bytes of a reason.
const MAX_REASON: usize = 4 * 1024;

/// What a hook decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decision {
    #[default]
    Allow,
    /// It is not to happen.
    Deny,
    /// The Turn is not to end yet.
    Block,
}

impl Decision {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Block => "block",
        }
    }
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    pub decision: Decision,
    /// Masked, never empty for a decision other than allow.
    pub reason: String,
    /// What takes the place of the call's arguments.
    pub arguments: Option<Map<String, Value>>,
    /// For the model, masked.
    pub context: Option<String>,
}

/// What came of asking a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    Replied(Reply),
    /// It did not do what a hook does: it ended with an error, took too long, said something else.
    Erred {
        why: String,
        timed_out: bool,
    },
    /// The run is ending.
    Cancelled,
}

impl Answer {
    /// The word in records and events.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Replied(reply) => reply.decision.as_str(),
            Self::Erred { timed_out: true, .. } => "timeout",
            Self::Erred { timed_out: false, .. } => "error",
            Self::Cancelled => "cancelled",
        }
    }

    /// The answer that a record holds.
    pub fn of_record(record: &HookRecord) -> Self {
        let decision = match record.outcome.as_str() {
            "allow" => Decision::Allow,
            "deny" => Decision::Deny,
            "block" => Decision::Block,
            "cancelled" => return Self::Cancelled,
            other => {
                return Self::Erred { why: record.reason.clone(), timed_out: other == "timeout" };
            }
        };
        Self::Replied(Reply {
            decision,
            reason: record.reason.clone(),
            arguments: record.arguments.as_ref().and_then(Value::as_object).cloned(),
            context: record.context.clone(),
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    decision: Option<String>,
    reason: Option<String>,
    arguments: Option<Map<String, Value>>,
    context: Option<String>,
}

/// Reads what a hook of this point printed. `mask` takes known secrets out of texts.
pub fn read(
    point: HookPoint,
    bytes: &[u8],
    mask: &dyn Fn(&str) -> String,
) -> Result<Reply, String> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Reply::default());
    }
    let wire: Wire = serde_json::from_slice(bytes).map_err(|error| {
        format!(
            "its answer is no verdict in JSON: {error} (standard output is for the verdict \
             alone; other text goes to standard error)"
        )
    })?;
    let decision = decision(point, wire.decision.as_deref())?;
    let refused = |key: &str| {
        Err(format!(
            "its answer names {key:?}, which {point} does not take",
            point = point.as_str()
        ))
    };
    if wire.arguments.is_some() && (point != HookPoint::BeforeTool || decision != Decision::Allow) {
        return refused("arguments");
    }
    let takes_context =
        matches!(point, HookPoint::SessionStart | HookPoint::UserPrompt | HookPoint::AfterTool);
    if wire.context.is_some() && (!takes_context || decision != Decision::Allow) {
        return refused("context");
    }
    let mut reason = wire.reason.map(|reason| mask(&reason)).unwrap_or_default();
    if reason.trim().is_empty() {
        reason = match decision {
            Decision::Allow => String::new(),
            Decision::Deny | Decision::Block => "the hook gave no reason".into(),
        };
    }
    reason.truncate(reason.floor_char_boundary(MAX_REASON));
    let context = wire.context.map(|text| mask(&text)).filter(|text| !text.trim().is_empty());
    Ok(Reply { decision, reason, arguments: wire.arguments, context })
}

fn decision(point: HookPoint, word: Option<&str>) -> Result<Decision, String> {
    let takes: &[Decision] = match point {
        HookPoint::SessionStart | HookPoint::UserPrompt | HookPoint::BeforeTool => {
            &[Decision::Allow, Decision::Deny]
        }
        HookPoint::Stop => &[Decision::Allow, Decision::Block],
        HookPoint::AfterTool | HookPoint::RunEnd => &[Decision::Allow],
    };
    let words = || takes.iter().map(|word| word.as_str()).collect::<Vec<_>>().join(" or ");
    match word {
        // Who is only told need not decide anything.
        None if !point.decides() => Ok(Decision::Allow),
        None => Err(format!("its answer names no decision, which must be {}", words())),
        Some(word) => takes.iter().copied().find(|takes| takes.as_str() == word).ok_or_else(|| {
            let short: String = word.chars().take(40).collect();
            format!("its decision is {short:?}, and {} takes {}", point.as_str(), words())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(point: HookPoint, text: &str) -> Result<Reply, String> {
        read(point, text.as_bytes(), &|text| text.replace("hunter2", "[masked]"))
    }

    #[test]
    fn nothing_is_allow_and_a_verdict_is_what_it_says() {
        for text in ["", " \n"] {
            for point in HookPoint::ALL {
                assert_eq!(said(point, text), Ok(Reply::default()), "{point:?}");
            }
        }
        let got = said(HookPoint::BeforeTool, r#"{"decision":"deny","reason":"no hunter2"}"#);
        let got = got.unwrap();
        assert_eq!((got.decision, got.reason.as_str()), (Decision::Deny, "no [masked]"));
        let got = said(HookPoint::Stop, r#"{"decision":"block"}"#).unwrap();
        assert_eq!(
            (got.decision, got.reason.as_str()),
            (Decision::Block, "the hook gave no reason")
        );
        let got = said(HookPoint::BeforeTool, r#"{"decision":"allow","arguments":{"cmd":"true"}}"#)
            .unwrap();
        assert_eq!(got.arguments.unwrap()["cmd"], "true");
        let got = said(HookPoint::AfterTool, r#"{"context":"see hunter2"}"#).unwrap();
        assert_eq!(got.context.as_deref(), Some("see [masked]"));
        let got = said(HookPoint::UserPrompt, r#"{"decision":"allow","context":" "}"#).unwrap();
        assert_eq!(got.context, None);
    }

    #[test]
    fn anything_else_is_an_error() {
        use HookPoint::{AfterTool, BeforeTool, RunEnd, SessionStart, Stop, UserPrompt};
        for (point, text, why) in [
            (BeforeTool, "ok", "no verdict in JSON"),
            (BeforeTool, "[]", "no verdict in JSON"),
            (BeforeTool, "null", "no verdict in JSON"),
            (BeforeTool, r#""allow""#, "no verdict in JSON"),
            (BeforeTool, r#"{"decision":"allow"} {"decision":"deny"}"#, "no verdict in JSON"),
            (BeforeTool, r#"{"decision":"allow","decision":"deny"}"#, "duplicate field"),
            (BeforeTool, r#"{"decision":"allow","reasons":"x"}"#, "unknown field"),
            (BeforeTool, "{}", "names no decision"),
            (BeforeTool, r#"{"reason":"fine"}"#, "names no decision"),
            (BeforeTool, r#"{"decision":"Allow"}"#, "allow or deny"),
            (BeforeTool, r#"{"decision":"block"}"#, "allow or deny"),
            (BeforeTool, r#"{"decision":"deny","arguments":{}}"#, "\"arguments\""),
            (BeforeTool, r#"{"decision":"allow","arguments":"x"}"#, "no verdict in JSON"),
            (BeforeTool, r#"{"decision":"allow","context":"x"}"#, "\"context\""),
            (BeforeTool, "{\"decision\":\"allow\"}\u{0}", "no verdict in JSON"),
            (AfterTool, r#"{"decision":"deny"}"#, "takes allow"),
            (AfterTool, r#"{"arguments":{}}"#, "\"arguments\""),
            (Stop, r#"{"decision":"deny"}"#, "allow or block"),
            (UserPrompt, r#"{"decision":"deny","context":"x"}"#, "\"context\""),
            (SessionStart, r#"{"context":"x"}"#, "names no decision"),
            (RunEnd, r#"{"context":"x"}"#, "\"context\""),
            (RunEnd, r#"{"decision":"block"}"#, "takes allow"),
        ] {
            let got = said(point, text).unwrap_err();
            assert!(got.contains(why), "{point:?} {text}: {got}");
        }
        assert!(read(BeforeTool, b"\xff\xfe", &|text| text.to_owned()).is_err());
    }

    #[test]
    fn a_long_reason_is_cut_on_a_character() {
        let text = format!(r#"{{"decision":"deny","reason":"{}"}}"#, "阴".repeat(3000));
        let got = said(HookPoint::BeforeTool, &text).unwrap();
        assert!(got.reason.len() <= MAX_REASON && got.reason.ends_with('阴'));
    }
}
