//! From tokens to the syntax tree, by the grammar of brush-parser.
//!
//! The grammar gets placeholders for words: a keyword stays itself, an assignment becomes `NAME=w`,
//! everything else is `w`. Each node leads back to its word by the place of its token. So the
//! grammar decides the structure and nothing else, and its effort does not depend on the text.

use super::token::{Lexed, Refusal, TokenKind, Word, short};
use brush_parser::ast::Program;
use brush_parser::{ParserOptions, SourcePosition, SourceSpan, Token, parse_tokens};
use std::sync::Arc;

/// What bash reads as grammar where a command may begin.
const KEYWORDS: &[&str] = &[
    "!", "{", "}", "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then",
    "until", "while", "[[", "]]", "function", "select", "coproc", "time",
];

/// Operators of `[[ … ]]`, which the grammar tells apart by their text.
fn is_test_operator(text: &str) -> bool {
    matches!(text, "=" | "==" | "!=" | "=~")
        || (text.len() == 2
            && text.starts_with('-')
            && text.ends_with(|c: char| c.is_ascii_alphabetic()))
        || matches!(text, "-eq" | "-ne" | "-lt" | "-le" | "-gt" | "-ge" | "-ef" | "-nt" | "-ot")
}

pub fn parse(lexed: &Lexed) -> Result<Program, Refusal> {
    let tokens = placeholders(lexed);
    let options = ParserOptions {
        enable_extended_globbing: false,
        posix_mode: false,
        sh_mode: false,
        tilde_expansion_at_word_start: true,
        tilde_expansion_after_colon: false,
        ..ParserOptions::default()
    };
    parse_tokens(&tokens, &options).map_err(|error| {
        let (line, column) = match &error {
            brush_parser::ParseError::ParsingNear(place) => (place.line, place.column),
            _ => (0, 0),
        };
        let near = lexed
            .tokens
            .iter()
            .find(|token| token.line as usize == line && token.column as usize == column);
        let part = match near.map(|token| &token.kind) {
            Some(TokenKind::Operator("\n")) => "end of line".to_owned(),
            Some(TokenKind::Operator(operator)) => (*operator).to_owned(),
            Some(TokenKind::Word(word) | TokenKind::Document(word)) => short(&word.raw),
            None => "end of script".to_owned(),
        };
        Refusal {
            part,
            reason: "the script does not parse here".into(),
            line: u32::try_from(line).unwrap_or(0),
            column: u32::try_from(column).unwrap_or(0),
        }
    })
}

/// The word that a node of the tree came from.
pub fn word_at<'a>(lexed: &'a Lexed, place: Option<&SourceSpan>) -> Option<&'a Word> {
    let index = place?.start.index;
    match &lexed.tokens.get(index)?.kind {
        TokenKind::Word(word) | TokenKind::Document(word) => Some(word),
        TokenKind::Operator(_) => None,
    }
}

fn placeholders(lexed: &Lexed) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(lexed.tokens.len() + 4);
    for (index, token) in lexed.tokens.iter().enumerate() {
        let start =
            SourcePosition { index, line: token.line as usize, column: token.column as usize };
        // A number is a file descriptor only when it touches the redirection.
        let end_index = if token.glued { index + 1 } else { usize::MAX };
        let end = SourcePosition { index: end_index, ..start.clone() };
        let span = SourceSpan { start: Arc::new(start), end: Arc::new(end) };
        match &token.kind {
            TokenKind::Operator(operator) => {
                tokens.push(Token::Operator((*operator).to_owned(), span));
            }
            TokenKind::Word(word) => {
                let follows_here = matches!(
                    index.checked_sub(1).and_then(|before| lexed.tokens.get(before)),
                    Some(before) if matches!(before.kind, TokenKind::Operator("<<" | "<<-"))
                );
                tokens.push(Token::Word(placeholder(word, token.glued, follows_here), span));
            }
            TokenKind::Document(_) => {
                // The grammar wants the body and then the closing delimiter.
                tokens.push(Token::Word("w".into(), span.clone()));
                tokens.push(Token::Word("w".into(), span));
            }
        }
    }
    tokens
}

fn placeholder(word: &Word, glued: bool, is_delimiter: bool) -> String {
    if is_delimiter {
        return if word.raw.contains(['\'', '"', '\\']) { "'w'".into() } else { "w".into() };
    }
    if let Some((name, append)) = word.assigned_name() {
        return format!("{name}{}=w", if append { "+" } else { "" });
    }
    if word.is_plain() {
        let raw = word.raw.as_str();
        let is_descriptor = glued && raw.len() == 1 && raw.bytes().all(|b| b.is_ascii_digit());
        if KEYWORDS.contains(&raw) || is_test_operator(raw) || is_descriptor || raw == "-p" {
            return raw.to_owned();
        }
        // A loop's variable: the walk reads it from the tree.
        if raw.len() <= 64 && raw.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return raw.to_owned();
        }
    }
    "w".into()
}
