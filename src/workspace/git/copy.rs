//! A repository of its own for a copy of a work tree: the same HEAD, refs, index and objects.
//!
//! Objects are copied, not borrowed: what a command does in the copy must not reach the repository
//! that it was made from, and a command in the sandbox could not read that one. Of the config only
//! settings that say what bytes and modes mean come along; hooks, filters, remotes, credentials and
//! logs do not.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::packing::{self, Loose};
use super::{GitPlace, ObjectFormat, Oid, read_bounded};
use crate::workspace::copy::copy_bytes;
use crate::workspace::parallel::Crew;

const SMALL: u64 = 16 << 20;
const INDEX: u64 = 1 << 30;
/// Folders of refs nested deeper than this are left out.
const MAX_DEPTH: usize = 32;

/// Settings of `[core]` that are data: none of them names a program, a path or an address.
const DATA: [&str; 7] = [
    "autocrlf",
    "eol",
    "filemode",
    "ignorecase",
    "precomposeunicode",
    "symlinks",
    "sparsecheckout",
];

/// Makes `.git` in `to`, a folder without one.
pub(crate) fn copy_repository(place: &GitPlace, to: &Path, crew: &Crew<'_>) -> io::Result<()> {
    let git = to.join(".git");
    // Not with what is above it: a copy that is gone meanwhile is not made again.
    fs::create_dir(&git)?;
    for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags", "info"] {
        fs::create_dir_all(git.join(folder))?;
    }
    let config = read_bounded(&place.common_dir.join("config"), SMALL).unwrap_or_default();
    fs::write(git.join("config"), config_of(place, &config))?;
    copy_objects(&place.common_dir.join("objects"), &git.join("objects"), place.format(), crew)?;
    copy_refs(&place.common_dir.join("refs"), &git.join("refs"), 0)?;
    if place.settings.reftable {
        copy_refs(&place.common_dir.join("reftable"), &git.join("reftable"), 0)?;
    }
    for name in ["packed-refs", "shallow", "info/exclude", "info/attributes"] {
        copy_file(&place.common_dir.join(name), &git.join(name), INDEX)?;
    }
    for name in ["HEAD", "index", "info/sparse-checkout"] {
        copy_file(&place.git_dir.join(name), &git.join(name), INDEX)?;
    }
    for entry in fs::read_dir(&place.git_dir)? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with("sharedindex.") {
            copy_file(&place.git_dir.join(&name), &git.join(&name), INDEX)?;
        }
    }
    Ok(())
}

/// Loose objects and packs, and where the rest of them is to be found. Small loose objects become a
/// pack.
pub(super) fn copy_objects(
    from: &Path,
    to: &Path,
    format: ObjectFormat,
    crew: &Crew<'_>,
) -> io::Result<()> {
    let mut files = Vec::new();
    let mut loose = Vec::new();
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let fan = name.len() == 2 && name.as_bytes().iter().all(u8::is_ascii_hexdigit);
        if !(fan || name == "pack" || name == "info") || !entry.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(entry.path())? {
            let file = file?;
            if !file.file_type()?.is_file() {
                continue;
            }
            let hex = [name.as_bytes(), file.file_name().as_bytes()].concat();
            match Oid::from_hex(&hex).filter(|oid| fan && oid.format() == format) {
                Some(oid) => loose.push(Loose { file: file.path(), oid }),
                None => files.push(file.path()),
            }
        }
    }
    let left = packing::pack(loose, &to.join("pack"), format, crew)?;
    files.extend(left.into_iter().map(|loose| loose.file));
    let copy = |buffer: &mut Vec<u8>, path: &PathBuf| -> io::Result<()> {
        let target = to.join(path.strip_prefix(from).map_err(io::Error::other)?);
        if let Some(folder) = target.parent()
            && let Err(error) = fs::create_dir(folder)
            && error.kind() != io::ErrorKind::AlreadyExists
        {
            return Err(error);
        }
        let mut file = File::open(path)?;
        let meta = file.metadata()?;
        let mut to = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
        copy_bytes(&mut file, meta.len(), &mut to, buffer)?;
        to.set_permissions(meta.permissions())
    };
    crew.each(&files, Vec::new, copy, |error| error)
}

/// A regular file, where there is one.
fn copy_file(from: &Path, to: &Path, limit: u64) -> io::Result<()> {
    match read_bounded(from, limit) {
        Ok(bytes) => fs::write(to, bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn copy_refs(from: &Path, to: &Path, depth: usize) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    let entries = match fs::read_dir(from) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy_refs(&from, &to, depth + 1)?;
        } else if kind.is_file() {
            copy_file(&from, &to, SMALL)?;
        }
    }
    Ok(())
}

fn config_of(place: &GitPlace, text: &[u8]) -> String {
    let extended = place.format() == ObjectFormat::Sha256 || place.settings.reftable;
    let mut config =
        format!("[core]\n\trepositoryformatversion = {}\n\tbare = false\n", i32::from(extended));
    let mut section = String::new();
    for line in String::from_utf8_lossy(text).lines() {
        let mut line = line.trim();
        if let Some((name, after)) = line.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            section = name.trim().to_ascii_lowercase();
            line = after.trim();
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let plain = value.chars().all(|c| c.is_ascii_alphanumeric());
        if section == "core" && plain && DATA.contains(&key.as_str()) {
            config.push_str(&format!("\t{key} = {value}\n"));
        }
    }
    if extended {
        config.push_str("[extensions]\n");
    }
    if place.format() == ObjectFormat::Sha256 {
        config.push_str("\tobjectformat = sha256\n");
    }
    if place.settings.reftable {
        config.push_str("\trefstorage = reftable\n");
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_config_that_runs_or_leads_elsewhere_comes_along() {
        let place = GitPlace {
            work_root: "/w".into(),
            git_dir: "/w/.git".into(),
            common_dir: "/w/.git".into(),
            head: super::super::Head::default(),
            settings: super::super::config::parse(b""),
        };
        let text = b"[core]\n\tautocrlf = input\n\tfsmonitor = evil\n\thookspath = /h\n\
                     \teol = lf\"; x\n[http]\n\textraheader = AUTHORIZATION: basic abc\n\
                     [filter \"x\"]\n\tclean = evil\n\tautocrlf = true\n";
        assert_eq!(
            config_of(&place, text),
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tautocrlf = input\n"
        );
    }
}
