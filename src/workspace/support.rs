//! Small questions and orders of the runtime: paths before there is a Turn, what the model is told of
//! the tree, and putting a file back.

use super::guard::Guard;
use super::{ChangeKind, Workspace, WorkspaceError, shown};
use crate::diff::{Mode, TreeEntry};
use crate::policy::FileRules;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The absolute path that `text`, given in the folder `cwd`, stands for: all links followed.
pub fn resolve(cwd: &Path, text: &str) -> Result<PathBuf, String> {
    super::resolve::resolve(cwd, Path::new(text), true)
}

/// The same, but a link in the last place is the entry itself: what creating, replacing and deleting
/// act on.
pub fn resolve_entry(cwd: &Path, text: &str) -> Result<PathBuf, String> {
    super::resolve::resolve(cwd, Path::new(text), false)
}

/// What the model is told of the tree at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// Branch and commit, or that there is no git.
    pub git: String,
    /// A bounded outline of the tree.
    pub outline: String,
    /// Files that differ from the start: path → `added`, `modified`, `deleted`.
    pub changed: BTreeMap<String, &'static str>,
}

fn word(kind: ChangeKind) -> &'static str {
    match kind {
        ChangeKind::Added => "added",
        ChangeKind::Modified => "modified",
        ChangeKind::Deleted => "deleted",
    }
}

impl Workspace {
    /// What is known of the tree, without a walk: the outline of the first look, and what calls
    /// changed since.
    pub fn observe(&mut self) -> Result<Observed, WorkspaceError> {
        if self.outline_text.is_none() {
            self.outline_text = Some(self.outline()?.tree.lines().collect::<Vec<_>>().join("\n"));
        }
        let git = match self.git() {
            None => "no git repository".to_owned(),
            Some(git) => {
                let branch = git.head.branch.as_deref().unwrap_or("detached");
                match git.head.commit {
                    Some(commit) => {
                        let hex = commit.hex();
                        format!("{branch} at {}", hex.get(..12).unwrap_or(&hex))
                    }
                    None => format!("{branch}, no commit yet"),
                }
            }
        };
        let changed = self.captured.iter().flat_map(|captured| &captured.track.changed);
        let changed = changed.map(|(path, kind)| (shown(path), word(*kind))).collect();
        Ok(Observed { git, outline: self.outline_text.clone().unwrap_or_default(), changed })
    }

    /// Files that the last look at the tree saw; 0 before the first.
    pub fn size(&self) -> usize {
        let entries = self.captured.iter().flat_map(|captured| captured.track.last.entries());
        entries.filter(|entry| entry.stamp.has_content()).count()
    }

    /// Whether what [`Workspace::observe`] tells of the tree is that of an earlier moment.
    pub fn has_outline(&self) -> bool {
        self.outline_text.is_some()
    }

    /// Watches protected places inside writable folders, and what else these rules protect by its name.
    pub fn guard(&mut self, places: Vec<PathBuf>, rules: FileRules) {
        self.guard = Guard::new(places, self.root.path());
        self.watch_names(rules);
    }

    /// To be called before a command: takes down what is in the protected places.
    pub fn watch_protected(&mut self) -> Result<(), WorkspaceError> {
        if self.guard.is_taken() {
            return Ok(());
        }
        self.guard
            .take()
            .map_err(|cause| WorkspaceError::io("keep", b"the protected places", cause))?;
        let written = self.bear_witness();
        if written.is_err() {
            // The next one that is about to begin must not find this done.
            self.guard.forget();
        }
        written
    }

    /// To be called after a command: puts the protected places back, and names what was undone.
    pub fn put_protected_back(&mut self) -> Result<Vec<String>, WorkspaceError> {
        self.guard
            .put_back()
            .map_err(|cause| WorkspaceError::io("keep", b"the protected places", cause))
    }

    /// Whether the protected places differ from what was taken down; nothing is put back.
    pub fn protected_differ(&self) -> Result<bool, WorkspaceError> {
        self.guard
            .differs()
            .map_err(|cause| WorkspaceError::io("look at", b"the protected places", cause))
    }

    /// Whether a file of the workspace is what it was when the Turn started, as far as the looks after
    /// patches and commands tell. What lies outside the workspace is not known, and counts as changed.
    pub fn is_as_at_start(&self, path: &Path) -> bool {
        let Ok(inside) = path.strip_prefix(self.root()) else { return false };
        let Some(captured) = &self.captured else { return true };
        !captured.track.changed.contains_key(inside.as_os_str().as_bytes())
    }

    /// Whether a regular file exists at this path, no link followed.
    pub fn has_file(&self, path: &str) -> bool {
        fs::symlink_metadata(self.root().join(path)).is_ok_and(|meta| meta.is_file())
    }

    /// A path of the diff as one relative to the workspace.
    pub fn inside<'a>(&self, path: &'a str) -> &'a str {
        let prefix = String::from_utf8_lossy(&self.prefix()).into_owned();
        path.strip_prefix(prefix.as_str()).unwrap_or(path)
    }

    /// Puts one file of the diff back to a state it had, for undoing what a check of the operator
    /// changed. Its processes have ended; links on the way are not followed.
    pub fn put_back(
        &mut self,
        path: &[u8],
        entry: Option<&TreeEntry>,
    ) -> Result<(), WorkspaceError> {
        let prefix = self.prefix();
        let inside = path.strip_prefix(prefix.as_slice()).unwrap_or(path);
        let target = self.root().join(OsStr::from_bytes(inside));
        let put = || -> std::io::Result<()> {
            self.real_parents(&target)?;
            match fs::symlink_metadata(&target) {
                Ok(meta) if meta.is_dir() && entry.is_some() => fs::remove_dir_all(&target)?,
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => fs::remove_file(&target)?,
                Err(_) => {}
            }
            let Some(entry) = entry else { return Ok(()) };
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            if entry.mode == Mode::Symlink {
                return symlink(OsStr::from_bytes(&entry.content), &target);
            }
            fs::write(&target, &entry.content)?;
            let bits = if entry.mode == Mode::Executable { 0o755 } else { 0o644 };
            fs::set_permissions(&target, fs::Permissions::from_mode(bits))
        };
        put().map_err(|cause| WorkspaceError::io("put back", inside, cause))
    }

    /// Refuses a path that a link leads out of the workspace.
    pub(super) fn real_parents(&self, target: &Path) -> std::io::Result<()> {
        let inside = target.strip_prefix(self.root()).map_err(std::io::Error::other)?;
        let mut path = self.root().to_owned();
        for part in inside.parent().into_iter().flat_map(Path::components) {
            path.push(part);
            if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_symlink()) {
                return Err(std::io::Error::other(format!("{} is a link", path.display())));
            }
        }
        Ok(())
    }
}
