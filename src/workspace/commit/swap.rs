//! The single steps of a commit and their reversal, by names and inodes.
//!
//! The reversal looks at which inode stands where, so it can begin from any point, also in another
//! process after a kill. A name that holds an inode which is neither the old nor the new one was
//! taken by somebody else; it is left alone and told.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;

use rustix::fs::{AtFlags, Mode, RenameFlags};
use rustix::io::Errno;

use super::gate;
use super::journal::{Act, Gone, Record};
use super::twice;
use crate::workspace::beneath::{Root, is_absent, split, stat_in};
use crate::workspace::error::shown;
use crate::workspace::manifest::Stamp;

/// Descriptors held for a commit, however many folders it touches.
const MAX_OPEN: usize = 100;

/// Folders of the workspace, opened without following links, and held: a rename in between cannot
/// lead the second half of a step into another folder.
pub(super) struct Folders<'a> {
    root: &'a Root,
    open: RefCell<HashMap<Vec<u8>, Rc<OwnedFd>>>,
}

impl<'a> Folders<'a> {
    pub(super) fn new(root: &'a Root) -> Self {
        Self { root, open: RefCell::default() }
    }

    pub(super) fn get(&self, folder: &[u8]) -> io::Result<Rc<OwnedFd>> {
        if let Some(found) = self.open.borrow().get(folder) {
            return Ok(found.clone());
        }
        let fd = Rc::new(self.root.open_folder(folder)?);
        let mut open = self.open.borrow_mut();
        if open.len() < MAX_OPEN {
            open.insert(folder.to_vec(), fd.clone());
        }
        Ok(fd)
    }

    fn forget(&self, folder: &[u8]) {
        self.open.borrow_mut().remove(folder);
    }
}

/// Make a folder. One that somebody else made in the meantime will do, too.
pub(super) fn make_folder(open: &Folders<'_>, folder: &[u8]) -> io::Result<()> {
    let (above, name) = split(folder);
    let above = open.get(above)?;
    gate::pass("mkdir")?;
    let mode = Mode::from_raw_mode(0o755);
    match rustix::fs::mkdirat(&*above, OsStr::from_bytes(name), mode) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Remove a folder that was made, unless somebody uses it by now.
pub(super) fn remove_folder(open: &Folders<'_>, folder: &[u8]) -> io::Result<()> {
    let (above, name) = split(folder);
    open.forget(folder);
    let above = match open.get(above) {
        Ok(above) => above,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    gate::pass("rmdir")?;
    match rustix::fs::unlinkat(&*above, OsStr::from_bytes(name), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Remove a folder whose place a file takes; it must be empty by now.
pub(super) fn take_folder_away(open: &Folders<'_>, folder: &Gone) -> io::Result<()> {
    let (above, name) = split(folder.path.bytes());
    open.forget(folder.path.bytes());
    let above = open.get(above)?;
    gate::pass("rmdir")?;
    Ok(rustix::fs::unlinkat(&*above, OsStr::from_bytes(name), AtFlags::REMOVEDIR)?)
}

/// Make such a folder again, unless it never went.
fn bring_folder_back(open: &Folders<'_>, folder: &Gone) -> io::Result<()> {
    let (above, name) = split(folder.path.bytes());
    let (above, name) = (open.get(above)?, OsStr::from_bytes(name));
    gate::pass("mkdir")?;
    match rustix::fs::mkdirat(&*above, name, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    gate::pass("chmod")?;
    let mode = Mode::from_raw_mode(folder.mode);
    Ok(rustix::fs::chmodat(&*above, name, mode, AtFlags::empty())?)
}

/// Where the files of one step stand.
struct Place<'a> {
    /// The file's own folder; `None` while it has not been made.
    folder: Option<Rc<OwnedFd>>,
    name: &'a OsStr,
    temp_folder: Rc<OwnedFd>,
    temp: &'a OsStr,
    /// Used only where the file system cannot exchange two files.
    aside: std::ffi::OsString,
}

/// One of the three names that a step uses.
#[derive(Clone, Copy)]
enum At {
    Name,
    Temp,
    Aside,
}

impl<'a> Place<'a> {
    fn of(open: &Folders<'_>, record: &'a Record) -> io::Result<Self> {
        let (folder, name) = split(record.path.bytes());
        let mut aside = std::ffi::OsString::from(&record.temp);
        aside.push(".old");
        let folder = match open.get(folder) {
            Ok(folder) => Some(folder),
            Err(error) if is_absent(&error) => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            folder,
            name: OsStr::from_bytes(name),
            temp_folder: open.get(record.folder.bytes())?,
            temp: OsStr::new(&record.temp),
            aside,
        })
    }

    fn at(&self, at: At) -> io::Result<(BorrowedFd<'_>, &OsStr)> {
        match at {
            At::Name => {
                let folder = self.folder.as_ref().ok_or(Errno::NOENT)?;
                Ok((folder.as_fd(), self.name))
            }
            At::Temp => Ok((self.temp_folder.as_fd(), self.temp)),
            At::Aside => Ok((self.temp_folder.as_fd(), &self.aside)),
        }
    }

    fn inode(&self, at: At) -> io::Result<Option<u64>> {
        let Ok((folder, name)) = self.at(at) else { return Ok(None) };
        match stat_in(folder, name) {
            Ok(stat) => Ok(Some(Stamp::of(&stat).ino)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn unlink(&self, at: At) -> io::Result<()> {
        let (folder, name) = self.at(at)?;
        gate::pass("unlink")?;
        Ok(rustix::fs::unlinkat(folder, name, AtFlags::empty())?)
    }

    /// Rename without ever replacing something.
    fn rename(&self, from: At, to: At) -> io::Result<()> {
        let ((from_folder, from_name), (to_folder, to_name)) = (self.at(from)?, self.at(to)?);
        gate::pass("rename")?;
        let flags = RenameFlags::NOREPLACE;
        let rename =
            || rustix::fs::renameat_with(from_folder, from_name, to_folder, to_name, flags);
        if let Some(done) = if_supported(rename) {
            return done;
        }
        // For file systems without that kind of rename: a link never replaces anything either.
        gate::pass("link")?;
        match rustix::fs::linkat(from_folder, from_name, to_folder, to_name, AtFlags::empty()) {
            // The second half of such a rename, whose first half was all that was done.
            Err(Errno::EXIST) if self.inode(from)? == self.inode(to)? => {}
            linked => linked?,
        }
        self.unlink(from)
    }

    /// Let the temporary file and the one in place change places.
    fn exchange(&self) -> io::Result<()> {
        let ((from_folder, from), (to_folder, to)) = (self.at(At::Temp)?, self.at(At::Name)?);
        gate::pass("exchange")?;
        let flags = RenameFlags::EXCHANGE;
        let exchange = || rustix::fs::renameat_with(from_folder, from, to_folder, to, flags);
        if let Some(done) = if_supported(exchange) {
            return done;
        }
        self.rename(At::Name, At::Aside)?;
        self.rename(At::Temp, At::Name)?;
        self.rename(At::Aside, At::Temp)
    }
}

/// The result of a call, or `None` where the file system does not know it.
fn if_supported(call: impl FnOnce() -> Result<(), Errno>) -> Option<io::Result<()>> {
    if gate::is_old_file_system() {
        return None;
    }
    match call() {
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => None,
        result => Some(result.map_err(io::Error::from)),
    }
}

/// The one atomic step of a file. After it the old file stands under the temporary name.
pub(super) fn put_in_place(open: &Folders<'_>, record: &Record) -> io::Result<()> {
    let place = Place::of(open, record)?;
    match record.act {
        Act::Create => place.rename(At::Temp, At::Name),
        Act::Replace => place.exchange(),
        Act::Delete => place.rename(At::Name, At::Temp),
    }
}

/// The old file is not needed any more.
pub(super) fn drop_old(open: &Folders<'_>, record: &Record) -> io::Result<()> {
    if record.act == Act::Create {
        return Ok(());
    }
    let place = Place::of(open, record)?;
    for at in [At::Temp, At::Aside] {
        if place.inode(at)?.is_some_and(|inode| Some(inode) == record.old_inode) {
            place.unlink(at)?;
        }
    }
    Ok(())
}

/// Put everything back, the last step first: the files, then the folders that were made for them,
/// the folders that went, then the files that had to make way. What could not be put back.
pub(super) fn undo_all(
    open: &Folders<'_>,
    records: &[Record],
    gone: &[Gone],
    folders: &[Vec<u8>],
) -> Vec<String> {
    let mut failed = Vec::new();
    let undo_those = |makes_way: bool, failed: &mut Vec<String>| {
        let those = records.iter().rev().filter(|record| record.makes_way == makes_way);
        for record in those {
            if let Err(why) = twice(|| undo(open, record)) {
                failed.push(format!("{}: {why}", shown(record.path.bytes())));
            }
        }
    };
    undo_those(false, &mut failed);
    for folder in folders.iter().rev() {
        if let Err(why) = twice(|| remove_folder(open, folder)) {
            failed.push(format!("{}: {why}", shown(folder)));
        }
    }
    for folder in gone.iter().rev() {
        if let Err(why) = twice(|| bring_folder_back(open, folder)) {
            failed.push(format!("{}: {why}", shown(folder.path.bytes())));
        }
    }
    undo_those(true, &mut failed);
    failed
}

/// Put one file back to what it was, from whatever point was reached.
fn undo(open: &Folders<'_>, record: &Record) -> io::Result<()> {
    let place = match Place::of(open, record) {
        Ok(place) => place,
        // The folder of the staged file is gone with all that was in it.
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    match record.act {
        Act::Create => {
            let new = record.new_inode;
            if new.is_some() && place.inode(At::Name)? == new {
                place.unlink(At::Name)?;
            }
            drop_new(&place, record)
        }
        Act::Replace => {
            undo_exchange(&place, record)?;
            drop_new(&place, record)
        }
        Act::Delete => {
            // Whatever stands there came from the place itself, be it the file that was checked
            // or one that took its place in the last instant.
            match place.inode(At::Temp)? {
                Some(_) => put_back(&place, At::Temp),
                None => Ok(()),
            }
        }
    }
}

fn undo_exchange(place: &Place<'_>, record: &Record) -> io::Result<()> {
    let at_name = place.inode(At::Name)?;
    let (old, new) = (record.old_inode, record.new_inode);
    let mut aside = place.inode(At::Aside)?;
    if aside.is_some() && aside == place.inode(At::Temp)? {
        place.unlink(At::Aside)?;
        aside = None;
    }
    if aside.is_some() {
        if at_name.is_some() && at_name == new {
            place.rename(At::Name, At::Temp)?;
        }
        return put_back(place, At::Aside);
    }
    if new.is_none() || at_name == old {
        return Ok(());
    }
    match (at_name, place.inode(At::Temp)?) {
        (None, Some(temp)) if Some(temp) != new => put_back(place, At::Temp),
        (at_name, Some(temp)) if at_name == new && Some(temp) != new => place.exchange(),
        // Somebody removed or replaced the file before the step was done: nothing to put back.
        (_, Some(temp)) if Some(temp) == new => Ok(()),
        _ => Err(taken(place.name)),
    }
}

fn put_back(place: &Place<'_>, from: At) -> io::Result<()> {
    place.rename(from, At::Name).map_err(|error| match error.raw_os_error() {
        Some(libc::EEXIST) => taken(place.name),
        _ => error,
    })
}

fn taken(name: &OsStr) -> io::Error {
    let name = shown(name.as_bytes());
    io::Error::other(format!("something else was put at {name} meanwhile; it was left alone"))
}

/// Remove the staged file. Before its inode is known the name alone tells: nobody else makes it.
fn drop_new(place: &Place<'_>, record: &Record) -> io::Result<()> {
    match place.inode(At::Temp)? {
        Some(inode) if record.new_inode.is_none_or(|new| new == inode) => place.unlink(At::Temp),
        _ => Ok(()),
    }
}
