//! What a script has done to its own shell so far: variables it set, and the folder it is in.
//!
//! The state is a set of possibilities. Whatever can't be followed exactly becomes unknown, which
//! only ever makes a verdict stricter.

use super::token::{Form, Piece, Word, short};
use crate::policy::value::{Unknown, UnknownKind, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// At most this many possible values, folders and combinations are followed.
const MAX_VALUES: usize = 64;
const MAX_FOLDERS: usize = 8;

/// What a variable may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Held {
    /// One of these texts.
    OneOf(Vec<String>),
    Number,
    /// Any text that begins like this; the pattern when a glob made it.
    Begins(String, Option<String>),
    Anything,
}

/// A folder as bash names it, and where that really is: `cd ..` goes by the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub logical: PathBuf,
    pub physical: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    variables: BTreeMap<String, Held>,
    /// The folders the shell may be in; empty when that can't be known.
    pub folders: Vec<Folder>,
    /// `cd -` goes back here.
    pub previous: Option<Folder>,
}

/// One choice of a value for each variable that has several.
pub type Choice = BTreeMap<String, String>;

impl State {
    pub fn new(cwd: PathBuf) -> Self {
        Self {
            variables: BTreeMap::new(),
            folders: vec![Folder { logical: cwd.clone(), physical: cwd }],
            previous: None,
        }
    }

    pub fn set(&mut self, name: &str, held: Held) {
        self.variables.insert(name.to_owned(), held);
    }

    pub fn get(&self, name: &str) -> &Held {
        self.variables.get(name).unwrap_or(&Held::Anything)
    }

    /// Adds folders the shell may be in; none means that it may be anywhere.
    pub fn may_be_in(&mut self, folders: &[Folder]) {
        if self.folders.is_empty() || folders.is_empty() {
            self.folders.clear();
            return;
        }
        for folder in folders {
            if !self.folders.contains(folder) {
                self.folders.push(folder.clone());
            }
        }
        if self.folders.len() > MAX_FOLDERS {
            self.folders.clear();
        }
    }

    /// The state after either of two ways.
    pub fn join(&mut self, other: &Self) {
        self.may_be_in(&other.folders);
        if self.previous != other.previous {
            self.previous = None;
        }
        let names: Vec<String> =
            self.variables.keys().chain(other.variables.keys()).cloned().collect();
        for name in names {
            let joined = match (self.variables.get(&name), other.variables.get(&name)) {
                (Some(a), Some(b)) => join_held(a, b),
                // Unset on one way: it may be empty, or come from the environment.
                _ => Held::Anything,
            };
            self.variables.insert(name, joined);
        }
    }

    /// Every combination of the values that the given words can see; nothing when there are too
    /// many, and then those variables count as unknown.
    pub fn choices<'a>(&self, words: impl Iterator<Item = &'a Word>) -> Vec<Choice> {
        let mut choices = vec![Choice::new()];
        for name in words.flat_map(|word| word.pieces.iter()).filter_map(seen) {
            let Some(Held::OneOf(values)) = self.variables.get(name) else { continue };
            if choices.iter().any(|choice| choice.contains_key(name)) {
                continue;
            }
            if choices.len() * values.len() > MAX_VALUES {
                continue;
            }
            choices = choices
                .iter()
                .flat_map(|choice| {
                    values.iter().map(|value| {
                        let mut more = choice.clone();
                        more.insert(name.to_owned(), value.clone());
                        more
                    })
                })
                .collect();
        }
        choices
    }

    /// What a word becomes under one choice.
    pub fn expand(&self, word: &Word, choice: &Choice) -> Vec<Value> {
        let mut builder = Builder::default();
        for piece in &word.pieces {
            self.add(piece, choice, &mut builder);
        }
        builder.finish(word)
    }

    /// What a word is where bash neither splits nor globs: assignments, here-strings, `case`.
    pub fn expand_whole(&self, word: &Word, choice: &Choice) -> Value {
        let mut builder = Builder { whole: true, ..Builder::default() };
        for piece in &word.pieces {
            self.add(piece, choice, &mut builder);
        }
        builder.finish(word).into_iter().next().unwrap_or_else(|| Value::Known(String::new()))
    }

    fn add(&self, piece: &Piece, choice: &Choice, builder: &mut Builder) {
        match piece {
            Piece::Text { text, quoted } => builder.text(text, *quoted),
            Piece::Parameter { name, form, quoted } => {
                let held = choice.get(name).map(|value| Held::OneOf(vec![value.clone()]));
                let held = held.as_ref().unwrap_or_else(|| self.get(name));
                match (form, held) {
                    (Form::Number, _) | (Form::Plain, Held::Number) => builder.number(),
                    (Form::Plain, Held::OneOf(values)) if values.len() == 1 => {
                        builder
                            .value(values.first().map(String::as_str).unwrap_or_default(), *quoted);
                    }
                    (Form::Plain, Held::Begins(prefix, glob)) => {
                        builder.begins(prefix, glob.as_deref(), *quoted);
                    }
                    _ => builder.unknown(*quoted),
                }
            }
            Piece::Substitution { quoted, .. } => builder.unknown(*quoted),
            Piece::Arithmetic { .. } => builder.arithmetic(),
            Piece::Glob(sign) => builder.glob(*sign),
            Piece::Tilde => builder.unknown(true),
            Piece::Brace => builder.unknown(false),
        }
    }
}

/// The variable whose single value a piece shows.
fn seen(piece: &Piece) -> Option<&str> {
    match piece {
        Piece::Parameter { name, form: Form::Plain, .. } => Some(name),
        _ => None,
    }
}

fn join_held(a: &Held, b: &Held) -> Held {
    match (a, b) {
        _ if a == b => a.clone(),
        (Held::OneOf(a), Held::OneOf(b)) => {
            let mut all = a.clone();
            for value in b {
                if !all.contains(value) {
                    all.push(value.clone());
                }
            }
            if all.len() > MAX_VALUES { Held::Anything } else { Held::OneOf(all) }
        }
        _ => Held::Anything,
    }
}

/// Builds the words that one word of the script becomes.
#[derive(Default)]
struct Builder {
    /// Words that are complete: an unquoted variable can hold several.
    done: Vec<Value>,
    text: String,
    /// There is a word even if its text is empty.
    exists: bool,
    kind: Option<UnknownKind>,
    /// The word as a glob pattern, as long as nothing but globs is unknown in it.
    pattern: Option<String>,
    /// No splitting and no globbing takes place.
    whole: bool,
}

impl Builder {
    fn text(&mut self, text: &str, quoted: bool) {
        self.exists |= quoted || !text.is_empty();
        if let Some(pattern) = &mut self.pattern {
            pattern.push_str(&globset::escape(text));
        }
        match self.kind {
            // What follows something unknown adds nothing to the known prefix.
            Some(_) => {
                if self.kind == Some(UnknownKind::Number) && !text.is_empty() {
                    self.kind = Some(UnknownKind::One);
                }
            }
            None => self.text.push_str(text),
        }
    }

    fn worsen(&mut self, kind: UnknownKind) {
        self.exists = true;
        if kind != UnknownKind::Glob {
            self.pattern = None;
        }
        let rank = |kind: UnknownKind| match kind {
            UnknownKind::Number => 0,
            UnknownKind::One => 1,
            UnknownKind::Glob => 2,
            UnknownKind::Split => 3,
        };
        self.kind = Some(match self.kind {
            Some(known) if rank(known) >= rank(kind) && known != UnknownKind::Number => known,
            Some(UnknownKind::Number) if kind == UnknownKind::Number => UnknownKind::One,
            _ => kind,
        });
    }

    fn number(&mut self) {
        let first = self.kind.is_none();
        self.worsen(if first { UnknownKind::Number } else { UnknownKind::One });
    }

    /// The result may be negative, so at the start of a word it may look like an option.
    fn arithmetic(&mut self) {
        if self.text.is_empty() { self.worsen(UnknownKind::One) } else { self.number() }
    }

    fn unknown(&mut self, quoted: bool) {
        let one = quoted || self.whole;
        self.worsen(if one { UnknownKind::One } else { UnknownKind::Split });
    }

    fn glob(&mut self, sign: char) {
        if self.whole {
            self.text(sign.encode_utf8(&mut [0; 4]), false);
        } else {
            if self.kind.is_none() && sign != '[' {
                self.pattern = Some(globset::escape(&self.text));
            } else if sign == '[' {
                self.pattern = None;
            }
            self.worsen(UnknownKind::Glob);
            if let Some(pattern) = &mut self.pattern {
                pattern.push(sign);
            }
        }
    }

    fn begins(&mut self, prefix: &str, glob: Option<&str>, quoted: bool) {
        let head = (self.kind.is_none()).then(|| globset::escape(&self.text));
        if self.kind.is_none() {
            self.text.push_str(prefix);
        }
        self.unknown(quoted);
        // Behind known text and without splitting, the word is still known to fit a pattern.
        if let (Some(head), Some(glob)) = (head, glob)
            && (quoted || self.whole)
        {
            self.pattern = Some(head + glob);
        }
    }

    /// A variable's known value: unquoted it is split at blanks, and its globs expand.
    fn value(&mut self, value: &str, quoted: bool) {
        if quoted || self.whole {
            return self.text(value, true);
        }
        if value.contains(['*', '?', '[', '\\']) || self.kind.is_some() {
            return self.unknown(false);
        }
        let mut parts = value.split([' ', '\t', '\n']).peekable();
        while let Some(part) = parts.next() {
            self.text(part, false);
            if parts.peek().is_some() && (self.exists || !self.text.is_empty()) {
                self.done.push(Value::Known(std::mem::take(&mut self.text)));
                self.exists = false;
            }
        }
    }

    fn finish(mut self, word: &Word) -> Vec<Value> {
        match self.kind {
            Some(kind) => {
                let prefix = std::mem::take(&mut self.text);
                let text = short(&word.raw);
                let fits = matches!(kind, UnknownKind::Glob | UnknownKind::One);
                let glob = self.pattern.take().filter(|_| fits);
                self.done.push(Value::Unknown(Unknown { text, prefix, kind, glob }));
            }
            None if self.exists || word.pieces.is_empty() => {
                self.done.push(Value::Known(self.text));
            }
            None => {}
        }
        self.done
    }
}
