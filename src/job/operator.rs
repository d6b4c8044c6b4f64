//! What the operator changes himself: `turnkey patch` and `turnkey apply`.
//!
//! No model and no policy has a part in it. The journal lies in a folder of its own for each tree,
//! under a lock: two commands do not change one tree at a time, and what a kill cut is settled by
//! the next command for the same tree.

use super::find::FoundRun;
use super::folder::private_folder;
use super::prepare::{Refusal, unavailable};
use crate::protocol::{Outcome, State};
use crate::rollout::{Reader, Record, WorkspaceIdentity};
use crate::workspace::git::GitPlace;
use crate::workspace::{ApplyFailure, CommitError, Limits, Options, Workspace, shown};
use rustix::fs::FlockOperation;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const TURN_DIFF: &str = "turn.diff";
/// A longer diff is refused: it would be held in memory several times.
const MAX_DIFF: u64 = 1 << 30;

/// The answer to a change that the operator asked for.
#[derive(Debug)]
pub struct Answer {
    /// What was found on the way, for people.
    pub told: Vec<String>,
    /// What was done, or why nothing was, with a hint.
    pub done: Result<Vec<String>, (String, String)>,
}

/// Applies a patch text to a folder.
pub fn apply_patch(
    text: &str,
    folder: &Path,
    dry_run: bool,
    bases: &[PathBuf],
) -> Result<Answer, Refusal> {
    let place = Place::open(&existing(folder)?, dry_run, bases)?;
    let done = place.workspace.apply_patch(text, dry_run);
    place.answer(done)
}

/// Applies the Turn diff of a run to the checkout that `folder` lies in.
pub fn apply_run(
    found: &FoundRun,
    folder: &Path,
    dry_run: bool,
    bases: &[PathBuf],
) -> Result<Answer, Refusal> {
    let recorded = Recorded::read(found)?;
    let diff = recorded.diff(found)?;
    let folder = existing(folder)?;
    // Paths of the diff are relative to the repository's root, or to the workspace without git.
    let root = match recorded.workspace.repository_root {
        Some(_) => GitPlace::discover(&folder).map_or(folder, |place| place.work_root),
        None => folder,
    };
    let place = Place::open(&root, dry_run, bases)?;
    let done = place.workspace.apply_diff(&diff, dry_run);
    place.answer(done)
}

fn invalid(reason: &str, message: String, hint: &str) -> Refusal {
    Box::new(Outcome::new(State::Invalid, reason, message).hint(hint))
}

fn existing(folder: &Path) -> Result<PathBuf, Refusal> {
    folder.canonicalize().map_err(|error| {
        invalid("workspace", format!("{}: {error}", folder.display()), "name an existing folder")
    })
}

/// What the record says of a run's diff.
struct Recorded {
    run: String,
    workspace: WorkspaceIdentity,
    /// SHA-256 of the diff; absent where the run did not come to make one.
    digest: Option<String>,
}

impl Recorded {
    fn read(found: &FoundRun) -> Result<Self, Refusal> {
        let broken = |error: crate::rollout::RolloutError| {
            invalid("apply.record", error.to_string(), error.hint())
        };
        let mut last: Option<Self> = None;
        for entry in Reader::open(&found.rollout).map_err(broken)? {
            match entry.map_err(broken)?.record {
                Record::RunStarted(started) => {
                    let named = |one: &Self| found.id.as_deref() == Some(one.run.as_str());
                    if last.as_ref().is_some_and(named) {
                        break;
                    }
                    let run = started.run.to_string();
                    last = Some(Self { run, workspace: started.workspace, digest: None });
                }
                Record::Diff(diff) => {
                    if let Some(last) = &mut last {
                        last.digest = Some(diff.digest);
                    }
                }
                _ => {}
            }
        }
        last.ok_or_else(|| {
            let text = format!("{}: the record names no run", found.rollout.display());
            invalid("apply.record", text, "name another run")
        })
    }

    /// The diff as the run wrote it, byte for byte.
    fn diff(&self, found: &FoundRun) -> Result<Vec<u8>, Refusal> {
        let folders = found.folder.iter().map(PathBuf::as_path).chain(found.rollout.parent());
        let mut looked = Vec::new();
        for path in folders.map(|folder| folder.join(TURN_DIFF)) {
            let mut bytes = Vec::new();
            let read =
                File::open(&path).and_then(|file| file.take(MAX_DIFF + 1).read_to_end(&mut bytes));
            match read {
                Ok(_) if bytes.len() as u64 > MAX_DIFF => {
                    let text = format!("{} is longer than {MAX_DIFF} bytes", path.display());
                    return Err(invalid("apply.diff", text, "apply it with git apply"));
                }
                Ok(_) => return self.checked(bytes, &path),
                Err(error) => looked.push(format!("{}: {error}", path.display())),
            }
        }
        let text = format!("the run {} has no {TURN_DIFF} ({})", self.run, looked.join("; "));
        let hint = "a run that was killed, or whose diff holds a secret, has none; result.json says \
                    which, and turnkey resume goes on with it";
        Err(invalid("apply.diff", text, hint))
    }

    fn checked(&self, bytes: Vec<u8>, path: &Path) -> Result<Vec<u8>, Refusal> {
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        if self.digest.as_ref() == Some(&digest) {
            return Ok(bytes);
        }
        let text = format!("{} is not the diff that the run {} recorded", path.display(), self.run);
        let hint = "take the artifacts as the run left them, byte for byte";
        Err(invalid("apply.digest", text, hint))
    }
}

/// A tree that is about to be changed, and its lock.
struct Place {
    workspace: Workspace,
    told: Vec<String>,
    _lock: File,
}

impl Place {
    fn open(root: &Path, dry_run: bool, bases: &[PathBuf]) -> Result<Self, Refusal> {
        let store = store_of(root, bases)
            .map_err(|why| unavailable("folder.run", why, "set HOME to a folder outside of it"))?;
        let lock = store.join(".lock");
        let failed = |error: std::io::Error| {
            unavailable("folder.run", format!("{}: {error}", lock.display()), "")
        };
        let lock =
            File::options().create(true).truncate(false).write(true).open(&lock).map_err(failed)?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
            let text = format!("another turnkey changes {} right now", root.display());
            unavailable("workspace.lock", text, "wait until it is done")
        })?;
        let options =
            Options { exclude: Vec::new(), store: store.clone(), limits: Limits::default() };
        let wrong = |error: crate::workspace::WorkspaceError| {
            unavailable("workspace.open", error.to_string(), error.hint().unwrap_or_default())
        };
        let workspace = Workspace::open(root, options).map_err(wrong)?;
        let mut told = Vec::new();
        // A question changes nothing, not even for the better.
        if !dry_run {
            for settled in workspace.recover(&store).map_err(wrong)? {
                let how = if settled.finished { "finished" } else { "undone" };
                let paths: Vec<String> = settled.paths.iter().map(|path| shown(path)).collect();
                let paths = paths.join(", ");
                told.push(format!("a change that was cut short before is {how} now: {paths}"));
            }
        }
        Ok(Self { workspace, told, _lock: lock })
    }

    fn answer(self, done: Result<Vec<String>, ApplyFailure>) -> Result<Answer, Refusal> {
        let done = match done {
            Ok(lines) => Ok(lines),
            Err(failure @ ApplyFailure::Unreadable(_)) => {
                return Err(invalid("patch", failure.to_string(), ""));
            }
            Err(failure @ ApplyFailure::Commit(CommitError::Torn { .. })) => {
                return Err(unavailable("workspace.torn", failure.to_string(), failure.hint()));
            }
            Err(failure) => Err((failure.to_string(), failure.hint().to_owned())),
        };
        Ok(Answer { told: self.told, done })
    }
}

/// The folder for the journal of one tree, outside of it.
fn store_of(root: &Path, bases: &[PathBuf]) -> Result<PathBuf, String> {
    let digest = Sha256::digest(root.as_os_str().as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut refused = Vec::new();
    for base in bases {
        let made = || -> std::io::Result<PathBuf> {
            let inside = |path: &Path| path.starts_with(root);
            if inside(&std::path::absolute(base)?) {
                return Err(std::io::Error::other("it lies in the tree itself"));
            }
            private_folder(base)?;
            let base = base.canonicalize()?;
            if inside(&base) {
                return Err(std::io::Error::other("it lies in the tree itself"));
            }
            private_folder(&base.join("patch"))?;
            let store = base.join("patch").join(&name);
            private_folder(&store)?;
            Ok(store)
        };
        match made() {
            Ok(store) => return Ok(store),
            Err(error) => refused.push(format!("{}: {error}", base.display())),
        }
    }
    Err(format!("no folder for the journal can be had: {}", refused.join("; ")))
}
