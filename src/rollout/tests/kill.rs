//! A real process, killed by SIGKILL while it writes.

use super::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Not a test of its own: what the killed process runs. Its path comes on stdin.
#[test]
#[ignore = "started by the test below"]
fn child_that_writes_for_ever() {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let path = Path::new(line.trim_end());
    runtime().block_on(async {
        let masker = Arc::new(Masker::none());
        let writer = match RolloutWriter::create(path, Arc::clone(&masker)) {
            Err(RolloutError::Exists { .. }) => RolloutWriter::open_append(path, masker).unwrap(),
            other => other.unwrap(),
        };
        for number in 0u64.. {
            // Long enough for a write to be cut in the middle of it.
            writer.append(message(&format!("{number} {}", "x".repeat(20_000)))).await.unwrap();
            if number % 3 == 0 {
                let confirmed = writer.flush().await.unwrap();
                writeln!(std::io::stdout(), "\nconfirmed {}", confirmed.records).unwrap();
            }
        }
    });
}

#[test]
fn sigkill_leaves_a_valid_prefix_with_all_that_was_confirmed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rollout.jsonl");
    let mut before = 0;
    for round in 0..20u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "rollout::tests::kill::child_that_writes_for_ever"])
            .args(["--ignored", "--nocapture"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        writeln!(child.stdin.take().unwrap(), "{}", path.display()).unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The first confirmation, so that every round writes; then a moment that differs each time.
        let mut confirmed = 0;
        let mut note = |line: std::io::Result<String>| {
            let line = line.unwrap_or_default();
            let count = line.strip_prefix("confirmed ").and_then(|count| count.parse().ok());
            confirmed = count.unwrap_or(confirmed);
            count.is_some()
        };
        while !note(lines.next().expect("the child writes")) {}
        std::thread::sleep(Duration::from_micros(round * 731));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.for_each(|line| {
            note(line);
        });

        let report = verify(&path).unwrap();
        assert!(report.ok, "round {round}: {report:?}");
        assert!(
            report.found.records >= before + confirmed,
            "round {round}: confirmed records gone"
        );
        before = report.found.records;
    }
}
