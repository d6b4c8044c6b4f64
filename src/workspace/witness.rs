//! What the protected places held before the first command, written down for whoever goes on after a kill.
//!
//! What a command does to them is undone after it; a runner that is killed meanwhile undoes nothing. The
//! run that goes on compares, and says what it finds: whether a command made it or the operator since,
//! nobody can tell.

use super::guard::Guard;
use super::{Workspace, WorkspaceError};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NAME: &str = "protected.json";
const VERSION: u32 = 1;

/// What was there. Paths are relative to the workspace.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Witness {
    v: u32,
    /// The places that were watched, whether or not they were there.
    watched: BTreeSet<Vec<u8>>,
    /// What was there of them, escaped byte for byte, with a digest of each entry.
    places: BTreeMap<String, String>,
    /// Names that are protected in any folder, escaped as well.
    names: BTreeSet<String>,
}

fn escaped(path: &[u8]) -> String {
    path.escape_ascii().to_string()
}

impl Witness {
    /// What is there now and was not, is no more, or is not the same.
    fn differences(&self, now: &Self) -> Vec<String> {
        let gone = self.places.keys().filter(|path| !now.places.contains_key(*path));
        let mut lines: Vec<String> = gone.map(|path| format!("{path} is gone")).collect();
        for (path, digest) in &now.places {
            match self.places.get(path) {
                None => lines.push(format!("{path} is new")),
                Some(then) if then != digest => lines.push(format!("{path} is not what it was")),
                Some(_) => {}
            }
        }
        let new = now.names.difference(&self.names).filter(|path| !now.places.contains_key(*path));
        lines.extend(new.map(|path| format!("{path} is new")));
        lines
    }
}

impl Workspace {
    /// Writes down what the guard has taken, once a run.
    pub(super) fn bear_witness(&self) -> Result<(), WorkspaceError> {
        let text = serde_json::to_vec(&self.witness(&self.guard)).map_err(io::Error::other);
        let file = self.store.join(NAME);
        text.and_then(|text| fs::write(&file, text))
            .map_err(|cause| WorkspaceError::io("write down", b"the protected places", cause))
    }

    fn witness(&self, guard: &Guard) -> Witness {
        let inside = |path: &Path| {
            let inside = path.strip_prefix(self.root()).ok()?;
            Some(inside.as_os_str().as_bytes().to_vec())
        };
        let watched = guard.places().iter().filter_map(|place| inside(place)).collect();
        let digests = guard.digests();
        let entry = |(path, digest)| Some((escaped(&inside(path)?), digest));
        let places = digests.filter_map(entry).collect();
        let names = self.captured.iter().flat_map(|captured| &captured.start.protected);
        Witness { v: VERSION, watched, places, names: names.map(|path| escaped(path)).collect() }
    }

    /// What is not as the run with this store found it before its first command; nothing where it ran
    /// none, or ended in order.
    pub fn protected_since(&mut self, store: &Path) -> Result<Vec<String>, WorkspaceError> {
        let failed = |cause| WorkspaceError::io("compare", b"the protected places", cause);
        let text = match fs::read(store.join(NAME)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let then: Witness =
            serde_json::from_slice(&text).map_err(|error| failed(io::Error::other(error)))?;
        if then.v != VERSION {
            let text = format!("{NAME} of the killed run has version {}, not {VERSION}", then.v);
            return Err(failed(io::Error::other(text)));
        }
        self.capture_start()?;
        let places = then.watched.iter().map(|inside| self.root().join(OsStr::from_bytes(inside)));
        let mut guard = Guard::new(places.collect(), self.root());
        guard.take().map_err(failed)?;
        let mut now = self.witness(&guard);
        let seen = &self.captured()?.start.protected;
        let new =
            seen.iter().filter(|path| !then.names.contains(&escaped(path))).cloned().collect();
        // Of folders only what the policy does not name letter by letter.
        now.names = self.new_names(&new).iter().map(|path| escaped(path)).collect();
        Ok(then.differences(&now))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Options};
    use super::*;

    #[test]
    fn what_could_not_be_written_down_lets_nothing_begin_the_second_time_either() {
        let dir = tempfile::tempdir().unwrap();
        let [root, store] = ["ws", "store"].map(|name| dir.path().join(name));
        fs::create_dir(&root).unwrap();
        fs::create_dir_all(store.join(NAME)).unwrap();
        let options =
            Options { exclude: Vec::new(), store: store.clone(), limits: Limits::default() };
        let mut workspace = Workspace::open(&root, options).unwrap();
        workspace.capture_start().unwrap();
        for _ in 0..2 {
            // A folder lies where the file should.
            assert!(workspace.watch_protected().is_err());
        }
        fs::remove_dir(store.join(NAME)).unwrap();
        workspace.watch_protected().unwrap();
        assert!(store.join(NAME).is_file());
        assert_eq!(workspace.protected_since(&store).unwrap(), Vec::<String>::new());
    }
}
