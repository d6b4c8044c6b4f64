//! Reading a patch while it still arrives.
//!
//! A large patch streams in for many seconds. The [`Watcher`] names each file as soon as its
//! header line is complete, so that people see what is being written. The names are progress, not
//! truth: the patch itself is read once, whole, with the same reader as ever ([`Parser::finish`]).

use super::envelope::BEGIN;
use super::error::PatchError;
use super::parse::{Header, header};
use super::{Patch, PathAction, normalise, parse, paths};

/// A file that the arriving patch names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub action: PathAction,
    pub path: String,
}

/// The longest line whose beginning is watched; headers are shorter.
const MAX_HEADER: usize = 8 * 1024;

/// A push parser for patch text, or for the JSON arguments of a call that carry it: it watches, and
/// keeps the text for the end.
#[derive(Debug, Default)]
pub struct Parser {
    text: String,
    watcher: Watcher,
}

/// The watching alone; holds no more than one line. Text that never begins a patch names nothing,
/// so the arguments of any call can be watched.
#[derive(Debug, Default)]
pub struct Watcher {
    mode: Mode,
    /// The beginning of the line being read.
    line: String,
    begun: bool,
    inside_update: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Nothing but white space so far.
    #[default]
    Start,
    Plain,
    /// JSON, outside a string.
    Json,
    /// JSON, inside a string.
    JsonText,
    /// JSON, after a backslash.
    JsonEscape,
    /// JSON, inside `\uXXXX`: digits still due, value so far.
    JsonUnicode(u8, u32),
}

impl Parser {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece and says which files it named. Pieces may be cut anywhere.
    pub fn feed(&mut self, piece: &str) -> Vec<Progress> {
        // Beyond the limit the text is refused anyway, by its length; keeping more is of no use.
        if self.text.len() <= super::MAX_PATCH_BYTES {
            self.text.push_str(piece);
        }
        self.watcher.feed(piece)
    }

    /// The whole patch.
    pub fn finish(self) -> Result<Patch, PatchError> {
        parse(&self.text)
    }
}

impl Watcher {
    /// Takes the next piece and says which files it named. Pieces may be cut anywhere.
    pub fn feed(&mut self, piece: &str) -> Vec<Progress> {
        let mut events = Vec::new();
        for character in piece.chars() {
            self.character(character, &mut events);
        }
        events
    }

    fn character(&mut self, character: char, events: &mut Vec<Progress>) {
        match self.mode {
            Mode::Start if character.is_whitespace() || character == '\u{feff}' => {}
            Mode::Start => {
                self.mode = match character {
                    '{' | '[' => Mode::Json,
                    '"' => Mode::JsonText,
                    _ => Mode::Plain,
                };
                if self.mode == Mode::Plain {
                    self.text_character(character, events);
                }
            }
            Mode::Plain => self.text_character(character, events),
            Mode::Json if character == '"' => self.mode = Mode::JsonText,
            Mode::Json => {}
            Mode::JsonText => self.json_text(character, events),
            Mode::JsonEscape => self.json_escape(character, events),
            Mode::JsonUnicode(due, value) => self.json_unicode(character, due, value, events),
        }
    }

    fn json_text(&mut self, character: char, events: &mut Vec<Progress>) {
        match character {
            '\\' => self.mode = Mode::JsonEscape,
            '"' => {
                self.mode = Mode::Json;
                self.text_character('\n', events);
            }
            other => self.text_character(other, events),
        }
    }

    fn json_escape(&mut self, character: char, events: &mut Vec<Progress>) {
        self.mode = Mode::JsonText;
        match character {
            'n' => self.text_character('\n', events),
            't' => self.text_character('\t', events),
            'r' => self.text_character('\r', events),
            'u' => self.mode = Mode::JsonUnicode(4, 0),
            other => self.text_character(other, events),
        }
    }

    fn json_unicode(&mut self, character: char, due: u8, value: u32, events: &mut Vec<Progress>) {
        let value = value * 16 + character.to_digit(16).unwrap_or(0);
        if due > 1 {
            self.mode = Mode::JsonUnicode(due - 1, value);
            return;
        }
        self.mode = Mode::JsonText;
        // Halves of surrogate pairs become a replacement mark: good enough for a progress line.
        self.text_character(char::from_u32(value).unwrap_or('\u{fffd}'), events);
    }

    fn text_character(&mut self, character: char, events: &mut Vec<Progress>) {
        if character != '\n' {
            if self.line.len() < MAX_HEADER {
                self.line.push(character);
            }
            return;
        }
        let line = std::mem::take(&mut self.line);
        if let Some(event) = self.announce(&line) {
            events.push(event);
        }
        self.line = line;
        self.line.clear();
    }

    fn announce(&mut self, line: &str) -> Option<Progress> {
        if !self.begun {
            // As a shell word it stands behind the command's name and a quote.
            self.begun = line.trim_end().ends_with(BEGIN);
            return None;
        }
        // Inside an update a padded header is a context line.
        let found = header(if self.inside_update { line } else { line.trim() })?;
        let (action, path) = match found {
            Header::Add(path) => (PathAction::Add, path),
            Header::Delete(path) => (PathAction::Delete, path),
            Header::Update(path) => (PathAction::Update, path),
            Header::Move(path) => (PathAction::MoveTo, path),
            Header::EndOfFile => return None,
            Header::End => {
                (self.begun, self.inside_update) = (false, false);
                return None;
            }
        };
        self.inside_update = matches!(action, PathAction::Update | PathAction::MoveTo);
        let path = paths::read(path, 0).ok()?;
        Some(Progress { action, path: normalise(&path).unwrap_or(path) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "*** Begin Patch\n*** Add File: ./neu/ä.rs\n+*** Delete File: no\n\
                         *** Update File: b\n*** Move to: c\n@@\n *** Delete File: no\n+x\n\
                         *** Delete File: d\n*** End Patch\n";

    fn names(pieces: impl Iterator<Item = String>) -> (Vec<String>, Result<Patch, PatchError>) {
        let mut parser = Parser::new();
        let mut names = Vec::new();
        for piece in pieces {
            names.extend(
                parser.feed(&piece).iter().map(|e| format!("{} {}", e.action.verb(), e.path)),
            );
        }
        (names, parser.finish())
    }

    #[test]
    fn files_are_named_as_they_come_wherever_the_text_is_cut() {
        let expected = ["add neu/ä.rs", "update b", "move to c", "delete d"];
        let json = serde_json::json!({ "input": PATCH }).to_string();
        let escaped = json.replace('ä', "\\u00e4");
        for text in [PATCH, &json, &escaped] {
            let (named, patch) = names(text.chars().map(String::from));
            assert_eq!(named, expected);
            assert_eq!(patch, parse(PATCH));
            let (named, _) = names(std::iter::once(text.to_owned()));
            assert_eq!(named, expected);
        }
    }

    #[test]
    fn arguments_that_are_no_patch_name_nothing() {
        let mut watcher = Watcher::default();
        assert_eq!(watcher.feed("{\"cmd\":\"*** Add File: a\\n\"}"), []);
        let script = serde_json::json!({ "cmd": format!("apply_patch \"{PATCH}\"") }).to_string();
        assert_eq!(Watcher::default().feed(&script).len(), 4);
    }

    #[test]
    fn a_header_is_told_before_the_rest_is_there() {
        let mut parser = Parser::new();
        assert_eq!(parser.feed("*** Begin Patch\n*** Add File: a"), []);
        assert_eq!(parser.feed("bc\n").len(), 1);
        assert!(parser.finish().is_err());
    }
}
