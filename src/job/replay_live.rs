//! Replay with tools that really run: in a copy of the recorded start, under the recorded policy, in
//! the sandbox. The copy is made from the blobs of the recorded commit and the run's `start.diff`; so
//! a run in a folder without git can be replayed from the record only. The copy that an isolated run
//! worked on is gone by then: its commit is in the repository that the copy was made from.

use super::find::FoundRun;
use super::isolate;
use super::prepare::{Refusal, RunInput, prepare};
use super::replay::{self, RecordedRun, Replayed, compare, model, rollout_in, throw_away};
use super::run::{Controls, Face, run};
use super::trace::Normal;
use crate::protocol::{Outcome, State};
use crate::rollout::Record;
use crate::spec::Isolate;
use crate::workspace::git::make_start;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) async fn replay(
    found: &FoundRun,
    recorded: Arc<RecordedRun>,
    mut input: RunInput,
    face: &mut dyn Face,
    mut controls: Controls,
) -> Result<Replayed, Refusal> {
    let holder = super::folder::RunFolder::create(&input.bases, &|_| false).map_err(|why| {
        let hint = "set HOME to a folder that can be written";
        Box::new(Outcome::new(State::Unavailable, "folder.run", why).hint(hint))
    })?;
    let answer = async {
        let root = start(found, &recorded, &input, &holder.copy)?;
        let then = recorded.started.workspace.root.trim_end_matches('/').to_owned();
        let mut places = vec![(root.display().to_string(), then)];
        // What lies around a workspace deeper inside is told of, too.
        let around = recorded.started.workspace.repository_root.clone().unwrap_or_default();
        places.push((holder.copy.display().to_string(), around));
        places.extend(policy_name(&input, &recorded));
        let normal = Normal { places };
        let model = Arc::new(model(&recorded, &normal));
        input.settings.workspace.value = root;
        input.settings.isolate.value = Isolate::None;
        input.model_instead = Some(model.clone());
        input.started = crate::clock::now();
        input.task.clone_from(&recorded.task);
        let mut prepared = prepare(input, None, &mut controls.signals).await?;
        if prepared.parts.world.policy.digest() != recorded.started.policy_digest {
            throw_away(&prepared.folder);
            return Err(Box::new(
                Outcome::new(
                    State::Invalid,
                    "replay.policy",
                    "the policy is not the recorded one, so its verdicts cannot be compared",
                )
                .hint("put the policy file back as it was, or use --tools recorded"),
            ));
        }
        prepared.parts.history = replay::history(&recorded);
        prepared.parts.opening = replay::opening(&recorded);
        prepared.parts.answered = replay::answer(&recorded);
        prepared.parts.config.untrusted = recorded.context.untrusted;
        let (_, leftover) = run(prepared, face, controls).await;
        let answer =
            compare(&recorded, &rollout_in(&leftover.folder), model.divergence(), &normal, "live");
        throw_away(&leftover.folder);
        answer
    };
    let answer = answer.await;
    throw_away(&holder);
    answer
}

/// The policy file as it is named now, and as it was.
fn policy_name(input: &RunInput, recorded: &RecordedRun) -> Option<(String, String)> {
    let now = input.settings.policy.value.as_ref()?.display().to_string();
    let then = recorded.started.policy.get("file").and_then(Value::as_str)?;
    (now != then).then(|| (now, then.to_owned()))
}

/// Makes the recorded start; the workspace in it.
fn start(
    found: &FoundRun,
    recorded: &RecordedRun,
    input: &RunInput,
    to: &Path,
) -> Result<PathBuf, Refusal> {
    let no_start = |text: String| {
        Box::new(
            Outcome::new(State::Invalid, "replay.start", text)
                .hint("use --tools recorded, which needs nothing but the record"),
        )
    };
    let workspace = &recorded.started.workspace;
    let (Some(repository), Some(commit)) = (&workspace.repository_root, &workspace.head) else {
        return Err(no_start(
            "the run did not start from a commit, so its start cannot be made again".into(),
        ));
    };
    let diff = start_diff(found, recorded, &input.bases)?;
    let branch = branch(recorded);
    let worked_in = Path::new(repository);
    let source = match input.settings.isolate.value {
        Isolate::None => worked_in.to_owned(),
        Isolate::Copy => copied_from(&input.settings.workspace.value),
    };
    make_start(&source, commit, branch.as_deref(), diff.as_deref(), to)
        .map_err(|error| no_start(format!("the recorded start cannot be made again: {error}")))?;
    let inside = Path::new(&workspace.root).strip_prefix(worked_in).unwrap_or(Path::new(""));
    let root = to.join(inside);
    std::fs::create_dir_all(&root)
        .map_err(|error| no_start(format!("{}: {error}", root.display())))?;
    root.canonicalize().map_err(|error| no_start(format!("{}: {error}", root.display())))
}

/// The tree that an isolated run copied.
fn copied_from(workspace: &Path) -> PathBuf {
    isolate::tree_of(&workspace.canonicalize().unwrap_or_else(|_| workspace.to_owned()))
}

/// What the start had on top of its commit, if the run left that: in the folder that was named, or in
/// its own.
fn start_diff(
    found: &FoundRun,
    recorded: &RecordedRun,
    bases: &[PathBuf],
) -> Result<Option<Vec<u8>>, Refusal> {
    let own = super::find::own_folder(recorded.started.run.as_str(), bases);
    for folder in found.folder.iter().cloned().chain(own) {
        let path = folder.join("start.diff");
        match std::fs::read(&path) {
            Ok(bytes) => return Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => {
                let text = format!("{}: {error}", path.display());
                return Err(Box::new(Outcome::new(State::Unavailable, "replay.start", text)));
            }
        }
    }
    Ok(None)
}

/// The branch that was checked out, as the model was told.
fn branch(recorded: &RecordedRun) -> Option<String> {
    let told = recorded.records.iter().find_map(|record| match record {
        Record::WorldState { sections, .. } => sections.get("git").and_then(Value::as_str),
        _ => None,
    })?;
    let branch = told.split(" at ").next()?;
    (branch != "detached" && !branch.contains(',')).then(|| branch.to_owned())
}
