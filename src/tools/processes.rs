//! Commands that outlive their call: the table of them, and their ends.
//!
//! At the most [`MAX_LIVE`] run at once. One that has ended stays in the table until the model was told
//! how; the Turn's end empties it.

use super::ToolWorld;
use super::denials::Origin;
use super::look::{Look, look};
use crate::clock;
use crate::context::Cap;
use crate::exec::{Live, ProcessEnd as Ended};
use crate::protocol::{CallId, ProcessEnd, RuleRef};
use crate::workspace::CallRef;
use futures_util::future::join_all;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Commands that may run beside each other.
pub const MAX_LIVE: usize = 16;
/// Commands that have ended and that the model never asked for; the oldest make room.
const MAX_ENDED: usize = 16;
/// Bytes of a command line for people.
const SHOWN: usize = 200;
/// Bytes of output that the model is told at the Turn's end.
const LAST_WORDS: usize = 2 * 1024;

/// One command that outlived its call.
pub struct Process {
    pub id: u32,
    pub call_id: CallId,
    /// For people, shortened and masked.
    pub command: String,
    /// What allowed it, and with it all that is typed into it.
    pub rule: RuleRef,
    pub(super) origin: Origin,
    pub live: Live,
    state: Mutex<Known>,
}

/// How a command began.
pub(super) struct Begun<'a> {
    /// Masked.
    pub command: &'a str,
    pub origin: Origin,
    pub rule: RuleRef,
}

#[derive(Debug, Default)]
struct Known {
    /// Who asked for its end.
    ended_by: Option<&'static str>,
    /// The workspace was looked at after its end.
    looked_after: bool,
    recorded: bool,
    told: bool,
}

impl Process {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_over(&self) -> bool {
        self.live.end().is_some()
    }

    /// The model knows how it ended.
    pub(super) fn told(&self) {
        self.known().told = true;
    }

    /// Ends it with everything it started; the first who asked stands as the reason.
    pub async fn end(&self, by: &'static str) {
        if !self.is_over() {
            self.known().ended_by.get_or_insert(by);
            self.live.end_now().await;
        }
    }

    /// What is printed and recorded of its end.
    fn summary(&self) -> Option<ProcessEnd> {
        let end = self.live.end()?;
        let asked = self.known().ended_by;
        let (exit_code, signal, ended_by, duration_ms) = match end {
            Ok(end) => {
                let (code, signal, by) = match end.end {
                    Ended::Exited(code) => (Some(code), None, None),
                    Ended::Signaled(signal) => (None, Some(signal), None),
                    Ended::TimedOut => (None, None, Some("timeout")),
                    Ended::Cancelled => (None, None, asked.or(Some("cancelled"))),
                };
                (code, signal, by, clock::millis(end.duration))
            }
            Err(_) => (None, None, Some("lost"), clock::millis_since(self.live.began())),
        };
        Some(ProcessEnd {
            session_id: self.id,
            call_id: self.call_id.clone(),
            command: self.command.clone(),
            exit_code,
            signal,
            ended_by: ended_by.map(str::to_owned),
            output_bytes: self.live.total(),
            duration_ms,
        })
    }
}

/// The commands of a run that outlived their call.
#[derive(Default)]
pub struct Processes {
    inner: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    last: u32,
    list: Vec<Arc<Process>>,
}

impl Processes {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all(&self) -> Vec<Arc<Process>> {
        self.table().list.clone()
    }

    /// Those that still run, oldest first.
    pub fn running(&self) -> Vec<Arc<Process>> {
        self.all().into_iter().filter(|process| !process.is_over()).collect()
    }

    /// Those that have ended since the workspace was looked at.
    pub(super) fn not_looked_after(&self) -> Vec<Arc<Process>> {
        let mut all = self.all();
        all.retain(|process| process.is_over() && !process.known().looked_after);
        all
    }

    pub fn find(&self, id: u32) -> Option<Arc<Process>> {
        self.all().into_iter().find(|process| process.id == id)
    }

    /// Why no further command may outlive its call, naming those that run.
    pub(super) fn full(&self) -> Option<String> {
        let running = self.running();
        (running.len() >= MAX_LIVE).then(|| {
            format!(
                "nothing ran: {MAX_LIVE} commands run already, which is the limit; end one of them \
                 (write_stdin with close) or wait for it:\n{}",
                names(&running)
            )
        })
    }

    /// What there is, for a call that named something else.
    pub(super) fn names(&self) -> String {
        let all = self.all();
        if all.is_empty() { "no command runs".into() } else { names(&all) }
    }

    pub(super) fn add(&self, call_id: CallId, begun: Begun<'_>, live: Live) -> Arc<Process> {
        let mut table = self.table();
        table.last += 1;
        let process = Arc::new(Process {
            id: table.last,
            call_id,
            command: Cap::head(begun.command, SHOWN).replace('\n', " "),
            rule: begun.rule,
            origin: begun.origin,
            live,
            state: Mutex::default(),
        });
        table.list.push(process.clone());
        process
    }

    /// Forgets what was told and recorded, and the oldest of what nobody asks for.
    fn forget_old(&self) {
        let mut table = self.table();
        table.list.retain(|process| {
            let known = process.known();
            !(known.told && known.recorded)
        });
        let over = |process: &Arc<Process>| process.is_over() && process.known().recorded;
        let mut surplus = table.list.iter().filter(|process| over(process)).count();
        table.list.retain(|process| {
            let drop = surplus > MAX_ENDED && over(process);
            surplus -= usize::from(drop);
            !drop
        });
    }
}

fn names(processes: &[Arc<Process>]) -> String {
    let line = |process: &Arc<Process>| {
        let state = if process.is_over() { ", ended" } else { "" };
        format!("- session {}{state}: {}", process.id, process.command)
    };
    processes.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A command that outlived its call and has ended.
pub struct Settled {
    pub process: ProcessEnd,
    pub warnings: Vec<String>,
}

/// Everything that has ended and was not recorded yet, looked after.
pub async fn settle(world: &Arc<ToolWorld>) -> Vec<Settled> {
    let mut settled = Vec::new();
    for process in world.processes.all() {
        let Some(summary) = process.summary() else { continue };
        if process.known().recorded {
            continue;
        }
        let mut warnings = look_after(world, &process).await.map(|look| look.warnings());
        if let Some(Ok(end)) = process.live.end()
            && end.left > 0
        {
            let text = format!("{} processes of a command could not be ended", end.left);
            warnings.get_or_insert_default().push(text);
        }
        process.known().recorded = true;
        settled.push(Settled { process: summary, warnings: warnings.unwrap_or_default() });
    }
    world.processes.forget_old();
    settled
}

/// The look after the end of a command that outlived its call; once.
pub(super) async fn look_after(world: &Arc<ToolWorld>, process: &Process) -> Option<Look> {
    if std::mem::replace(&mut process.known().looked_after, true) {
        return None;
    }
    Some(look(world, CallRef::command(process.call_id.as_str()), true).await)
}

/// Ends whatever still runs, all at once, and empties the table.
pub async fn end_all(world: &Arc<ToolWorld>, by: &'static str) -> Vec<Settled> {
    let running = world.processes.running();
    join_all(running.iter().map(|process| process.end(by))).await;
    let settled = settle(world).await;
    world.processes.table().list.clear();
    settled
}

/// What still runs, each with what it printed last, for the model.
pub fn last_words(world: &ToolWorld) -> Vec<String> {
    let describe = |process: &Arc<Process>| {
        let output = super::exec_command::masked(&process.live.take_output(), true, world);
        let output = Cap::middle(output.trim_end(), LAST_WORDS);
        let output = if output.is_empty() {
            "it printed nothing since you looked last".to_owned()
        } else {
            format!("printed since you looked last:\n{output}")
        };
        format!("session {} ({}): {output}", process.id, process.command)
    };
    world.processes.running().iter().map(describe).collect()
}
