//! The artifacts folder: claimed at the start, filled at the end, so that an older run's result can
//! never be taken for this one's.

use super::logs::is_log_name;
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Everything a run may leave in its artifacts folder. An older run's files of these names are
/// removed as a whole; nothing else is touched.
pub const ARTIFACT_NAMES: &[&str] = &[
    "result.json",
    "rollout.jsonl",
    "turn.diff",
    "start.diff",
    "last-message.md",
    "summary.md",
    "report.html",
    "junit.xml",
    "results.sarif",
    "provenance.json",
];

const LOCK: &str = ".turnkey.lock";

/// A claimed artifacts folder, held open: names inside it are reached through the descriptor, never
/// through a path that could be swapped for a link.
#[derive(Debug)]
pub struct Artifacts {
    path: PathBuf,
    dir: OwnedFd,
    _lock: OwnedFd,
}

impl Artifacts {
    /// Makes the folder if need be, takes its lock and removes an older run's files.
    pub fn claim(path: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let dir = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| {
            format!(
                "{} cannot be opened as a folder (a link is not followed): {error}",
                path.display()
            )
        })?;
        let lock = rustix::fs::openat(
            &dir,
            LOCK,
            OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o600),
        )
        .map_err(|error| format!("{}/{LOCK}: {error}", path.display()))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| format!("{} is in use by another run", path.display()))?;
        // Named absolutely from here on: whoever reads the path may stand elsewhere.
        let path = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        let claimed = Self { path: path.clone(), dir, _lock: lock };
        claimed.clear().map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(claimed)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn clear(&self) -> io::Result<()> {
        for name in ARTIFACT_NAMES {
            match rustix::fs::unlinkat(&self.dir, *name, AtFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::NOENT) => {}
                Err(error) => {
                    return Err(io::Error::other(format!(
                        "{name} of an older run cannot be removed: {error}"
                    )));
                }
            }
        }
        for name in self.logs()? {
            rustix::fs::unlinkat(&self.dir, name.as_str(), AtFlags::empty())?;
        }
        Ok(())
    }

    /// The logs of commands that lie in the folder.
    fn logs(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if is_log_name(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Puts one file in place, whole or not at all.
    pub fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_from(name, &mut &bytes[..])
    }

    /// The same from a reader, so that a long rollout is never held whole.
    fn put_from(&self, name: &str, from: &mut dyn Read) -> io::Result<()> {
        let fresh = format!(".{name}.new");
        match rustix::fs::unlinkat(&self.dir, fresh.as_str(), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let file = rustix::fs::openat(
            &self.dir,
            fresh.as_str(),
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o644),
        )?;
        let mut file = File::from(file);
        io::copy(from, &mut file)?;
        file.sync_data()?;
        rustix::fs::renameat(&self.dir, fresh.as_str(), &self.dir, name)?;
        Ok(())
    }

    /// Fills the folder from the run folder: whatever lies there under our names now goes first, so
    /// that nothing a command put there meanwhile survives beside our files.
    pub fn publish(&self, run_folder: &Path) -> io::Result<()> {
        self.still_there()?;
        self.clear()?;
        let logs = std::fs::read_dir(run_folder)?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| is_log_name(name));
        for name in ARTIFACT_NAMES.iter().map(|name| (*name).to_owned()).chain(logs) {
            let name = name.as_str();
            match File::open(run_folder.join(name)) {
                Ok(mut file) => self.put_from(name, &mut file)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        rustix::fs::fsync(&self.dir)?;
        Ok(())
    }

    /// Whether the path still names the folder that was claimed.
    fn still_there(&self) -> io::Result<()> {
        let held = rustix::fs::fstat(&self.dir)?;
        let named = rustix::fs::statat(rustix::fs::CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW)?;
        if (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino) {
            return Ok(());
        }
        Err(io::Error::other(format!("{} was replaced while the run worked", self.path.display())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_result_does_not_survive_a_claim() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join("result.json"), "old").unwrap();
        std::fs::write(out.join("command-0002.log"), "old").unwrap();
        std::fs::write(out.join("mine.txt"), "kept").unwrap();
        let artifacts = Artifacts::claim(&out).unwrap();
        assert!(!out.join("result.json").exists() && !out.join("command-0002.log").exists());
        assert!(out.join("mine.txt").exists());
        assert!(Artifacts::claim(&out).unwrap_err().contains("in use"));
        artifacts.put("result.json", b"new").unwrap();
        assert_eq!(std::fs::read(out.join("result.json")).unwrap(), b"new");
    }

    #[test]
    fn links_are_not_followed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().unwrap();
        let (out, run) = (dir.path().join("out"), dir.path().join("run"));
        std::fs::create_dir(&run).unwrap();
        std::fs::write(run.join("result.json"), "right").unwrap();
        let artifacts = Artifacts::claim(&out).unwrap();
        let victim = dir.path().join("victim");
        std::fs::write(&victim, "untouched").unwrap();
        symlink(&victim, out.join("result.json")).unwrap();
        symlink(&victim, out.join(".result.json.new")).unwrap();
        artifacts.publish(&run).unwrap();
        assert_eq!(std::fs::read(&victim).unwrap(), b"untouched");
        assert_eq!(std::fs::read(out.join("result.json")).unwrap(), b"right");
        std::fs::rename(&out, dir.path().join("moved")).unwrap();
        symlink(dir.path(), &out).unwrap();
        assert!(artifacts.publish(&run).is_err());
    }
}
