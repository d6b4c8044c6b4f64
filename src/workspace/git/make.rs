//! A recorded start made again in an empty folder: the files of a commit from its blobs, and over
//! them what the start had on top. No checkout runs, so no hook and no filter of the repository does;
//! the repository itself is only read.
//!
//! The folder becomes a repository of its own with the same commit checked out and copies of the
//! objects: what a command does there must not reach the repository that it was made from. Ignored
//! files of the start are not there.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use thiserror::Error;

use super::copy::copy_objects;
use super::index::{GITLINK, LINK};
use super::objects::Objects;
use super::oid::checksum;
use super::tree::{self, TreeFile};
use super::{GitPlace, ObjectFormat, Oid};
use crate::diff::{Mode, TreeEntry, apply};
use crate::workspace::parallel::Crew;

const FILE_LIMIT: u64 = 256 << 20;

#[derive(Debug, Error)]
pub enum MakeError {
    #[error("{0}: there is no repository any more")]
    NoRepository(PathBuf),
    #[error("the commit {0} cannot be read: {1}")]
    Commit(String, String),
    #[error("the start's own changes do not apply to its commit: {0}")]
    StartDiff(String),
    #[error("the tree names a path that cannot be made: {0}")]
    Path(String),
    #[error("{0}: {1}")]
    Io(PathBuf, io::Error),
}

/// Makes the start in `to`, an empty folder. `branch` is what HEAD is to name, if it named one.
pub fn make_start(
    repository: &Path,
    commit: &str,
    branch: Option<&str>,
    start_diff: Option<&[u8]>,
    to: &Path,
) -> Result<(), MakeError> {
    let place = GitPlace::discover(repository)
        .filter(|place| place.work_root == repository)
        .ok_or_else(|| MakeError::NoRepository(repository.to_owned()))?;
    let unreadable = |why: String| MakeError::Commit(commit.to_owned(), why);
    let oid = Oid::from_hex(commit.as_bytes()).ok_or_else(|| unreadable("it is no id".into()))?;
    let objects = Objects::open(&place);
    let mut files = BTreeMap::new();
    let read = || -> Result<BTreeMap<Vec<u8>, TreeFile>, super::objects::ObjectError> {
        let root = tree::tree_of_commit(&objects, &oid)?;
        tree::flatten(&objects, &root, b"", &mut files)?;
        Ok(files)
    };
    let files = read().map_err(|error| unreadable(error.to_string()))?;
    let maker = Maker { to, objects: &objects, files: &files };
    for (path, file) in &files {
        maker.put_file(path, file).map_err(|error| match error {
            MakeError::Commit(_, why) => unreadable(why),
            other => other,
        })?;
    }
    maker.put_start(start_diff.unwrap_or_default())?;
    maker.put_repository(&place, &oid, branch)
}

struct Maker<'a> {
    to: &'a Path,
    objects: &'a Objects,
    files: &'a BTreeMap<Vec<u8>, TreeFile>,
}

impl Maker<'_> {
    fn content(&self, file: &TreeFile) -> Result<TreeEntry, MakeError> {
        let mode = match file.mode {
            LINK => Mode::Symlink,
            bits => Mode::from_permissions(bits),
        };
        let object = self
            .objects
            .read(&file.oid, FILE_LIMIT)
            .map_err(|error| MakeError::Commit(String::new(), error.to_string()))?;
        Ok(TreeEntry { mode, content: object.bytes.into() })
    }

    fn put_file(&self, path: &[u8], file: &TreeFile) -> Result<(), MakeError> {
        if file.mode == GITLINK {
            let target = self.target(path)?;
            return fs::create_dir_all(&target).map_err(|error| MakeError::Io(target, error));
        }
        self.put(path, Some(&self.content(file)?))
    }

    fn put_start(&self, diff: &[u8]) -> Result<(), MakeError> {
        let committed = |path: &[u8]| {
            let file = self.files.get(path).filter(|file| file.mode != GITLINK)?;
            self.content(file).ok()
        };
        let changes =
            apply(diff, &committed).map_err(|error| MakeError::StartDiff(error.to_string()))?;
        // What goes makes room for what comes.
        for change in changes.iter().filter(|change| change.after.is_none()) {
            self.put(&change.path, None)?;
        }
        for change in changes.iter().filter(|change| change.after.is_some()) {
            self.put(&change.path, change.after.as_ref())?;
        }
        Ok(())
    }

    /// The place of a path, below the folder by real folders only.
    fn target(&self, path: &[u8]) -> Result<PathBuf, MakeError> {
        let odd = || MakeError::Path(String::from_utf8_lossy(path).into_owned());
        let mut target = self.to.to_owned();
        for part in path.split(|byte| *byte == b'/') {
            if fs::symlink_metadata(&target).is_ok_and(|meta| meta.is_symlink()) {
                return Err(odd());
            }
            if matches!(part, b"" | b"." | b"..") || part.eq_ignore_ascii_case(b".git") {
                return Err(odd());
            }
            target.push(OsStr::from_bytes(part));
        }
        Ok(target)
    }

    fn put(&self, path: &[u8], entry: Option<&TreeEntry>) -> Result<(), MakeError> {
        let target = self.target(path)?;
        let put = || -> io::Result<()> {
            match fs::symlink_metadata(&target) {
                Ok(meta) if meta.is_dir() => {}
                Ok(_) => fs::remove_file(&target)?,
                Err(_) => {}
            }
            let Some(entry) = entry else {
                self.remove_empty_folders(&target);
                return Ok(());
            };
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
        put().map_err(|error| MakeError::Io(target.clone(), error))
    }

    /// Git knows no empty folders.
    fn remove_empty_folders(&self, target: &Path) {
        let mut folder = target.parent();
        while let Some(path) = folder.filter(|path| *path != self.to) {
            if fs::remove_dir(path).is_err() {
                break;
            }
            folder = path.parent();
        }
    }

    /// HEAD, the branch, an index of the commit, and the way to the objects.
    fn put_repository(
        &self,
        place: &GitPlace,
        commit: &Oid,
        branch: Option<&str>,
    ) -> Result<(), MakeError> {
        let git = self.to.join(".git");
        let plain = |name: &&str| {
            !name.is_empty()
                && !name.contains("..")
                && name.split('/').all(|part| !part.is_empty() && !part.starts_with('.'))
                && name.chars().all(|c| !c.is_control() && !" ~^:?*[\\".contains(c))
        };
        let config = match place.format() {
            ObjectFormat::Sha1 => "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
            ObjectFormat::Sha256 => {
                "[core]\n\trepositoryformatversion = 1\n\tbare = false\n[extensions]\n\tobjectformat = sha256\n"
            }
        };
        let write = || -> io::Result<()> {
            for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
                fs::create_dir_all(git.join(folder))?;
            }
            fs::write(git.join("config"), config)?;
            let crew = Crew { threads: 2, stopped: &AtomicBool::new(false) };
            copy_objects(
                &place.common_dir.join("objects"),
                &git.join("objects"),
                place.format(),
                &crew,
            )?;
            let hex = format!("{}\n", commit.hex());
            match branch.filter(plain) {
                Some(branch) => {
                    let file = git.join("refs/heads").join(branch);
                    if let Some(parent) = file.parent() {
                        fs::create_dir_all(parent)?;
                    }
                    fs::write(file, hex)?;
                    fs::write(git.join("HEAD"), format!("ref: refs/heads/{branch}\n"))?;
                }
                None => fs::write(git.join("HEAD"), hex)?,
            }
            fs::write(git.join("index"), index_of(self.files, place.format()))
        };
        write().map_err(|error| MakeError::Io(git.clone(), error))
    }
}

/// An index, version 2, that has seen none of the files: git looks at each once and compares.
fn index_of(files: &BTreeMap<Vec<u8>, TreeFile>, format: ObjectFormat) -> Vec<u8> {
    const MAX_NAME: usize = 0xfff;
    let mut bytes = b"DIRC".to_vec();
    bytes.extend(2u32.to_be_bytes());
    bytes.extend(u32::try_from(files.len()).unwrap_or(u32::MAX).to_be_bytes());
    for (path, file) in files {
        let began = bytes.len();
        // Times, device and inode: unknown.
        bytes.extend([0; 24]);
        bytes.extend(file.mode.to_be_bytes());
        // Owner, group, size.
        bytes.extend([0; 12]);
        bytes.extend(file.oid.as_bytes());
        bytes.extend((path.len().min(MAX_NAME) as u16).to_be_bytes());
        bytes.extend(path);
        // At least one zero, and up to a multiple of eight.
        let length = bytes.len() - began;
        bytes.resize(began + (length / 8 + 1) * 8, 0);
    }
    let sum = checksum(format, &bytes);
    bytes.extend(sum);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_of_a_tree_leads_out_of_the_folder_or_into_its_git() {
        let dir = tempfile::tempdir().unwrap();
        let to = dir.path().join("to");
        fs::create_dir(&to).unwrap();
        symlink(dir.path(), to.join("link")).unwrap();
        let files = BTreeMap::new();
        let place = GitPlace {
            work_root: to.clone(),
            git_dir: to.join(".git"),
            common_dir: to.join(".git"),
            head: super::super::Head::default(),
            settings: super::super::config::parse(b""),
        };
        let objects = Objects::open(&place);
        let maker = Maker { to: &to, objects: &objects, files: &files };
        for path in ["../x", "/x", "a/../x", ".git/config", "a/.GIT/x", "link/x", ""] {
            assert!(maker.target(path.as_bytes()).is_err(), "{path}");
        }
        assert!(maker.target(b"a/b.txt").is_ok());
    }
}
