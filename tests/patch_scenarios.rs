//! Patches as folders: `input/`, `patch.txt`, and either `expected/` or `error.txt`.
//!
//! Adding a case needs no Rust: `tests/patch_scenarios/NNN_name/`. `expected/` is the whole tree
//! afterwards, executable bits and symbolic links included; `error.txt` is the whole error, and the
//! tree must then be as it was. A missing `input/` or `expected/` is an empty tree.
//!
//! A set of folders from elsewhere runs with `TURNKEY_PATCH_SCENARIOS=DIR`. Such sets have no
//! `error.txt`: where they expect a refusal, `expected/` equals `input/`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use turnkey::patch::{FileState, Files, NewFile, Plan, parse, plan};

/// Where we differ from the public set on purpose.
const DELIBERATE: [(&str, &str); 4] = [
    ("move_overwrites_existing_destination", "a move never replaces a file"),
    ("add_overwrites_existing_file", "an added file never replaces one"),
    ("update_file_appends_trailing_newline", "a file without a final newline stays one"),
    ("failure_after_partial_success_leaves_changes", "a patch is all or nothing"),
];

#[derive(Clone, PartialEq, Eq)]
struct Tree(BTreeMap<String, FileState>);

impl Files for Tree {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        if let Some(state) = self.0.get(path) {
            return Ok(Some(state.clone()));
        }
        let inside = format!("{path}/");
        Ok(self.0.keys().any(|known| known.starts_with(&inside)).then_some(FileState::Directory))
    }
}

impl Tree {
    fn load(folder: &Path) -> Self {
        let mut tree = Self(BTreeMap::new());
        if folder.is_dir() {
            tree.load_folder(folder, "");
        }
        tree
    }

    fn load_folder(&mut self, folder: &Path, prefix: &str) {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{prefix}{}", entry.file_name().to_str().unwrap());
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                self.load_folder(&entry.path(), &format!("{path}/"));
                continue;
            }
            let state = if kind.is_symlink() {
                let target = fs::read_link(entry.path()).unwrap();
                FileState::Symlink { target: target.as_os_str().as_bytes().to_vec() }
            } else {
                let executable = entry.metadata().unwrap().permissions().mode() & 0o100 != 0;
                let mode = if executable { 0o755 } else { 0o644 };
                FileState::Regular { bytes: fs::read(entry.path()).unwrap().into(), mode }
            };
            self.0.insert(path, state);
        }
    }

    fn commit(&mut self, plan: &Plan) {
        for change in &plan.changes {
            match &change.after {
                Some(NewFile { bytes, mode, .. }) => {
                    let state = FileState::Regular { bytes: bytes.clone(), mode: *mode };
                    self.0.insert(change.path.clone(), state);
                }
                None => drop(self.0.remove(&change.path)),
            }
        }
    }

    fn show(&self) -> String {
        let mut text = String::new();
        for (path, state) in &self.0 {
            let _ = match state {
                FileState::Regular { bytes, mode } => {
                    let content = String::from_utf8_lossy(bytes);
                    writeln!(text, "  {path} {mode:o} {content:?}")
                }
                FileState::Symlink { target } => {
                    writeln!(text, "  {path} -> {}", String::from_utf8_lossy(target))
                }
                other => writeln!(text, "  {path} {other:?}"),
            };
        }
        text
    }
}

/// What the patch makes of the tree, and what is said about it.
fn outcome(input: &Tree, patch: &str) -> (Tree, Result<String, String>) {
    let mut tree = input.clone();
    let result = parse(patch).and_then(|patch| plan(&patch, input));
    match result {
        Ok(plan) => {
            tree.commit(&plan);
            (tree, Ok(plan.summary()))
        }
        Err(error) => (tree, Err(error.to_string())),
    }
}

fn run(folder: &Path) -> Result<(), String> {
    let input = Tree::load(&folder.join("input"));
    let patch = fs::read(folder.join("patch.txt")).map_err(|error| error.to_string())?;
    let patch = String::from_utf8(patch).map_err(|error| error.to_string())?;
    let (tree, said) = outcome(&input, &patch);
    if let Ok(expected) = fs::read_to_string(folder.join("error.txt")) {
        return match said {
            Err(error) if error.trim() == expected.trim() => Ok(()),
            Err(error) => Err(format!("another error than expected:\n{error}")),
            Ok(summary) => Err(format!("no error, but:\n{summary}\n{}", tree.show())),
        };
    }
    let expected = Tree::load(&folder.join("expected"));
    if tree == expected {
        return Ok(());
    }
    let said = said.unwrap_or_else(|error| format!("refused: {error}"));
    Err(format!("{said}\n has:\n{} expected:\n{}", tree.show(), expected.show()))
}

fn folders(root: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<PathBuf> =
        entries.filter(|path| path.join("patch.txt").is_file()).collect();
    folders.sort();
    folders
}

#[track_caller]
fn run_all(root: &Path, deliberate: &[(&str, &str)]) -> usize {
    let folders = folders(root);
    let mut failures = String::new();
    for folder in &folders {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let reason = deliberate.iter().find(|(part, _)| name.contains(part));
        match (run(folder), reason) {
            (Ok(()), None) | (Err(_), Some(_)) => {}
            (Ok(()), Some((_, reason))) => {
                let _ = writeln!(failures, "{name}: no difference, though \"{reason}\"\n");
            }
            (Err(failure), None) => {
                let _ = writeln!(failures, "{name}: {failure}\n");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    folders.len()
}

#[test]
fn our_scenarios() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/patch_scenarios");
    assert!(run_all(&root, &[]) >= 25);
}

#[test]
fn an_outside_set_of_scenarios() {
    match std::env::var_os("TURNKEY_PATCH_SCENARIOS") {
        Some(root) => {
            let count = run_all(Path::new(&root), &DELIBERATE);
            assert!(count > 0, "no scenario in {}", root.display());
        }
        None => eprintln!("skipped: TURNKEY_PATCH_SCENARIOS is not set"),
    }
}
