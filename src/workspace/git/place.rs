//! Where the repository of a workspace lies, and what HEAD says.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::config::{self, Settings};
use super::{ObjectFormat, Oid, read_bounded};

const SMALL: u64 = 1 << 20;
const PACKED_REFS: u64 = 256 << 20;

/// A repository around a workspace, found by reading files. In a linked worktree `git_dir` is the
/// worktree's own folder inside the main repository and `common_dir` the main repository's.
#[derive(Debug, Clone)]
pub struct GitPlace {
    pub work_root: PathBuf,
    pub git_dir: PathBuf,
    pub common_dir: PathBuf,
    pub head: Head,
    pub(crate) settings: Settings,
}

/// What HEAD pointed to when it was read. A branch without a commit is one that is not born yet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    pub branch: Option<String>,
    pub commit: Option<Oid>,
}

impl GitPlace {
    /// The repository that holds `folder`, a resolved path, or `None`.
    pub fn discover(folder: &Path) -> Option<Self> {
        folder.ancestors().find_map(Self::at)
    }

    fn at(work_root: &Path) -> Option<Self> {
        let git_dir = git_dir_of(work_root)?;
        let common_dir = common_dir_of(&git_dir);
        let text = read_bounded(&common_dir.join("config"), SMALL).unwrap_or_default();
        let settings = config::parse(&text);
        let mut place = Self {
            work_root: work_root.to_owned(),
            git_dir,
            common_dir,
            head: Head::default(),
            settings,
        };
        place.head = place.read_head();
        Some(place)
    }

    /// Which hash names the objects.
    pub fn format(&self) -> ObjectFormat {
        self.settings.format
    }

    /// Read HEAD as it is now. Refs kept in a table file are not read: then both are unknown.
    pub fn read_head(&self) -> Head {
        if self.settings.reftable {
            return Head::default();
        }
        let Ok(text) = read_bounded(&self.git_dir.join("HEAD"), SMALL) else {
            return Head::default();
        };
        match target_of(&text) {
            Some(Target::Commit(commit)) => Head { branch: None, commit: Some(commit) },
            Some(Target::Ref(name)) => {
                let commit = self.resolve_ref(&name, 5);
                let branch = name.strip_prefix("refs/heads/").unwrap_or(&name).to_owned();
                Head { branch: Some(branch), commit }
            }
            None => Head::default(),
        }
    }

    fn resolve_ref(&self, name: &str, depth: usize) -> Option<Oid> {
        if depth == 0 || !is_ref_name(name) {
            return None;
        }
        for folder in [&self.git_dir, &self.common_dir] {
            let Ok(text) = read_bounded(&folder.join(name), SMALL) else { continue };
            return match target_of(&text)? {
                Target::Commit(commit) => Some(commit),
                Target::Ref(next) => self.resolve_ref(&next, depth - 1),
            };
        }
        self.packed_ref(name)
    }

    fn packed_ref(&self, name: &str) -> Option<Oid> {
        let text = read_bounded(&self.common_dir.join("packed-refs"), PACKED_REFS).ok()?;
        text.split(|byte| *byte == b'\n').find_map(|line| {
            let space = line.iter().position(|byte| *byte == b' ')?;
            let (id, found) = line.split_at(space);
            (found.get(1..)? == name.as_bytes()).then(|| Oid::from_hex(id))?
        })
    }
}

/// The commit that a nested repository (a submodule, a clone inside) has checked out.
pub(crate) fn head_of_nested(folder: &Path) -> Option<Oid> {
    GitPlace::at(folder)?.head.commit
}

pub(super) fn git_dir_of(work_root: &Path) -> Option<PathBuf> {
    let dot_git = work_root.join(".git");
    let meta = std::fs::metadata(&dot_git).ok()?;
    let git_dir = if meta.is_dir() {
        dot_git
    } else {
        let text = read_bounded(&dot_git, SMALL).ok()?;
        let path = text.strip_prefix(b"gitdir:")?.trim_ascii();
        // A relative path is meant from the folder that holds the file.
        work_root.join(Path::new(std::ffi::OsStr::from_bytes(path)))
    };
    let git_dir = std::fs::canonicalize(git_dir).ok()?;
    git_dir.join("HEAD").symlink_metadata().ok()?;
    Some(git_dir)
}

fn common_dir_of(git_dir: &Path) -> PathBuf {
    let Ok(text) = read_bounded(&git_dir.join("commondir"), SMALL) else {
        return git_dir.to_owned();
    };
    let path = git_dir.join(Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii())));
    std::fs::canonicalize(path).unwrap_or_else(|_| git_dir.to_owned())
}

enum Target {
    Ref(String),
    Commit(Oid),
}

fn target_of(text: &[u8]) -> Option<Target> {
    let text = text.trim_ascii();
    match text.strip_prefix(b"ref:") {
        Some(name) => {
            let name = std::str::from_utf8(name.trim_ascii()).ok()?;
            is_ref_name(name).then(|| Target::Ref(name.to_owned()))
        }
        None => Oid::from_hex(text).map(Target::Commit),
    }
}

/// A ref's name becomes part of a path, so nothing that could climb out of the folder passes.
fn is_ref_name(name: &str) -> bool {
    name.starts_with("refs/")
        && !name.contains('\0')
        && name.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}
