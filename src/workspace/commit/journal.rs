//! The journal of one commit: enough to undo it, or to finish it, after a kill at any point.
//!
//! Three lines of JSON, each written whole: what is about to be staged; which inodes are about to
//! change places; that all have. A line that a kill cut off counts as not written. The journal
//! lies in the run's folder, where no command can write.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::gate;

const VERSION: u32 = 2;
const PREFIX: &str = "patch-";
const SUFFIX: &str = ".journal";
const LIMIT: u64 = 64 << 20;

/// A path as text where it is text, so that a person can read the journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PathText {
    Text(String),
    Bytes(Vec<u8>),
}

impl PathText {
    pub(super) fn new(path: &[u8]) -> Self {
        match std::str::from_utf8(path) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Bytes(path.to_vec()),
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Act {
    Create,
    Replace,
    Delete,
}

/// One file of the commit, in terms of names and inodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) path: PathText,
    /// The folder of the temporary name: the file's own, or the nearest one around it that is
    /// there already.
    pub(super) folder: PathText,
    pub(super) temp: String,
    /// It stands where a folder is needed, so it goes before the folders are made.
    pub(super) makes_way: bool,
    pub(super) act: Act,
    pub(super) old_inode: Option<u64>,
    /// Known once the file is staged.
    #[serde(default)]
    pub(super) new_inode: Option<u64>,
}

/// A folder that goes because a file takes its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Gone {
    pub(super) path: PathText,
    /// Its permissions, for making it again.
    pub(super) mode: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Staging {
        v: u32,
        workspace: PathText,
        gone: Vec<Gone>,
        folders: Vec<PathText>,
        files: Vec<Record>,
    },
    Committing {
        new_inodes: Vec<Option<u64>>,
    },
    Committed {},
}

/// How far a commit had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reached {
    Staging,
    Committing,
    Committed,
}

/// A journal read back.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) workspace: Vec<u8>,
    pub(super) gone: Vec<Gone>,
    pub(super) folders: Vec<Vec<u8>>,
    pub(super) files: Vec<Record>,
    pub(super) reached: Reached,
}

/// A journal being written.
pub(super) struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    pub(super) fn begin(
        store: &Path,
        id: &str,
        workspace: &[u8],
        gone: &[Gone],
        folders: &[Vec<u8>],
        files: &[Record],
    ) -> io::Result<Self> {
        let path = store.join(format!("{PREFIX}{id}{SUFFIX}"));
        gate::pass("journal: create")?;
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
        let mut journal = Self { path, file };
        let folders = folders.iter().map(|folder| PathText::new(folder)).collect();
        let workspace = PathText::new(workspace);
        let (gone, files) = (gone.to_vec(), files.to_vec());
        let line = Line::Staging { v: VERSION, workspace, gone, folders, files };
        if let Err(error) = journal.write("journal: staging", &line) {
            let _ = journal.remove();
            return Err(error);
        }
        Ok(journal)
    }

    /// All is staged. The line is written before the first file changes place, which is enough for
    /// a kill; `flush` makes it outlast a loss of power, too.
    pub(super) fn committing(
        &mut self,
        new_inodes: Vec<Option<u64>>,
        flush: bool,
    ) -> io::Result<()> {
        self.write("journal: committing", &Line::Committing { new_inodes })?;
        if flush {
            gate::pass("journal: fdatasync")?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// All files have changed place: from here on the commit is finished, not undone.
    pub(super) fn committed(&mut self) -> io::Result<()> {
        self.write("journal: committed", &Line::Committed {})
    }

    pub(super) fn remove(&mut self) -> io::Result<()> {
        gate::pass("journal: remove")?;
        std::fs::remove_file(&self.path)
    }

    fn write(&mut self, call: &'static str, line: &Line) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        gate::pass(call)?;
        self.file.write_all(&bytes)
    }
}

/// The journals that lie in a store, oldest first.
pub(super) fn journals_in(store: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(store)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Read a journal. `None` when not even its first line was written: then nothing was done.
pub(super) fn read(path: &Path) -> Result<Option<Story>, String> {
    let bytes =
        crate::workspace::git::read_bounded(path, LIMIT).map_err(|error| error.to_string())?;
    let mut story: Option<Story> = None;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        let line: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        story = Some(match (line, story) {
            (Line::Staging { v: VERSION, workspace, gone, folders, files }, None) => Story {
                workspace: workspace.bytes().to_vec(),
                gone,
                folders: folders.iter().map(|folder| folder.bytes().to_vec()).collect(),
                files,
                reached: Reached::Staging,
            },
            (Line::Committing { new_inodes }, Some(story)) => with_inodes(story, &new_inodes)?,
            (Line::Committed {}, Some(story)) => Story { reached: Reached::Committed, ..story },
            _ => return Err("its lines are not in order, or of another version".to_owned()),
        });
    }
    Ok(story)
}

fn with_inodes(mut story: Story, inodes: &[Option<u64>]) -> Result<Story, String> {
    if inodes.len() != story.files.len() {
        return Err("its lines do not belong together".to_owned());
    }
    for (file, inode) in story.files.iter_mut().zip(inodes) {
        file.new_inode = *inode;
    }
    story.reached = Reached::Committing;
    Ok(story)
}
