//! What tests need to look at records and to kill runs.

use super::{Run, Sandboxed, binary, eventually};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A place whose home is known to hold the runs.
pub fn runs(place: &Sandboxed) -> PathBuf {
    place.path("home/.local/state/turnkey/runs")
}

pub fn latest(place: &Sandboxed) -> PathBuf {
    runs(place).join("latest/rollout.jsonl")
}

/// The records of a file, lines that cannot be read left out.
pub fn records(path: &std::path::Path) -> Vec<Value> {
    let text = fs::read(path).unwrap();
    let text = String::from_utf8_lossy(&text).into_owned();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// A line of a script that waits until [`go_after`] lets it go on.
pub const HELD: &str = "while [ ! -e go ]; do sleep 0.02; done; rm go";

/// Lets a script of the workspace go on once the record of the run at work holds so many results.
#[track_caller]
pub fn go_after(place: &Sandboxed, results: usize) {
    let told = |record: &Value| record["item"]["kind"] == "tool_result";
    eventually(&format!("{results} results"), || {
        let path = latest(place);
        path.exists() && records(&path).into_iter().filter(told).count() >= results
    });
    place.write("ws/go", "");
}

/// Runs the binary to its end: status, stdout, stderr.
pub fn turnkey(place: &Sandboxed, args: &[&str]) -> (i32, String, String) {
    let done = Command::new(binary())
        .current_dir(place.path(""))
        .args(args)
        .env_clear()
        .env("HOME", place.path("home"))
        .env("PATH", std::env::var("PATH").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (done.status.code().unwrap_or(-1), text(done.stdout), text(done.stderr))
}

/// `resume` with the artifacts in `out`.
pub fn resume<'a>(place: &'a Sandboxed, run: &str, args: &[&str]) -> Run<'a> {
    let mut all = vec!["resume", run, "--artifacts", "out"];
    all.extend(args);
    Run::new(place, &all)
}
