//! What is known of one word of a command before it runs.

/// A word: known, or known only in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Known(String),
    Unknown(Unknown),
}

/// A word that an expansion makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// As it stands in the script, for people.
    pub text: String,
    /// What each resulting word surely begins with.
    pub prefix: String,
    pub kind: UnknownKind,
    /// The whole pattern of a word that only globs make unknown, literal signs escaped.
    pub glob: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnknownKind {
    /// Exactly one word with any content.
    One,
    /// Exactly one word: the prefix and a whole number.
    Number,
    /// One or more names of files that match a glob; none holds more `/` than the glob.
    Glob,
    /// Any number of any words.
    Split,
}

impl Unknown {
    pub fn is_one_word(&self) -> bool {
        matches!(self.kind, UnknownKind::One | UnknownKind::Number)
    }
}

impl Value {
    pub fn known(text: impl Into<String>) -> Self {
        Self::Known(text.into())
    }

    pub fn as_known(&self) -> Option<&str> {
        match self {
            Self::Known(text) => Some(text),
            Self::Unknown(_) => None,
        }
    }

    /// Whether it may become more or fewer words than one.
    pub fn is_many(&self) -> bool {
        matches!(self, Self::Unknown(unknown) if !unknown.is_one_word())
    }

    /// Whether a program could take it, or a word that comes of it, for an option whose name is not
    /// known.
    pub fn may_be_unknown_option(&self) -> bool {
        let Self::Unknown(unknown) = self else { return false };
        match unknown.kind {
            UnknownKind::Split => true,
            UnknownKind::Number => unknown.prefix.starts_with('-') && !unknown.prefix.contains('='),
            UnknownKind::One | UnknownKind::Glob => {
                unknown.prefix.is_empty()
                    || (unknown.prefix.starts_with('-') && !unknown.prefix.contains('='))
            }
        }
    }

    /// For people.
    pub fn display(&self) -> &str {
        match self {
            Self::Known(text) => text,
            Self::Unknown(unknown) => &unknown.text,
        }
    }
}
