//! The ids of the tree at both ends of a Turn, as git would name it.
//!
//! They are what a proof of the diff is made against. Nothing is read for them: an unchanged file
//! has its id from the index or from the copy, a changed one is hashed from the diff.

use std::collections::BTreeMap;

use super::compare::{Builder, git_mode};
use super::git::Oid;
use super::git::index::{GITLINK, LINK};
use super::git::tree::TreeBuilder;
use super::manifest::Flags;
use crate::diff::Mode;

impl Builder<'_> {
    /// The ids of both trees. Unchanged files have their id already; changed ones are hashed.
    pub(super) fn trees(&self) -> (Option<Oid>, Option<Oid>) {
        let mut start: Vec<(&[u8], u32, Oid)> = Vec::with_capacity(self.start.manifest.len());
        let manifest = &self.start.manifest;
        for (position, entry) in manifest.entries().iter().enumerate() {
            let path = manifest.name(entry);
            if entry.flags.has(Flags::NESTED_TOP) {
                let commit = self.start.nested_heads.get(path).copied().flatten();
                start.extend(commit.map(|commit| (path, GITLINK, commit)));
            } else if entry.stamp.has_content() && !entry.flags.has(Flags::NESTED) {
                let Some(oid) = self.start.oid(position) else { return (None, None) };
                start.push((path, git_mode(&entry.stamp), oid));
            }
        }
        if let Some(index) = &self.start.index {
            let left_out = index.entries().iter().filter(|entry| entry.skip_worktree);
            let absent = left_out.filter(|entry| manifest.find(index.name(entry)).is_none());
            start.extend(absent.map(|entry| {
                let name = index.name(entry);
                (name.strip_suffix(b"/").unwrap_or(name), entry.mode, entry.oid)
            }));
            start.sort_by(|left, right| left.0.cmp(right.0));
        }
        let start_tree = self.build(start.iter().copied());
        if !self.reasons.is_empty() {
            return (Some(start_tree), None);
        }
        if self.files.is_empty() {
            return (Some(start_tree), Some(start_tree));
        }
        (Some(start_tree), self.end_tree(&start))
    }

    fn end_tree(&self, start: &[(&[u8], u32, Oid)]) -> Option<Oid> {
        let prefix = self.workspace.prefix();
        let mut changed: BTreeMap<&[u8], Option<(u32, Oid)>> = BTreeMap::new();
        for (path, change) in &self.files {
            let inside = path.strip_prefix(prefix.as_slice())?;
            let after = change.after.as_ref().map(|entry| {
                let mode = match entry.mode {
                    Mode::Regular => 0o100_644,
                    Mode::Executable => 0o100_755,
                    Mode::Symlink => LINK,
                };
                (mode, self.start.format.id_of("blob", &entry.content))
            });
            changed.insert(inside, after);
        }
        let kept = start.iter().copied().filter(|(path, _, _)| !changed.contains_key(path));
        let mut end: Vec<(&[u8], u32, Oid)> = kept.collect();
        let new = changed.iter().filter_map(|(path, after)| {
            let (mode, oid) = (*after)?;
            Some((*path, mode, oid))
        });
        end.extend(new);
        end.sort_by(|left, right| left.0.cmp(right.0));
        Some(self.build(end.into_iter()))
    }

    fn build<'b>(&self, files: impl Iterator<Item = (&'b [u8], u32, Oid)>) -> Oid {
        let mut builder = TreeBuilder::new(self.start.format);
        for (path, mode, oid) in files {
            builder.add(path, mode, oid);
        }
        builder.finish()
    }
}
