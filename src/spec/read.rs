//! Readers of one value each, and of the few shapes that more than one part of the spec has.

use super::check;
use super::fault::{At, Faults};
use super::keys::{self, Field, not_supported};
use super::types::Placed;
use super::yaml::{self, Kind, Node};
use std::time::Duration;

/// The most entries of a list or mapping that a spec may have anywhere.
const MAX_ENTRIES: usize = 1000;

/// The name of a variable. What stands in its place is never repeated: people paste keys there.
pub(super) fn read_variable(field: &Field<'_>, faults: &mut Faults) -> Option<String> {
    match &field.node.kind {
        Kind::Str(name) if check::is_identifier(name) => Some(name.clone()),
        _ => {
            let what = format!("\"{}\" must be the name of an environment variable", field.path);
            faults.add(
                field.node.at,
                what,
                "letters, digits and \"_\": the name of the variable, not its value",
            );
            None
        }
    }
}

pub(super) fn checked(
    field: Option<Field<'_>>,
    faults: &mut Faults,
    check: fn(&str) -> Result<(), String>,
) -> Option<Placed<String>> {
    let field = field?;
    let text = field.node.string(&field.path, faults)?;
    match check(&text) {
        Ok(()) => Some(Placed::new(text, field.node.at)),
        Err(why) => {
            faults.add(field.node.at, format!("\"{}\" {why}", field.path), "");
            None
        }
    }
}

pub(super) fn checked_list(
    field: Option<Field<'_>>,
    faults: &mut Faults,
    check: fn(&str) -> Result<(), String>,
) -> Option<Placed<Vec<String>>> {
    let field = field?;
    let mut texts = Vec::new();
    for (index, node) in bounded_seq(&field, faults)?.iter().enumerate() {
        let item = Field { path: format!("{}[{index}]", field.path), key_at: node.at, node };
        texts.extend(checked(Some(item), faults, check).map(|text| text.value));
    }
    Some(Placed::new(texts, field.node.at))
}

pub(super) fn bounded_seq<'a>(field: &Field<'a>, faults: &mut Faults) -> Option<&'a [Node]> {
    let node: &'a Node = field.node;
    let items = node.seq(&field.path, faults)?;
    if items.len() > MAX_ENTRIES {
        let what = format!(
            "\"{}\" has {} entries; {MAX_ENTRIES} are read at most",
            field.path,
            items.len()
        );
        faults.add(node.at, what, "");
        return None;
    }
    Some(items)
}

pub(super) fn named_entries<'a>(field: &Field<'a>, faults: &mut Faults) -> &'a [(yaml::Key, Node)] {
    let node: &'a Node = field.node;
    let Kind::Map(entries) = &node.kind else {
        node.wrong::<()>(&field.path, "a mapping from names", faults);
        return &[];
    };
    if entries.len() > MAX_ENTRIES {
        let what = format!(
            "\"{}\" has {} entries; {MAX_ENTRIES} are read at most",
            field.path,
            entries.len()
        );
        faults.add(node.at, what, "");
        return &[];
    }
    entries
}

pub(super) fn choice<T: Copy>(
    field: Option<Field<'_>>,
    choices: &[(&str, T)],
    faults: &mut Faults,
) -> Option<Placed<T>> {
    let field = field?;
    let value = field.node.choice(&field.path, choices, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn choice_word(
    field: &Field<'_>,
    words: &'static [&'static str],
    faults: &mut Faults,
) -> Option<&'static str> {
    let choices: Vec<(&str, &'static str)> = words.iter().map(|word| (*word, *word)).collect();
    field.node.choice(&field.path, &choices, faults)
}

pub(super) fn uint(field: Option<Field<'_>>, min: u64, faults: &mut Faults) -> Option<Placed<u64>> {
    let field = field?;
    let value = field.node.uint(&field.path, min, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn number(field: Option<Field<'_>>, faults: &mut Faults) -> Option<Placed<f64>> {
    let field = field?;
    let value = field.node.number(&field.path, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn duration(field: Option<Field<'_>>, faults: &mut Faults) -> Option<Placed<Duration>> {
    let field = field?;
    let value = field.node.duration(&field.path, faults)?;
    Some(Placed::new(value, field.node.at))
}

pub(super) fn switch(field: Option<Field<'_>>, faults: &mut Faults) -> Option<Placed<bool>> {
    let field = field?;
    let value = field.node.bool(&field.path, faults)?;
    Some(Placed::new(value, field.node.at))
}

/// A switch of a later version: `false` is accepted, `true` is refused.
pub(super) fn off(field: Option<Field<'_>>, faults: &mut Faults) {
    let Some(field) = field else { return };
    if field.node.bool(&field.path, faults) == Some(true) {
        not_supported(field.node.at, &format!("{}: true", field.path), faults);
    }
}

/// The one of `env`, `file`, … that is there; more or fewer are a fault, unless the mapping was
/// faulty before: then that is all a person needs to hear.
pub(super) fn exactly_one<T, const N: usize>(
    path: &str,
    at: At,
    node: &Node,
    keys: &[keys::Key],
    sources: [Option<T>; N],
    faults: &mut Faults,
) -> Option<T> {
    let written = match &node.kind {
        Kind::Map(entries) => entries.iter().filter(|(_, value)| !value.is_null()).count(),
        _ => 0,
    };
    let mut found: Vec<T> = sources.into_iter().flatten().collect();
    if found.len() == 1 && written == 1 {
        return found.pop();
    }
    if found.len() == written {
        faults.add(
            at,
            format!("\"{path}\" must name exactly one source, not {}", found.len()),
            format!("write one of {}", keys::names_of(keys)),
        );
    }
    None
}
