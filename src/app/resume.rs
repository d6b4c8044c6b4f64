//! `turnkey resume` and `turnkey fork`: a new Turn on a recorded Session.

use super::exec;
use super::exec_input::{self, Refused};
use crate::cli::ResumeArgs;
use crate::job::{Going, Kind, find_run};
use crate::protocol::{Outcome, State};
use crate::report::Output;
use std::path::Path;
use std::time::Instant;

pub async fn run(args: ResumeArgs, kind: Kind, output: &Output, started: Instant) -> u8 {
    // The record is opened before the artifacts folder is claimed, which removes an older run's
    // files: it may be the very folder that RUN names.
    let going = find_run(&args.run, &exec_input::bases())
        .map_err(|why| {
            Box::new(
                Outcome::new(State::Invalid, "resume.run", why)
                    .hint("name an artifacts folder, a rollout file, a run id, or \"latest\""),
            )
        })
        .and_then(|found| Going::open(found, kind, args.accept_changes));
    let named = args.exec.artifacts.as_deref().map(Path::new);
    let artifacts = match exec::claim(named) {
        Ok(artifacts) => artifacts,
        Err(outcome) => return exec::refused(output, &outcome, None).await,
    };
    let going = match going {
        Ok(going) => going,
        Err(outcome) => return exec::refused(output, &outcome, artifacts.as_deref()).await,
    };
    let dry_run = args.exec.dry_run;
    match exec_input::gather_going(&args.exec, going, started) {
        Ok(gathered) => exec::start(gathered, artifacts, dry_run, output).await,
        Err(Refused::Invalid(text)) => {
            let outcome = Outcome::new(State::Invalid, "invalid", text);
            exec::refused(output, &outcome, artifacts.as_deref()).await
        }
        Err(Refused::Outcome(outcome)) => {
            exec::refused(output, &outcome, artifacts.as_deref()).await
        }
    }
}
