//! World state: what the model should know of the tree, full first, then changes only.
//!
//! The baseline moves only once the item that told a change is recorded, so that a Step that fails
//! before that tells it again.

use super::fragments::Cap;
use crate::protocol::{Fragment, Item, Role};
use std::collections::BTreeMap;

/// What was observed at one moment. Paths are relative to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WorldSnapshot {
    /// Branch and commit, or that there is no git.
    pub git: String,
    /// A bounded outline of the tree; told once.
    pub outline: String,
    /// Files that differ from the Turn's start: path → `added`, `modified`, `deleted`.
    pub changed: BTreeMap<String, &'static str>,
    /// Protected places that were changed and put back since the last time.
    pub undone: Vec<String>,
}

impl WorldSnapshot {
    /// Whether `now` holds nothing to be told.
    fn same(&self, now: &Self) -> bool {
        self.changed == now.changed && self.git == now.git && now.undone.is_empty()
    }
}

/// What the model has been told so far.
#[derive(Debug, Clone, Default)]
pub struct WorldState {
    told: Option<WorldSnapshot>,
}

impl WorldState {
    /// The item that tells what is new in `now`, if anything is.
    pub fn render(&self, now: &WorldSnapshot) -> Option<Item> {
        let body = match &self.told {
            None => full(now),
            Some(told) if told.same(now) => return None,
            Some(told) => changes(told, now),
        };
        let text = Cap::head(&body, Cap::of("world_state"));
        let text = format!("<world_state>\n{}\n</world_state>", text.trim_end());
        Some(Item::ours(Role::Developer, Fragment::WorldState, text))
    }

    /// Call after the rendered item is in the record.
    pub fn told(&mut self, now: WorldSnapshot) {
        self.told = Some(now);
    }
}

fn full(now: &WorldSnapshot) -> String {
    let mut text = format!("git: {}\n", now.git);
    text.push_str(&undone(now));
    if !now.changed.is_empty() {
        text.push_str("changed since the start of this Turn:\n");
        for (path, status) in &now.changed {
            text.push_str(&format!("  {status} {path}\n"));
        }
    }
    text.push_str("files:\n");
    text.push_str(&now.outline);
    text
}

/// A line for each look that had to put something back; bounded, because what changed comes after it.
fn undone(now: &WorldSnapshot) -> String {
    let lines: String = now.undone.iter().map(|line| format!("policy: {line}\n")).collect();
    let mut text = Cap::head(&lines, Cap::of("undone"));
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn changes(told: &WorldSnapshot, now: &WorldSnapshot) -> String {
    let mut text = String::new();
    if told.git != now.git {
        text.push_str(&format!("git: {}\n", now.git));
    }
    text.push_str(&undone(now));
    if told.changed == now.changed {
        return text;
    }
    text.push_str("changes of this Turn that you have not been told yet:\n");
    for (path, status) in &now.changed {
        if told.changed.get(path) != Some(status) {
            text.push_str(&format!("  {status} {path}\n"));
        }
    }
    for path in told.changed.keys() {
        if !now.changed.contains_key(path) {
            text.push_str(&format!("  back as it was {path}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(item: Option<Item>) -> String {
        match item {
            Some(Item::Message { text, .. }) => text,
            _ => String::new(),
        }
    }

    #[test]
    fn full_first_then_changes_only() {
        let mut state = WorldState::default();
        let mut now = WorldSnapshot {
            git: "main".into(),
            outline: "src/\n".into(),
            ..WorldSnapshot::default()
        };
        assert!(text(state.render(&now)).contains("files:\nsrc/"));
        assert!(text(state.render(&now)).contains("files:"), "not told before it is recorded");
        state.told(now.clone());
        assert_eq!(state.render(&now), None);
        now.changed.insert("a.rs".into(), "added");
        assert_eq!(
            text(state.render(&now)),
            "<world_state>\nchanges of this Turn that you have not been told yet:\n  added a.rs\n</world_state>"
        );
        state.told(now.clone());
        now.changed.clear();
        assert!(text(state.render(&now)).contains("back as it was a.rs"));
        state.told(now.clone());
        now.undone.push("after the call c1: x".into());
        let told = "<world_state>\npolicy: after the call c1: x\n</world_state>";
        assert_eq!(text(state.render(&now)), told);
        state.told(now.clone());
        now.undone.clear();
        assert_eq!(state.render(&now), None);
    }
}
