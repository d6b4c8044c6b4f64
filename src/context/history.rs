//! The history of a Session, and the copy of it that is sent.

use crate::protocol::{
    CallId, Effect, Item, Items, Prompt, PromptOptions, ResultKind, ToolPayload, ToolResult,
    ToolSpec,
};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::sync::Arc;

/// Items in order, append-only within a Turn. Each carries the digest of everything up to it, so that
/// a prompt's fingerprint costs one item a Step and not the whole history.
#[derive(Clone, Default)]
pub struct History {
    items: Items,
    running: Sha256,
    /// Calls without a result of which it is known that they never began.
    not_started: HashSet<CallId>,
    pairs: Pairs,
}

/// Whether calls and results are in pairs, kept up item by item, so that a Step's prompt does not
/// cost a look at the whole history.
#[derive(Clone, Default)]
struct Pairs {
    called: HashSet<CallId>,
    open: Vec<CallId>,
    broken: bool,
}

impl Pairs {
    fn push(&mut self, item: &Item) {
        match item {
            Item::ToolCall(call) => {
                self.broken |= !self.called.insert(call.call_id.clone());
                self.open.push(call.call_id.clone());
            }
            Item::ToolResult(result) => {
                match self.open.iter().position(|id| *id == result.call_id) {
                    Some(at) => drop(self.open.swap_remove(at)),
                    None => self.broken = true,
                }
            }
            Item::Message { .. } | Item::Reasoning { .. } | Item::Unknown { .. } => {}
        }
    }

    /// Every call has its one result, and every result its call: nothing is to be repaired.
    fn are_whole(&self) -> bool {
        !self.broken && self.open.is_empty()
    }
}

impl History {
    /// The history of an earlier run, as it was recorded. Of the calls without a result, those in
    /// `not_started` certainly did not begin; of the others nobody knows.
    pub fn recorded(items: Vec<Arc<Item>>, not_started: HashSet<CallId>) -> Self {
        let mut history = Self { not_started, ..Self::default() };
        items.into_iter().for_each(|item| history.push(item));
        history
    }

    pub fn push(&mut self, item: Arc<Item>) {
        digest_item(&mut self.running, &item);
        self.pairs.push(&item);
        self.items.push(item);
    }

    pub fn items(&self) -> &[Arc<Item>] {
        &self.items
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Compiles the request for one sampling. The history itself stays as it is: repairs are made in
    /// the copy that is sent.
    pub fn compile(
        &self,
        instructions: &Arc<str>,
        tools: &Arc<[ToolSpec]>,
        options: &PromptOptions,
    ) -> Prompt {
        let items = if self.pairs.are_whole() {
            self.items.clone()
        } else {
            repaired(&self.items, &self.not_started).into()
        };
        let running = if items.len() == self.items.len() {
            self.running.clone()
        } else {
            let mut running = Sha256::new();
            items.iter().for_each(|item| digest_item(&mut running, item));
            running
        };
        let fingerprint = fingerprint(running, instructions, tools, options);
        Prompt {
            instructions: instructions.clone(),
            items,
            tools: tools.clone(),
            options: options.clone(),
            fingerprint,
        }
    }
}

/// Adds an item to a digest, unless it is volatile: those differ between two runs of the same task.
fn digest_item(digest: &mut Sha256, item: &Item) {
    let volatile =
        matches!(item, Item::Message { fragment: Some(fragment), .. } if fragment.is_volatile());
    if volatile {
        return;
    }
    let normal = match item {
        // How long a call took says nothing about what was asked.
        Item::ToolResult(result) => {
            Item::ToolResult(ToolResult { duration_ms: 0, ..result.clone() })
        }
        other => other.clone(),
    };
    // An item is plain data: it always has a JSON form.
    let bytes = serde_json::to_vec(&normal).unwrap_or_default();
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(&bytes);
}

fn fingerprint(
    mut digest: Sha256,
    instructions: &str,
    tools: &[ToolSpec],
    options: &PromptOptions,
) -> String {
    digest.update(instructions.as_bytes());
    for tool in tools {
        digest.update(serde_json::to_vec(tool).unwrap_or_default());
    }
    digest.update(options.effort.as_deref().unwrap_or_default());
    if let Some(schema) = &options.output_schema {
        digest.update(schema.to_string().as_bytes());
    }
    hex(&digest.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Every call with exactly one result, in the copy that is sent (D100: after an interrupt, the stored
/// call has no output and every later request is refused). A call without a result gets a stable one;
/// a result without a call, and a second result, are left out.
pub fn repaired(items: &[Arc<Item>], not_started: &HashSet<CallId>) -> Vec<Arc<Item>> {
    let answered: HashSet<&CallId> = items
        .iter()
        .filter_map(|item| match item.as_ref() {
            Item::ToolResult(result) => Some(&result.call_id),
            _ => None,
        })
        .collect();
    let mut called: HashSet<&CallId> = HashSet::new();
    let mut told: HashSet<&CallId> = HashSet::new();
    let mut missing: Vec<Arc<Item>> = Vec::new();
    let mut sent = Vec::with_capacity(items.len());
    for item in items {
        match item.as_ref() {
            Item::ToolCall(call) => {
                if !called.insert(&call.call_id) {
                    continue;
                }
                if !answered.contains(&call.call_id) {
                    let freeform = matches!(call.payload, ToolPayload::Text(_));
                    let lost = lost_result(&call.call_id, &call.name, freeform);
                    let lost =
                        if not_started.contains(&call.call_id) { unbegun(lost) } else { lost };
                    missing.push(Arc::new(lost));
                }
            }
            Item::ToolResult(result) => {
                if !called.contains(&result.call_id) || !told.insert(&result.call_id) {
                    continue;
                }
            }
            Item::Message { .. } if !missing.is_empty() => sent.append(&mut missing),
            Item::Message { .. } | Item::Reasoning { .. } | Item::Unknown { .. } => {}
        }
        sent.push(item.clone());
    }
    sent.append(&mut missing);
    sent
}

fn lost_result(call_id: &CallId, name: &str, freeform: bool) -> Item {
    Item::ToolResult(ToolResult {
        call_id: call_id.clone(),
        name: name.to_owned(),
        result: ResultKind::Aborted,
        effect: Effect::Unknown,
        output:
            "interrupted: the run ended before this call reported back; what it changed is unknown"
                .into(),
        exit_code: None,
        duration_ms: 0,
        freeform,
    })
}

/// The same for a call that never began: it can be made again without a second look.
fn unbegun(lost: Item) -> Item {
    match lost {
        Item::ToolResult(result) => Item::ToolResult(ToolResult {
            effect: Effect::None,
            output: "interrupted: the run ended before this call began; nothing ran".into(),
            ..result
        }),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Fragment, Role, ToolCall};

    fn call(id: &str) -> Arc<Item> {
        Arc::new(Item::ToolCall(ToolCall {
            call_id: id.into(),
            name: "exec_command".into(),
            payload: ToolPayload::Json("{}".into()),
            raw: None,
        }))
    }

    fn result(id: &str) -> Arc<Item> {
        let Item::ToolResult(mut result) = lost_result(&id.into(), "exec_command", false) else {
            unreachable!("made as a result above");
        };
        result.result = ResultKind::Ok;
        Arc::new(Item::ToolResult(result))
    }

    fn message(text: &str, fragment: Fragment) -> Arc<Item> {
        Arc::new(Item::ours(Role::User, fragment, text))
    }

    fn shape(items: &[Arc<Item>]) -> String {
        let word = |item: &Arc<Item>| match item.as_ref() {
            Item::Message { .. } => "m".to_owned(),
            Item::ToolCall(call) => format!("c{}", call.call_id),
            Item::ToolResult(result) if result.result == ResultKind::Aborted => {
                format!("x{}", result.call_id)
            }
            Item::ToolResult(result) => format!("r{}", result.call_id),
            _ => "?".to_owned(),
        };
        items.iter().map(word).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn d100_calls_and_results_are_paired_in_what_is_sent() {
        let task = message("t", Fragment::Task);
        let cases: &[(Vec<Arc<Item>>, &str)] = &[
            (vec![task.clone(), call("1"), result("1")], "m c1 r1"),
            (vec![task.clone(), call("1"), call("2"), result("2")], "m c1 c2 r2 x1"),
            (vec![task.clone(), call("1"), task.clone()], "m c1 x1 m"),
            (vec![task.clone(), result("9")], "m"),
            (vec![task.clone(), call("1"), result("1"), result("1")], "m c1 r1"),
            (vec![task.clone(), call("1"), result("1"), call("1")], "m c1 r1"),
        ];
        for (items, want) in cases {
            assert_eq!(shape(&repaired(items, &HashSet::new())), *want);
            // What a growing history sends is the same.
            let mut history = History::default();
            for (count, item) in items.iter().enumerate() {
                history.push(item.clone());
                let prompt =
                    history.compile(&"".into(), &Vec::new().into(), &PromptOptions::default());
                let whole = repaired(&items[..=count], &HashSet::new());
                assert_eq!(shape(&prompt.items), shape(&whole));
            }
        }
    }

    #[test]
    fn a_call_that_never_began_is_told_as_that() {
        let items = vec![message("t", Fragment::Task), call("1"), call("2")];
        let history = History::recorded(items, HashSet::from(["2".into()]));
        let prompt = history.compile(&"base".into(), &Vec::new().into(), &PromptOptions::default());
        let effect = |item: &Arc<Item>| match item.as_ref() {
            Item::ToolResult(result) => Some((result.call_id.to_string(), result.effect)),
            _ => None,
        };
        let effects: Vec<_> = prompt.items.iter().filter_map(effect).collect();
        assert_eq!(effects, [("1".into(), Effect::Unknown), ("2".into(), Effect::None)]);
    }

    #[test]
    fn the_fingerprint_leaves_volatile_parts_out_and_sees_the_rest() {
        let print = |items: &[Arc<Item>]| {
            let mut history = History::default();
            items.iter().for_each(|item| history.push(item.clone()));
            history
                .compile(&"base".into(), &Vec::new().into(), &PromptOptions::default())
                .fingerprint
        };
        let (a, b) = (message("a", Fragment::Task), message("b", Fragment::Task));
        let (x, y) = (message("x", Fragment::Environment), message("y", Fragment::Environment));
        assert_eq!(print(&[x, a.clone()]), print(&[y, a.clone()]));
        assert_ne!(print(std::slice::from_ref(&a)), print(&[b]));
        let slow = match result("1").as_ref() {
            Item::ToolResult(result) => {
                Arc::new(Item::ToolResult(ToolResult { duration_ms: 9, ..result.clone() }))
            }
            _ => unreachable!("a result"),
        };
        assert_eq!(print(&[a.clone(), call("1"), result("1")]), print(&[a, call("1"), slow]));
    }

    #[test]
    fn a_longer_prompt_begins_with_the_shorter_one() {
        let mut history = History::default();
        history.push(message("a", Fragment::Task));
        let compile = |history: &History| {
            history.compile(&"base".into(), &Vec::new().into(), &PromptOptions::default())
        };
        let short = compile(&history);
        history.push(call("1"));
        history.push(result("1"));
        let long = compile(&history);
        assert!(short.items.iter().zip(&long.items).all(|(a, b)| Arc::ptr_eq(a, b)));
    }
}
