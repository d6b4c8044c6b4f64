//! The rollout: the append-only JSONL record of a Session, from which everything else is a
//! projection. Where a report, a result or a message disagrees with it, the rollout wins.
//!
//! One record is one line and one write:
//!
//! ```text
//! {"v":1,"seq":N,"ts":"…Z","type":"…", …fields of the type…,"prev":"<SHA-256 of the line before>"}
//! ```
//!
//! `prev` is the hash (hex) of the line before without its newline, 64 zeros on the first line. The
//! chain shows damage, not forgery: who can write the file can also write a new chain.
//!
//! - [`RolloutWriter`] owns the file through a thread of its own; what [`RolloutWriter::flush`]
//!   confirmed is on disk, whatever kills the process afterwards.
//! - [`read`] and [`Reader`] skip and count what they cannot read, and name a Turn without an end.
//! - [`Masker`] stands in front of the file: known secrets never reach the disk.

mod copy;
mod cut;
mod error;
mod file;
mod held;
mod journal;
mod line;
mod mask;
mod read;
mod record;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

pub use cut::{char_ceil, char_floor};
pub use error::RolloutError;
pub use held::{Continued, HeldRollout, branch_off, is_held};
pub use line::{MAX_LINE, VERSION, ZERO_HASH};
pub use mask::{MIN_SECRET, Masker, REPLACEMENT, SkippedSecret, StreamMasker};
pub use read::{BadLine, ChainBreak, Entry, ReadReport, Reader, Rollout, read};
pub use record::{
    ApprovalRecord, CheckPhase, CheckRecord, CompactedRecord, DiffRecord, FileChangeRecord,
    FileStatus, HookRecord, ProcessEndedRecord, Record, RunFinishedRecord, RunStartedRecord,
    StepStartedRecord, TurnContextRecord, UsageRecord, WorkspaceIdentity,
};
pub use verify::{VerifyReport, verify};
pub use writer::{Confirmed, RolloutWriter};
