//! Word patterns: how a rule says which commands it means.
//!
//! A pattern is a list of words and matches a list of words, never a command string. Words can be
//! literal, one of several, a glob, `*` for any one word, and `...` for any further words. A command
//! whose words are not all known is matched twice: *certainly* (for allow) and *possibly* (for deny
//! and ask), so that what can't be known only ever makes a verdict stricter.

use super::value::Value;
use globset::{GlobBuilder, GlobMatcher};
use std::sync::OnceLock;

/// One pattern, as the rule wrote it.
#[derive(Debug, Clone)]
pub struct Pattern {
    pub text: String,
    pub words: Vec<WordPattern>,
}

/// One word of a pattern.
#[derive(Debug, Clone)]
pub enum WordPattern {
    Literal(String),
    /// `[a, b]`: one of them.
    OneOf(Vec<WordPattern>),
    /// A glob over one word; `*` stays within a `/`.
    Glob(WordGlob),
    /// `*`: any one word.
    Any,
    /// `...`: any further words, none included.
    Rest,
}

/// A glob that is compiled when it is first needed: a file of a thousand rules is checked quickly.
#[derive(Debug, Clone)]
pub struct WordGlob {
    pub text: String,
    matcher: OnceLock<Option<GlobMatcher>>,
}

impl WordGlob {
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), matcher: OnceLock::new() }
    }

    fn matches(&self, word: &str) -> bool {
        let matcher = self.matcher.get_or_init(|| {
            GlobBuilder::new(&self.text)
                .literal_separator(true)
                .backslash_escape(true)
                .build()
                .ok()
                .map(|glob| glob.compile_matcher())
        });
        matcher.as_ref().is_some_and(|matcher| matcher.is_match(word))
    }
}

/// Why a pattern can't be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PatternError {
    pub text: String,
    pub hint: String,
}

fn error<T>(text: impl Into<String>, hint: impl Into<String>) -> Result<T, PatternError> {
    Err(PatternError { text: text.into(), hint: hint.into() })
}

/// Characters that make an unquoted word a glob.
fn has_glob(word: &str) -> bool {
    word.contains(['*', '?', '[', '{'])
}

impl Pattern {
    /// Reads `git [log, show] -n * ...`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut words = Vec::new();
        for raw in split(text)? {
            words.push(word(&raw)?);
        }
        if words.is_empty() {
            return error("the rule is empty", "name a command, for example `cargo test ...`");
        }
        if matches!(words.first(), Some(WordPattern::Rest)) {
            return error(
                "a rule can't begin with `...`",
                "name the program first; `* ...` means any program",
            );
        }
        if words.windows(2).any(|pair| matches!(pair, [WordPattern::Rest, WordPattern::Rest])) {
            return error("`...` stands twice in a row", "one `...` is any number of words");
        }
        Ok(Self { text: text.trim().to_owned(), words })
    }

    /// How many words are spelled out; the rule with the most gives the attributes.
    pub fn literals(&self) -> usize {
        self.words.iter().filter(|word| matches!(word, WordPattern::Literal(_))).count()
    }

    /// The names this pattern's program can have, when all of them are spelled out.
    pub fn programs(&self) -> Option<Vec<&str>> {
        match self.words.first()? {
            WordPattern::Literal(name) => Some(vec![name]),
            WordPattern::OneOf(choices) => choices
                .iter()
                .map(|choice| match choice {
                    WordPattern::Literal(name) => Some(name.as_str()),
                    _ => None,
                })
                .collect(),
            _ => None,
        }
    }

    pub fn has_rest(&self) -> bool {
        self.words.iter().any(|word| matches!(word, WordPattern::Rest))
    }

    /// Whether the pattern matches whatever the unknown words turn out to be. The first word is
    /// compared by `program`, since a program has more than one name.
    pub fn surely_matches(&self, program: &dyn Fn(&WordPattern) -> bool, words: &[Value]) -> bool {
        let (Some(first), Some(rest)) = (self.words.first(), words.get(1..)) else { return false };
        program(first) && matches(self.words.get(1..).unwrap_or_default(), rest, Certainty::Surely)
    }

    /// Whether the pattern could match for some value of the unknown words.
    pub fn may_match(&self, program: &dyn Fn(&WordPattern) -> bool, words: &[Value]) -> bool {
        let (Some(first), Some(rest)) = (self.words.first(), words.get(1..)) else { return false };
        program(first) && matches(self.words.get(1..).unwrap_or_default(), rest, Certainty::Perhaps)
    }

    /// Whether the pattern spells out the word at this very place.
    pub fn spells_at(&self, index: usize, word: &str) -> bool {
        let head = self.words.get(..=index).unwrap_or_default();
        !head.iter().any(|pattern| matches!(pattern, WordPattern::Rest))
            && head.last().is_some_and(|pattern| pattern.spells(word))
    }

    /// Whether every word is spelled out, as one text or one of several.
    pub fn is_spelled_out(&self) -> bool {
        self.words.iter().all(|word| match word {
            WordPattern::Literal(_) => true,
            WordPattern::OneOf(choices) => {
                choices.iter().all(|choice| matches!(choice, WordPattern::Literal(_)))
            }
            _ => false,
        })
    }

    /// Whether the pattern spells out `word`, or a word of a choice list.
    pub fn spells(&self, word: &str) -> bool {
        self.words.iter().any(|pattern| pattern.spells(word))
    }
}

impl WordPattern {
    /// Whether one known word matches.
    pub fn matches(&self, word: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == word,
            Self::OneOf(choices) => choices.iter().any(|choice| choice.matches(word)),
            Self::Glob(glob) => glob.matches(word),
            Self::Any => true,
            Self::Rest => false,
        }
    }

    fn spells(&self, word: &str) -> bool {
        match self {
            Self::Literal(literal) => literal == word,
            Self::OneOf(choices) => choices.iter().any(|choice| choice.spells(word)),
            _ => false,
        }
    }

    fn accepts(&self, value: &Value, certainty: Certainty) -> bool {
        match (value, certainty) {
            (Value::Known(word), _) => self.matches(word),
            (Value::Unknown(unknown), Certainty::Surely) => {
                unknown.is_one_word() && matches!(self, Self::Any)
            }
            (Value::Unknown(unknown), Certainty::Perhaps) => match self {
                Self::Literal(literal) => literal.starts_with(&unknown.prefix),
                Self::OneOf(choices) => {
                    choices.iter().any(|choice| choice.accepts(value, certainty))
                }
                Self::Glob(_) | Self::Any => true,
                Self::Rest => false,
            },
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Certainty {
    Surely,
    Perhaps,
}

/// Matches word by word; on a mismatch the last `...` takes one word more. Linear in memory, at most
/// quadratic in time.
fn matches(patterns: &[WordPattern], values: &[Value], certainty: Certainty) -> bool {
    // A word that may become any number of words: everything from there on is possible, and only a
    // closing `...` that begins at or before it is certain.
    if let Some(open) = values.iter().position(Value::is_many) {
        return match certainty {
            Certainty::Perhaps => {
                may_match_prefix(patterns, values.get(..open).unwrap_or_default())
            }
            Certainty::Surely => match patterns.split_last() {
                Some((WordPattern::Rest, head)) if head.len() <= open => {
                    !head.iter().any(|word| matches!(word, WordPattern::Rest))
                        && head.iter().zip(values).all(|(p, v)| p.accepts(v, certainty))
                }
                _ => false,
            },
        };
    }
    let (mut p, mut v) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match (patterns.get(p), values.get(v)) {
            (Some(WordPattern::Rest), _) => {
                retry = Some((p + 1, v));
                p += 1;
            }
            (Some(pattern), Some(value)) if pattern.accepts(value, certainty) => {
                p += 1;
                v += 1;
            }
            (None, None) => return true,
            _ => match retry {
                Some((after, from)) if from < values.len() => {
                    retry = Some((after, from + 1));
                    p = after;
                    v = from + 1;
                }
                _ => return false,
            },
        }
    }
}

/// Whether the known head can be the head of a match.
fn may_match_prefix(patterns: &[WordPattern], head: &[Value]) -> bool {
    for (index, value) in head.iter().enumerate() {
        match patterns.get(index) {
            Some(WordPattern::Rest) => return true,
            Some(pattern) if pattern.accepts(value, Certainty::Perhaps) => {}
            _ => return false,
        }
    }
    true
}

/// A raw word of the pattern text.
struct Raw {
    text: String,
    quoted: bool,
    /// The choices when the word was `[a, b]`.
    choices: Option<Vec<Raw>>,
}

/// Splits at blanks; quotes make literals, `[a, b]` may hold blanks.
fn split(text: &str) -> Result<Vec<Raw>, PatternError> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while let Some(&c) = chars.peek() {
        if c.is_whitespace() {
            chars.next();
        } else if c == '[' {
            words.push(choices(&mut chars)?);
        } else {
            words.push(one(&mut chars, &[])?);
        }
    }
    Ok(words)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn one(chars: &mut Chars<'_>, stops: &[char]) -> Result<Raw, PatternError> {
    let mut text = String::new();
    let mut quoted = false;
    let mut depth = 0_usize;
    while let Some(&c) = chars.peek() {
        if c == '\'' || c == '"' {
            chars.next();
            quoted = true;
            loop {
                match chars.next() {
                    Some(inner) if inner == c => break,
                    Some(inner) => text.push(inner),
                    None => {
                        return error(
                            format!("the quote {c} is not closed"),
                            "close it, or drop it",
                        );
                    }
                }
            }
            continue;
        }
        if depth == 0 && (c.is_whitespace() || stops.contains(&c)) {
            break;
        }
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            _ if c.is_whitespace() => {
                return error(
                    format!("a blank inside `{text}`"),
                    "quote the word, or close its bracket",
                );
            }
            _ => {}
        }
        text.push(c);
        chars.next();
    }
    Ok(Raw { text, quoted, choices: None })
}

fn choices(chars: &mut Chars<'_>) -> Result<Raw, PatternError> {
    chars.next();
    let mut list = Vec::new();
    loop {
        while chars.peek().is_some_and(|c| c.is_whitespace()) {
            chars.next();
        }
        match chars.peek() {
            None => {
                return error(
                    "`[` is not closed",
                    "write the choices as `[build, test]`; quote it if the program `[` is meant",
                );
            }
            Some(']') => {
                chars.next();
                break;
            }
            Some(',') => {
                chars.next();
            }
            Some(_) => {
                let raw = one(chars, &[',', ']'])?;
                while chars.peek().is_some_and(|c| c.is_whitespace()) {
                    chars.next();
                }
                if !matches!(chars.peek(), Some(',' | ']') | None) {
                    return error(
                        format!("a comma is missing after `{}`", raw.text),
                        "write the choices as `[build, test]`",
                    );
                }
                list.push(raw);
            }
        }
    }
    if list.is_empty() {
        return error("`[]` has no choices", "write the choices as `[build, test]`");
    }
    match chars.peek() {
        Some(c) if !c.is_whitespace() => error(
            "a choice list must be a word of its own",
            "put a blank after `]`; quote the word if the bracket is meant literally",
        ),
        _ => Ok(Raw { text: String::new(), quoted: false, choices: Some(list) }),
    }
}

/// Signs of a command string where a list of words belongs.
const SHELL_SIGNS: &[&str] =
    &["|", "||", "&&", "&", ";", ">", ">>", "<", "<<", "2>&1", ">&2", "2>", "(", ")", "!"];

fn word(raw: &Raw) -> Result<WordPattern, PatternError> {
    if let Some(list) = &raw.choices {
        let list = list.iter().map(word).collect::<Result<Vec<_>, _>>()?;
        if list.iter().any(|choice| matches!(choice, WordPattern::Rest | WordPattern::Any)) {
            return error("`*` and `...` can't be choices", "write them as words of their own");
        }
        return Ok(WordPattern::OneOf(list));
    }
    if raw.quoted {
        return Ok(WordPattern::Literal(raw.text.clone()));
    }
    let text = raw.text.as_str();
    if SHELL_SIGNS.contains(&text) || text.ends_with(';') || text.contains("$(") {
        return error(
            format!("`{text}` is shell syntax, and rules match the words of one command"),
            "write each command of a script as a rule of its own; quote the sign if it is a word",
        );
    }
    match text {
        "..." | "…" => Ok(WordPattern::Rest),
        "*" => Ok(WordPattern::Any),
        _ if text.ends_with("...") && !has_glob(text) => error(
            format!("`{text}`: `...` must be a word of its own"),
            "put a blank before `...`, or quote the word if the dots are meant",
        ),
        _ if has_glob(text) => glob(text),
        _ => Ok(WordPattern::Literal(text.to_owned())),
    }
}

fn glob(text: &str) -> Result<WordPattern, PatternError> {
    match GlobBuilder::new(text).literal_separator(true).backslash_escape(true).build() {
        Ok(_) => Ok(WordPattern::Glob(WordGlob::new(text))),
        Err(why) => error(
            format!("`{text}` is no valid glob: {}", why.kind()),
            "quote the word if the signs are meant literally",
        ),
    }
}
