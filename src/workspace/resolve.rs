//! From the words of a call to the path that is judged.
//!
//! A path is followed through every link as far as it exists, `..` is taken as the system takes it,
//! and what does not exist yet is appended as it stands. The result is what the policy judges and
//! what a Permit carries; the door then refuses any link on that path, so that what was judged is
//! what is touched.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::Workspace;
use super::error::shown;

/// As many links as the kernel follows before it gives up.
const MAX_LINKS: usize = 40;
const MAX_PATH: usize = 4096;

impl Workspace {
    /// The absolute path that `text`, given in the folder `cwd`, stands for: all links followed.
    pub fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        resolve(&self.root().join(cwd), Path::new(text), true)
    }

    /// Like [`Workspace::resolve`], but a link in the last place is not followed: the path of the
    /// entry itself, which is what creating, replacing and deleting act on.
    pub fn resolve_entry(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        resolve(&self.root().join(cwd), Path::new(text), false)
    }

    /// The entry that a path, absolute or relative to the workspace, names, again relative to the workspace; an
    /// error where it leads out of it, into git's own folder, or into what is left out.
    pub(super) fn entry_inside(&self, path: impl AsRef<Path>) -> Result<Vec<u8>, String> {
        let resolved = resolve(self.root(), path.as_ref(), false)?;
        let inside = resolved
            .strip_prefix(self.root())
            .map_err(|_| format!("it leads out of the workspace, to {}", show(&resolved)))?;
        let inside = inside.as_os_str().as_bytes();
        if inside.is_empty() {
            return Err("it is the workspace itself".to_owned());
        }
        if inside.split(|byte| *byte == b'/').any(|name| name.eq_ignore_ascii_case(b".git")) {
            return Err("it lies in git's own folder".to_owned());
        }
        if self.is_excluded(inside) {
            return Err("it lies among the run's artifacts".to_owned());
        }
        Ok(inside.to_vec())
    }
}

pub(super) fn resolve(base: &Path, path: &Path, follow_last: bool) -> Result<PathBuf, String> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err("the path is empty".to_owned());
    }
    if bytes.contains(&0) {
        return Err("the path holds a NUL byte".to_owned());
    }
    if bytes.len() > MAX_PATH {
        return Err(format!("the path is longer than {MAX_PATH} bytes"));
    }
    let mut walk = Resolver { done: PathBuf::from("/"), open: Vec::new(), links: 0 };
    walk.open_up(&base.join(path));
    walk.run(follow_last)?;
    Ok(walk.done)
}

/// One step of a path still to be taken.
enum Part {
    Name(OsString),
    Up,
}

struct Resolver {
    done: PathBuf,
    /// What is still to come, the next one last.
    open: Vec<Part>,
    links: usize,
}

impl Resolver {
    /// Put the parts of `path` in front of what is still to come.
    fn open_up(&mut self, path: &Path) {
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.open.push(Part::Name(name.to_owned())),
                Component::ParentDir => self.open.push(Part::Up),
                // The absolute start is the last one seen here and clears what stands before it.
                Component::RootDir => self.done = PathBuf::from("/"),
                Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }

    fn run(&mut self, follow_last: bool) -> Result<(), String> {
        while let Some(part) = self.open.pop() {
            let name = match part {
                Part::Up => {
                    self.done.pop();
                    continue;
                }
                Part::Name(name) => name,
            };
            self.done.push(&name);
            if self.open.is_empty() && !follow_last {
                return Ok(());
            }
            self.follow(&name)?;
            if self.done.as_os_str().len() > MAX_PATH {
                return Err(format!("the path is longer than {MAX_PATH} bytes"));
            }
        }
        Ok(())
    }

    /// If what was reached is a link, go on from its target.
    fn follow(&mut self, name: &OsStr) -> Result<(), String> {
        match std::fs::symlink_metadata(&self.done) {
            Ok(meta) if meta.is_symlink() => {}
            Ok(_) => return Ok(()),
            // What does not exist has no links in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", show(&self.done))),
        }
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(format!("{}: too many symbolic links", show(&self.done)));
        }
        let target = std::fs::read_link(&self.done)
            .map_err(|error| format!("{}: {error}", show(&self.done)))?;
        if target.as_os_str().is_empty() {
            return Err(format!("{}: an empty link", shown(name.as_bytes())));
        }
        self.done.pop();
        self.open_up(&target);
        Ok(())
    }
}

fn show(path: &Path) -> String {
    shown(path.as_os_str().as_bytes())
}
