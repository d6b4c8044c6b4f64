//! `turnkey replay`: a recorded run, run again; the answer is the first difference.

use super::exec_input::{self, Refused};
use super::{exit, refuse, signals, told};
use crate::cli::{ExecArgs, ReplayArgs, ToolsFrom};
use crate::job::{self, Controls, Face, Replayed, Tools, find_run};
use crate::protocol::Event;
use crate::report::{Output, rollout_show};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::time::Instant;

pub async fn run(args: ReplayArgs, output: &Output, started: Instant) -> u8 {
    let found = match find_run(&args.run, &exec_input::bases()) {
        Ok(found) => found,
        Err(why) => return refuse(output, &why).await,
    };
    let recorded = match job::recorded_settings(&found) {
        Ok(recorded) => recorded,
        Err(outcome) => return told(output, &outcome).await,
    };
    let folders = (Path::new(&recorded.folder), Path::new(&recorded.model_folder));
    let gathered =
        exec_input::gather_replay(&ExecArgs::default(), &recorded.settings, folders, started);
    let input = match gathered {
        Ok(input) => input,
        Err(Refused::Invalid(text)) => return refuse(output, &text).await,
        Err(Refused::Outcome(outcome)) => return told(output, &outcome).await,
    };
    let mut face = Silent;
    let tools = match args.tools {
        ToolsFrom::Recorded => Tools::Recorded(input),
        ToolsFrom::Live => Tools::Live(input, &mut face, controls(output)),
    };
    match job::replay(&found, tools).await {
        Ok(replayed) => answer(output, &replayed, args.json).await,
        Err(outcome) => told(output, &outcome).await,
    }
}

async fn answer(output: &Output, replayed: &Replayed, json: bool) -> u8 {
    if json {
        let text = serde_json::to_string(replayed).unwrap_or_default();
        output.stdout(crate::report::text::json_line(text)).await;
    } else {
        output.stdout(in_words(replayed)).await;
    }
    if replayed.difference.is_some() { exit::NO } else { 0 }
}

fn in_words(replayed: &Replayed) -> String {
    let mut text = format!(
        "run {}, tools {}: {} steps, {} things compared\n",
        replayed.run, replayed.tools, replayed.steps, replayed.compared
    );
    for note in &replayed.notes {
        text.push_str(&format!("note: {}\n", rollout_show::safe(note)));
    }
    match &replayed.difference {
        None => text.push_str("no difference"),
        Some(difference) => text.push_str(&format!(
            "first difference, in step {}: {}\n- recorded, + replayed\n{}",
            difference.step,
            rollout_show::safe(&difference.what),
            rollout_show::safe(&difference.diff)
        )),
    }
    text
}

fn controls(output: &Output) -> Controls {
    let hurry = output.clone();
    Controls {
        signals: signals::preparing(),
        hurry: Box::new(move || hurry.stop_waiting()),
        exit_status: exit::status,
    }
}

/// A replay shows its answer, not its way.
struct Silent;

impl Face for Silent {
    fn event<'a>(&'a mut self, _: &'a Event) -> BoxFuture<'a, ()> {
        Box::pin(std::future::ready(()))
    }

    fn tick(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
