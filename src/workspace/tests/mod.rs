//! The door as a whole, on real folders and with a real git.

mod merged;
mod capture;
mod commits;
mod damage;
mod doors;
mod forms;
mod hostile;
mod repositories;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::*;
use crate::diff::{FileChange, Mode};
use crate::patch::{FileState, Files, NewFile, Plan};
use crate::policy::{ReadPermit, WritePermit};

/// A folder for the workspace and one for the run's store, side by side.
struct Scene {
    _all: tempfile::TempDir,
    root: PathBuf,
    store: PathBuf,
}

impl Scene {
    fn plain() -> Self {
        Self::within(tempfile::tempdir().expect("a folder"))
    }

    /// In memory where the system has such a place: for tests of many commits, whose flushes would
    /// wait for the disk.
    fn in_memory() -> Self {
        let all = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let scene = Self::within(all.expect("a folder"));
        scene.run_git(&["init", "-q", "-b", "main"]);
        scene
    }

    fn within(all: tempfile::TempDir) -> Self {
        let base = std::fs::canonicalize(all.path()).expect("its path");
        let (root, store) = (base.join("work"), base.join("store"));
        std::fs::create_dir(&root).expect("the workspace");
        std::fs::create_dir(&store).expect("the store");
        Self { _all: all, root, store }
    }

    fn git() -> Self {
        let scene = Self::plain();
        scene.run_git(&["init", "-q", "-b", "main"]);
        scene
    }

    /// Besides the workspace.
    fn beside(&self, name: &str) -> PathBuf {
        self.root.parent().expect("a parent").join(name)
    }

    fn run_git(&self, words: &[&str]) -> String {
        git_in(&self.root, words)
    }

    fn commit_all(&self) {
        self.run_git(&["add", "-A"]);
        self.run_git(&["commit", "-q", "--allow-empty", "-m", "all"]);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Write a file. New files and folders get the usual modes, whatever the umask of the tests.
    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        let usual = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        };
        let above: Vec<&Path> = path.ancestors().skip(1).take_while(|up| !up.exists()).collect();
        for folder in above.into_iter().rev() {
            std::fs::create_dir(folder).expect("its folder");
            usual(folder, 0o755);
        }
        let new = !path.exists();
        std::fs::write(&path, content).expect("a file");
        if new {
            usual(&path, 0o644);
        }
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(name)).ok()
    }

    fn chmod(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(mode))
            .expect("chmod");
    }

    fn mode(&self, name: &str) -> u32 {
        let meta = std::fs::symlink_metadata(self.path(name)).expect("a file");
        meta.permissions().mode() & 0o7777
    }

    fn link(&self, target: impl AsRef<Path>, name: &str) {
        std::os::unix::fs::symlink(target, self.path(name)).expect("a link");
    }

    fn remove(&self, name: &str) {
        std::fs::remove_file(self.path(name)).expect("removed");
    }

    fn options(&self) -> Options {
        Options { exclude: Vec::new(), store: self.store.clone(), limits: Limits::default() }
    }

    fn open(&self) -> Workspace {
        Workspace::open(&self.root, self.options()).expect("opens")
    }

    fn captured(&self) -> Workspace {
        let mut workspace = self.open();
        workspace.capture_start().expect("captures");
        workspace
    }

    /// Every path below the workspace but `.git`: its kind, mode and content. Two of these are
    /// equal when the trees are.
    fn tree(&self) -> Vec<(PathBuf, u32, Vec<u8>)> {
        let mut found = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let entry = entry.expect("an entry");
                let (path, meta) = (entry.path(), entry.path().symlink_metadata().expect("meta"));
                if entry.file_name() == ".git" {
                    continue;
                }
                let content = if meta.is_symlink() {
                    std::fs::read_link(&path).expect("a link").into_os_string().into_encoded_bytes()
                } else if meta.is_file() {
                    std::fs::read(&path).expect("a file")
                } else {
                    Vec::new()
                };
                if meta.is_dir() {
                    open.push(path.clone());
                }
                found.push((path, meta.permissions().mode(), content));
            }
        }
        found.sort();
        found
    }
}

fn git_in(folder: &Path, words: &[&str]) -> String {
    let out = Command::new("git")
        .current_dir(folder)
        .args(words)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_AUTHOR_NAME", "A")
        .env("GIT_AUTHOR_EMAIL", "a@example.com")
        .env("GIT_COMMITTER_NAME", "A")
        .env("GIT_COMMITTER_EMAIL", "a@example.com")
        .env("GIT_ALLOW_PROTOCOL", "file")
        .output()
        .expect("git runs");
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "git {words:?}: {err}");
    String::from_utf8_lossy(&out.stdout).trim_end().to_owned()
}

fn new_file(text: impl AsRef<[u8]>, mode: u32) -> NewFile {
    NewFile::regular(Arc::from(text.as_ref()), mode)
}

fn regular(text: impl AsRef<[u8]>, mode: u32) -> FileState {
    FileState::Regular { bytes: Arc::from(text.as_ref()), mode }
}

fn change(path: &str, before: Option<FileState>, after: Option<NewFile>) -> crate::patch::Change {
    let path = path.to_owned();
    let (moved_from, note) = (None, String::new());
    crate::patch::Change { path, moved_from, before, after, added: 0, removed: 0, note }
}

fn plan(changes: Vec<crate::patch::Change>) -> Plan {
    Plan { changes, ..Plan::default() }
}

/// A permit for exactly these entries of the workspace.
fn permit(workspace: &Workspace, paths: &[&str]) -> WritePermit {
    let resolve = |path: &&str| workspace.resolve_entry(workspace.root(), path).expect("resolves");
    WritePermit::operator(paths.iter().map(resolve).collect())
}

/// Plan from the disk and commit: what the tool does for a patch.
fn edit(workspace: &Workspace, path: &str, text: Option<&str>) -> Result<Committed, CommitError> {
    let before = workspace.files().read(path).expect("reads");
    let mode = match &before {
        Some(FileState::Regular { mode, .. }) => *mode,
        _ => 0o644,
    };
    let after = text.map(|text| new_file(text, mode));
    workspace.commit(&permit(workspace, &[path]), &plan(vec![change(path, before, after)]))
}

/// The diff in short: `A path`, `M path`, `D path`.
fn short(files: &[FileChange]) -> Vec<String> {
    files
        .iter()
        .map(|file| {
            let letter = match (&file.before, &file.after) {
                (None, _) => 'A',
                (_, None) => 'D',
                _ => 'M',
            };
            format!("{letter} {}", shown(&file.path))
        })
        .collect()
}

fn content(side: &Option<crate::diff::TreeEntry>) -> &[u8] {
    &side.as_ref().expect("a side").content
}

fn mode(side: &Option<crate::diff::TreeEntry>) -> Mode {
    side.as_ref().expect("a side").mode
}

fn byte_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}
