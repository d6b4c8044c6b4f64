//! `turnkey patch` and `turnkey apply`: 0 it is in place (or would be), 1 it does not fit and nothing
//! was changed, 2 wrong input.

use super::{exec_input, exit, refuse, told};
use crate::cli::{ApplyArgs, PatchArgs};
use crate::job::{self, Answer, find_run};
use crate::protocol::Outcome;
use crate::report::{Output, rollout_show};
use std::io::{IsTerminal, Read};

/// As much as the engine reads.
const MAX_PATCH: u64 = 64 << 20;

pub async fn patch(args: PatchArgs, output: &Output) -> u8 {
    let text = match text(&args) {
        Ok(text) => text,
        Err(why) => return refuse(output, &why).await,
    };
    let bases = exec_input::bases();
    let answer = job::apply_patch(&text, &args.workspace, args.dry_run, &bases);
    say(answer, args.dry_run, output).await
}

pub async fn apply(args: ApplyArgs, output: &Output) -> u8 {
    let bases = exec_input::bases();
    let found = match find_run(&args.run, &bases) {
        Ok(found) => found,
        Err(why) => return refuse(output, &why).await,
    };
    let answer = job::apply_run(&found, &args.workspace, args.dry_run, &bases);
    say(answer, args.dry_run, output).await
}

async fn say(answer: Result<Answer, Box<Outcome>>, dry_run: bool, output: &Output) -> u8 {
    let answer = match answer {
        Ok(answer) => answer,
        Err(outcome) => return told(output, &outcome).await,
    };
    for line in &answer.told {
        output.stderr(format!("turnkey: {}", rollout_show::safe(line))).await;
    }
    match answer.done {
        Ok(lines) if lines.is_empty() => {
            output.stderr("turnkey: the run changed nothing, so there is nothing to apply").await;
            0
        }
        Ok(lines) => {
            if dry_run {
                output.stderr("turnkey: dry run, nothing was changed; it would be:").await;
            }
            for line in lines {
                output.stdout(rollout_show::safe(&line)).await;
            }
            0
        }
        Err((why, hint)) => {
            let why = rollout_show::safe(&why);
            output.stderr(format!("turnkey: nothing was changed: {why}")).await;
            if !hint.is_empty() {
                output.stderr(format!("  hint: {hint}")).await;
            }
            exit::NO
        }
    }
}

fn text(args: &PatchArgs) -> Result<String, String> {
    let bytes = match (&args.file, args.text.as_deref()) {
        (Some(path), _) => read(
            std::fs::File::open(path).map_err(|error| format!("{}: {error}", path.display()))?,
            &path.display().to_string(),
        )?,
        (None, Some(text)) if text != "-" => return Ok(text.to_owned()),
        (None, None) if std::io::stdin().is_terminal() => {
            let text = "no patch: give it as an argument, with --file, or on standard input";
            return Err(text.to_owned());
        }
        (None, _) => read(std::io::stdin(), "standard input")?,
    };
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        format!("the patch is not UTF-8 text (byte {at}); a patch names lines as text")
    })
}

fn read(from: impl Read, name: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    from.take(MAX_PATCH + 1).read_to_end(&mut bytes).map_err(|error| format!("{name}: {error}"))?;
    if bytes.len() as u64 > MAX_PATCH {
        return Err(format!("{name}: the patch is longer than {MAX_PATCH} bytes"));
    }
    Ok(bytes)
}
