//! The task's template: `{{ name }}` stands for a parameter, and nothing else is special.
//!
//! Written here rather than taken from a template engine, because a task needs one rule, not a
//! language: no loops, no filters, no second pass, so a value can never become a placeholder.
//! The escape is by doubling: `{{{{` is a literal `{{`. A `}}` outside a placeholder is itself.

use super::check::is_identifier;

/// A piece of a template, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    Text(&'a str),
    /// A placeholder: the name, and the byte offset of its `{{`.
    Name {
        name: &'a str,
        offset: usize,
    },
}

/// A `{{` that opens nothing this template knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadPlaceholder {
    pub offset: usize,
    pub text: String,
}

/// What to write instead of a broken placeholder.
pub const ESCAPE_HINT: &str = "write {{ name }} for a parameter, {{{{ for a literal {{";

/// Cuts a template into pieces; every broken placeholder is told.
pub fn scan(text: &str) -> (Vec<Piece<'_>>, Vec<BadPlaceholder>) {
    let mut pieces = Vec::new();
    let mut faults = Vec::new();
    let mut from = 0;
    while let Some(open) = text.get(from..).and_then(|rest| rest.find("{{")).map(|at| from + at) {
        push_text(&mut pieces, &text[from..open]);
        let inside = &text[open + 2..];
        if inside.starts_with("{{") {
            pieces.push(Piece::Text("{{"));
            from = open + 4;
            continue;
        }
        match placeholder(inside) {
            Some((name, length)) => {
                pieces.push(Piece::Name { name, offset: open });
                from = open + 2 + length;
            }
            None => {
                faults.push(BadPlaceholder { offset: open, text: excerpt(&text[open..]) });
                from = open + 2;
            }
        }
    }
    push_text(&mut pieces, &text[from..]);
    (pieces, faults)
}

fn push_text<'a>(pieces: &mut Vec<Piece<'a>>, text: &'a str) {
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
}

/// The name, and the length of everything up to and with the closing `}}`.
fn placeholder(inside: &str) -> Option<(&str, usize)> {
    let end = inside.find("}}")?;
    let name = inside[..end].trim_matches([' ', '\t']);
    is_identifier(name).then_some((name, end + 2))
}

/// The placeholder as people see it: up to its `}}`, the line's end, or 40 characters.
fn excerpt(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let end = line.find("}}").map_or(line.len(), |end| end + 2);
    line[..end].chars().take(40).collect()
}

/// Line and column (from 1, in characters) of a byte offset.
pub fn position(text: &str, offset: usize) -> (u32, u32) {
    let before = text.get(..offset).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).saturating_add(1);
    (count(before.matches('\n').count()), count(before[line_start..].chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<&str> {
        let piece_name = |piece| match piece {
            Piece::Name { name, .. } => Some(name),
            Piece::Text(_) => None,
        };
        scan(text).0.into_iter().filter_map(piece_name).collect()
    }

    fn plain(text: &str) -> String {
        let piece_text = |piece: &Piece| match piece {
            Piece::Text(text) => (*text).to_owned(),
            Piece::Name { name, .. } => format!("<{name}>"),
        };
        scan(text).0.iter().map(piece_text).collect()
    }

    #[test]
    fn placeholders_and_escapes() {
        assert_eq!(names("a {{ x }}{{y}} {{\tz }}"), ["x", "y", "z"]);
        assert_eq!(plain("{{{{ x }}"), "{{ x }}");
        assert_eq!(plain("{{{{{{ x }}"), "{{<x>");
        assert_eq!(
            plain("json: {\"a\": {\"b\": 1}} and }} stay"),
            "json: {\"a\": {\"b\": 1}} and }} stay"
        );
        assert_eq!(plain(""), "");
    }

    #[test]
    fn broken_placeholders_are_told_with_their_place() {
        let cases = [
            ("{{", "{{"),
            ("{{ }}", "{{ }}"),
            ("{{ a b }}", "{{ a b }}"),
            ("{{ a.b }}", "{{ a.b }}"),
            ("{{ x | upper }}", "{{ x | upper }}"),
            ("{{\nx }}", "{{"),
            ("${{ github.event.x }}", "{{ github.event.x }}"),
            ("{{{ x }}}", "{{{ x }}"),
            ("{{ é }}", "{{ é }}"),
        ];
        for (text, shown) in cases {
            let faults = scan(text).1;
            assert_eq!(faults.len(), 1, "{text}: {faults:?}");
            assert_eq!(faults[0].text, shown, "{text}");
            assert_eq!(faults[0].offset, text.find("{{").unwrap());
        }
    }

    #[test]
    fn positions_count_characters() {
        assert_eq!(position("é\nöx", "é\nö".len()), (2, 2));
        assert_eq!(position("abc", 0), (1, 1));
    }

    proptest! {
        #[test]
        fn any_text_scans_and_text_without_braces_stays(text in "\\PC{0,200}", open in "[{} a-z]{0,60}") {
            let _ = scan(&open);
            let (pieces, faults) = scan(&text);
            if !text.contains("{{") {
                prop_assert!(faults.is_empty());
                prop_assert!(pieces.len() <= 1);
            }
            let escaped = text.replace("{{", "{{{{");
            // An odd brace before a pair may move the pair by one, which the escape keeps in sum.
            if !text.contains("{{{") {
                prop_assert_eq!(plain(&escaped), text);
            }
        }
    }
}
