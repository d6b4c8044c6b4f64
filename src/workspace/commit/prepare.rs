//! The first part of a commit: everything is checked, nothing is touched.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Stat};

use super::Wanted;
use super::journal::{Act, Gone, PathText};
use crate::patch::{FileState, NewFile};
use crate::policy::WritePermit;
use crate::workspace::Workspace;
use crate::workspace::beneath::{kind_of, split};
use crate::workspace::error::{CommitError, shown};
use crate::workspace::manifest::{Stamp, links_of};
use crate::workspace::read::state_of;

/// A change that was found to be possible.
pub(super) struct Step {
    /// Relative to the workspace, through no link.
    pub(super) path: Vec<u8>,
    pub(super) act: Act,
    pub(super) before: Option<FileState>,
    pub(super) after: Option<NewFile>,
    pub(super) old: Option<Old>,
    /// Where the temporary file lies; see [`super::journal::Record`].
    pub(super) folder: Vec<u8>,
    pub(super) temp: String,
    pub(super) makes_way: bool,
    /// The mode of the new file is subject to the umask.
    pub(super) by_umask: bool,
    /// A folder stands at its place, which other steps empty.
    over_folder: bool,
}

/// The file that stands there now, as it was when its content was compared.
#[derive(Debug, Clone, Copy)]
pub(super) struct Old {
    pub(super) stamp: Stamp,
    pub(super) links: u64,
    pub(super) owner: (u32, u32),
}

/// All steps, the folders that go because files take their places, inner ones before outer ones,
/// and the folders that must be made, outer ones before inner ones.
pub(super) struct Prepared {
    pub(super) steps: Vec<Step>,
    pub(super) gone: Vec<Gone>,
    pub(super) folders: Vec<Vec<u8>>,
}

pub(super) fn prepare(
    workspace: &Workspace,
    permit: &WritePermit,
    writes: &[Wanted],
    id: &str,
) -> Result<Prepared, CommitError> {
    let mut steps = Vec::with_capacity(writes.len());
    let mut seen = HashSet::new();
    for (number, change) in writes.iter().enumerate() {
        let temp = format!(".turnkey-{id}-{number}");
        let Some(step) = check(workspace, permit, change, temp)? else { continue };
        if !seen.insert(step.path.clone()) {
            return Err(refused(change, "two changes of the patch reach the same file"));
        }
        steps.push(step);
    }
    make_way(&mut steps)?;
    let gone = clear_folders(workspace, &mut steps)?;
    steps.sort_by_key(|step| !step.makes_way);
    let folders = missing_folders(workspace, &mut steps)?;
    Ok(Prepared { steps, gone, folders })
}

fn refused(change: &Wanted, why: impl Into<String>) -> CommitError {
    CommitError::Refused { path: shown(&change.path), why: why.into() }
}

fn check(
    workspace: &Workspace,
    permit: &WritePermit,
    change: &Wanted,
    temp: String,
) -> Result<Option<Step>, CommitError> {
    let path = workspace
        .entry_inside(Path::new(OsStr::from_bytes(&change.path)))
        .map_err(|why| refused(change, why))?;
    let absolute = workspace.absolute(&path);
    if !permit.covers(&absolute) {
        let why = format!("{} is not what was permitted", shown(&workspace.absolute_bytes(&path)));
        return Err(refused(change, why));
    }
    let act = match (&change.before, &change.after) {
        (None, None) => return Ok(None),
        (Some(FileState::Directory | FileState::Other), _) => {
            return Err(refused(change, "only files and links can be replaced or deleted"));
        }
        (None, Some(_)) => Act::Create,
        (Some(_), Some(_)) => Act::Replace,
        (Some(_), None) => Act::Delete,
    };
    let (old, over_folder) = match compare(workspace, change, &path)? {
        Standing::Nothing => (None, false),
        Standing::Folder => (None, true),
        Standing::File(old) => (Some(old), false),
    };
    Ok(Some(Step {
        folder: split(&path).0.to_vec(),
        path,
        act,
        before: change.before.clone(),
        after: change.after.clone(),
        old,
        temp,
        makes_way: false,
        by_umask: change.by_umask,
        over_folder,
    }))
}

/// A file that a patch deletes may stand where another of its files needs a folder: such deletions
/// go first. Any other change to a file that is also a folder makes no sense.
fn make_way(steps: &mut [Step]) -> Result<(), CommitError> {
    let acts: HashMap<Vec<u8>, Act> =
        steps.iter().map(|step| (step.path.clone(), step.act)).collect();
    let mut in_the_way = HashSet::new();
    for step in steps.iter() {
        for folder in folders_above(&step.path) {
            match acts.get(folder) {
                Some(Act::Delete) if step.act == Act::Create => {
                    in_the_way.insert(folder.to_vec());
                }
                // A folder stands there that is emptied: `clear_folders` makes sure of it.
                Some(Act::Create) if step.act == Act::Delete => {}
                Some(_) => {
                    let folder = shown(folder);
                    let why = format!("the patch also changes {folder}, which would be its folder");
                    return Err(CommitError::Refused { path: shown(&step.path), why });
                }
                None => {}
            }
        }
    }
    for step in steps.iter_mut() {
        step.makes_way = in_the_way.contains(&step.path);
    }
    Ok(())
}

/// A file may take the place of a folder when the same change deletes all that is in it. Those
/// deletions go first, with their temporary names outside of the folder; then the folder goes.
fn clear_folders(workspace: &Workspace, steps: &mut [Step]) -> Result<Vec<Gone>, CommitError> {
    let mut gone = Vec::new();
    let tops: Vec<Vec<u8>> =
        steps.iter().filter(|step| step.over_folder).map(|step| step.path.clone()).collect();
    for top in tops {
        let mut files = HashSet::new();
        let look = list_below(workspace, &top, &mut files, &mut gone);
        look.map_err(|cause| CommitError::Failed { doing: "look into", path: shown(&top), cause })?;
        let inside = steps.iter_mut().filter(|step| files.contains(&step.path));
        let mut found = 0;
        for step in inside.filter(|step| step.act == Act::Delete) {
            step.folder = split(&top).0.to_vec();
            step.makes_way = true;
            found += 1;
        }
        if files.is_empty() || found != files.len() {
            let why = "it already exists: it is a folder, which nothing here empties".to_owned();
            return Err(CommitError::Refused { path: shown(&top), why });
        }
    }
    Ok(gone)
}

/// Everything below a folder: what is no folder into `files`, folders into `gone`, inner ones first.
fn list_below(
    workspace: &Workspace,
    folder: &[u8],
    files: &mut HashSet<Vec<u8>>,
    gone: &mut Vec<Gone>,
) -> std::io::Result<()> {
    let open = workspace.root.open_folder(folder)?;
    let mode = Stamp::of(&rustix::fs::fstat(&open)?).permissions();
    for entry in rustix::fs::Dir::new(open)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name == b"." || name == b".." {
            continue;
        }
        let path = [folder, b"/", name.as_slice()].concat();
        match workspace.root.stat(&path)? {
            Some(stat) if Stamp::of(&stat).kind() == FileType::Directory => {
                list_below(workspace, &path, files, gone)?;
            }
            _ => drop(files.insert(path)),
        }
    }
    gone.push(Gone { path: PathText::new(folder), mode });
    Ok(())
}

/// What stands at the place of a change.
enum Standing {
    Nothing,
    Folder,
    File(Old),
}

/// The file must still be what the plan was made from.
fn compare(workspace: &Workspace, change: &Wanted, path: &[u8]) -> Result<Standing, CommitError> {
    let stale = |why: &str| CommitError::Stale { path: shown(path), why: why.to_owned() };
    let failed = |cause| CommitError::Failed { doing: "look at", path: shown(path), cause };
    let limit = match &change.before {
        Some(FileState::Regular { bytes, .. }) => bytes.len() as u64,
        _ => 0,
    };
    let stat = workspace.root.stat(path).map_err(failed)?;
    let Some(expected) = &change.before else {
        return match stat {
            None => Ok(Standing::Nothing),
            Some(stat) if Stamp::of(&stat).kind() == FileType::Directory => Ok(Standing::Folder),
            Some(stat) => {
                let why = format!("it already exists: it is {}", kind_of(Stamp::of(&stat).mode));
                Err(refused(change, why))
            }
        };
    };
    let Some(stat) = stat else { return Err(stale("it is gone")) };
    let old = old_of(&stat);
    let regular = old.stamp.kind() == FileType::RegularFile;
    if regular && old.stamp.size != limit {
        return Err(stale("its size differs"));
    }
    let found =
        state_of(&workspace.root, path, limit).map_err(|error| stale(&error.to_string()))?;
    match (expected, &found) {
        (
            FileState::Regular { bytes, mode },
            Some(FileState::Regular { bytes: now, mode: mode_now }),
        ) => {
            if bytes != now {
                return Err(stale("its content differs"));
            }
            if mode & 0o7777 != *mode_now {
                return Err(stale("its mode differs"));
            }
        }
        (FileState::Symlink { target }, Some(FileState::Symlink { target: now }))
            if target == now => {}
        _ => return Err(stale("it is of another kind")),
    }
    Ok(Standing::File(old))
}

pub(super) fn old_of(stat: &Stat) -> Old {
    Old { stamp: Stamp::of(stat), links: links_of(stat), owner: (stat.st_uid, stat.st_gid) }
}

/// The folders above a path, innermost first.
fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(split(path).0), |folder| Some(split(folder).0))
        .take_while(|folder| !folder.is_empty())
}

/// The folders that new files need and that are not there. Until they are made, the new files are
/// staged in the nearest folder around them that is.
fn missing_folders(workspace: &Workspace, steps: &mut [Step]) -> Result<Vec<Vec<u8>>, CommitError> {
    let leaving = steps.iter().filter(|step| step.makes_way).map(|step| step.path.clone());
    let leaving: HashSet<Vec<u8>> = leaving.collect();
    let mut missing: Vec<Vec<u8>> = Vec::new();
    let mut known: HashMap<Vec<u8>, bool> = HashMap::new();
    for step in steps.iter_mut().filter(|step| step.act == Act::Create) {
        let mut wanted = Vec::new();
        let mut nearest: &[u8] = b"";
        for folder in folders_above(&step.path) {
            let there = match known.get(folder) {
                Some(there) => *there,
                None => is_there(workspace, folder, &leaving)
                    .map_err(|why| CommitError::Refused { path: shown(&step.path), why })?,
            };
            if there {
                nearest = folder;
                break;
            }
            if known.insert(folder.to_vec(), false).is_none() {
                wanted.push(folder.to_vec());
            }
        }
        step.folder = nearest.to_vec();
        wanted.reverse();
        missing.extend(wanted);
    }
    Ok(missing)
}

fn is_there(
    workspace: &Workspace,
    folder: &[u8],
    leaving: &HashSet<Vec<u8>>,
) -> Result<bool, String> {
    let stat = workspace.root.stat(folder);
    match stat.map_err(|error| format!("{}: {error}", shown(folder)))? {
        None => Ok(false),
        Some(stat) if Stamp::of(&stat).kind() == FileType::Directory => Ok(true),
        Some(_) if leaving.contains(folder) => Ok(false),
        Some(stat) => {
            Err(format!("{} is {}, not a folder", shown(folder), kind_of(Stamp::of(&stat).mode)))
        }
    }
}

impl Workspace {
    fn absolute(&self, inside: &[u8]) -> std::path::PathBuf {
        self.root().join(OsStr::from_bytes(inside))
    }

    fn absolute_bytes(&self, inside: &[u8]) -> Arc<[u8]> {
        Arc::from(self.absolute(inside).into_os_string().into_encoded_bytes())
    }
}
