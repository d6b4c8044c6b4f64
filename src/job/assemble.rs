//! The parts of a Session put together, for a new one and for one that goes on from a record.

use super::artifacts::Artifacts;
use super::folder::RunFolder;
use super::hands::Hands;
use super::hooks;
use super::prepare::{
    Place, Refusal, RunInput, open_model, opening, turn_config, unavailable, verifier,
};
use super::resume::{self, Going};
use crate::context::History;
use crate::exec::sandbox::Grade;
use crate::model::Model;
use crate::protocol::{Item, RunId, SessionId};
use crate::rollout::{Masker, RolloutError, RolloutWriter};
use crate::session::SessionParts;
use crate::spec::Isolate;
use crate::tools::{Registry, ToolWorld, standard_tools};
use std::sync::Arc;

pub(super) struct Made {
    pub place: Place,
    pub exec_grades: Vec<Grade>,
    pub parts: SessionParts,
    pub parent: Option<(RunId, &'static str)>,
}

/// Puts a run together in its folder.
pub(super) async fn make(
    input: &mut RunInput,
    place: Place,
    folder: &mut RunFolder,
    artifacts: Option<&Artifacts>,
    masker: Arc<Masker>,
    warnings: &mut Vec<String>,
) -> Result<Made, Refusal> {
    let model = open_model(input)?;
    let mut place = place;
    let mut reused = None;
    if let Some(going) = &input.going {
        let copied = input.settings.isolate.value == Isolate::Copy;
        going.check(place.policy.digest(), &place.workspace, copied)?;
        reused = going.copy_to_go_on_in(folder, input.settings.isolate.value)?;
    }
    match reused {
        Some(copy) => {
            let _ = std::fs::remove_dir(std::mem::replace(&mut folder.copy, copy));
            place = place.moved(&folder.copy)?;
        }
        None => place = place.isolated(input, folder, artifacts, warnings).await?,
    }
    let exec = Hands::make(input, &place, folder, artifacts, masker.clone(), warnings).await?;
    folder.logs = exec.logs;
    let going = input.going.take();
    let parent = going
        .as_ref()
        .and_then(|going| Some((going.past.run.as_ref()?.run.clone(), going.kind.as_str())));
    let parts = match going {
        None => session_parts(input, &place, folder, exec.world, model, masker)?,
        Some(going) => {
            going_parts(input, going, &place, folder, exec.world, model, masker, warnings)?
        }
    };
    hooks::check_tools(&input.settings, &parts.registry)?;
    Ok(Made { place, exec_grades: exec.grades, parts, parent })
}

pub(super) fn session_parts(
    input: &RunInput,
    place: &Place,
    folder: &RunFolder,
    world: ToolWorld,
    model: Arc<dyn Model>,
    masker: Arc<Masker>,
) -> Result<SessionParts, Refusal> {
    let path = folder.dir.join("rollout.jsonl");
    let rollout = RolloutWriter::create(&path, masker).map_err(|error| no_record(&error))?;
    let opening = opening(input, &world)?;
    Ok(parts_of(input, place, folder, world, model, rollout, SessionId::new(), opening))
}

fn no_record(error: &RolloutError) -> Refusal {
    unavailable("rollout.create", error.to_string(), error.hint())
}

/// The parts of a Session that goes on from a record.
#[allow(clippy::too_many_arguments, reason = "each is a part of its own")]
pub(super) fn going_parts(
    input: &RunInput,
    mut going: Going,
    place: &Place,
    folder: &RunFolder,
    world: ToolWorld,
    model: Arc<dyn Model>,
    masker: Arc<Masker>,
    warnings: &mut Vec<String>,
) -> Result<SessionParts, Refusal> {
    let files = {
        let mut workspace = world.workspace();
        workspace.give_up_when(input.stopped.clone());
        let recovered = going.recover(folder, &workspace).map_err(|error| {
            let hint = "look at the files the message names; the journal says what was to be done";
            unavailable("resume.patch", error.to_string(), hint)
        })?;
        going.check_protected(folder, &mut workspace)?;
        let files = resume::files_since(&going.past, &recovered, &mut workspace)
            .map_err(|error| unavailable("workspace.open", error.to_string(), ""))?;
        // From here on a signal ends the run in order, and that needs to look.
        workspace.give_up_when(Arc::default());
        files
    };
    let settings = resume::changed_settings(going.settings(), &input.settings);
    warnings.extend(settings.iter().map(|line| format!("changed since the last run: {line}")));
    for call in &going.past.unknown {
        let call = resume::in_words(call);
        warnings
            .push(format!("whether this call took effect is unknown, it is not run again: {call}"));
    }
    let (opening, answered) = going.opening(opening(input, &world)?, files, settings);
    if answered.is_some() {
        warnings.push(
            "the final message of the Turn before is in the record and nothing is asked of it since: \
             the model is not asked again, the run goes on with the verification"
                .into(),
        );
    }
    going.remove_leftovers(folder);
    let rollout =
        going.continue_record(folder, masker, warnings).map_err(|error| no_record(&error))?;
    let session = going.session();
    let mut parts = parts_of(input, place, folder, world, model, rollout, session, opening);
    parts.history = going.history();
    parts.answered = answered;
    let mut verifier = verifier(&input.settings);
    verifier.demands.carried = going.past.changed;
    verifier.demands.carried_base = going.past.base_commit;
    parts.verifier = Arc::new(verifier);
    Ok(parts)
}

#[allow(clippy::too_many_arguments, reason = "each is a part of its own")]
fn parts_of(
    input: &RunInput,
    place: &Place,
    folder: &RunFolder,
    world: ToolWorld,
    model: Arc<dyn Model>,
    rollout: RolloutWriter,
    session: SessionId,
    opening: Vec<Item>,
) -> SessionParts {
    let world = Arc::new(world);
    let make = input.tools.unwrap_or(standard_tools);
    let registry = Arc::new(Registry::new(make(&world)));
    let config = turn_config(input, &place.policy, session.as_str());
    SessionParts {
        run: folder.id.to_string(),
        session,
        model,
        registry,
        world,
        verifier: Arc::new(verifier(&input.settings)),
        rollout,
        config,
        history: History::default(),
        opening,
        answered: None,
        replayed: None,
    }
}
