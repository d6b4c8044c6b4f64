//! Tokens, words and their pieces.

/// Why a script, or a part of it, can't be known before it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The text that can't be known, shortened.
    pub part: String,
    /// Why, in a sentence without a full stop.
    pub reason: String,
    pub line: u32,
    pub column: u32,
}

/// A script, or the inside of a `$(…)`, in tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lexed {
    pub tokens: Vec<Token>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub line: u32,
    pub column: u32,
    /// The next token follows without a blank.
    pub glued: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind {
    Operator(&'static str),
    Word(Word),
    /// The body of the here-document whose delimiter stands right before.
    Document(Word),
}

/// A word in pieces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// As it stands in the script.
    pub raw: String,
    pub pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that is what it says, quotes taken off.
    Text { text: String, quoted: bool },
    /// `$name`, `${name}` and the few forms with a literal operand.
    Parameter { name: String, form: Form, quoted: bool },
    /// `$(…)`
    Substitution { inner: Lexed, quoted: bool },
    /// `$((…))` of numbers and names.
    Arithmetic { text: String, names: Vec<String> },
    /// Unquoted `*`, `?` or `[`.
    Glob(char),
    /// An unquoted `~` where bash looks up a home.
    Tilde,
    /// An unquoted `{a,b}` or `{1..3}`.
    Brace,
}

/// What a parameter expansion does with the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The value itself.
    Plain,
    /// A number: a length, a count, an exit status.
    Number,
    /// Some other text made of the value: a part cut off, a default in its place.
    Changed,
}

impl Word {
    /// The word as bash would pass it, when nothing in it expands.
    pub fn literal(&self) -> Option<String> {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text: part, .. } => text.push_str(part),
                _ => return None,
            }
        }
        Some(text)
    }

    /// Whether no quote and no expansion stands in it: only then bash sees keywords, assignments
    /// and file-descriptor numbers.
    pub fn is_plain(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::Text { quoted: false, .. }))
            && self.literal().is_some_and(|text| text == self.raw)
    }

    /// The name when the word begins as `name=` or `name+=` outside quotes.
    pub fn assigned_name(&self) -> Option<(&str, bool)> {
        let Some(Piece::Text { text, quoted: false }) = self.pieces.first() else { return None };
        let (head, _) = text.split_once('=')?;
        let (name, append) = match head.strip_suffix('+') {
            Some(name) => (name, true),
            None => (head, false),
        };
        let good = !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        // The raw text must begin alike: `\a=b` and `a"b"=c` assign nothing.
        (good && self.raw.starts_with(head)).then_some((name, append))
    }

    /// The word without its `name=` in front.
    pub fn assigned_value(&self) -> Self {
        let mut pieces = self.pieces.clone();
        if let Some(Piece::Text { text, quoted: false }) = pieces.first_mut()
            && let Some((_, value)) = text.split_once('=')
        {
            *text = value.to_owned();
        }
        pieces.retain(
            |piece| !matches!(piece, Piece::Text { text, quoted: false } if text.is_empty()),
        );
        let raw = self.raw.split_once('=').map(|(_, value)| value).unwrap_or_default();
        Self { raw: raw.to_owned(), pieces }
    }

    /// Whether it begins as `name[…` and bash might read on behind blanks for the `]`.
    pub fn is_open_subscript(&self) -> bool {
        let end = self.raw.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(0);
        let rest = self.raw.get(end..).unwrap_or_default();
        if end == 0 || self.raw.starts_with(|c: char| c.is_ascii_digit()) || !rest.starts_with('[')
        {
            return false;
        }
        rest.matches('[').count() != rest.matches(']').count()
            || rest.contains(['\'', '"', '\\', '$', '`'])
    }

    /// Whether it looks like an assignment to an array element, `name[…]=…`.
    pub fn is_element_assignment(&self) -> bool {
        let end = self.raw.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let starts_as_name = !self.raw.starts_with(|c: char| c.is_ascii_digit());
        starts_as_name
            && end.is_some_and(|end| {
                end > 0 && self.raw.get(end..).is_some_and(|rest| rest.starts_with('['))
            })
            && self.raw.contains('=')
    }
}

/// Text cut to what a message can hold, on a character boundary.
pub fn short(text: &str) -> String {
    let shown = |c: char| if c.is_control() && c != '\n' && c != '\t' { '\u{fffd}' } else { c };
    let mut short: String = text.chars().take(120).map(shown).collect();
    if text.chars().nth(120).is_some() {
        short.push('…');
    }
    short
}

impl Lexed {
    /// Nothing but blanks, comments and line ends.
    pub fn is_empty(&self) -> bool {
        self.tokens.iter().all(|token| token.kind == TokenKind::Operator("\n"))
    }

    /// The words, when there is nothing else, line ends around them aside.
    pub fn only_words(&self) -> Option<Vec<&Word>> {
        let is_end = |token: &&Token| token.kind == TokenKind::Operator("\n");
        let tokens: Vec<&Token> = self.tokens.iter().skip_while(|token| is_end(token)).collect();
        let ends = tokens.iter().rev().take_while(|token| is_end(token)).count();
        let mut words = Vec::new();
        for token in tokens.get(..tokens.len() - ends)? {
            match &token.kind {
                TokenKind::Word(word) => words.push(word),
                _ => return None,
            }
        }
        (!words.is_empty()).then_some(words)
    }
}
