//! The face of a run: what people and programs see of it while it goes on and when it has ended.
//!
//! Takes Events and the final record; decides nothing. Besides `app` this is the only place that
//! prints.
//!
//! **Streams.** stdout carries one thing: the final message, or one JSON object per line with
//! `--json`. Everything else goes to stderr: a spinner on a terminal, plain lines elsewhere. A stream
//! that closes, fills up or stalls never ends a run, and never holds up its end ([`Output`]).
//!
//! **Text of tools and of the model** is never printed raw: control characters are made visible, and
//! nothing of it can be read as a command by the host of a job ([`text`]).
//!
//! - [`Reporter`] — Events in, lines out. [`events`] maps Events to the JSON stream.
//! - [`ResultRecord`] — `result.json`; [`summary`] — `summary.md`; [`github`] — the files and
//!   commands of GitHub Actions.

pub mod events;
pub mod github;
mod human;
mod output;
mod reporter;
mod result;
pub mod rollout_show;
mod schema;
mod spinner;
pub mod summary;
pub mod text;
mod write;

#[cfg(test)]
mod tests;

pub use output::{Finished, Output, StreamEnd};
pub use reporter::{Finish, HEARTBEAT, Mode, Reporter, ReporterOptions};
pub use result::{
    ArtifactPaths, ChangedFile, Check, CommandLog, Cost, Denial, Digests, Ending, HookRuns, Prices,
    ResultRecord, ToolCalls, UsageCounts,
};
pub use schema::{events_schema, result_schema};
pub use write::{WriteError, write_atomic, write_result};
