//! A confinement that is made ready before the command is known, and looked at again when it is.
//!
//! Other commands may run between the two, and move or make what the confinement speaks of. So the files
//! that its paths led to are remembered, and a confinement is used only while each path leads to the same
//! file and each place is covered by the mount that it would be given now.

use super::supervise::{Supervisor, hand_over};
use super::{Confinement, Identity, LayerError, filter, mounts, privileges, rights};
use landlock::RulesetCreated;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Places that are the command's own where the namespaces are in force.
const PRIVATE: &[&str] = &["/tmp", "/dev/shm"];

/// What a path of the confinement led to.
pub struct Place {
    path: PathBuf,
    pub writable: bool,
    /// `None` where there was nothing.
    found: Option<Found>,
}

struct Found {
    fd: Option<OwnedFd>,
    identity: Identity,
    is_folder: bool,
    /// Without links.
    real: PathBuf,
}

impl Place {
    fn new(path: &Path, writable: bool) -> Self {
        Self { path: path.to_owned(), writable, found: Found::at(path).ok() }
    }

    /// The open file, and whether it is a folder.
    pub fn open(&self) -> Option<(BorrowedFd<'_>, bool)> {
        let found = self.found.as_ref()?;
        Some((found.fd.as_ref()?.as_fd(), found.is_folder))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn stands(&self) -> bool {
        let now = fs::metadata(&self.path).ok().and_then(|meta| super::identity(&meta));
        now == self.found.as_ref().map(|found| found.identity)
    }
}

impl Found {
    fn at(path: &Path) -> io::Result<Self> {
        use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
        let fd = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let meta = fstat(&fd)?;
        let real = fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        let is_folder = FileType::from_raw_mode(meta.st_mode) == FileType::Directory;
        Ok(Self { fd: Some(fd), identity: (meta.st_dev, meta.st_ino), is_folder, real })
    }
}

/// Every place that a command may read or write.
fn places(confinement: &Confinement) -> Vec<Place> {
    let own_tmp = confinement.mounts.tmp.is_some();
    let private = PRIVATE
        .iter()
        .map(Path::new)
        .filter(|path| confinement.layers.namespaces && (own_tmp || *path != Path::new("/tmp")));
    let read = confinement.read.iter().map(|path| Place::new(path, false));
    let write = confinement.write.iter().map(AsRef::as_ref).chain(private);
    read.chain(write.map(|path| Place::new(path, true))).collect()
}

/// Puts the rules for files in force as a kernel with this ABI would.
#[cfg(test)]
pub fn restrict_as(confinement: &Confinement, abi: i32) -> Result<(), LayerError> {
    rights::restrict(rights::rules_as(confinement, &places(confinement), abi)?)
}

/// Everything that can be done ahead.
pub struct Ready {
    places: Vec<Place>,
    rules: Option<RulesetCreated>,
}

impl Ready {
    pub fn new(confinement: &Confinement) -> Result<Self, LayerError> {
        if !confinement.enabled {
            return Ok(Self { places: Vec::new(), rules: None });
        }
        let mut places = places(confinement);
        let rules = confinement.layers.landlock.then(|| rights::rules(confinement, &places));
        let rules = rules.transpose()?;
        places
            .iter_mut()
            .filter_map(|place| place.found.as_mut())
            .for_each(|found| found.fd = None);
        Ok(Self { places, rules })
    }

    /// Confines the calling process for good. Any layer that fails is an error: there is no less. Where
    /// system calls are to be judged by the supervisor, its end goes through the channel.
    ///
    /// Order matters: no_new_privs first (the rest needs it), then the file rules, then the capabilities,
    /// and the system call filter last, because it refuses what the others still need.
    pub fn apply(self, confinement: &Confinement, channel: &UnixStream) -> Result<(), LayerError> {
        privileges::no_new_privs()?;
        if !confinement.enabled {
            return Ok(());
        }
        privileges::limit(&confinement.limits)?;
        if let Some(rules) = self.rules {
            rights::restrict(rules)?;
        }
        privileges::drop_capabilities()?;
        if !confinement.layers.seccomp {
            return Ok(());
        }
        let listener = filter::install(confinement)?;
        hand_over(channel.as_fd(), &listener).map_err(|error| LayerError {
            layer: "seccomp",
            errno: error.raw_os_error().unwrap_or(0),
            cause: error.to_string(),
        })
    }

    /// In the launcher: starts to judge what the confined child hands over.
    pub fn supervise(&self, channel: &UnixStream, confinement: &Confinement) -> io::Result<()> {
        if !confinement.enabled || !confinement.layers.seccomp {
            return Ok(());
        }
        let found = self.places.iter().filter_map(|place| Some((place.found.as_ref()?, place)));
        // Devices are no place for sockets.
        let is_private = |path: &Path| PRIVATE.iter().any(|private| path == Path::new(private));
        let roots = found
            .filter(|(found, _)| !found.real.starts_with("/dev") || is_private(&found.real))
            .map(|(found, place)| (found.real.clone(), place.writable))
            .collect();
        Supervisor::start(channel.as_fd(), confinement, roots)
    }

    /// Whether a confinement that is made ready now would come out the same.
    pub fn stands(&self, confinement: &Confinement) -> bool {
        self.places.iter().all(Place::stands)
            && (!confinement.layers.namespaces || mounts::stand(confinement))
    }
}
