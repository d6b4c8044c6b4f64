//! The cache must never change what is sent, only how long it takes.

use super::*;
use crate::protocol::{Fragment, Role};
use proptest::prelude::*;

/// Groups of equal first letters, so that the cutting into groups is seen too.
struct Letters;

fn letters(item: &Item) -> &str {
    match item {
        Item::Message { text, .. } => text,
        _ => "",
    }
}

impl Encoder for Letters {
    fn head(&self, prompt: &Prompt, out: &mut Vec<u8>) {
        out.extend_from_slice(prompt.options.cache_key.as_bytes());
        out.push(b'[');
    }

    fn group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        for item in items {
            out.extend_from_slice(letters(item).trim_start_matches('-').as_bytes());
        }
    }

    fn begins_group(&self, before: &Item, item: &Item) -> bool {
        letters(before).chars().next() != letters(item).chars().next()
    }

    fn tail(&self, _prompt: &Prompt, out: &mut Vec<u8>) {
        out.push(b']');
    }

    fn last_group(&self, items: &[Arc<Item>], out: &mut Vec<u8>) {
        self.group(items, out);
        out.push(b'!');
    }
}

fn item(text: &str) -> Arc<Item> {
    Arc::new(Item::ours(Role::User, Fragment::Task, text))
}

fn prompt(items: &[Arc<Item>], key: &str) -> Prompt {
    Prompt {
        instructions: "".into(),
        items: items.to_vec(),
        tools: Vec::new().into(),
        options: PromptOptions { cache_key: key.into(), ..PromptOptions::default() },
        fingerprint: String::new(),
    }
}

#[test]
fn the_same_prompt_is_the_same_bytes_without_a_copy() {
    let cache = BodyCache::default();
    let prompt = prompt(&[item("a"), item("b")], "k");
    let first = cache.build(&prompt, &Letters).unwrap();
    let again = cache.build(&prompt, &Letters).unwrap();
    assert_eq!(&first[..], b"k[a,b!]");
    assert_eq!(first.as_ptr(), again.as_ptr());
}

proptest! {
    /// Histories that grow, shrink and change in the middle, through one cache and through none.
    #[test]
    fn the_cache_changes_nothing(
        moves in prop::collection::vec((0usize..6, 0usize..8, "[ab-]{1,3}"), 1..30),
    ) {
        let cache = BodyCache::default();
        let mut items: Vec<Arc<Item>> = Vec::new();
        for (kind, at, text) in moves {
            let mut key = "k";
            match kind {
                0..=2 => items.push(item(&text)),
                3 => items.truncate(at),
                4 => key = "another key",
                _ => if let Some(slot) = items.get_mut(at) { *slot = item(&text); },
            }
            let prompt = prompt(&items, key);
            let cached = cache.build(&prompt, &Letters).unwrap();
            let fresh = BodyCache::default().build(&prompt, &Letters).unwrap();
            prop_assert_eq!(cached, fresh);
        }
    }
}
