//! The writer, the reader and the file between them.

mod copies;
mod faults;
mod files;
mod kill;
mod records;

use super::*;
use crate::protocol::{Item, Role, SubmissionId};
use std::path::Path;
use std::sync::Arc;

fn run_started() -> Record {
    Record::RunStarted(Box::new(RunStartedRecord {
        run: "run-1".into(),
        session: "session-1".into(),
        version: "0.1.0".into(),
        settings: serde_json::json!({"model": {"use": "scripted/demo"}}),
        ..Default::default()
    }))
}

fn turn_started(turn: &str) -> Record {
    Record::TurnStarted {
        turn: turn.into(),
        submission: SubmissionId::from("s-1"),
        task: "do it".into(),
        answered: false,
    }
}

fn message(text: &str) -> Record {
    let item =
        Item::Message { role: Role::Assistant, text: text.to_owned(), fragment: None, raw: None };
    Record::Item { step: 1, response_id: Some("r-1".into()), item: Arc::new(item) }
}

fn completed(turn: &str) -> Record {
    Record::TurnCompleted {
        turn: turn.into(),
        steps: 1,
        duration_ms: 5,
        last_message: Some("done".into()),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn write_all(path: &Path, records: Vec<Record>) -> Confirmed {
    runtime().block_on(async {
        let writer = RolloutWriter::create(path, Arc::new(Masker::none())).unwrap();
        for record in records {
            writer.append(record).await.unwrap();
        }
        writer.close().await.unwrap()
    })
}

fn append_all(path: &Path, records: Vec<Record>) -> Result<Confirmed, RolloutError> {
    runtime().block_on(async {
        let writer = RolloutWriter::open_append(path, Arc::new(Masker::none()))?;
        for record in records {
            writer.append(record).await?;
        }
        writer.close().await
    })
}

fn example() -> Vec<Record> {
    vec![run_started(), turn_started("t-1"), message("héllo\nwörld"), completed("t-1")]
}

fn records(rollout: &Rollout) -> Vec<Record> {
    rollout.entries.iter().map(|entry| entry.record.clone()).collect()
}
