//! Trees changed by patches: parse, plan, diff, `git apply`, and the end is what the plan said.

use std::fmt::Write as _;

use proptest::strategy::{Strategy, ValueTree};
use turnkey::patch::{FileState, Files, NewFile, Operation, parse, plan};

use super::random::{random_tree, runner};
use super::*;

const CASES: usize = 300;
const SEED: u64 = 20_240_608;

struct Patched<'a>(&'a Tree);

impl Files for Patched<'_> {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        if let Some(entry) = self.0.get(path.as_bytes()) {
            return Ok(Some(match entry.mode {
                Mode::Symlink => FileState::Symlink { target: entry.content.to_vec() },
                mode => {
                    let bits = if mode == Mode::Executable { 0o755 } else { 0o644 };
                    FileState::Regular { bytes: entry.content.clone(), mode: bits }
                }
            }));
        }
        let inside = format!("{path}/");
        let folder = self.0.keys().any(|known| known.starts_with(inside.as_bytes()));
        Ok(folder.then_some(FileState::Directory))
    }
}

/// A patch that makes something of everything in the tree that text can name, by turns.
fn patch_for(tree: &Tree, choices: &[usize]) -> String {
    let mut patch = String::from("*** Begin Patch\n");
    for (number, (path, entry)) in tree.iter().enumerate() {
        let Ok(path) = std::str::from_utf8(path) else { continue };
        let lines: Vec<&str> = match std::str::from_utf8(&entry.content) {
            Ok(text) => text.split_inclusive('\n').collect(),
            Err(_) => Vec::new(),
        };
        let quoted: String = path.bytes().map(|byte| format!("\\{byte:03o}")).collect();
        let name = format!("\"{quoted}\"");
        let choice = choices.get(number % choices.len().max(1)).copied().unwrap_or(0);
        let _ = match choice % 5 {
            0 => writeln!(patch, "*** Delete File: {name}"),
            1 => writeln!(patch, "*** Update File: {name}\n+appended {number}"),
            2 => writeln!(patch, "*** Update File: {name}\n*** Move to: moved/{number}"),
            3 => writeln!(patch, "*** Add File: added/{number}\n+one\n+two"),
            _ => match lines.first() {
                Some(first) => {
                    let first = first.trim_end_matches('\n');
                    writeln!(patch, "*** Update File: {name}\n@@\n-{first}\n+first {number}")
                }
                None => Ok(()),
            },
        };
    }
    patch + "*** Add File: last\n+x\n*** End Patch\n"
}

/// The tree after the patch, leaving out operations that are refused one by one.
fn patched(tree: &Tree, text: &str) -> Tree {
    let mut end = tree.clone();
    let patch = parse(text).unwrap();
    for operation in patch.operations {
        let single = turnkey::patch::Patch { operations: vec![operation] };
        let Ok(plan) = plan(&single, &Patched(&end)) else {
            assert!(
                !matches!(&single.operations[0], Operation::Add { path, .. } if path == "last")
            );
            continue;
        };
        for change in plan.changes {
            let path = change.path.into_bytes();
            match change.after {
                Some(NewFile { bytes, mode, .. }) => {
                    let mode = Mode::from_permissions(mode);
                    end.insert(path, TreeEntry { mode, content: bytes });
                }
                None => drop(end.remove(&path)),
            }
        }
    }
    end
}

#[test]
fn random_trees_and_patches_reach_their_end_by_git_and_by_us() {
    let mut runner = runner(SEED);
    let choices = proptest::collection::vec(0usize..100, 1..6);
    let pair = (random_tree(), choices).prop_map(|(tree, choices)| (tree, choices));
    let (mut start, mut end, mut patches) = (Tree::new(), Tree::new(), Vec::new());
    for case in 0..CASES {
        let (before, choices) = pair.new_tree(&mut runner).unwrap().current();
        let before: Tree =
            before.into_iter().filter(|(path, _)| !path.starts_with(b"last")).collect();
        let after = patched(&before, &patch_for(&before, &choices));
        let folder = |tree: Tree| -> Tree {
            let place = |path: Vec<u8>| [format!("c{case:05}/").as_bytes(), &path].concat();
            tree.into_iter().map(|(path, entry)| (place(path), entry)).collect()
        };
        let (before, after) = (folder(before), folder(after));
        let diff = diff(&before, &after);
        match applied(&diff.bytes, &before) {
            Ok(tree) => assert_eq!(tree, after, "seed {SEED}, case {case}"),
            Err(error) => panic!("seed {SEED}, case {case}: {error}"),
        }
        patches.extend(diff.bytes);
        start.extend(before);
        end.extend(after);
    }
    let git = Git::new();
    git.check_out(&start);
    let result = git.try_run(&["apply", "-"], Some(&patches));
    assert!(result.is_ok(), "seed {SEED}: {result:?}");
    assert_eq!(git.work_tree(), id_of(&end), "seed {SEED}");
}
