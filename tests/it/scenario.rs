//! The scenario folders: a case is a folder, no Rust.
//!
//! `tests/scenarios/NNN_name/` holds `spec.yaml` (whose `workspace` is `workspace` and whose model is
//! a scripted `model.yaml`), the files it names, the folder `workspace/` to start from, and
//! `expect.yaml`: what must be true afterwards. Where there is a folder `expected/`, the workspace
//! must equal it at the end.
//!
//! ```yaml
//! status: 10                     # the exit status
//! state: unverified              # result.json; absent where nothing ran
//! reason: verify.command
//! args: [--max-steps, "3"]       # further arguments of exec
//! env: { TURNKEY_FAULT: "…" }
//! git: true                      # the workspace is a committed git repository
//! changed: [a.txt]               # paths in result.json, in order
//! denials: 1
//! events: [turn.started, …]      # types of the --json stream, as a subsequence
//! results: [denied, ok]          # kinds of tool results in the rollout, in order
//! stderr: ["task.yaml:3:1"]      # texts that stderr must hold
//! rollout: ["…"]                 # texts that some record must hold
//! ```

use super::support::{Run, Sandboxed};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use turnkey::spec::Faults;
use turnkey::spec::yaml::{self, Table};

#[derive(Debug, Default)]
struct Expect {
    status: i32,
    state: Option<String>,
    reason: Option<String>,
    args: Vec<String>,
    env: Vec<(String, String)>,
    git: bool,
    changed: Option<Vec<String>>,
    denials: Option<u64>,
    events: Vec<String>,
    results: Option<Vec<String>>,
    stderr: Vec<String>,
    rollout: Vec<String>,
}

fn read_expect(path: &Path) -> Expect {
    let source = fs::read_to_string(path).unwrap();
    let node = yaml::parse("expect.yaml", &source).unwrap_or_else(|faults| panic!("{faults:?}"));
    let mut faults = Faults::new(path.display().to_string());
    let mut table = Table::new(&node, "expect", &mut faults).unwrap();
    let status = table.get("status").unwrap().uint("status", 0, &mut faults).unwrap();
    let mut expect = Expect { status: i32::try_from(status).unwrap(), ..Expect::default() };
    let text = |table: &mut Table<'_>, key, faults: &mut Faults| {
        table.get(key).and_then(|node| node.string(key, faults))
    };
    expect.state = text(&mut table, "state", &mut faults);
    expect.reason = text(&mut table, "reason", &mut faults);
    let list = |table: &mut Table<'_>, key, faults: &mut Faults| {
        table.get(key).and_then(|node| node.strings(key, faults))
    };
    expect.args = list(&mut table, "args", &mut faults).unwrap_or_default();
    expect.changed = list(&mut table, "changed", &mut faults);
    expect.events = list(&mut table, "events", &mut faults).unwrap_or_default();
    expect.results = list(&mut table, "results", &mut faults);
    expect.stderr = list(&mut table, "stderr", &mut faults).unwrap_or_default();
    expect.rollout = list(&mut table, "rollout", &mut faults).unwrap_or_default();
    expect.denials = table.get("denials").and_then(|node| node.uint("denials", 0, &mut faults));
    expect.git = table.get("git").and_then(|node| node.bool("git", &mut faults)).unwrap_or(false);
    if let Some(env) = table.get("env").and_then(|node| Table::new(node, "env", &mut faults)) {
        for (key, node) in env.all() {
            expect.env.push((key.name.clone(), node.string("env", &mut faults).unwrap()));
        }
    }
    table.finish("expect", &mut faults);
    assert!(faults.list.is_empty(), "{:?}", faults.list);
    expect
}

fn tree(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else {
                files.insert(path.strip_prefix(root).unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn check(folder: &Path) {
    let name = folder.file_name().unwrap().to_string_lossy().into_owned();
    let expect = read_expect(&folder.join("expect.yaml"));
    let place = Sandboxed::new();
    place.copy(folder, "case");
    let workspace = place.path("case/workspace");
    fs::create_dir_all(&workspace).unwrap();
    if expect.git {
        place.git_init(&workspace);
    }
    let mut args = vec!["exec", "--spec", "case/spec.yaml", "--artifacts", "out", "--json"];
    args.extend(expect.args.iter().map(String::as_str));
    let mut run = Run::new(&place, &args);
    for (key, value) in &expect.env {
        run = run.env(key, value);
    }
    let done = run.finish();
    let shown = format!("{name}\n--- stdout\n{}\n--- stderr\n{}", done.stdout, done.stderr);
    assert_eq!(done.status, expect.status, "{shown}");
    for text in &expect.stderr {
        assert!(done.stderr.contains(text.as_str()), "{text:?} is not in stderr: {shown}");
    }
    done.assert_events_parse();
    let types = done.event_types();
    let mut next = types.iter();
    for wanted in &expect.events {
        assert!(next.any(|found| found == wanted), "no event {wanted} in its place: {types:?}");
    }
    let Some(state) = &expect.state else { return };
    let result = done.result();
    assert_eq!(result["state"], state.as_str(), "{shown}");
    assert_eq!(result["exit_status"], expect.status, "{shown}");
    if let Some(reason) = &expect.reason {
        assert_eq!(result["reason"], reason.as_str(), "{shown}");
    }
    if state == "invalid" {
        return;
    }
    if let Some(changed) = &expect.changed {
        let paths: Vec<&str> = result["changed_files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file["path"].as_str().unwrap())
            .collect();
        assert_eq!(&paths, changed, "{shown}");
    }
    if let Some(denials) = expect.denials {
        assert_eq!(result["denials"].as_array().unwrap().len() as u64, denials, "{shown}");
    }
    let records = done.rollout();
    if let Some(results) = &expect.results {
        let kinds: Vec<String> = records
            .iter()
            .filter(|record| record["type"] == "item" && record["item"]["kind"] == "tool_result")
            .map(|record| record["item"]["result"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(&kinds, results, "{shown}");
    }
    for text in &expect.rollout {
        let found = records.iter().any(|record| record.to_string().contains(text.as_str()));
        assert!(found, "{text:?} is in no record of {name}");
    }
    if expect.status != 70 {
        done.assert_artifacts_agree();
    }
    let expected = folder.join("expected");
    if expected.is_dir() {
        assert_eq!(tree(&workspace), tree(&expected), "{shown}");
    }
}

#[test]
fn every_scenario_holds() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut folders: Vec<PathBuf> = fs::read_dir(root)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    assert!(folders.len() >= 20, "the scenarios are gone: {}", folders.len());
    let only = option_env!("TURNKEY_SCENARIO");
    folders.retain(|folder| only.is_none_or(|only| folder.to_string_lossy().contains(only)));
    let failed: Vec<PathBuf> = folders
        .into_iter()
        .filter(|folder| std::panic::catch_unwind(|| check(folder)).is_err())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}
