//! Splits a script into tokens by bash's rules, and refuses what could be read in two ways.
//!
//! Refused here: control characters, process substitution, backticks, arrays and function heads
//! (a parenthesis glued to a word), `((`, here-documents that are not closed or hide a continuation
//! line, and everything beyond the limits. The tokens are compared with bash by a fuzz test.

use super::quote::{self, Ended};
use super::token::{Lexed, Piece, Refusal, Token, TokenKind, Word, short};

/// Limits of one script; what is beyond them is denied.
pub const MAX_BYTES: usize = 128 * 1024;
const MAX_TOKENS: usize = 4000;
const MAX_PARENTHESES: usize = 6;
const MAX_OPENERS: usize = 60;
/// The grammar reads the last branch of a `case` twice, so nested ones double the effort.
const MAX_CASES: usize = 8;
pub const MAX_NESTING: usize = 4;

/// Operators, longest first.
const OPERATORS: &[&str] = &[
    "&>>", "<<-", "<<<", ";;&", "&&", "||", ";;", ";&", "|&", "&>", ">>", ">|", ">&", "<<", "<&",
    "<>", "&", "|", ";", "<", ">", "(", ")",
];

/// Splits a whole script.
pub fn lex(script: &str) -> Result<Lexed, Refusal> {
    if script.len() > MAX_BYTES {
        return Err(refusal(script, 0, format!("a script has at most {} KiB", MAX_BYTES / 1024)));
    }
    let odd = |c: char| (c.is_control() && c != '\n' && c != '\t') || c == '\u{feff}';
    if let Some(at) = script.find(odd) {
        let c = script.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
        return Err(refusal(
            script,
            at,
            format!("it holds the control character U+{:04X}", c as u32),
        ));
    }
    let mut lexer = Lexer::new(script, 0, 0);
    lexer.run(false)?;
    Ok(Lexed { tokens: lexer.tokens })
}

/// A refusal at a byte of the script.
pub fn refusal(script: &str, at: usize, reason: impl Into<String>) -> Refusal {
    let before = script.get(..at).unwrap_or(script);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let rest = script.get(at..).unwrap_or_default();
    Refusal {
        part: short(rest.lines().next().unwrap_or_default()),
        reason: reason.into(),
        line: u32::try_from(line).unwrap_or(u32::MAX),
        column: u32::try_from(column).unwrap_or(u32::MAX),
    }
}

/// A here-document whose body has not come yet.
struct Pending {
    /// Where its body token goes.
    slot: usize,
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
}

pub struct Lexer<'a> {
    pub script: &'a str,
    pub at: usize,
    tokens: Vec<Token>,
    pending: Vec<Pending>,
    /// The operator `<<` or `<<-` waits for its delimiter.
    awaits_delimiter: Option<bool>,
    parentheses: usize,
    openers: usize,
    cases: usize,
    /// How many `$(` are around.
    pub nesting: usize,
    /// Line and column of `mark`, kept so that places cost one pass in all.
    mark: (usize, u32, u32),
}

impl<'a> Lexer<'a> {
    pub fn new(script: &'a str, at: usize, nesting: usize) -> Self {
        Self {
            script,
            at,
            tokens: Vec::new(),
            pending: Vec::new(),
            awaits_delimiter: None,
            parentheses: 0,
            openers: 0,
            cases: 0,
            nesting,
            mark: (0, 1, 1),
        }
    }

    pub fn refuse<T>(&self, at: usize, reason: impl Into<String>) -> Result<T, Refusal> {
        Err(refusal(self.script, at, reason))
    }

    pub fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub fn rest(&self) -> &'a str {
        self.script.get(self.at..).unwrap_or_default()
    }

    /// Splits until the end, or until the `)` that closes a `$(`; that sign is left to the caller.
    pub fn run(&mut self, inner: bool) -> Result<(), Refusal> {
        loop {
            self.blanks(inner)?;
            if self.tokens.len() > MAX_TOKENS {
                return self.refuse(self.at, format!("a script has at most {MAX_TOKENS} words"));
            }
            let Some(c) = self.peek() else { break };
            if c == '\n' {
                self.newline()?;
            } else if c == ')' && inner && self.parentheses == 0 {
                break;
            } else if let Some(operator) = self.operator() {
                self.push_operator(operator)?;
            } else {
                self.push_word(inner)?;
            }
        }
        if self.awaits_delimiter.is_some() {
            return self.refuse(self.at, "a here-document has no delimiter");
        }
        if let Some(open) = self.pending.first() {
            let reason = format!("the here-document is not closed by a line `{}`", open.delimiter);
            return self.refuse(self.at, reason);
        }
        Ok(())
    }

    pub fn into_lexed(self) -> Lexed {
        Lexed { tokens: self.tokens }
    }

    /// Skips blanks, joined lines and comments.
    fn blanks(&mut self, inner: bool) -> Result<(), Refusal> {
        loop {
            let rest = self.rest();
            if rest.starts_with([' ', '\t']) {
                self.at += 1;
            } else if rest.starts_with("\\\n") {
                self.at += 2;
            } else if rest.starts_with('#') {
                if inner {
                    return self.refuse(self.at, "a comment inside `$(…)`");
                }
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else {
                return Ok(());
            }
        }
    }

    fn operator(&self) -> Option<&'static str> {
        let rest = self.rest();
        OPERATORS.iter().find(|operator| rest.starts_with(**operator)).copied()
    }

    fn push(&mut self, kind: TokenKind, start: usize) {
        let (line, column) = self.place(start);
        let glued = self.peek().is_some_and(|c| !matches!(c, ' ' | '\t' | '\n'))
            && !self.rest().starts_with("\\\n");
        self.tokens.push(Token { kind, line, column, glued });
    }

    fn place(&mut self, at: usize) -> (u32, u32) {
        let (from, mut line, mut column) = self.mark;
        for c in self.script.get(from..at).unwrap_or_default().chars() {
            if c == '\n' {
                line = line.saturating_add(1);
                column = 1;
            } else {
                column = column.saturating_add(1);
            }
        }
        self.mark = (at, line, column);
        (line, column)
    }

    fn push_operator(&mut self, operator: &'static str) -> Result<(), Refusal> {
        let start = self.at;
        if self.awaits_delimiter.is_some() {
            return self.refuse(start, "a here-document has no delimiter");
        }
        self.at += operator.len();
        let next = self.peek();
        match operator {
            "<" | ">" if next == Some('(') => {
                return self.refuse(start, "process substitution can't be judged");
            }
            "(" => {
                if matches!(self.tokens.last(), Some(Token { kind: TokenKind::Operator("("), .. }))
                    || next == Some('(')
                {
                    let reason = "`((` could be arithmetic or two subshells";
                    return self.refuse(start, reason);
                }
                self.parentheses += 1;
                if self.parentheses > MAX_PARENTHESES {
                    return self.refuse(start, "the parentheses are nested too deep");
                }
                self.opener(start)?;
            }
            ")" => self.parentheses = self.parentheses.saturating_sub(1),
            "<<" | "<<-" => {
                if self.nesting > 0 {
                    return self.refuse(start, "a here-document inside `$(…)`");
                }
                self.awaits_delimiter = Some(operator == "<<-");
            }
            _ => {}
        }
        self.push(TokenKind::Operator(operator), start);
        Ok(())
    }

    /// Counts what can nest, so that the grammar's depth and effort stay bounded.
    fn opener(&mut self, at: usize) -> Result<(), Refusal> {
        self.openers += 1;
        if self.openers > MAX_OPENERS {
            return self.refuse(at, format!("more than {MAX_OPENERS} groups, loops and branches"));
        }
        Ok(())
    }

    fn push_word(&mut self, inner: bool) -> Result<(), Refusal> {
        let start = self.at;
        let word = quote::read_word(self)?;
        let next = self.peek();
        if next == Some('(') {
            let reason = "a parenthesis right after a word: functions and arrays can't be judged";
            return self.refuse(start, reason);
        }
        if word.is_open_subscript() {
            let reason = "a name with an open `[` goes on behind blanks";
            return self.refuse(start, reason);
        }
        let raw = word.raw.as_str();
        if matches!(next, Some('<' | '>')) {
            let is_number = raw.bytes().all(|byte| byte.is_ascii_digit());
            if is_number && raw.len() > 1 {
                return self.refuse(start, "file descriptors above 9 can't be judged");
            }
            if raw.starts_with('{') && raw.ends_with('}') {
                return self.refuse(start, "a file descriptor kept in a variable can't be judged");
            }
        }
        if matches!(
            raw,
            "if" | "for"
                | "while"
                | "until"
                | "case"
                | "{"
                | "[["
                | "do"
                | "coproc"
                | "function"
                | "!"
        ) {
            self.opener(start)?;
        }
        if raw == "case" {
            self.cases += 1;
            if self.cases > MAX_CASES {
                return self.refuse(start, format!("more than {MAX_CASES} `case`"));
            }
        }
        if inner && matches!(raw, "case" | "esac") {
            return self.refuse(start, "`case` inside `$(…)` can't be judged");
        }
        if let Some(strip_tabs) = self.awaits_delimiter.take() {
            return self.push_delimiter(word, strip_tabs, start);
        }
        self.push(TokenKind::Word(word), start);
        Ok(())
    }

    fn push_delimiter(
        &mut self,
        word: Word,
        strip_tabs: bool,
        start: usize,
    ) -> Result<(), Refusal> {
        let quoted = word.raw.contains(['\'', '"', '\\']);
        let Some(delimiter) = word.literal().filter(|text| is_simple_delimiter(text)) else {
            return self.refuse(start, "the delimiter of a here-document must be a plain word");
        };
        self.push(TokenKind::Word(word), start);
        self.pending.push(Pending { slot: self.tokens.len(), delimiter, quoted, strip_tabs });
        self.push(TokenKind::Document(Word::default()), start);
        Ok(())
    }

    fn newline(&mut self) -> Result<(), Refusal> {
        if self.awaits_delimiter.is_some() {
            return self.refuse(self.at, "a here-document has no delimiter");
        }
        let start = self.at;
        self.at += 1;
        self.push(TokenKind::Operator("\n"), start);
        for pending in std::mem::take(&mut self.pending) {
            let body = self.body(&pending)?;
            if let Some(slot) = self.tokens.get_mut(pending.slot) {
                slot.kind = TokenKind::Document(body);
            }
        }
        Ok(())
    }

    /// Reads lines up to the delimiter.
    fn body(&mut self, pending: &Pending) -> Result<Word, Refusal> {
        let start = self.at;
        let mut text = String::new();
        loop {
            let rest = self.rest();
            if rest.is_empty() {
                let reason =
                    format!("the here-document is not closed by a line `{}`", pending.delimiter);
                return self.refuse(start, reason);
            }
            let end = rest.find('\n').unwrap_or(rest.len());
            let line = rest.get(..end).unwrap_or_default();
            let has_newline = end < rest.len();
            self.at += end + usize::from(has_newline);
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { line };
            if line == pending.delimiter {
                break;
            }
            if !pending.quoted && line.ends_with('\\') {
                return self.refuse(
                    self.at.saturating_sub(2),
                    "a line of the here-document ends with a backslash; quote the delimiter",
                );
            }
            text.push_str(line);
            text.push('\n');
        }
        if pending.quoted {
            let pieces = vec![Piece::Text { text: text.clone(), quoted: true }];
            return Ok(Word { raw: text, pieces });
        }
        quote::read_document(&text, self.nesting).map_err(|inner| Refusal {
            line: inner.line.saturating_add(self.place(start).0.saturating_sub(1)),
            ..inner
        })
    }

    /// Reads the inside of a `$(…)`, the sign `$(` behind us, and steps over the `)`.
    pub fn substitution(&mut self, from: usize) -> Result<Lexed, Refusal> {
        if self.nesting >= MAX_NESTING {
            return self.refuse(from, format!("`$(` is nested more than {MAX_NESTING} deep"));
        }
        let mut inner = Lexer::new(self.script, self.at, self.nesting + 1);
        inner.run(true)?;
        self.at = inner.at;
        if self.peek() != Some(')') {
            return self.refuse(from, "`$(` is not closed");
        }
        self.at += 1;
        Ok(inner.into_lexed())
    }

    /// The next character is a sign that ends an unquoted word.
    pub fn at_word_end(&self) -> Ended {
        match self.peek() {
            None | Some(' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | '(' | ')') => Ended::Yes,
            _ => Ended::No,
        }
    }
}

fn is_simple_delimiter(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 64
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '!' | '+'))
}
