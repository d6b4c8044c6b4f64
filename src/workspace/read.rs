//! Reading single files: bounded, regular files only, never through a link that was not judged.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};

use super::Workspace;
use super::beneath::{Root, is_absent, kind_of, stat_in};
use super::error::{WorkspaceError, shown};
use super::manifest::Stamp;
use crate::patch::{FileState, Files};
use crate::policy::ReadPermit;

/// A file larger than this is not patched: it would have to be held in memory several times.
const PATCH_LIMIT: u64 = 64 << 20;

/// A file as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileContent {
    pub bytes: Vec<u8>,
    /// The size that the file system gives; `bytes` may be fewer.
    pub size: u64,
    pub mode: u32,
    /// Whether the file went on after `bytes`.
    pub cut: bool,
}

impl Workspace {
    /// Read the permitted file, at most `limit` bytes of it. Pipes, sockets and devices are refused
    /// without waiting for them.
    pub fn read(&self, permit: &ReadPermit, limit: u64) -> Result<FileContent, WorkspaceError> {
        let path = permit.path();
        let shown_path = path.as_os_str().as_bytes();
        let failed = |cause| WorkspaceError::io("read", shown_path, cause);
        let (file, stamp) = self.reach(path, open_regular)?;
        let mut bytes = Vec::with_capacity(capacity(&stamp, limit));
        (&file).take(limit).read_to_end(&mut bytes).map_err(failed)?;
        let cut = bytes.len() as u64 == limit && (&file).read(&mut [0]).map_err(failed)? > 0;
        Ok(FileContent { bytes, size: stamp.size, mode: stamp.permissions(), cut })
    }

    /// Act on an absolute, resolved path: from the workspace's own descriptor where it lies in the
    /// workspace, else from the root of the file system. No link is followed on either way.
    pub(super) fn reach<T>(
        &self,
        path: &Path,
        act: impl Fn(&Root, &[u8]) -> Result<T, WorkspaceError>,
    ) -> Result<T, WorkspaceError> {
        if let Ok(inside) = path.strip_prefix(self.root()) {
            return act(&self.root, inside.as_os_str().as_bytes());
        }
        let bytes = path.as_os_str().as_bytes();
        let relative = bytes.strip_prefix(b"/");
        let relative = relative.ok_or_else(|| WorkspaceError::NotFound { path: shown(bytes) })?;
        let system =
            Root::open(Path::new("/")).map_err(|cause| WorkspaceError::io("open", b"/", cause))?;
        act(&system, relative)
    }

    /// The reading side for `patch::plan`: paths relative to the workspace, the last name never
    /// followed. Every read stays inside the workspace.
    pub fn files(&self) -> WorkspaceFiles<'_> {
        WorkspaceFiles { workspace: self }
    }
}

/// See [`Workspace::files`].
#[derive(Debug, Clone, Copy)]
pub struct WorkspaceFiles<'a> {
    workspace: &'a Workspace,
}

impl Files for WorkspaceFiles<'_> {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        let inside = self.workspace.entry_inside(path)?;
        state_of(&self.workspace.root, &inside, PATCH_LIMIT).map_err(|error| error.to_string())
    }

    fn canonical(&self, path: &str) -> Result<String, String> {
        let inside = self.workspace.entry_inside(path)?;
        String::from_utf8(inside).map_err(|_| "its folder's real name is not UTF-8".to_owned())
    }

    fn alike(&self, path: &str) -> Vec<String> {
        self.workspace.alike(path)
    }
}

/// What stands at a path of a folder, with its content.
pub(super) fn state_of(
    root: &Root,
    relative: &[u8],
    limit: u64,
) -> Result<Option<FileState>, WorkspaceError> {
    let failed = |cause| WorkspaceError::io("read", relative, cause);
    let Some(stat) = root.stat(relative).map_err(failed)? else { return Ok(None) };
    let stamp = Stamp::of(&stat);
    Ok(Some(match stamp.kind() {
        FileType::RegularFile => {
            let (bytes, stamp) = read_whole(root, relative, limit)?;
            FileState::Regular { bytes: Arc::from(bytes), mode: stamp.permissions() }
        }
        FileType::Symlink => FileState::Symlink { target: link_target(root, relative)? },
        FileType::Directory => FileState::Directory,
        _ => FileState::Other,
    }))
}

/// Read a whole regular file; one over `limit` is an error.
pub(super) fn read_whole(
    root: &Root,
    relative: &[u8],
    limit: u64,
) -> Result<(Vec<u8>, Stamp), WorkspaceError> {
    let failed = |cause| WorkspaceError::io("read", relative, cause);
    let (file, stamp) = open_regular(root, relative)?;
    let too_large =
        || failed(io::Error::other(format!("it is larger than the limit of {limit} bytes")));
    if stamp.size > limit {
        return Err(too_large());
    }
    let mut bytes = Vec::with_capacity(capacity(&stamp, limit));
    (&file).take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit { Err(too_large()) } else { Ok((bytes, stamp)) }
}

pub(super) fn open_regular(root: &Root, relative: &[u8]) -> Result<(File, Stamp), WorkspaceError> {
    let wrong = |mode: u32| WorkspaceError::WrongKind {
        path: shown(relative),
        kind: kind_of(mode),
        wanted: "a regular file",
    };
    let fd = match root.open_file(relative) {
        Ok(fd) => fd,
        Err(cause) => {
            // A link at the end, a socket: say what it is rather than which error number.
            return Err(match root.stat(relative) {
                Ok(Some(stat)) if Stamp::of(&stat).kind() != FileType::RegularFile => {
                    wrong(Stamp::of(&stat).mode)
                }
                _ => WorkspaceError::io("read", relative, cause),
            });
        }
    };
    let stat = rustix::fs::fstat(&fd)
        .map_err(|cause| WorkspaceError::io("look at", relative, cause.into()))?;
    let stamp = Stamp::of(&stat);
    if stamp.kind() != FileType::RegularFile {
        return Err(wrong(stamp.mode));
    }
    Ok((File::from(fd), stamp))
}

pub(super) fn link_target(root: &Root, relative: &[u8]) -> Result<Vec<u8>, WorkspaceError> {
    let read = || -> io::Result<Vec<u8>> {
        let (folder, name) = root.open_parent(relative)?;
        Ok(rustix::fs::readlinkat(folder.as_fd(), name, Vec::new())?.into_bytes())
    };
    read().map_err(|cause| WorkspaceError::io("read the link", relative, cause))
}

/// A small regular file, or `None` for everything else: rule files are like that.
pub(super) fn read_small(root: &Root, relative: &[u8], limit: u64) -> Option<Vec<u8>> {
    let (folder, name) = root.open_parent(relative).ok()?;
    read_small_in(folder.as_fd(), name, limit)
}

/// Like [`read_small`], by one name in an open folder. What lies beyond the limit is cut off.
pub(super) fn read_small_in(
    folder: BorrowedFd<'_>,
    name: impl AsRef<OsStr>,
    limit: u64,
) -> Option<Vec<u8>> {
    let name = name.as_ref();
    let stat = stat_in(folder, name).ok()?;
    if Stamp::of(&stat).kind() != FileType::RegularFile {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a failure means that the file is gone.
pub(super) fn is_gone(error: &WorkspaceError) -> bool {
    match error {
        WorkspaceError::NotFound { .. } => true,
        WorkspaceError::Io { cause, .. } => is_absent(cause),
        _ => false,
    }
}

fn capacity(stamp: &Stamp, limit: u64) -> usize {
    usize::try_from(stamp.size.min(limit).min(1 << 28)).unwrap_or(0)
}
