//! Reads one word: quotes, escapes, and the expansions that can be told apart before running.

use super::lex::{Lexer, refusal};
use super::token::{Form, Piece, Refusal, Word};

/// Whether a word is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Yes,
    No,
}

/// Reads a word that starts here; it ends at an unquoted blank or operator.
pub fn read_word(lexer: &mut Lexer<'_>) -> Result<Word, Refusal> {
    let start = lexer.at;
    let mut pieces = Pieces::default();
    while lexer.at_word_end() == Ended::No {
        read_unquoted(lexer, start, &mut pieces)?;
    }
    let raw = lexer.script.get(start..lexer.at).unwrap_or_default().replace("\\\n", "");
    let mut pieces = pieces.list;
    settle_brackets(&mut pieces, &raw);
    Ok(Word { raw, pieces })
}

/// Pieces with neighbouring texts joined.
#[derive(Default)]
struct Pieces {
    list: Vec<Piece>,
    /// Whether braces of this word expand, told at the first one for all of them.
    braces: Option<bool>,
}

impl Pieces {
    fn text(&mut self, more: &str, quoted: bool) {
        if let Some(Piece::Text { text, quoted: known }) = self.list.last_mut()
            && *known == quoted
        {
            text.push_str(more);
        } else {
            self.list.push(Piece::Text { text: more.to_owned(), quoted });
        }
    }

    fn push(&mut self, piece: Piece) {
        self.list.push(piece);
    }

    /// Whether the word so far ends where bash would look for a `~`.
    fn wants_tilde(&self) -> bool {
        match self.list.last() {
            None => true,
            Some(Piece::Text { text, quoted: false }) => text.ends_with(['=', ':']),
            _ => false,
        }
    }
}

fn read_unquoted(lexer: &mut Lexer<'_>, start: usize, pieces: &mut Pieces) -> Result<(), Refusal> {
    let at = lexer.at;
    let Some(c) = lexer.peek() else { return Ok(()) };
    match c {
        '\'' => {
            let text = single_quoted(lexer)?;
            pieces.text(&text, true);
        }
        '"' => double_quoted(lexer, pieces)?,
        '\\' => {
            lexer.at += 1;
            match lexer.peek() {
                None => return lexer.refuse(at, "a backslash at the very end"),
                // The line goes on; bash drops both signs.
                Some('\n') => lexer.at += 1,
                Some(next) => {
                    lexer.at += next.len_utf8();
                    pieces.text(next.encode_utf8(&mut [0; 4]), true);
                }
            }
        }
        '$' => dollar(lexer, false, pieces)?,
        '`' => return lexer.refuse(at, "backticks can't be judged; write `$(…)`"),
        '*' | '?' | '[' => {
            lexer.at += 1;
            pieces.push(Piece::Glob(c));
        }
        '~' if pieces.wants_tilde() => {
            lexer.at += 1;
            pieces.push(Piece::Tilde);
        }
        '{' => {
            lexer.at += 1;
            if at == start && lexer.at_word_end() == Ended::Yes {
                pieces.text("{", false);
            } else if *pieces.braces.get_or_insert_with(|| expands_as_brace(lexer)) {
                pieces.push(Piece::Brace);
            } else {
                pieces.text("{", false);
            }
        }
        _ => {
            lexer.at += c.len_utf8();
            pieces.text(c.encode_utf8(&mut [0; 4]), false);
        }
    }
    Ok(())
}

/// Whether bash may expand the brace that was just read: a comma or `..` follows in the same word.
/// Told by the text alone, so it says yes too often rather than too seldom.
fn expands_as_brace(lexer: &Lexer<'_>) -> bool {
    let rest = lexer.rest();
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let ends = matches!(c, ' ' | '\t' | '\n') && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let tail = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
    // A quote may hold blanks that don't end the word.
    tail.contains(',') || tail.contains("..") || tail.contains(['"', '\'', '$'])
}

/// A `[` with no `]` behind it is no glob.
fn settle_brackets(pieces: &mut [Piece], raw: &str) {
    if matches!(raw, "[" | "[[") || !raw.contains(']') {
        for piece in pieces.iter_mut() {
            if *piece == Piece::Glob('[') {
                *piece = Piece::Text { text: "[".into(), quoted: false };
            }
        }
    }
}

fn single_quoted(lexer: &mut Lexer<'_>) -> Result<String, Refusal> {
    let from = lexer.at;
    lexer.at += 1;
    let rest = lexer.rest();
    let Some(end) = rest.find('\'') else {
        return lexer.refuse(from, "a single quote is not closed");
    };
    lexer.at += end + 1;
    Ok(rest.get(..end).unwrap_or_default().to_owned())
}

fn double_quoted(lexer: &mut Lexer<'_>, pieces: &mut Pieces) -> Result<(), Refusal> {
    let from = lexer.at;
    lexer.at += 1;
    // An empty pair of quotes is a word too.
    pieces.text("", true);
    loop {
        let at = lexer.at;
        let Some(c) = lexer.peek() else {
            return lexer.refuse(from, "a double quote is not closed");
        };
        match c {
            '"' => {
                lexer.at += 1;
                return Ok(());
            }
            '\\' => {
                lexer.at += 1;
                match lexer.peek() {
                    Some('\n') => lexer.at += 1,
                    Some(next @ ('$' | '`' | '"' | '\\')) => {
                        lexer.at += 1;
                        pieces.text(next.encode_utf8(&mut [0; 4]), true);
                    }
                    _ => pieces.text("\\", true),
                }
            }
            '$' => dollar(lexer, true, pieces)?,
            '`' => return lexer.refuse(at, "backticks can't be judged; write `$(…)`"),
            _ => {
                lexer.at += c.len_utf8();
                pieces.text(c.encode_utf8(&mut [0; 4]), true);
            }
        }
    }
}

/// The body of a here-document whose delimiter is not quoted: quotes are plain text in it.
pub fn read_document(text: &str, nesting: usize) -> Result<Word, Refusal> {
    let mut lexer = Lexer::new(text, 0, nesting.max(1));
    let mut pieces = Pieces::default();
    while let Some(c) = lexer.peek() {
        match c {
            '\\' => {
                lexer.at += 1;
                match lexer.peek() {
                    Some(next @ ('$' | '`' | '\\')) => {
                        lexer.at += 1;
                        pieces.text(next.encode_utf8(&mut [0; 4]), true);
                    }
                    _ => pieces.text("\\", true),
                }
            }
            '$' => dollar(&mut lexer, true, &mut pieces)?,
            '`' => {
                let reason = "backticks in a here-document run commands; quote the delimiter";
                return Err(refusal(text, lexer.at, reason));
            }
            _ => {
                lexer.at += c.len_utf8();
                pieces.text(c.encode_utf8(&mut [0; 4]), true);
            }
        }
    }
    Ok(Word { raw: text.to_owned(), pieces: pieces.list })
}

/// Everything that begins with `$`.
fn dollar(lexer: &mut Lexer<'_>, quoted: bool, pieces: &mut Pieces) -> Result<(), Refusal> {
    let from = lexer.at;
    lexer.at += 1;
    let rest = lexer.rest();
    let Some(next) = rest.chars().next() else {
        pieces.text("$", quoted);
        return Ok(());
    };
    match next {
        '(' if rest.starts_with("((") => arithmetic(lexer, from, pieces),
        '(' => {
            lexer.at += 1;
            let inner = lexer.substitution(from)?;
            pieces.push(Piece::Substitution { inner, quoted });
            Ok(())
        }
        '{' => braced(lexer, from, quoted, pieces),
        '[' => lexer.refuse(from, "`$[…]` can't be judged; write `$((…))`"),
        '\'' if !quoted => {
            lexer.at += 1;
            let text = ansi_quoted(lexer, from)?;
            pieces.text(&text, true);
            Ok(())
        }
        '"' if !quoted => lexer.refuse(from, "`$\"…\"` is translated before it is used"),
        '?' | '#' | '$' | '!' => {
            lexer.at += 1;
            let form = Form::Number;
            pieces.push(Piece::Parameter { name: next.to_string(), form, quoted });
            Ok(())
        }
        '@' | '*' | '-' | '0'..='9' => {
            lexer.at += 1;
            let form = Form::Changed;
            pieces.push(Piece::Parameter { name: next.to_string(), form, quoted });
            Ok(())
        }
        c if c.is_ascii_alphabetic() || c == '_' => {
            let name = name_at(rest);
            lexer.at += name.len();
            let name = name.to_owned();
            pieces.push(Piece::Parameter { name, form: Form::Plain, quoted });
            Ok(())
        }
        // A `$` before anything else is itself.
        _ => {
            pieces.text("$", quoted);
            Ok(())
        }
    }
}

fn name_at(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

/// `${name}`, `${#name}`, `${PIPESTATUS[0]}`, and forms whose operand is plain text.
fn braced(
    lexer: &mut Lexer<'_>,
    from: usize,
    quoted: bool,
    pieces: &mut Pieces,
) -> Result<(), Refusal> {
    let unknown = "this form of `${…}` can't be judged";
    lexer.at += 1;
    let rest = lexer.rest();
    let Some(end) = rest.find('}') else { return lexer.refuse(from, "`${` is not closed") };
    let inside = rest.get(..end).unwrap_or_default();
    lexer.at += end + 1;
    let mut push = |name: &str, form: Form| {
        pieces.push(Piece::Parameter { name: name.to_owned(), form, quoted });
        Ok(())
    };
    if let Some(name) = inside.strip_prefix('#') {
        let is_name = !name.is_empty() && name_at(name) == name;
        return if is_name { push(name, Form::Number) } else { lexer.refuse(from, unknown) };
    }
    let name = name_at(inside);
    let operation = inside.get(name.len()..).unwrap_or_default();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return match inside {
            "?" => push("?", Form::Number),
            _ => lexer.refuse(from, unknown),
        };
    }
    if operation.is_empty() {
        return push(name, Form::Plain);
    }
    if name == "PIPESTATUS" && matches!(operation, "[0]" | "[1]" | "[2]" | "[3]") {
        return push(name, Form::Number);
    }
    let known = [":-", ":+", "-", "+", "%%", "%", "##", "#", "//", "/", "^^", "^", ",,", ","];
    let Some(operator) = known.iter().find(|operator| operation.starts_with(**operator)) else {
        return lexer.refuse(from, unknown);
    };
    let operand = operation.get(operator.len()..).unwrap_or_default();
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/' | '*' | '?' | '-');
    if operand.chars().all(plain) { push(name, Form::Changed) } else { lexer.refuse(from, unknown) }
}

/// `$'…'` with the escapes whose meaning is the same everywhere.
fn ansi_quoted(lexer: &mut Lexer<'_>, from: usize) -> Result<String, Refusal> {
    let mut text = String::new();
    loop {
        let Some(c) = lexer.peek() else { return lexer.refuse(from, "`$'` is not closed") };
        lexer.at += c.len_utf8();
        match c {
            '\'' => return Ok(text),
            '\\' => {
                let next = lexer.peek();
                lexer.at += next.map_or(0, char::len_utf8);
                text.push(match next {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(same @ ('\\' | '\'' | '"')) => same,
                    _ => return lexer.refuse(from, "an escape in `$'…'` that can't be judged"),
                });
            }
            _ => text.push(c),
        }
    }
}

/// Whether every parenthesis closes one that was opened: otherwise bash takes `$((` for a command.
fn is_balanced(text: &str) -> bool {
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return false,
            ')' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

/// `$((…))` of numbers, names and operators. Names are told, since bash reads a variable's text as
/// an expression of its own.
fn arithmetic(lexer: &mut Lexer<'_>, from: usize, pieces: &mut Pieces) -> Result<(), Refusal> {
    lexer.at += 2;
    let rest = lexer.rest();
    let Some(end) = rest.find("))") else { return lexer.refuse(from, "`$((` is not closed") };
    let text = rest.get(..end).unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "_ +-*/%()<>!&|^~?:".contains(c);
    // No `=`, `++` or `--`: an expression changes nothing. No `[`: an index is evaluated.
    if !text.chars().all(plain) || text.contains("++") || text.contains("--") || !is_balanced(text)
    {
        return lexer.refuse(from, "arithmetic with more than numbers, names and operators");
    }
    let mut names: Vec<String> = Vec::new();
    for word in text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')) {
        if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && !names.iter().any(|known| known == word)
        {
            names.push(word.to_owned());
        }
    }
    lexer.at += end + 2;
    pieces.push(Piece::Arithmetic { text: text.to_owned(), names });
    Ok(())
}
