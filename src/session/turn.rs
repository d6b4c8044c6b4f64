//! One Turn: Steps until the model's final message, the verification of it, and feedback in between.

use super::contexts::TurnContext;
use super::emit::Emitter;
use super::limits::Ledger;
use super::{Answered, Memory, SessionParts, finish, hooked, processes, reserve, step, world};
use crate::context::{self, Cap};
use crate::protocol::{EventMsg, Item, TurnEnd, TurnSummary, Unmet};
use crate::rollout::{Record, TurnContextRecord};
use crate::tools::Halt;
use std::any::Any;
use std::sync::{Arc, Mutex as SyncMutex, PoisonError};
use tokio::sync::Mutex;

/// What a Turn came to so far; readable also after its Task broke.
#[derive(Default)]
pub(super) struct Progress {
    inner: SyncMutex<TurnSummary>,
}

impl Progress {
    pub fn update(&self, change: impl FnOnce(&mut TurnSummary)) {
        change(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub fn summary(&self, duration_ms: u64) -> TurnSummary {
        let summary = self.inner.lock().unwrap_or_else(PoisonError::into_inner).clone();
        TurnSummary { duration_ms, ..summary }
    }
}

/// A Turn's hands: what every part of it needs.
pub(super) struct Turn {
    pub context: TurnContext,
    pub parts: Arc<SessionParts>,
    pub emitter: Arc<Emitter>,
    pub progress: Arc<Progress>,
    pub ledger: Ledger,
    /// The model was told what still runs.
    pub told_processes: bool,
    /// What hooks had to say before the model is asked again.
    pub notes: Vec<Item>,
    /// Protected places that were put back, which the model was not told yet.
    pub undone: Vec<String>,
}

impl Turn {
    pub async fn emit(&self, msg: EventMsg) {
        self.emitter.emit(&self.context.submission, msg).await;
    }

    /// Puts an item into the record, then into the history, then into the events.
    pub async fn add_item(
        &self,
        memory: &mut Memory,
        item: Item,
        response_id: Option<String>,
    ) -> Result<(), TurnEnd> {
        let item = Arc::new(item);
        let record = Record::Item { step: self.ledger.steps, response_id, item: item.clone() };
        self.emitter.record(record).await.map_err(failed)?;
        memory.history.push(item.clone());
        self.emit(EventMsg::ItemDone { item }).await;
        Ok(())
    }

    /// The end that a cancelled Turn takes.
    pub fn aborted(&self) -> TurnEnd {
        let (reason, message) = self.context.cancel.why();
        TurnEnd::Aborted { reason, message }
    }
}

/// The final message that the model gave before it was told what still runs.
struct Said {
    message: String,
    calls: u32,
}

impl Said {
    /// The question was ours: where no answer can be had and nothing was done since, the Turn is as
    /// complete as it was.
    fn stands(&self, end: &TurnEnd, turn: &Turn) -> bool {
        let nothing_since = turn.ledger.calls.total == self.calls;
        matches!(end, TurnEnd::Failed { reason, .. } if reason.starts_with("model."))
            && nothing_since
    }
}

/// A record that cannot be written fails the Turn.
pub(super) fn failed(halt: Halt) -> TurnEnd {
    TurnEnd::Failed { reason: halt.reason, message: halt.message, retryable: true }
}

/// Runs a Turn to its end. The terminal event is the Session's to send.
pub(super) async fn run(
    context: TurnContext,
    parts: Arc<SessionParts>,
    emitter: Arc<Emitter>,
    memory: Arc<Mutex<Memory>>,
    progress: Arc<Progress>,
    text: Arc<str>,
) -> TurnEnd {
    let mut memory = memory.lock().await;
    let ledger = Ledger::default();
    let (told_processes, notes, undone) = (false, Vec::new(), Vec::new());
    let mut turn =
        Turn { context, parts, emitter, progress, ledger, told_processes, notes, undone };
    let end = turn.run(&mut memory, &text).await;
    // However the Turn ends, no command of it goes on.
    let ended = processes::end_all(&mut turn).await;
    let recorded = world::record_undone(&turn).await;
    match end.and(ended).and(recorded) {
        Ok(()) => TurnEnd::Completed,
        Err(end) => end,
    }
}

impl Turn {
    async fn run(&mut self, memory: &mut Memory, text: &str) -> Result<(), TurnEnd> {
        self.open(memory, text).await?;
        let attempts = self.parts.verifier.attempts();
        let mut feedback = 0;
        let mut said: Option<Said> = None;
        loop {
            let message = match memory.answered.take() {
                Some(answered) => self.take_up(answered),
                None => self.ask(memory, said.take()).await?,
            };
            let final_message = message.clone();
            self.progress.update(|summary| summary.final_message = Some(final_message));
            if processes::tell_the_model(self, memory).await? {
                let calls = self.ledger.calls.total;
                said = Some(Said { message, calls });
                continue;
            }
            processes::end_all(self).await?;
            step::intact(self)?;
            let blocked = hooked::stop(self, feedback, attempts).await?;
            processes::end_all(self).await?;
            step::intact(self)?;
            let unmet = match blocked {
                // What is not to end yet is not verified yet.
                Some(blocked) if feedback < attempts => vec![blocked],
                blocked => {
                    let unmet = finish::verify(self, feedback).await?;
                    blocked.into_iter().chain(unmet).collect()
                }
            };
            if unmet.is_empty() || feedback >= attempts {
                self.progress.update(|summary| summary.unmet = unmet);
                return Ok(());
            }
            feedback += 1;
            self.feed_back(memory, feedback, attempts, &unmet).await?;
        }
    }

    /// Goes on from a final message that is in the record: what its calls came to counts on.
    fn take_up(&mut self, answered: Answered) -> String {
        self.ledger.calls = answered.calls;
        self.progress.update(|summary| {
            summary.calls = answered.calls;
            summary.first_denial = answered.first_denial;
        });
        answered.message
    }

    /// Steps until the model's final message; or what it said before it was asked about commands
    /// that still run, where no answer can be had.
    async fn ask(&mut self, memory: &mut Memory, said: Option<Said>) -> Result<String, TurnEnd> {
        match (self.steps_until_message(memory).await, said) {
            (Err(end), Some(said)) if said.stands(&end, self) => {
                let text = "the model could not be asked about what still ran when it ended the \
                            turn; its final message stands";
                self.emit(EventMsg::Warning { text: text.into() }).await;
                Ok(said.message)
            }
            (message, _) => message,
        }
    }

    /// The records and items that open a Turn.
    async fn open(&mut self, memory: &mut Memory, text: &str) -> Result<(), TurnEnd> {
        let turn = self.context.turn.clone();
        self.emit(EventMsg::TurnStarted { turn: turn.clone() }).await;
        let started = Record::TurnStarted {
            turn,
            submission: self.context.submission.clone(),
            task: text.to_owned(),
            answered: memory.answered.is_some(),
        };
        self.emitter.record(started).await.map_err(failed)?;
        self.emitter.record(self.context_record()).await.map_err(failed)?;
        // Nothing is in the history yet that a denial would have to take out again.
        let asked = memory.answered.is_none().then_some(text);
        hooked::open(self, asked).await?;
        if !memory.opened {
            for item in self.parts.opening.clone() {
                self.add_item(memory, item, None).await?;
            }
            memory.opened = true;
        }
        if memory.answered.is_some() {
            return Ok(());
        }
        self.add_item(memory, context::task(text), None).await?;
        self.tell_notes(memory).await
    }

    /// Tells the model what hooks had to say.
    async fn tell_notes(&mut self, memory: &mut Memory) -> Result<(), TurnEnd> {
        let notes = std::mem::take(&mut self.notes);
        hooked::tell_notes(self, memory, notes).await
    }

    fn context_record(&self) -> Record {
        let plan = self.parts.registry.plan();
        let config = &self.context.config;
        Record::TurnContext(Box::new(TurnContextRecord {
            turn: self.context.turn.clone(),
            instructions: config.instructions.clone(),
            model: self.parts.model.id().to_owned(),
            base_url: config.base_url.clone(),
            options: serde_json::json!({
                "effort": config.options.effort,
                "max_output_tokens": config.options.max_output_tokens,
                "cache_key": config.options.cache_key,
            }),
            tools: plan.specs.clone(),
            generation: plan.generation,
            limits: serde_json::json!({
                "steps": config.limits.steps,
                "tool_calls": config.limits.tool_calls,
                "tokens": config.limits.tokens,
                "time_ms": crate::clock::millis(config.limits.time),
                "equal_failures": config.limits.equal_failures,
                "equal_denials": config.limits.equal_denials,
                "cost": config.limits.cost.map(|(limit, prices)| serde_json::json!({
                    "limit": limit,
                    "input": prices.input,
                    "cached": prices.cached,
                    "output": prices.output,
                })),
                "on_deny": config.on_deny,
                "verify_attempts": self.parts.verifier.attempts(),
            }),
            policy_digest: self.context.policy_digest.clone(),
            workspace_root: self.parts.world.root().display().to_string(),
            output_schema: config.options.output_schema.clone(),
            untrusted: config.untrusted,
        }))
    }

    async fn steps_until_message(&mut self, memory: &mut Memory) -> Result<String, TurnEnd> {
        loop {
            if self.context.cancel.is_cancelled() {
                return Err(self.aborted());
            }
            self.ledger.before_step(&self.context.config.limits)?;
            let reserve = reserve::next(self, memory.history.items())?;
            if let Some(message) = step::run(self, memory, reserve).await? {
                return Ok(message);
            }
        }
    }

    async fn feed_back(
        &mut self,
        memory: &mut Memory,
        feedback: u32,
        attempts: u32,
        unmet: &[Unmet],
    ) -> Result<(), TurnEnd> {
        self.tell_notes(memory).await?;
        let details: Vec<String> = unmet.iter().map(|unmet| unmet.detail.clone()).collect();
        self.add_item(memory, context::check_feedback(feedback, attempts, &details), None).await
    }
}

/// The message of a panic, bounded.
pub(super) fn panic_text(panic: Box<dyn Any + Send>) -> String {
    let text = match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => match panic.downcast::<&str>() {
            Ok(text) => (*text).to_owned(),
            Err(_) => "a panic without a message".to_owned(),
        },
    };
    Cap::head(&text, 300)
}
