//! The patch room: edits that a model writes as text, made exact.
//!
//! A patch is read ([`parse`]), planned against the files it names ([`plan`]), and only then handed
//! to the door that writes. Nothing here touches a disk: file contents come in through [`Files`],
//! and a [`Plan`] goes out in which everything is verified, so that the door has nothing left to
//! decide. That is how a patch is all or nothing.
//!
//! The grammar, one construct a line (`PATH` is a plain name, or quoted the way git quotes names):
//!
//! ```text
//! patch     = "*** Begin Patch" operation+ "*** End Patch"
//! operation = "*** Add File: PATH"    ("+" text)*
//!           | "*** Delete File: PATH"
//!           | "*** Update File: PATH" ["*** Move to: PATH"] chunk*
//! chunk     = ("@@" [" " anchor])* (" " text | "-" text | "+" text)+ ["*** End of File"]
//! ```
//!
//! The first chunk of an Update may come without `@@`; several `@@` lines in a row narrow the place
//! down, each found after the one before. An Update needs a chunk, a move, or both. The text may
//! come plain, in a here-document, in a code fence, or inside JSON (see `envelope.rs`).
//!
//! What parsing does not check: whether files exist, whether the text fits. That is `plan.rs`.

mod edit;
mod envelope;
mod error;
mod lines;
mod matching;
mod nearest;
mod parse;
mod paths;
mod place;
mod plan;
mod push;
mod rewrite;
mod shell;
#[cfg(test)]
mod tests;

pub use edit::edit;
pub use error::{PatchError, PatchErrorKind, shorten};
pub use parse::parse;
pub use paths::{PathAction, PathRef, normalise, paths};
pub use plan::{Change, FileState, Files, NEW_FILE_MODE, NewFile, Plan, plan};
pub use push::{Parser, Progress, Watcher};
pub use shell::{ShellPatch, from_argv, from_shell};

/// The longest patch text that is read. Longer ones are refused by name, not cut.
pub const MAX_PATCH_BYTES: usize = 64 * 1024 * 1024;
/// The largest file that a patch may change.
pub const MAX_FILE_BYTES: usize = 64 * 1024 * 1024;
/// The most operations in one patch.
pub const MAX_OPERATIONS: usize = 20_000;

/// A patch as it was written; nothing in it has been compared with a file yet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Patch {
    pub operations: Vec<Operation>,
}

/// One thing that a patch does. `line` is the line of its header in the patch text; paths are as
/// written, unquoted but not normalised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    Add { line: usize, path: String, content: Vec<u8> },
    Delete { line: usize, path: String },
    Update { line: usize, path: String, move_to: Option<String>, chunks: Vec<Chunk> },
}

/// One place in a file where lines change.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chunk {
    /// The line of the patch where the chunk begins.
    pub line: usize,
    /// The text of each `@@` line that has any.
    pub anchors: Vec<String>,
    pub lines: Vec<ChunkLine>,
    /// The chunk ends with the file.
    pub end_of_file: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    Context,
    Remove,
    Add,
}

/// One line of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkLine {
    /// Where it stands in the patch.
    pub line: usize,
    pub kind: LineKind,
    /// Without prefix and line ending.
    pub text: String,
    /// The line ended in CR LF although the patch as a whole does not.
    pub carriage: bool,
    /// An empty line without even its prefix: perhaps context, perhaps only spacing.
    pub unprefixed: bool,
    /// `\ No newline at end of file` followed.
    pub no_newline: bool,
}
