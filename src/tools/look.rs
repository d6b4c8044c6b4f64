//! The look at the workspace after a command: what it changed, and whether it left protected places alone.
//!
//! Protected places that are known are put back before the command's result is told. The walk that finds
//! all else goes on beside that, while the result is recorded and the model is asked: it holds the
//! workspace, so whatever wants that next waits for it, and no call begins before it is over.

use super::{ToolWorld, processes};
use crate::workspace::{By, CallRef, Observed, Workspace, WorkspaceError};
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

/// Files of a workspace up to which the next request waits for the walk, so that it tells what the command
/// changed: a few milliseconds. In a larger one that is told with the request after it; by size and not by
/// time, so that the same run asks the same every time.
const SOON: usize = 10_000;

/// What a look at the workspace found, besides what the workspace keeps itself.
#[derive(Debug, Default)]
pub struct Look {
    /// Protected places that were changed and put back.
    pub undone: Vec<String>,
    /// Commands that were ended because of that.
    pub ended: Vec<u32>,
    pub error: Option<String>,
}

impl Look {
    /// For the model and the operator.
    pub fn text(&self) -> Option<String> {
        if self.undone.is_empty() && self.ended.is_empty() {
            return None;
        }
        let mut text =
            format!("protected files were changed and put back: {}", self.undone.join("; "));
        if !self.ended.is_empty() {
            let ids: Vec<String> = self.ended.iter().map(ToString::to_string).collect();
            text.push_str(&format!("; for that, sessions were ended: {}", ids.join(", ")));
        }
        Some(text)
    }

    pub fn warnings(&self) -> Vec<String> {
        let failed = |error: &String| {
            format!("the workspace could not be looked at after a command: {error}")
        };
        self.text().into_iter().chain(self.error.as_ref().map(failed)).collect()
    }

    fn breached(&mut self, world: &ToolWorld, why: String) {
        world.breached(why.clone());
        self.error = Some(why);
    }

    fn add(&mut self, world: &ToolWorld, undone: Result<Vec<String>, WorkspaceError>) {
        match undone {
            Ok(undone) => self.undone.extend(undone),
            // The run is no success any more.
            Err(error) => self.breached(world, error.to_string()),
        }
    }
}

/// What the walk after a command found.
#[derive(Debug)]
pub struct LateLook {
    pub call: CallRef,
    pub look: Look,
}

impl LateLook {
    fn after(&self, texts: impl IntoIterator<Item = String>) -> Vec<String> {
        let CallRef { id, by } = &self.call;
        let after = if *by == By::Hook { "the hook" } else { "the call" };
        texts.into_iter().map(|text| format!("after {after} {id}: {text}")).collect()
    }

    /// For the model.
    pub fn told(&self) -> Vec<String> {
        self.after(self.look.text())
    }

    /// For the operator.
    pub fn warnings(&self) -> Vec<String> {
        self.after(self.look.warnings())
    }
}

/// The walk that is under way, and what earlier ones found that nobody was told yet.
#[derive(Default)]
pub struct Looks {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    walk: Option<Walk>,
    found: Vec<LateLook>,
}

impl Looks {
    async fn keep(&self, late: LateLook) {
        self.inner.lock().await.keep(late);
    }
}

impl Inner {
    fn keep(&mut self, late: LateLook) {
        if late.look.text().is_some() || late.look.error.is_some() {
            self.found.push(late);
        }
    }
}

struct Walk {
    call: CallRef,
    look: JoinHandle<Look>,
    /// What was known before it, where the next request does not wait for it.
    before: Option<Observed>,
}

/// What is known when a command's result is told.
struct Front {
    look: Look,
    before: Option<Observed>,
}

/// Looks at the workspace after a command.
///
/// Putting back must not race with a process. Where something else still runs and a protected place
/// differs, whatever runs is ended first: one of them did it, and nobody can tell which.
pub(super) async fn look(world: &Arc<ToolWorld>, call: CallRef, ended: bool) -> Look {
    settle_walk(world).await;
    let mut look = Look::default();
    let running = world.processes.running();
    if running.is_empty() && ended {
        return begin(world, call).await;
    }
    if !running.is_empty() {
        match world.with_workspace(|workspace| workspace.protected_differ()).await {
            Ok(false) => {}
            Ok(true) => {
                join_all(running.iter().map(|process| process.end("protected"))).await;
                look.ended = running.iter().map(|process| process.id).collect();
            }
            Err(error) => look.breached(world, error.to_string()),
        }
    }
    let alone = world.processes.running().is_empty();
    if alone {
        put_back(world, &mut look).await;
    }
    let looked = world.with_workspace(move |workspace| {
        if ended {
            workspace.after_command(&call)?;
        } else {
            workspace.while_command_runs(&call)?;
        }
        Ok(workspace.has_intruders())
    });
    match looked.await {
        Ok(false) => {}
        Ok(true) if alone => take_intruders_away(world, &mut look).await,
        Ok(true) => end_for_intruders(world, &mut look).await,
        // What was not seen was not taken away.
        Err(error) => look.breached(world, error.to_string()),
    }
    look
}

/// Nothing runs any more: puts back what is known, and leaves the walk at work.
async fn begin(world: &Arc<ToolWorld>, call: CallRef) -> Look {
    let (sender, front) = oneshot::channel();
    let (of_walk, after) = (world.clone(), call.clone());
    let walk = tokio::task::spawn_blocking(move || {
        // Held from before the front is told until the walk is over: nothing comes in between.
        let mut workspace = of_walk.workspace();
        let mut look = Look::default();
        look.add(&of_walk, workspace.put_protected_back());
        let is_late = workspace.size() > SOON && workspace.has_outline();
        let before = is_late.then(|| workspace.observe().ok()).flatten();
        let _ = sender.send(Front { look, before });
        walk(&of_walk, &mut workspace, &after)
    });
    match front.await {
        Ok(Front { look, before }) => {
            world.looks.inner.lock().await.walk = Some(Walk { call, look: walk, before });
            look
        }
        Err(_) => {
            // It broke before it had put anything back.
            world.breached("the look after a command broke".into());
            match walk.await {
                Ok(look) => look,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
    }
}

fn walk(world: &ToolWorld, workspace: &mut Workspace, call: &CallRef) -> Look {
    let mut look = Look::default();
    match workspace.after_command(call) {
        Ok(_) if workspace.has_intruders() => look.add(world, workspace.take_intruders_away()),
        Ok(_) => {}
        // What was not seen was not taken away.
        Err(error) => look.breached(world, error.to_string()),
    }
    look
}

/// Waits until the tree is looked at after all that has ended: sessions that nobody looked after yet, and
/// the walk that is under way.
pub async fn settle_look(world: &Arc<ToolWorld>) {
    settle_walk(world).await;
    for process in world.processes.not_looked_after() {
        let Some(look) = processes::look_after(world, &process).await else { continue };
        settle_walk(world).await;
        let call = CallRef::command(process.call_id.as_str());
        world.looks.keep(LateLook { call, look }).await;
    }
}

/// Waits for the walk that is under way, if one is.
async fn settle_walk(world: &Arc<ToolWorld>) {
    let mut inner = world.looks.inner.lock().await;
    let Some(walk) = &mut inner.walk else { return };
    let mut look = Look::default();
    match (&mut walk.look).await {
        Ok(found) => look = found,
        Err(panic) => look.breached(world, format!("the look after a command broke: {panic}")),
    }
    let Some(Walk { call, .. }) = inner.walk.take() else { return };
    inner.keep(LateLook { call, look });
}

/// What walks found since the last time; that of one that is still under way comes later.
pub async fn late_looks(world: &ToolWorld) -> Vec<LateLook> {
    std::mem::take(&mut world.looks.inner.lock().await.found)
}

/// What the next request tells of the tree: as it is after all walks, or in a large workspace as it was
/// known before the one that is under way.
pub async fn observe(world: &Arc<ToolWorld>) -> Result<Observed, WorkspaceError> {
    let before = |walk: &Walk| walk.before.clone();
    if let Some(before) = world.looks.inner.lock().await.walk.as_ref().and_then(before) {
        return Ok(before);
    }
    settle_look(world).await;
    world.with_workspace(|workspace| workspace.observe()).await
}

/// Puts protected places back as they were. Where that fails, the run is no success any more.
async fn put_back(world: &Arc<ToolWorld>, look: &mut Look) {
    look.add(world, world.with_workspace(|workspace| workspace.put_protected_back()).await);
}

async fn take_intruders_away(world: &Arc<ToolWorld>, look: &mut Look) {
    look.add(world, world.with_workspace(|workspace| workspace.take_intruders_away()).await);
}

/// The walk found protected names that are new, and something still runs that could make them again.
async fn end_for_intruders(world: &Arc<ToolWorld>, look: &mut Look) {
    let running = world.processes.running();
    join_all(running.iter().map(|process| process.end("protected"))).await;
    look.ended.extend(running.iter().map(|process| process.id));
    put_back(world, look).await;
    take_intruders_away(world, look).await;
}

/// A command or hook is about to begin: the start of the Turn and the protected places are taken down, and
/// what changed before now is not its doing.
pub(super) async fn take_down(world: &Arc<ToolWorld>, call: CallRef) -> Result<(), WorkspaceError> {
    settle_look(world).await;
    world
        .with_workspace(move |workspace| {
            workspace.capture_start()?;
            workspace.watch_protected()?;
            workspace.command_started(call);
            Ok(())
        })
        .await
}
