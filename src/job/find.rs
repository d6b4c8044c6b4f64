//! From what a person calls RUN to the record of that run.
//!
//! RUN is a run id (or `latest`), a folder, or a rollout file. A folder of published artifacts holds
//! a copy; as long as the run's own folder is still there, the record there is the one meant, because
//! later runs of the Session are written to it. A run that was killed published nothing, but the
//! `result.json` it began with names it.
//!
//! A record says what a run may do and what is run: one that somebody else could have put there is not
//! found. So places of runs count only where they are ours alone, and `latest` is never a file or a
//! folder of that name in the checkout at hand.

use super::folder::ours_alone;
use crate::rollout::{Reader, Record};
use std::path::{Path, PathBuf};

const ROLLOUT: &str = "rollout.jsonl";
/// The newest run.
const LATEST: &str = "latest";

/// A run that was found.
#[derive(Debug, Clone)]
pub struct FoundRun {
    pub rollout: PathBuf,
    /// The id, where the name said it; a record may hold several runs of one Session.
    pub id: Option<String>,
    /// The folder that the name stood for, with whatever else the run left there.
    pub folder: Option<PathBuf>,
    /// The record lies in a run folder of ours, not in a copy somewhere else.
    pub own: bool,
}

/// Why nothing was found: what, where, what now.
pub type NotFound = String;

/// Finds a run. `bases` are the places where run folders may lie.
pub fn find_run(name: &str, bases: &[PathBuf]) -> Result<FoundRun, NotFound> {
    let (bases, foreign) = trusted(bases);
    let bases = bases.as_slice();
    let path = Path::new(name);
    if name != LATEST && path.is_dir() {
        return in_folder(path, bases);
    }
    if name != LATEST && path.exists() {
        return Ok(of_file(path, bases));
    }
    if name.is_empty() || name.contains('/') {
        return Err(format!("{name:?}: there is no such file or folder"));
    }
    for base in bases {
        let folder = base.join("runs").join(name);
        if folder.join(ROLLOUT).is_file() {
            return Ok(in_run_folder(&folder));
        }
        if folder.is_dir() {
            return Err(format!(
                "the run {name} was refused or ended before its record began ({})",
                folder.display()
            ));
        }
    }
    let looked: Vec<String> =
        bases.iter().map(|base| base.join("runs").display().to_string()).collect();
    let what = if name == LATEST { "run" } else { "file, folder or run" };
    Err(format!("there is no {what} named {name:?}; runs lie in {}{foreign}", looked.join(", ")))
}

/// The places that nobody but us can have filled; and what is to be said of the others.
fn trusted(bases: &[PathBuf]) -> (Vec<PathBuf>, String) {
    let mut foreign = String::new();
    let is_ours = |base: &&PathBuf| match ours_alone(base) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            let place = base.display();
            foreign.push_str(&format!("; {place} was not looked at: {error}"));
            false
        }
        _ => true,
    };
    let ours = bases.iter().filter(is_ours).cloned().collect();
    (ours, foreign)
}

fn in_run_folder(folder: &Path) -> FoundRun {
    let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    FoundRun {
        rollout: folder.join(ROLLOUT),
        id: folder.file_name().map(|name| name.to_string_lossy().into_owned()),
        folder: Some(folder),
        own: true,
    }
}

fn in_folder(folder: &Path, bases: &[PathBuf]) -> Result<FoundRun, NotFound> {
    let resolved = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    if is_run_folder(&resolved, bases) && resolved.join(ROLLOUT).is_file() {
        return Ok(in_run_folder(&resolved));
    }
    let id = id_in_result(&resolved);
    if let Some(own) = id.as_deref().and_then(|id| own_folder(id, bases)) {
        return Ok(FoundRun { folder: Some(resolved), ..in_run_folder(&own) });
    }
    let rollout = resolved.join(ROLLOUT);
    if rollout.is_file() {
        return Ok(FoundRun { id, folder: Some(resolved), ..of_file(&rollout, bases) });
    }
    Err(match id {
        Some(id) => format!(
            "{}: the run {id} did not publish its record, and its run folder is not on this machine",
            folder.display()
        ),
        None => format!("{}: the folder holds neither {ROLLOUT} nor result.json", folder.display()),
    })
}

fn of_file(path: &Path, bases: &[PathBuf]) -> FoundRun {
    let resolved = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(folder) = resolved.parent()
        && is_run_folder(folder, bases)
        && resolved.file_name().is_some_and(|name| name == ROLLOUT)
    {
        return in_run_folder(folder);
    }
    FoundRun {
        folder: resolved.parent().map(Path::to_owned),
        rollout: resolved,
        id: None,
        own: false,
    }
}

fn is_run_folder(folder: &Path, bases: &[PathBuf]) -> bool {
    let parent = folder.parent();
    bases
        .iter()
        .filter_map(|base| base.join("runs").canonicalize().ok())
        .any(|runs| parent == Some(runs.as_path()))
}

/// The run folder of this id, if it is here and holds a record.
pub fn own_folder(id: &str, bases: &[PathBuf]) -> Option<PathBuf> {
    if id.is_empty() || id.contains('/') || id.starts_with('.') {
        return None;
    }
    let bases = bases.iter().filter(|base| ours_alone(base).is_ok());
    bases.map(|base| base.join("runs").join(id)).find(|folder| folder.join(ROLLOUT).is_file())
}

fn id_in_result(folder: &Path) -> Option<String> {
    const MAX: u64 = 64 << 20;
    let path = folder.join("result.json");
    if std::fs::metadata(&path).ok()?.len() > MAX {
        return None;
    }
    let result: serde_json::Value = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
    Some(result.get("run")?.as_str()?.to_owned())
}

/// The last run that a record tells of.
pub fn last_run_in(rollout: &Path) -> Option<String> {
    let mut last = None;
    for entry in Reader::open(rollout).ok()?.flatten() {
        if let Record::RunStarted(started) = entry.record {
            last = Some(started.run.to_string());
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn every_name_of_a_run_leads_to_its_own_record() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap().join("state");
        let run = base.join("runs/r1");
        let out = base.parent().unwrap().join("out");
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(&out).unwrap();
        fs::write(run.join(ROLLOUT), "x").unwrap();
        fs::write(out.join("result.json"), r#"{"run":"r1"}"#).unwrap();
        std::os::unix::fs::symlink("r1", base.join("runs/latest")).unwrap();
        let bases = [base.clone()];
        let names = [
            "r1".to_owned(),
            "latest".to_owned(),
            run.display().to_string(),
            run.join(ROLLOUT).display().to_string(),
            out.display().to_string(),
        ];
        for name in &names {
            let found = find_run(name, &bases).unwrap();
            assert_eq!(found.rollout, run.join(ROLLOUT), "{name}");
            assert!(found.own, "{name}");
            assert_eq!(found.id.as_deref(), Some("r1"), "{name}");
        }
        fs::write(out.join(ROLLOUT), "copy").unwrap();
        fs::write(out.join("result.json"), r#"{"run":"gone"}"#).unwrap();
        let copy = find_run(&out.display().to_string(), &bases).unwrap();
        assert!(!copy.own && copy.rollout == out.join(ROLLOUT));
        fs::remove_file(out.join(ROLLOUT)).unwrap();
        let error = find_run(&out.display().to_string(), &bases).unwrap_err();
        assert!(error.contains("did not publish its record"), "{error}");
        assert!(find_run("r2", &bases).unwrap_err().contains("named \"r2\""));
        assert!(find_run("a/b", &bases).unwrap_err().contains("no such file"));
        fs::write(out.join("result.json"), r#"{"run":"../../x"}"#).unwrap();
        assert!(find_run(&out.display().to_string(), &bases).is_err());
    }

    #[test]
    fn a_place_that_another_user_could_have_filled_is_not_looked_at() {
        use std::os::unix::fs::{PermissionsExt, chown, symlink};
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap().join("turnkey-0");
        fs::create_dir_all(base.join("runs/r1")).unwrap();
        fs::write(base.join("runs/r1/rollout.jsonl"), "x").unwrap();
        symlink("r1", base.join("runs/latest")).unwrap();
        let mode = |bits| fs::set_permissions(&base, fs::Permissions::from_mode(bits)).unwrap();
        let out = dir.path().join("out");
        fs::create_dir(&out).unwrap();
        fs::write(out.join("result.json"), r#"{"run":"r1"}"#).unwrap();
        let assert_found = |place: &Path, is_found: bool| {
            let bases = [place.to_owned()];
            for name in ["latest", "r1", out.to_str().unwrap()] {
                let found = find_run(name, &bases);
                assert_eq!(found.is_ok(), is_found, "{name}: {found:?}");
            }
            assert_eq!(own_folder("r1", &bases).is_some(), is_found);
            let said = find_run("r2", &bases).unwrap_err();
            assert_eq!(said.contains("was not looked at"), !is_found, "{said}");
            let exact = base.join("runs/r1");
            let found = find_run(&exact.display().to_string(), &bases).unwrap();
            assert_eq!(found.own, is_found, "named by its whole path it is found, but is not ours");
        };
        mode(0o700);
        assert_found(&base, true);
        for bits in [0o777, 0o720, 0o702] {
            mode(bits);
            assert_found(&base, false);
        }
        mode(0o755);
        assert_found(&base, true);
        let link = dir.path().join("link");
        symlink(&base, &link).unwrap();
        assert_found(&link, false);
        match chown(&base, Some(12345), None) {
            Ok(()) => assert_found(&base, false),
            Err(error) => eprintln!("SKIPPED: a folder of another user cannot be made: {error}"),
        }
    }
}
