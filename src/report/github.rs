//! The files and commands of GitHub Actions, each within the host's limits.
//!
//! Paths come from whoever read the environment; nothing here does.

use super::result::ResultRecord;
use super::text::{cut_middle, one_line};
use crate::clock;
use crate::rollout::{Masker, char_floor};
use rustix::fs::{Mode, OFlags};
use sha2::{Digest, Sha256};
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The host cuts a step's summary and its outputs here.
pub const MAX_FILE: usize = 1 << 20;

/// Annotations of one kind that the host shows for a step.
pub const MAX_ANNOTATIONS: usize = 10;

/// What a single output may hold, so that all of a step's fit.
const MAX_VALUE: usize = 256 << 10;

/// A file of the host that could not be written, or a name it would not take.
#[derive(Debug, thiserror::Error)]
pub enum GithubError {
    #[error("{}: cannot be written: {cause}", path.display())]
    Io { path: PathBuf, cause: io::Error },
    #[error(
        "{name:?} is no name for an output: letters, digits, `-` and `_`, beginning with a letter"
    )]
    Name { name: String },
    #[error("{}: has {bytes} bytes, the host takes {MAX_FILE}", path.display())]
    Full { path: PathBuf, bytes: u64 },
}

/// Appends outputs to the file named by `GITHUB_OUTPUT`. Every value, of whatever content, arrives
/// as one value under its own name.
pub fn write_outputs(path: &Path, outputs: &[(&str, &str)]) -> Result<(), GithubError> {
    write_outputs_with(path, outputs, random_delimiter)
}

pub(super) fn write_outputs_with(
    path: &Path,
    outputs: &[(&str, &str)],
    mut delimiter: impl FnMut() -> String,
) -> Result<(), GithubError> {
    let mut block = String::new();
    for (name, value) in outputs {
        if !is_name(name) {
            return Err(GithubError::Name { name: (*name).to_owned() });
        }
        let value = cut_middle(value, MAX_VALUE);
        // Random, so that nobody can put it into a value; checked, so that luck cannot either.
        let mut end = delimiter();
        while value.contains(&end) {
            end = delimiter();
        }
        block.push_str(&format!("{name}<<{end}\n{value}\n{end}\n"));
    }
    append(path, &block)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Appends to the file named by `GITHUB_STEP_SUMMARY`, cut so that the whole stays within the limit.
pub fn append_step_summary(path: &Path, markdown: &str) -> Result<(), GithubError> {
    let failed = |cause| GithubError::Io { path: path.to_owned(), cause };
    let there = open(path).and_then(|file| Ok(file.metadata()?.len())).map_err(failed)?;
    let room = MAX_FILE.saturating_sub(usize::try_from(there).unwrap_or(usize::MAX));
    // Room for the newline in front and the notice of the cut.
    let room = room.saturating_sub(128);
    if room == 0 {
        return Err(GithubError::Full { path: path.to_owned(), bytes: there });
    }
    if markdown.len() <= room {
        return append(path, markdown);
    }
    let kept = &markdown[..char_floor(markdown, room)];
    // Between lines, or half a table row would be shown.
    let kept = kept.rfind('\n').map_or(kept, |at| &kept[..=at]);
    append(path, &format!("{kept}\n_Cut: the summary is longer than this host shows._\n"))
}

fn append(path: &Path, text: &str) -> Result<(), GithubError> {
    let failed = |cause| GithubError::Io { path: path.to_owned(), cause };
    let mut file = open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let mut block = String::with_capacity(text.len() + 2);
    if !ends_with_newline(&mut file, length).map_err(failed)? {
        block.push('\n');
    }
    block.push_str(text);
    if !block.ends_with('\n') {
        block.push('\n');
    }
    let total = length.saturating_add(block.len() as u64);
    if total > MAX_FILE as u64 {
        return Err(GithubError::Full { path: path.to_owned(), bytes: total });
    }
    file.write_all(block.as_bytes()).map_err(failed)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn ends_with_newline(file: &mut File, length: u64) -> io::Result<bool> {
    if length == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// 128 bits that nobody can foresee: the keys of the standard library's hash maps come from the
/// operating system, and a digest hides them.
pub(super) fn random_delimiter() -> String {
    let mut digest = Sha256::new();
    for _ in 0..4 {
        digest.update(RandomState::new().hash_one(clock::stamp()).to_le_bytes());
    }
    digest.update(uuid::Uuid::now_v7().as_bytes());
    let hex: String = digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("end_{hex}")
}

/// How bad an annotation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Notice,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}

/// A remark the host shows at a run or beside a line of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Annotation {
    pub level: Level,
    pub title: String,
    pub message: String,
    /// Path in the repository, and its line.
    pub file: Option<(String, u32)>,
}

/// The commands for these annotations, at most [`MAX_ANNOTATIONS`] of a level; if there are more, the
/// last one says how many.
pub fn annotation_commands(annotations: &[Annotation], masker: &Masker) -> Vec<String> {
    let mut commands = Vec::new();
    for level in [Level::Error, Level::Warning, Level::Notice] {
        let of_level: Vec<_> = annotations.iter().filter(|a| a.level == level).collect();
        let shown =
            if of_level.len() > MAX_ANNOTATIONS { MAX_ANNOTATIONS - 1 } else { of_level.len() };
        commands.extend(of_level.iter().take(shown).map(|a| command(a, masker)));
        if of_level.len() > shown {
            let rest = of_level.len() - shown;
            commands.push(format!("::{} title=turnkey::And {rest} more.", level.as_str()));
        }
    }
    commands
}

fn command(annotation: &Annotation, masker: &Masker) -> String {
    let mut properties = String::new();
    if let Some((file, line)) = &annotation.file {
        properties.push_str(&format!("file={},line={line},", property(&masker.mask(file))));
    }
    let title = one_line(&masker.mask(&annotation.title), 200);
    let message = masker.mask(&annotation.message);
    let message = cut_middle(&message, 4000);
    format!(
        "::{} {properties}title={}::{}",
        annotation.level.as_str(),
        property(&title),
        data(&message)
    )
}

fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The annotations of a run: its outcome if it is no success, each failed check, each denial.
pub fn annotations(record: &ResultRecord) -> Vec<Annotation> {
    let mut all = Vec::new();
    let ending = &record.ending;
    if ending.exit_status() != Some(0) {
        let message = format!("{} {}", ending.message(), ending.hint());
        all.push(Annotation {
            level: Level::Error,
            title: format!("turnkey: {} ({})", ending.state(), ending.reason()),
            message: message.trim_end().to_owned(),
            file: None,
        });
    }
    let last = record.checks.iter().map(|check| check.attempt).max();
    let failed = record.checks.iter().filter(|check| !check.passed && Some(check.attempt) == last);
    all.extend(failed.map(|check| Annotation {
        level: Level::Error,
        title: format!("check {} failed", check.name),
        message: check.output_tail.clone(),
        file: None,
    }));
    all.extend(record.denials.iter().map(|denial| Annotation {
        level: Level::Warning,
        title: "denied".to_owned(),
        message: format!("{}: {} ({})", denial.action, denial.reason, denial.rule),
        file: None,
    }));
    all
}

/// Opens a group in the log; everything up to [`GROUP_END`] is folded.
pub fn group_start(title: &str) -> String {
    format!("::group::{}", data(&one_line(title, 200)))
}

/// Closes a group.
pub const GROUP_END: &str = "::endgroup::";
