//! Why a diff could not be applied.

/// The closed list of ways in which applying fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ApplyErrorKind {
    /// The text is no diff of the form this room writes.
    Malformed,
    /// A path that is absolute, climbs, or enters `.git`.
    Path,
    /// The file to change is not there.
    Missing,
    /// A file to create is there already.
    Exists,
    /// The file is there, but with other content or another mode than the diff starts from.
    Mismatch,
    /// The result is not what the diff says it is.
    Result,
}

/// One failure; nothing is applied then.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the diff{}: {message}", shown(path))]
pub struct ApplyError {
    pub kind: ApplyErrorKind,
    /// The 1-based line of the diff.
    pub line: usize,
    pub path: Option<Vec<u8>>,
    pub message: String,
}

impl ApplyError {
    pub(super) fn new(kind: ApplyErrorKind, line: usize, message: impl Into<String>) -> Self {
        Self { kind, line, path: None, message: message.into() }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self.kind {
            ApplyErrorKind::Malformed | ApplyErrorKind::Path => {
                "use the diff as the run wrote it, byte for byte; an edited or trimmed one is refused"
            }
            ApplyErrorKind::Missing | ApplyErrorKind::Mismatch => {
                "check out the state the run started from; with uncommitted changes then, apply \
                 start.diff first"
            }
            ApplyErrorKind::Exists => "move the file out of the way, or check out the start state",
            ApplyErrorKind::Result => "the diff is damaged; take it from the run's artifacts again",
        }
    }

    pub(super) fn at(mut self, path: &[u8]) -> Self {
        self.path = Some(path.to_vec());
        self
    }
}

fn shown(path: &Option<Vec<u8>>) -> String {
    match path {
        Some(path) => format!(" ({})", String::from_utf8_lossy(path).escape_debug()),
        None => String::new(),
    }
}
