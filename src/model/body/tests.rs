//! The cache must never change what is sent, only how long it takes.

use super::*;
use crate::protocol::{Fragment, Items, Role};
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

/// Prompts of one Turn share what stands in front of the items.
fn turn() -> Prompt {
    Prompt {
        instructions: "".into(),
        items: Items::default(),
        tools: Vec::new().into(),
        options: PromptOptions::default(),
        fingerprint: String::new(),
    }
}

fn prompt(turn: &Prompt, items: &[Arc<Item>], key: &str) -> Prompt {
    let options = PromptOptions { cache_key: key.into(), ..PromptOptions::default() };
    Prompt { items: items.to_vec().into(), options, ..turn.clone() }
}

#[test]
fn the_same_prompt_is_the_same_bytes_without_a_copy() {
    let cache = BodyCache::default();
    let prompt = prompt(&turn(), &[item("a"), item("b")], "k");
    let first = cache.build(&prompt, &Letters).unwrap();
    let again = cache.build(&prompt, &Letters).unwrap();
    assert_eq!(first.to_vec(), b"k[a,b!]");
    assert!(Arc::ptr_eq(&first.pieces, &again.pieces));
}

#[test]
fn a_long_history_is_few_pieces_and_what_was_encoded_is_shared() {
    let (cache, turn) = (BodyCache::default(), turn());
    let mut items: Vec<Arc<Item>> = Vec::new();
    let mut before = Body::default();
    let mut copied = 0;
    for number in 0..2_000 {
        items.push(item(["a", "b"][number % 2]));
        let body = cache.build(&prompt(&turn, &items, "k"), &Letters).unwrap();
        assert!(body.pieces.len() <= 16, "{} pieces", body.pieces.len());
        let shared =
            |piece: &&Bytes| before.pieces.iter().any(|old| old.as_ptr() == piece.as_ptr());
        let fresh = body.pieces.iter().filter(|piece| !shared(piece));
        copied += fresh.map(Bytes::len).sum::<usize>();
        before = body;
    }
    // Two bytes an item, each copied a few times in all, and not once a step.
    assert!(copied < 2_000 * 2 * 24, "{copied} bytes were written");
}

proptest! {
    /// Histories that grow, shrink and change in the middle, through one cache and through none.
    #[test]
    fn the_cache_changes_nothing(
        moves in prop::collection::vec((0usize..7, 0usize..8, "[ab-]{1,3}"), 1..30),
    ) {
        let (cache, mut turn) = (BodyCache::default(), turn());
        let mut items: Vec<Arc<Item>> = Vec::new();
        for (kind, at, text) in moves {
            let mut key = "k";
            match kind {
                6 => turn = self::turn(),
                0..=2 => items.push(item(&text)),
                3 => items.truncate(at),
                4 => key = "another key",
                _ => if let Some(slot) = items.get_mut(at) { *slot = item(&text); },
            }
            let prompt = prompt(&turn, &items, key);
            let cached = cache.build(&prompt, &Letters).unwrap();
            let fresh = BodyCache::default().build(&prompt, &Letters).unwrap();
            prop_assert_eq!(cached.to_vec(), fresh.to_vec());
        }
    }
}
