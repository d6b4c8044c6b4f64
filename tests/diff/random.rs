//! Random trees and random edits: git and our own applier must both reach the end.
//!
//! Many trees share one repository, a folder each, so that hundreds of cases cost a few processes.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::*;

const CASES: usize = 2000;
const BATCH: usize = 250;
const SEED: u64 = 20_240_607;

fn content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        6 => proptest::sample::select(vec!["a\n", "b\n", "\n", "c c\n", " \n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::sample::select(vec!["x\r\n", "\r\n", "y\r", "-- \n", "+++ b/x\n", "\\ No newline at end of file\n", "@@ -1 +1 @@\n"]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..6),
    ];
    prop_oneof![
        8 => proptest::collection::vec(line, 0..30).prop_map(|lines| lines.concat()),
        1 => proptest::collection::vec(any::<u8>(), 0..300),
        1 => Just(Vec::new()),
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let odd = proptest::collection::vec(any::<u8>(), 1..5).prop_map(|bytes| {
        let keep = |byte: &u8| *byte != 0 && *byte != b'/';
        let name: Vec<u8> = bytes.into_iter().filter(keep).collect();
        if name.is_empty() || name == b"." || name == b".." { b"odd".to_vec() } else { name }
    });
    prop_oneof![
        6 => proptest::sample::select(vec!["a", "b", "c", "d e", "f"]).prop_map(|name| name.as_bytes().to_vec()),
        1 => odd,
    ]
}

fn tree_entry() -> impl Strategy<Value = TreeEntry> {
    // No target makes a loop: `git apply` can't replace a looping link by a folder, since it stops at
    // the error the system gives for the loop. Our own applier can.
    let link = proptest::sample::select(vec!["target", "../x", "no where", "b\nc"]);
    prop_oneof![
        8 => (any::<bool>(), content()).prop_map(|(executable, content)| {
            entry(if executable { Mode::Executable } else { Mode::Regular }, &content)
        }),
        1 => link.prop_map(|target| entry(Mode::Symlink, target.as_bytes())),
    ]
}

pub(crate) fn random_tree() -> impl Strategy<Value = Tree> {
    let path = proptest::collection::vec(name(), 1..4).prop_map(|parts| parts.join(&b'/'));
    proptest::collection::vec((path, tree_entry()), 0..8).prop_map(|files| {
        let mut tree = Tree::new();
        files.into_iter().for_each(|(path, entry)| put(&mut tree, path, entry));
        tree
    })
}

/// Puts a file where it can stand: what is in its way goes.
fn put(tree: &mut Tree, path: Vec<u8>, entry: TreeEntry) {
    let inside = [path.as_slice(), b"/"].concat();
    tree.retain(|other, _| {
        let above = [other.as_slice(), b"/"].concat();
        !other.starts_with(&inside) && !path.starts_with(&above)
    });
    tree.insert(path, entry);
}

#[derive(Debug, Clone)]
enum Edit {
    Put(Vec<u8>, TreeEntry),
    Remove(usize),
    Move(usize, Vec<u8>),
    Copy(usize, Vec<u8>),
    Mode(usize),
    Link(usize),
    Splice(usize, usize, Vec<u8>),
    Swap(usize, usize),
}

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    let at = || 0usize..100;
    let path = || proptest::collection::vec(name(), 1..4).prop_map(|parts| parts.join(&b'/'));
    let edit = prop_oneof![
        2 => (path(), tree_entry()).prop_map(|(path, entry)| Edit::Put(path, entry)),
        2 => at().prop_map(Edit::Remove),
        2 => (at(), path()).prop_map(|(at, path)| Edit::Move(at, path)),
        1 => (at(), path()).prop_map(|(at, path)| Edit::Copy(at, path)),
        1 => at().prop_map(Edit::Mode),
        1 => at().prop_map(Edit::Link),
        4 => (at(), 0usize..200, content()).prop_map(|(at, cut, text)| Edit::Splice(at, cut, text)),
        1 => (at(), at()).prop_map(|(a, b)| Edit::Swap(a, b)),
    ];
    proptest::collection::vec(edit, 0..7)
}

fn edit_tree(tree: &mut Tree, edit: Edit) {
    let nth = |tree: &Tree, at: usize| tree.keys().nth(at % tree.len().max(1)).cloned();
    match edit {
        Edit::Put(path, entry) => put(tree, path, entry),
        Edit::Remove(at) => drop(nth(tree, at).and_then(|path| tree.remove(&path))),
        Edit::Move(at, to) => {
            if let Some(entry) = nth(tree, at).and_then(|path| tree.remove(&path)) {
                put(tree, to, entry);
            }
        }
        Edit::Copy(at, to) => {
            if let Some(entry) = nth(tree, at).and_then(|path| tree.get(&path).cloned()) {
                put(tree, to, entry);
            }
        }
        Edit::Mode(at) => change(tree, nth(tree, at), |entry| {
            entry.mode = match entry.mode {
                Mode::Regular => Mode::Executable,
                Mode::Executable => Mode::Regular,
                Mode::Symlink => Mode::Symlink,
            };
        }),
        Edit::Link(at) => change(tree, nth(tree, at), |entry| {
            *entry = self::entry(Mode::Symlink, b"elsewhere");
        }),
        Edit::Splice(at, cut, text) => change(tree, nth(tree, at), |entry| {
            if entry.mode != Mode::Symlink {
                let mut content = entry.content.to_vec();
                let cut = cut.min(content.len());
                content.splice(cut..(cut + text.len() / 2).min(content.len()), text);
                entry.content = content.into();
            }
        }),
        Edit::Swap(a, b) => {
            if let (Some(a), Some(b)) = (nth(tree, a), nth(tree, b))
                && let (Some(x), Some(y)) = (tree.get(&a).cloned(), tree.get(&b).cloned())
            {
                tree.insert(a, y);
                tree.insert(b, x);
            }
        }
    }
}

fn change(tree: &mut Tree, path: Option<Vec<u8>>, change: impl FnOnce(&mut TreeEntry)) {
    if let Some(entry) = path.and_then(|path| tree.get_mut(&path)) {
        change(entry);
    }
}

pub(crate) fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    TestRunner::new_with_rng(Config::default(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
pub(crate) fn random_trees_and_edits_reach_their_end_by_git_and_by_us() {
    let mut runner = runner(SEED);
    let pair = (random_tree(), edits());
    for batch in 0..CASES / BATCH {
        let (mut start, mut end, mut patches) = (Tree::new(), Tree::new(), Vec::new());
        for case in 0..BATCH {
            let (before, edits) = pair.new_tree(&mut runner).unwrap().current();
            let mut after = before.clone();
            edits.into_iter().for_each(|edit| edit_tree(&mut after, edit));
            let folder = |tree: Tree| -> Tree {
                let place = |path: Vec<u8>| [format!("c{case:03}/").as_bytes(), &path].concat();
                tree.into_iter().map(|(path, entry)| (place(path), entry)).collect()
            };
            let (before, after) = (folder(before), folder(after));
            let diff = diff(&before, &after);
            match applied(&diff.bytes, &before) {
                Ok(tree) => assert_eq!(tree, after, "seed {SEED}, batch {batch}, case {case}"),
                Err(error) => panic!(
                    "seed {SEED}, batch {batch}, case {case}: {error}\n{}",
                    String::from_utf8_lossy(&diff.bytes)
                ),
            }
            patches.extend(diff.bytes);
            start.extend(before);
            end.extend(after);
        }
        let git = Git::new();
        git.check_out(&start);
        assert_eq!(git.head_tree(), id_of(&start), "seed {SEED}, batch {batch}");
        let result = git.try_run(&["apply", "-"], Some(&patches));
        assert!(result.is_ok(), "seed {SEED}, batch {batch}: {result:?}");
        assert_eq!(git.work_tree(), id_of(&end), "seed {SEED}, batch {batch}");
    }
}
