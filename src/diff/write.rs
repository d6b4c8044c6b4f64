//! The writer: changes in, one diff out.

use super::ids::{NO_BLOB, blob_id};
use super::quote::quoted;
use super::rename::{self, Rename};
use super::{Diff, DiffOptions, FileChange, FileStat, FileStatus, TreeEntry, binary, hunks};

/// Writes the diff of `changes`, ordered by path. Changes that change nothing are left out; if a
/// path comes twice, its first `before` and its last `after` count.
pub fn write_diff(changes: Vec<FileChange>, options: &DiffOptions) -> Diff {
    let changes = tidy(changes);
    let renames =
        if options.renames { rename::find(&changes, options.rename_budget) } else { Vec::new() };
    let mut origin: Vec<Option<Rename>> = vec![None; changes.len()];
    let mut moved_away = vec![false; changes.len()];
    for rename in renames {
        if let (Some(slot), Some(gone)) =
            (origin.get_mut(rename.to), moved_away.get_mut(rename.from))
        {
            *slot = Some(rename);
            *gone = true;
        }
    }
    let mut writer = Writer { diff: Diff::default(), options };
    for ((change, origin), moved_away) in changes.iter().zip(origin).zip(moved_away) {
        if moved_away {
            continue;
        }
        match (
            origin.and_then(|rename| Some((rename, changes.get(rename.from)?))),
            &change.before,
            &change.after,
        ) {
            (Some((rename, source)), _, Some(after)) => {
                if let Some(before) = &source.before {
                    writer.renamed(source, before, change, after, rename.similarity);
                }
            }
            (_, Some(before), Some(after))
                if before.mode.is_symlink() != after.mode.is_symlink() =>
            {
                writer.type_changed(change, before, after);
            }
            (_, Some(before), Some(after)) => writer.modified(change, before, after),
            (_, before, after) => writer.one_sided(change, before.as_ref(), after.as_ref()),
        }
    }
    writer.diff
}

/// What a change brings into the tree: the added lines of a text file, the whole content of a
/// binary or new one. This is where secrets are looked for.
pub fn added_text(change: &FileChange, options: &DiffOptions) -> Vec<u8> {
    match (&change.before, &change.after) {
        (_, None) => Vec::new(),
        (Some(before), Some(after))
            if !binary::is_binary(&before.content) && !binary::is_binary(&after.content) =>
        {
            hunks::added(&before.content, &after.content, options)
        }
        (_, Some(after)) => after.content.to_vec(),
    }
}

fn tidy(mut changes: Vec<FileChange>) -> Vec<FileChange> {
    changes.sort_by(|a, b| a.path.cmp(&b.path));
    changes.dedup_by(|later, earlier| {
        let same = later.path == earlier.path;
        if same {
            earlier.after = later.after.take();
        }
        same
    });
    changes.retain(|change| change.before != change.after);
    changes
}

struct Writer<'o> {
    diff: Diff,
    options: &'o DiffOptions,
}

/// The two names and sides of one section.
struct Section<'a> {
    old_path: &'a [u8],
    new_path: &'a [u8],
    before: Option<&'a TreeEntry>,
    after: Option<&'a TreeEntry>,
}

impl Writer<'_> {
    fn modified(&mut self, change: &FileChange, before: &TreeEntry, after: &TreeEntry) {
        let section = Section::same(change, Some(before), Some(after));
        self.header(&section);
        self.mode_lines(before, after);
        let (added, removed, binary) = self.content(&section);
        let status = if before.content == after.content {
            FileStatus::ModeChanged
        } else {
            FileStatus::Modified
        };
        self.stat(change, None, status, (added, removed, binary));
    }

    fn renamed(
        &mut self,
        source: &FileChange,
        before: &TreeEntry,
        change: &FileChange,
        after: &TreeEntry,
        similarity: usize,
    ) {
        let section = Section {
            old_path: &source.path,
            new_path: &change.path,
            before: Some(before),
            after: Some(after),
        };
        self.header(&section);
        self.mode_lines(before, after);
        self.line(&[format!("similarity index {similarity}%").as_bytes()]);
        self.line(&[b"rename from ", &quoted("", &source.path)]);
        self.line(&[b"rename to ", &quoted("", &change.path)]);
        let counts = self.content(&section);
        self.stat(change, Some(source.path.clone()), FileStatus::Renamed, counts);
    }

    /// Git has no other words for it: the old file goes, a new one comes.
    fn type_changed(&mut self, change: &FileChange, before: &TreeEntry, after: &TreeEntry) {
        let (_, removed, old_binary) = self.half(change, Some(before), None);
        let (added, _, new_binary) = self.half(change, None, Some(after));
        let counts = (added, removed, old_binary || new_binary);
        self.stat(change, None, FileStatus::TypeChanged, counts);
    }

    fn one_sided(
        &mut self,
        change: &FileChange,
        before: Option<&TreeEntry>,
        after: Option<&TreeEntry>,
    ) {
        let counts = self.half(change, before, after);
        let status = if after.is_some() { FileStatus::Added } else { FileStatus::Deleted };
        self.stat(change, None, status, counts);
    }

    fn half(
        &mut self,
        change: &FileChange,
        before: Option<&TreeEntry>,
        after: Option<&TreeEntry>,
    ) -> (usize, usize, bool) {
        let section = Section::same(change, before, after);
        self.header(&section);
        if let Some(after) = after {
            self.line(&[b"new file mode ", after.mode.octal().as_bytes()]);
        } else if let Some(before) = before {
            self.line(&[b"deleted file mode ", before.mode.octal().as_bytes()]);
        }
        self.content(&section)
    }

    fn header(&mut self, section: &Section<'_>) {
        let (old, new) = (quoted("a/", section.old_path), quoted("b/", section.new_path));
        self.line(&[b"diff --git ", &old, b" ", &new]);
    }

    fn mode_lines(&mut self, before: &TreeEntry, after: &TreeEntry) {
        if before.mode != after.mode {
            self.line(&[b"old mode ", before.mode.octal().as_bytes()]);
            self.line(&[b"new mode ", after.mode.octal().as_bytes()]);
        }
    }

    /// The index line and what follows it: hunks or a binary patch. Nothing if both sides are equal.
    fn content(&mut self, section: &Section<'_>) -> (usize, usize, bool) {
        let old: Option<&[u8]> = section.before.map(|entry| &*entry.content);
        let new: Option<&[u8]> = section.after.map(|entry| &*entry.content);
        if old == new {
            return (0, 0, false);
        }
        let id = |side: Option<&[u8]>| side.map_or_else(|| NO_BLOB.to_owned(), blob_id);
        let mode = match (section.before, section.after) {
            (Some(before), Some(after)) if before.mode == after.mode => {
                format!(" {}", after.mode.octal())
            }
            _ => String::new(),
        };
        self.line(&[format!("index {}..{}{mode}", id(old), id(new)).as_bytes()]);
        let (old, new) = (old.unwrap_or(b""), new.unwrap_or(b""));
        if old == new {
            // An empty file that comes or goes has no hunk.
            return (0, 0, false);
        }
        if binary::is_binary(old) || binary::is_binary(new) {
            binary::write(old, new, &mut self.diff.bytes);
            return (0, 0, true);
        }
        self.file_line(b"--- ", "a/", section.before.map(|_| section.old_path));
        self.file_line(b"+++ ", "b/", section.after.map(|_| section.new_path));
        let (added, removed) = hunks::write(old, new, self.options, &mut self.diff.bytes);
        (added, removed, false)
    }

    /// `--- a/name`: a tab after a name with a space tells readers where the name ends.
    fn file_line(&mut self, mark: &[u8], prefix: &str, path: Option<&[u8]>) {
        match path {
            None => self.line(&[mark, b"/dev/null"]),
            Some(path) => {
                let tab: &[u8] = if path.contains(&b' ') { b"\t" } else { b"" };
                self.line(&[mark, &quoted(prefix, path), tab]);
            }
        }
    }

    fn line(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.diff.bytes.extend_from_slice(part);
        }
        self.diff.bytes.push(b'\n');
    }

    fn stat(
        &mut self,
        change: &FileChange,
        old_path: Option<Vec<u8>>,
        status: FileStatus,
        (added, removed, binary): (usize, usize, bool),
    ) {
        self.diff.added += added;
        self.diff.removed += removed;
        let path = change.path.clone();
        self.diff.files.push(FileStat { path, old_path, status, added, removed, binary });
    }
}

impl<'a> Section<'a> {
    fn same(
        change: &'a FileChange,
        before: Option<&'a TreeEntry>,
        after: Option<&'a TreeEntry>,
    ) -> Self {
        Self { old_path: &change.path, new_path: &change.path, before, after }
    }
}
