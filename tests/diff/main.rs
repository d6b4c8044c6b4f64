//! The diff against the real git: what is written must apply, and our own way back must agree.
//!
//! `cases.rs` holds the field cases, `random.rs` random trees and edits, `patched.rs` the same by
//! patches, `forged.rs` diffs that somebody tampered with.

mod cases;
mod forged;
mod patched;
mod random;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use turnkey::diff::*;

/// A tree in memory: path to entry.
type Tree = BTreeMap<Vec<u8>, TreeEntry>;

fn entry(mode: Mode, content: &[u8]) -> TreeEntry {
    TreeEntry { mode, content: content.into() }
}

fn tree(files: &[(&str, Mode, &[u8])]) -> Tree {
    files
        .iter()
        .map(|(path, mode, content)| (path.as_bytes().to_vec(), entry(*mode, content)))
        .collect()
}

/// Every path of both trees, changed or not.
fn changes(start: &Tree, end: &Tree) -> Vec<FileChange> {
    let mut paths: Vec<&Vec<u8>> = start.keys().chain(end.keys()).collect();
    paths.sort();
    paths.dedup();
    let change = |path: &&Vec<u8>| FileChange {
        path: (*path).clone(),
        before: start.get(*path).cloned(),
        after: end.get(*path).cloned(),
    };
    paths.iter().map(change).collect()
}

fn diff(start: &Tree, end: &Tree) -> Diff {
    write_diff(changes(start, end), &DiffOptions::default())
}

fn id_of(tree: &Tree) -> String {
    let blobs: Vec<(&Vec<u8>, Mode, String)> =
        tree.iter().map(|(path, entry)| (path, entry.mode, blob_id(&entry.content))).collect();
    tree_id(blobs.iter().map(|(path, mode, blob)| (path.as_slice(), *mode, blob.as_str())))
}

/// The tree that our own applier makes.
fn applied(diff: &[u8], start: &Tree) -> Result<Tree, ApplyError> {
    let mut tree = start.clone();
    for change in apply(diff, &|path| start.get(path).cloned())? {
        assert_eq!(start.get(&change.path), change.before.as_ref());
        match change.after {
            Some(entry) => drop(tree.insert(change.path, entry)),
            None => drop(tree.remove(&change.path)),
        }
    }
    Ok(tree)
}

/// A git repository in a temporary folder, deaf to the machine's configuration.
struct Git {
    dir: tempfile::TempDir,
}

impl Git {
    fn new() -> Self {
        // In memory where there is such a place: these tests make thousands of small files.
        let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let git = Self { dir };
        git.run(&["init", "-q"], None);
        git
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn try_run(&self, args: &[&str], input: Option<&[u8]>) -> Result<Vec<u8>, String> {
        use std::io::Write;
        let mut child = Command::new("git")
            .args(["-c", "core.autocrlf=false", "-c", "core.fsync=none"])
            .args(["-c", "apply.whitespace=nowarn"])
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "gc.auto=0"])
            .args(args)
            .current_dir(self.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("HOME", self.path())
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        if let Some(input) = input {
            child.stdin.take().unwrap().write_all(input).unwrap();
        }
        let output = child.wait_with_output().unwrap();
        if output.status.success() {
            Ok(output.stdout)
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    #[track_caller]
    fn run(&self, args: &[&str], input: Option<&[u8]>) -> Vec<u8> {
        self.try_run(args, input).unwrap_or_else(|error| panic!("git {args:?}: {error}"))
    }

    /// Puts `tree` into index and work tree, from nothing: blobs and index by plumbing, so that
    /// thousands of files cost a handful of processes.
    fn check_out(&self, tree: &Tree) {
        let mut import = b"reset refs/heads/start\ncommit refs/heads/start\ncommitter t <t@example.com> 0 +0000\ndata 0\ndeleteall\n".to_vec();
        for (path, entry) in tree {
            import.extend(format!("M {} inline ", entry.mode.octal()).bytes());
            let octal: String = path.iter().map(|byte| format!("\\{byte:03o}")).collect();
            import.extend(format!("\"{octal}\"").bytes());
            import.extend(format!("\ndata {}\n", entry.content.len()).bytes());
            import.extend(&*entry.content);
            import.push(b'\n');
        }
        self.run(&["fast-import", "--quiet", "--force"], Some(&import));
        self.run(&["checkout", "-q", "-f", "start"], None);
    }

    fn head_tree(&self) -> String {
        String::from_utf8(self.run(&["rev-parse", "HEAD^{tree}"], None)).unwrap().trim().to_owned()
    }

    /// The id of what now lies in the work tree.
    fn work_tree(&self) -> String {
        self.run(&["add", "-A", "-f", "."], None);
        String::from_utf8(self.run(&["write-tree"], None)).unwrap().trim().to_owned()
    }
}

/// The whole promise for one pair of trees: git applies the diff to a clean checkout and has the
/// end, our own applier has it too, and both directions are stated truthfully.
#[track_caller]
fn round_trip(start: &Tree, end: &Tree) -> Diff {
    let diff = diff(start, end);
    let shown = || String::from_utf8_lossy(&diff.bytes).into_owned();
    let git = Git::new();
    git.check_out(start);
    assert_eq!(git.head_tree(), id_of(start), "tree_id of the start");
    if !diff.bytes.is_empty() {
        let check = git.try_run(&["apply", "--check", "-"], Some(&diff.bytes));
        assert!(check.is_ok(), "{check:?}\n{}", shown());
        git.run(&["apply", "-"], Some(&diff.bytes));
    }
    assert_eq!(git.work_tree(), id_of(end), "{}", shown());
    // With links git's own diffs can't always be reversed: `-R` writes a regular file for a link
    // that became a file, and won't replace a link by a folder.
    let links = start.values().chain(end.values()).any(|entry| entry.mode.is_symlink());
    if !diff.bytes.is_empty() && !links {
        git.run(&["apply", "-R", "-"], Some(&diff.bytes));
        assert_eq!(git.work_tree(), id_of(start), "and back: {}", shown());
    }
    match applied(&diff.bytes, start) {
        Ok(tree) => assert_eq!(tree, *end, "{}", shown()),
        Err(error) => panic!("{error}\n{}", shown()),
    }
    diff
}
