//! A Run from settings to artifacts: the rooms put together, once, for one Outcome.

mod artifacts;
mod ask;
mod assemble;
mod collect;
mod compact;
mod container;
mod find;
mod folder;
mod isolate;
mod logs;
mod operator;
mod outcome;
mod past;
mod places;
mod prepare;
mod prompt;
mod replay;
mod replay_live;
mod replay_recorded;
mod resume;
mod run;
mod trace;

pub use artifacts::{ARTIFACT_NAMES, Artifacts};
pub use ask::{AskedPolicy, bind_policy};
pub use collect::{Collected, DeniedCall};
pub use compact::{Edited, compact, roll_back};
pub use find::{FoundRun, find_run};
pub use folder::RunFolder;
pub use logs::{CommandLog, RunLogs};
pub use operator::{Answer, apply_patch, apply_run};
pub use past::{Past, PastTurn};
pub use prepare::{MakeTools, Prepared, RunInput, dry_run, prepare};
pub use prompt::{SentPrompt, sent_prompt};
pub use replay::{Difference, Replayed, Tools, recorded_settings, replay};
pub use resume::{GO_ON, Going, Kind};
pub use run::{Controls, Face, Leftover, RunEnd, run};
