//! Text that came from a tool, a file or the model, made fit for a stream that others interpret.
//!
//! Three readers are thought of: a terminal (escape sequences), a person (characters that hide or
//! reorder what they see), and the host of a job, which takes some lines for commands. GitHub's
//! runner trims a line and looks for `::` at its start, and for `##[` anywhere in it; others know
//! `##vso[` and the like.

use crate::rollout::{char_ceil, char_floor};
use std::borrow::Cow;
use std::fmt::Write as _;

/// One line of at most `max` characters; line breaks and control characters are made visible.
pub fn one_line(text: &str, max: usize) -> String {
    let text = text.trim();
    let mut line = String::with_capacity(text.len().min(max * 4));
    for (count, character) in text.chars().enumerate() {
        if count == max {
            line.push('…');
            break;
        }
        push_visible(&mut line, character);
    }
    match without_brackets(&line) {
        Cow::Borrowed(_) => line,
        Cow::Owned(safe) => safe,
    }
}

/// Several lines; line breaks stay (as `\n`), other control characters are made visible.
pub fn many_lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\n' | '\t' => lines.push(character),
            '\r' if characters.peek() == Some(&'\n') => {}
            _ => push_visible(&mut lines, character),
        }
    }
    lines
}

/// Makes sure that no line of a text is a command for the host of a job. A backslash goes in front
/// of what makes it one; Markdown shows the text unchanged.
pub fn without_commands(text: &str) -> Cow<'_, str> {
    if !text.contains("::") && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for line in text.split_inclusive(ends_line) {
        let body = line.trim_start();
        if body.starts_with("::") {
            safe.push_str(&line[..line.len() - body.len()]);
            safe.push('\\');
            safe.push_str(&without_brackets(body));
        } else {
            safe.push_str(&without_brackets(line));
        }
    }
    Cow::Owned(safe)
}

/// A line of JSON for a stream that others look at too: no command for a host, no character that
/// hides. Only escapes change, so it means the same.
pub fn json_line(json: String) -> String {
    let json = match json.contains("##").then(|| replace_brackets(&json, "\\u005b")) {
        Some(Some(safe)) => safe,
        _ => json,
    };
    // JSON itself leaves only these as they are, besides everything that can be seen.
    if !json.contains(is_hidden) {
        return json;
    }
    let mut safe = String::with_capacity(json.len() + 16);
    let mut units = [0; 2];
    for character in json.chars() {
        if is_hidden(character) {
            for unit in character.encode_utf16(&mut units) {
                // Writing into a String cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(character);
        }
    }
    safe
}

fn without_brackets(text: &str) -> Cow<'_, str> {
    match replace_brackets(text, "\\[") {
        Some(safe) => Cow::Owned(safe),
        None => Cow::Borrowed(text),
    }
}

/// Replaces the bracket of every `##word[`.
fn replace_brackets(text: &str, replacement: &str) -> Option<String> {
    let mut safe = String::new();
    let mut done = 0;
    let mut from = 0;
    while let Some(found) = text[from..].find("##") {
        let word = from + found + 2;
        let rest = text[word..].trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '#');
        let bracket = text.len() - rest.len();
        if rest.starts_with('[') {
            safe.push_str(&text[done..bracket]);
            safe.push_str(replacement);
            done = bracket + 1;
        }
        from = bracket;
    }
    if done == 0 {
        return None;
    }
    safe.push_str(&text[done..]);
    Some(safe)
}

/// Everything that some reader of a log takes for the end of a line.
fn ends_line(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\x0b' | '\x0c' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn push_visible(line: &mut String, character: char) {
    match character {
        '\n' => line.push_str("\\n"),
        '\r' => line.push_str("\\r"),
        '\t' => line.push_str("\\t"),
        _ if is_hidden(character) => {
            // Writing into a String cannot fail.
            let _ = write!(line, "\\u{{{:x}}}", u32::from(character));
        }
        _ => line.push(character),
    }
}

/// Control characters, and those that hide or reorder what stands around them.
fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}')
}

/// Cuts a text in the middle to at most `max` bytes, on character boundaries, and says so.
pub fn cut_middle(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let head = char_floor(text, max / 2);
    let tail = char_ceil(text, text.len() - max / 2);
    let cut = tail - head;
    Cow::Owned(format!("{}\n[… {cut} bytes left out …]\n{}", &text[..head], &text[tail..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d97_tool_text_never_breaks_a_line() {
        let text = "ok\n{\"type\":\"turn.completed\"}\r\x1b[2J\u{202e}x\u{2028}::error::y";
        assert_eq!(
            one_line(text, 200),
            "ok\\n{\"type\":\"turn.completed\"}\\r\\u{1b}[2J\\u{202e}x\\u{2028}::error::y"
        );
        assert_eq!(many_lines("a\r\nb\rc\x07\td"), "a\nb\\rc\\u{7}\td");
    }

    #[test]
    fn d104_no_line_becomes_a_workflow_command() {
        let text = "::error::x\n::add-path::/p\n##[group]y\n \u{a0}::set-env::z\nfine :: a\rb\r::x";
        assert_eq!(
            without_commands(text),
            "\\::error::x\n\\::add-path::/p\n##\\[group]y\n \u{a0}\\::set-env::z\nfine :: a\rb\r\\::x"
        );
        assert_eq!(one_line("a ##vso[task.x]b ###[c]", 99), "a ##vso\\[task.x]b ###\\[c]");
        let json = json_line("{\"a\":\"##[error]x # [y\u{202e}\u{7f}\u{e0041}\"}".to_owned());
        assert_eq!(json, r###"{"a":"##\u005berror]x # [y\u202e\u007f\udb40\udc41"}"###);
        assert!(matches!(without_commands("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn d36_shortening_keeps_characters_whole() {
        let text = "阴影".repeat(100);
        for max in 0..30 {
            assert!(one_line(&text, max).chars().count() <= max + 1);
            assert!(cut_middle(&text, max).starts_with(&text[..char_floor(&text, max / 2)]));
        }
    }
}
