//! The nearest form of a denied command that would be allowed: the same words, less an option.

use super::judge::Verdicts;
use super::program::quote_words;
use crate::policy::shell::Simple;
use crate::policy::value::Value;
use crate::protocol::Decision;

/// Longer commands are not tried in other forms: a denial must stay cheap.
const MAX_WORDS: usize = 16;
const MAX_BYTES: usize = 1_000;

/// What became of the search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nearest {
    /// Nothing was denied so far, or this is itself a try.
    Unsought,
    None,
    Form(String),
}

/// Tries the command without one option, then without one option and its value. The answer was judged
/// like any other command, so what it names would run.
pub fn nearest_form(known: &Verdicts<'_>, simple: &Simple<'_>) -> Nearest {
    let words = simple.argv;
    let bytes: usize = words.iter().filter_map(Value::as_known).map(str::len).sum();
    let is_known = words.iter().all(|word| word.as_known().is_some());
    if words.len() > MAX_WORDS || bytes > MAX_BYTES || !is_known || !simple.assignments.is_empty() {
        return Nearest::None;
    }
    for at in 1..words.len() {
        let Some(option) = words[at].as_known().filter(|word| word.starts_with('-')) else {
            continue;
        };
        // A word after a single letter is more often its value than not.
        let cuts = if option.len() == 2 { [2, 1] } else { [1, 2] };
        for many in cuts.into_iter().filter(|many| at + many <= words.len()) {
            let fewer: Vec<Value> = [&words[..at], &words[at + many..]].concat();
            if known.would_allow(&Simple { argv: &fewer, ..*simple }) {
                return Nearest::Form(quote_words(&fewer));
            }
        }
    }
    Nearest::None
}

impl Verdicts<'_> {
    fn would_allow(&self, simple: &Simple<'_>) -> bool {
        let mut verdicts = Verdicts::new(self.policy, self.facts);
        // A try does not look for a nearest form in turn.
        verdicts.nearest = Nearest::None;
        verdicts.repeats = self.repeats;
        verdicts.used.clone_from(&self.used);
        verdicts.part(simple);
        !verdicts.parts.is_empty()
            && verdicts.parts.iter().all(|part| part.decision == Decision::Allow)
    }
}
