//! Going on from a record: what must be the same, what the model is told, and where the record goes
//! on.
//!
//! A resumed Session keeps its id and its record: the file gets a second name in the folder of the
//! new run, and the new run's records follow those of the old one. A fork gets a new id and a copy.
//! Nothing that was called is called again; the files are looked at anew.

use super::find::FoundRun;
use super::folder::RunFolder;
use super::past::{Past, PastFold};
use crate::context::{self, History, Interruption};
use crate::protocol::{Fragment, Item, Outcome, SessionId, State, ToolCall};
use crate::rollout::{
    Continued, HeldRollout, Masker, RolloutError, RolloutWriter, branch_off, char_floor,
};
use crate::session::Answered;
use crate::spec::{Isolate, Settings};
use crate::workspace::{Recovered, Workspace, WorkspaceError, shown};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The task of a resumed run where none is given.
pub const GO_ON: &str = "Go on with the task from where the last Turn stopped, and finish it.";

/// How a record is gone on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Resume,
    Fork,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Resume => "resume",
            Self::Fork => "fork",
        }
    }
}

/// A record that a run goes on from.
pub struct Going {
    pub kind: Kind,
    pub past: Past,
    /// The policy or the workspace may be another than the record's.
    pub accept_changes: bool,
    /// The operator gave a task, which wants an answer of its own.
    pub follow_up: bool,
    found: FoundRun,
    /// Absent for a fork of a run that is at work.
    held: Option<HeldRollout>,
}

impl Going {
    /// Reads the record; for a resume under its lock, which a runner at work holds.
    pub fn open(found: FoundRun, kind: Kind, accept_changes: bool) -> Result<Self, Box<Outcome>> {
        let mut fold = PastFold::default();
        let (past, held) = match HeldRollout::open(&found.rollout, &mut |entry| fold.take(entry)) {
            Ok((held, _)) => (fold.finish(), Some(held)),
            Err(RolloutError::Locked { .. }) if kind == Kind::Fork => {
                let (past, _) =
                    Past::read(&found.rollout, None).map_err(|error| refused(&error))?;
                (past, None)
            }
            Err(error) => return Err(refused(&error)),
        };
        if past.run.is_none() {
            let text = format!(
                "{}: the record does not say how its run was set up, so nothing can go on from it",
                found.rollout.display()
            );
            return Err(Box::new(
                Outcome::new(State::Invalid, "resume.record", text)
                    .hint("start again with turnkey exec"),
            ));
        }
        let going = Self { kind, past, accept_changes, follow_up: false, found, held };
        match going.lost_inputs() {
            true => Err(Box::new(
                Outcome::new(
                    State::Invalid,
                    "resume.record",
                    "the run was killed before the model was told anything, and its inputs are not \
                     in the record",
                )
                .hint("nothing was done yet: start again with turnkey exec"),
            )),
            false => Ok(going),
        }
    }

    /// Texts of inputs are no settings; they are in the history or nowhere.
    fn lost_inputs(&self) -> bool {
        let had_inputs = self
            .settings()
            .as_object()
            .is_some_and(|rows| rows.keys().any(|key| key.starts_with("inputs.")));
        had_inputs && self.past.untold_task.is_some()
    }

    /// The task where the operator gave none: the one that the model was not told, or to go on.
    pub fn task(&self) -> &str {
        self.past.untold_task.as_deref().unwrap_or(GO_ON)
    }

    /// The final message that needs no other: nobody asks for more, and neither the files nor what
    /// the model is told (`fresh`) are different from what it knew.
    fn answer(&self, fresh: &[Item], files: &FilesSince) -> Option<Answered> {
        let asked = self.follow_up || self.past.untold_task.as_deref().is_some_and(|t| t != GO_ON);
        let told = |item: &&Item| {
            let environment =
                matches!(item, Item::Message { fragment: Some(Fragment::Environment), .. });
            !environment && self.is_new(item)
        };
        let new = asked || files.changed || fresh.iter().any(|item| told(&item));
        self.past.answer.clone().filter(|_| !new && self.past.answer_stands())
    }

    /// The settings of the last run, as recorded.
    pub fn settings(&self) -> &Value {
        self.past.run.as_ref().map_or(&Value::Null, |run| &run.settings)
    }

    /// What relative paths of the settings, and of the model's name, are relative to.
    pub fn folders(&self) -> (PathBuf, PathBuf) {
        self.past.run.as_ref().map_or_else(Default::default, |run| {
            (PathBuf::from(&run.folder), PathBuf::from(&run.model_folder))
        })
    }

    /// Untrusted data once in the history stays there.
    pub fn was_untrusted(&self) -> bool {
        self.past.run.as_ref().is_some_and(|run| run.untrusted)
    }

    pub fn session(&self) -> SessionId {
        match (&self.past.run, self.kind) {
            (Some(run), Kind::Resume) => run.session.clone(),
            _ => SessionId::new(),
        }
    }

    /// Refuses another policy or another workspace, unless the operator said that he knows.
    pub fn check(&self, digest: &str, workspace: &Path, copied: bool) -> Result<(), Box<Outcome>> {
        let Some(run) = self.past.run.as_ref().filter(|_| !self.accept_changes) else {
            return Ok(());
        };
        let hint = "take it back, or say that you know with --accept-changes";
        let refuse = |reason: &str, text: String| {
            Err(Box::new(Outcome::new(State::Invalid, reason, text).hint(hint)))
        };
        if run.policy_digest != digest {
            let text = format!(
                "the policy is not the one that the session worked under (digest {} then, {} now)",
                short(&run.policy_digest),
                short(digest)
            );
            return refuse("resume.policy", text);
        }
        let then = Path::new(&run.workspace.root);
        if !copied && then != workspace {
            let text = format!(
                "the workspace is not the one that the session worked in ({} then, {} now)",
                then.display(),
                workspace.display()
            );
            return refuse("resume.workspace", text);
        }
        Ok(())
    }

    /// The copy that an isolated run worked on, for the next run to go on in.
    pub fn copy_to_go_on_in(
        &self,
        folder: &RunFolder,
        isolate: Isolate,
    ) -> Result<Option<PathBuf>, Box<Outcome>> {
        let then = self.old_copy(folder).filter(|path| holds_something(path));
        let was_copy = self.past.run.as_ref().is_some_and(|run| {
            run.settings.pointer("/isolate/value").and_then(Value::as_str) == Some("copy")
        });
        match (isolate, then) {
            (Isolate::Copy, Some(copy)) if self.kind == Kind::Resume => Ok(Some(copy)),
            (Isolate::Copy, _) if was_copy && !self.accept_changes => Err(Box::new(
                Outcome::new(
                    State::Invalid,
                    "resume.copy",
                    "the copy that the session worked on is gone: it is removed at the end of a run",
                )
                .hint(
                    "apply its turn.diff to the workspace first, then go on with --accept-changes",
                ),
            )),
            _ => Ok(None),
        }
    }

    /// The copy that the last run worked on, which may be that of a run before it: it has to be a
    /// folder of ours.
    fn old_copy(&self, folder: &RunFolder) -> Option<PathBuf> {
        let root = Path::new(&self.past.run.as_ref()?.workspace.root);
        let copies = folder.dir.parent()?.parent()?.join("copy");
        (root.parent() == Some(copies.as_path())).then(|| root.to_owned())
    }

    /// Finishes or undoes a patch that a kill cut, before anything else touches the workspace.
    pub fn recover(
        &self,
        folder: &RunFolder,
        workspace: &Workspace,
    ) -> Result<Vec<Recovered>, WorkspaceError> {
        match self.old_folder(folder, "store") {
            Some(store) if store.is_dir() && self.held.is_some() => workspace.recover(&store),
            _ => Ok(Vec::new()),
        }
    }

    /// Refuses a tree whose protected places are not what the killed run found them: its command may have
    /// done that, and nobody was left to undo it.
    pub fn check_protected(
        &self,
        folder: &RunFolder,
        workspace: &mut Workspace,
    ) -> Result<(), Box<Outcome>> {
        const SHOWN: usize = 10;
        let store = self.old_folder(folder, "store").filter(|_| self.held.is_some());
        let Some(store) = store.filter(|store| !self.accept_changes && store.is_dir()) else {
            return Ok(());
        };
        let mut found = workspace.protected_since(&store).map_err(|error| {
            Box::new(Outcome::new(State::Unavailable, "workspace.open", error.to_string()))
        })?;
        if found.is_empty() {
            return Ok(());
        }
        let more = found.len().saturating_sub(SHOWN);
        found.truncate(SHOWN);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        let text = format!(
            "the run was killed, and protected places are not what it found them: {}{more}",
            found.join("; ")
        );
        let hint = "a command may have done that, and the runner could not undo it: put them back, \
                    start again in a fresh checkout, or say that you know with --accept-changes";
        Err(Box::new(Outcome::new(State::Invalid, "resume.protected", text).hint(hint)))
    }

    /// Removes what the processes of the killed run left behind; `copy` is still worked on.
    pub fn remove_leftovers(&self, folder: &RunFolder) {
        if self.held.is_none() || self.kind == Kind::Fork {
            return;
        }
        for kind in ["scratch", "hooks", "checks", "store", "copy"] {
            if let Some(path) = self.old_folder(folder, kind).filter(|path| *path != folder.copy) {
                super::folder::remove_tree(&path);
            }
        }
    }

    /// A working folder of the run that is gone on from, beside those of the new run.
    fn old_folder(&self, folder: &RunFolder, kind: &str) -> Option<PathBuf> {
        let id = self.past.run.as_ref()?.run.as_str();
        let plain = !id.is_empty() && !id.contains('/') && !id.starts_with('.');
        let base = folder.dir.parent()?.parent()?;
        (plain && id != folder.id.as_str()).then(|| base.join(kind).join(id))
    }

    /// The record of the new run.
    pub fn continue_record(
        &mut self,
        folder: &RunFolder,
        masker: Arc<Masker>,
        warnings: &mut Vec<String>,
    ) -> Result<RolloutWriter, RolloutError> {
        const NAME: &str = "rollout.jsonl";
        let held = self.held.take();
        match (self.kind, held) {
            (Kind::Resume, Some(held)) => {
                let same = self.found.own;
                let (writer, how) = held.continue_in(&folder.dir, NAME, same, masker)?;
                if same && how == Continued::Copy {
                    warnings.push(format!(
                        "the record could not be shared with {}; it goes on as a copy, and later \
                         runs must resume this one",
                        self.found.rollout.display()
                    ));
                }
                Ok(writer)
            }
            (_, held) => {
                let made = branch_off(&self.found.rollout, &folder.dir, NAME, masker, &mut |_| {});
                drop(held);
                made.map(|(writer, _)| writer)
            }
        }
    }

    pub fn history(&mut self) -> History {
        let items = std::mem::take(&mut self.past.history);
        History::recorded(items, self.past.not_started.clone())
    }

    /// What goes after the recorded history: rules and permissions that are no longer the same, the
    /// environment, and the mark of the interruption; with the final message that stands, if one does.
    pub fn opening(
        &self,
        fresh: Vec<Item>,
        files: FilesSince,
        settings: Vec<String>,
    ) -> (Vec<Item>, Option<Answered>) {
        if self.past.history.is_empty() {
            // Everything was rolled back, or nothing was said yet: it begins anew.
            return (fresh, None);
        }
        let answered = self.answer(&fresh, &files);
        let mut about = Interruption { settings, ..Interruption::default() };
        about.files = files.lines;
        about.answered = answered.is_some();
        about.cut_short = self.past.cut_short();
        about.unmet = self.past.unmet.clone();
        about.unknown = self.past.unknown.iter().map(in_words).collect();
        about.not_started = self.past.unbegun.iter().map(in_words).collect();
        let mut items: Vec<Item> = fresh.into_iter().filter(|item| self.is_new(item)).collect();
        // A follow-up does not take the place of a task that the model was never told.
        let untold = self.past.untold_task.as_ref().filter(|task| self.follow_up && *task != GO_ON);
        items.extend(untold.map(|task| context::task(task)));
        items.push(context::interruption(&about));
        (items, answered)
    }

    /// Whether the model has not been told exactly this. The environment is told again always.
    fn is_new(&self, item: &Item) -> bool {
        match item {
            Item::Message { fragment: Some(Fragment::Environment), .. } => true,
            item => !self.past.history.iter().any(|told| told.as_ref() == item),
        }
    }
}

/// Settings whose value differs from the recorded one, in words.
pub fn changed_settings(then: &Value, now: &Settings) -> Vec<String> {
    // Where things are told and put is no setting of the work; the task is told anyway.
    const ASIDE: &[&str] = &["task", "artifacts", "json", "quiet", "color", "workspace", "policy"];
    let rows = now.rows();
    let changed = rows.iter().filter(|row| !ASIDE.contains(&row.key.as_str())).filter_map(|row| {
        let before = then.get(&row.key).and_then(|row| row.get("value")).unwrap_or(&Value::Null);
        (*before != row.value && !same_path(before, &row.value))
            .then(|| format!("{}: {} before, {} now", row.key, before, row.value))
    });
    changed.collect()
}

/// A relative path of the record is absolute in the settings made from it.
fn same_path(then: &Value, now: &Value) -> bool {
    match (then, now) {
        (Value::String(then), Value::String(now)) => {
            Path::new(now).is_absolute() && Path::new(now).ends_with(then.trim_start_matches("./"))
        }
        (Value::Array(then), Value::Array(now)) => {
            then.len() == now.len() && then.iter().zip(now).all(|(a, b)| a == b || same_path(a, b))
        }
        (Value::Object(then), Value::Object(now)) => {
            then.len() == now.len()
                && then
                    .iter()
                    .all(|(key, a)| now.get(key).is_some_and(|b| a == b || same_path(a, b)))
        }
        _ => false,
    }
}

/// What became of the files since the last record.
#[derive(Debug, Default)]
pub struct FilesSince {
    /// For the model, in words.
    pub lines: Vec<String>,
    /// They are known not to be as the last Turn left them.
    pub changed: bool,
}

/// What became of the files: patches that were cut, the commit, and whether the tree is as it was.
pub fn files_since(
    past: &Past,
    recovered: &[Recovered],
    workspace: &mut Workspace,
) -> Result<FilesSince, WorkspaceError> {
    const SHOWN: usize = 50;
    let mut lines = Vec::new();
    let mut changed = !recovered.is_empty();
    for patch in recovered {
        let paths: Vec<String> = patch.paths.iter().map(|path| shown(path)).collect();
        let what = if patch.finished {
            "was being put in place when the run was killed; it is whole now"
        } else {
            "was being put in place when the run was killed; it was undone, nothing of it is there"
        };
        lines.push(format!("the patch to {} {what}", paths.join(", ")));
    }
    let then = past.run.as_ref().and_then(|run| run.workspace.head.clone());
    let now = workspace.git().and_then(|git| git.head.commit).map(|commit| commit.hex());
    if then != now {
        changed = true;
        let name = |head: &Option<String>| {
            head.as_deref().map_or("none".to_owned(), |hex| short(hex).to_owned())
        };
        lines.push(format!("the commit checked out was {} and is {}", name(&then), name(&now)));
    }
    lines.extend(past.undone.iter().cloned());
    if !past.changed.is_empty() {
        let mut names: Vec<&str> = past.changed.iter().map(String::as_str).collect();
        let more = names.len().saturating_sub(SHOWN);
        names.truncate(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("changed by the Turns before: {}{more}", names.join(", ")));
    }
    let Some(end_tree) = &past.end_tree else {
        if past.turns.last().is_some_and(|turn| turn.end.is_none() && turn.steps > 0) {
            lines.push(
                "what the last step changed is not recorded; look before you rely on it".into(),
            );
        }
        return Ok(FilesSince { lines, changed });
    };
    workspace.capture_start()?;
    let tree = workspace.turn_changes()?.start_tree.map(|tree| tree.hex());
    lines.push(match tree {
        Some(tree) if tree == *end_tree => "all files are as the last Turn left them".into(),
        Some(_) => {
            changed = true;
            "files were changed since the last Turn ended; read again what you rely on".into()
        }
        None => "whether files were changed since the last Turn ended is not known".into(),
    });
    Ok(FilesSince { lines, changed })
}

/// A call in one line.
pub fn in_words(call: &ToolCall) -> String {
    const MAX: usize = 300;
    let text = call.payload.as_str();
    let end = char_floor(text, MAX);
    let cut = if end < text.len() { " …" } else { "" };
    let line: String = text[..end].chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("{} ({}): {line}{cut}", call.name, call.call_id)
}

fn short(hex: &str) -> &str {
    hex.get(..12).unwrap_or(hex)
}

fn holds_something(path: &Path) -> bool {
    std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_some())
}

/// An error of the record as the end of a run that did not begin.
pub fn refused(error: &RolloutError) -> Box<Outcome> {
    let state = match error {
        RolloutError::Locked { .. } | RolloutError::Io { .. } => State::Unavailable,
        _ => State::Invalid,
    };
    Box::new(
        Outcome::new(state, error.reason(), error.to_string())
            .hint(error.hint())
            .retryable(matches!(error, RolloutError::Locked { .. })),
    )
}
