//! Watches the parts of a `.git` folder that decide what later git commands run.
//!
//! A Turn that writes a hook or a setting changes nothing in the diff, yet the next person who
//! commits runs it. So these files are hashed at the start and compared at the end; one that was
//! absent and appears counts as well.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::place::git_dir_of;
use super::{GitPlace, ObjectFormat, Oid, read_bounded};

const FILE_LIMIT: u64 = 1 << 20;
/// Bytes that are hashed in one look; files beyond are told apart by size and times.
const TOTAL_LIMIT: u64 = 32 << 20;
const MAX_FILES: usize = 2000;
const MAX_DEPTH: usize = 6;
const MAX_NESTED: usize = 100;

/// One file of git's own that the Turn changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitWarning {
    pub path: PathBuf,
    /// "added", "changed" or "removed".
    pub what: &'static str,
}

/// The watched files as they were at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Watched {
    files: BTreeMap<PathBuf, Oid>,
    hashed: u64,
}

impl Watched {
    /// Look at the repository around the workspace and at those nested in it.
    pub(crate) fn look(
        place: Option<&GitPlace>,
        workspace: &Path,
        nested: &HashSet<Vec<u8>>,
    ) -> Self {
        let mut watched = Self::default();
        for folder in place.iter().flat_map(|place| [&place.git_dir, &place.common_dir]) {
            watched.look_at(folder, 0);
        }
        let mut nested: Vec<&Vec<u8>> = nested.iter().collect();
        nested.sort();
        for folder in nested.into_iter().take(MAX_NESTED) {
            if let Some(git_dir) = git_dir_of(&workspace.join(OsStr::from_bytes(folder))) {
                watched.look_at(&git_dir, MAX_DEPTH);
            }
        }
        watched
    }

    fn look_at(&mut self, git_dir: &Path, depth: usize) {
        for name in ["config", "config.worktree", "commondir", "gitdir"] {
            self.note(&git_dir.join(name));
        }
        for folder in ["hooks", "info"] {
            self.note_folder(&git_dir.join(folder));
        }
        if depth >= MAX_DEPTH {
            return;
        }
        // Submodules keep their own config and hooks below `modules`.
        for inner in folders_in(&git_dir.join("modules")) {
            self.look_at(&inner, depth + 1);
            if !inner.join("HEAD").exists() {
                folders_in(&inner).iter().for_each(|deeper| self.look_at(deeper, depth + 2));
            }
        }
    }

    fn note_folder(&mut self, folder: &Path) {
        if folder.is_symlink() {
            // Where it leads is what counts; what lies there is not git's own folder.
            return self.note(folder);
        }
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries.flatten().take(MAX_FILES) {
            self.note(&entry.path());
        }
    }

    fn note(&mut self, path: &Path) {
        if self.files.len() >= MAX_FILES {
            return;
        }
        let Ok(meta) = path.symlink_metadata() else { return };
        if meta.is_dir() {
            return;
        }
        self.hashed += meta.len();
        let readable = self.hashed <= TOTAL_LIMIT;
        let content = match std::fs::read_link(path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            // What cannot be read is told apart by what the file system says of it.
            Err(_) => readable
                .then(|| read_bounded(path, FILE_LIMIT).ok())
                .flatten()
                .unwrap_or_else(|| format!("{} {:?}", meta.len(), meta.modified()).into_bytes()),
        };
        let executable = std::os::unix::fs::MetadataExt::mode(&meta) & 0o111 != 0;
        let kind = if executable { "executable" } else { "file" };
        self.files.insert(path.to_owned(), ObjectFormat::Sha256.id_of(kind, &content));
    }

    /// What differs from an earlier look.
    pub(crate) fn since(&self, start: &Self) -> Vec<GitWarning> {
        let mut warnings = Vec::new();
        for (path, id) in &self.files {
            match start.files.get(path) {
                None => warnings.push(GitWarning { path: path.clone(), what: "added" }),
                Some(before) if before != id => {
                    warnings.push(GitWarning { path: path.clone(), what: "changed" });
                }
                Some(_) => {}
            }
        }
        let gone = start.files.keys().filter(|path| !self.files.contains_key(*path));
        warnings.extend(gone.map(|path| GitWarning { path: path.clone(), what: "removed" }));
        warnings
    }
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .take(MAX_FILES)
        .collect()
}
