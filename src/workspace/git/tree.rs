//! Commits and trees: from a commit to the files that it names.

use std::collections::BTreeMap;

use super::objects::{Kind, ObjectError, Objects};
use super::{ObjectFormat, Oid};

const TREE_LIMIT: u64 = 64 << 20;
const MAX_DEPTH: usize = 256;

/// One file of a commit's tree, with the mode as git writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TreeFile {
    pub(crate) mode: u32,
    pub(crate) oid: Oid,
}

/// The tree that a commit names.
pub(crate) fn tree_of_commit(objects: &Objects, commit: &Oid) -> Result<Oid, ObjectError> {
    let object = objects.read(commit, TREE_LIMIT)?;
    let damaged = ObjectError::Damaged(*commit, "it names no tree");
    if object.kind != Kind::Commit {
        return Err(damaged);
    }
    let line = object.bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    line.strip_prefix(b"tree ").and_then(Oid::from_hex).ok_or(damaged)
}

/// The tree of the folder `prefix` (empty, or ending in `/`) below `tree`; `None` if it has none.
pub(crate) fn subtree(
    objects: &Objects,
    tree: Oid,
    prefix: &[u8],
) -> Result<Option<Oid>, ObjectError> {
    let mut tree = tree;
    for name in prefix.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
        let found = entries(objects, &tree)?.into_iter().find(|(entry, _)| entry == name);
        match found {
            Some((_, file)) if file.mode == super::index::TREE => tree = file.oid,
            _ => return Ok(None),
        }
    }
    Ok(Some(tree))
}

/// Every file below `tree`, by path.
pub(crate) fn flatten(
    objects: &Objects,
    tree: &Oid,
    prefix: &[u8],
    into: &mut BTreeMap<Vec<u8>, TreeFile>,
) -> Result<(), ObjectError> {
    let mut open = vec![(prefix.to_vec(), *tree, 0)];
    while let Some((folder, tree, depth)) = open.pop() {
        if depth > MAX_DEPTH {
            return Err(ObjectError::Damaged(tree, "its folders are nested too deep"));
        }
        for (name, file) in entries(objects, &tree)? {
            let mut path = folder.clone();
            path.extend_from_slice(&name);
            if file.mode == super::index::TREE {
                path.push(b'/');
                open.push((path, file.oid, depth + 1));
            } else {
                into.insert(path, file);
            }
        }
    }
    Ok(())
}

fn entries(objects: &Objects, tree: &Oid) -> Result<Vec<(Vec<u8>, TreeFile)>, ObjectError> {
    let object = objects.read(tree, TREE_LIMIT)?;
    if object.kind != Kind::Tree {
        return Err(ObjectError::Damaged(*tree, "it is not a tree"));
    }
    parse(&object.bytes, tree.format()).ok_or(ObjectError::Damaged(*tree, "it does not parse"))
}

fn parse(mut bytes: &[u8], format: ObjectFormat) -> Option<Vec<(Vec<u8>, TreeFile)>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let space = bytes.iter().position(|byte| *byte == b' ')?;
        let mode = u32::from_str_radix(std::str::from_utf8(&bytes[..space]).ok()?, 8).ok()?;
        bytes = &bytes[space + 1..];
        let nul = bytes.iter().position(|byte| *byte == 0)?;
        let name = bytes.get(..nul)?.to_vec();
        bytes = &bytes[nul + 1..];
        let oid = Oid::from_bytes(bytes.get(..format.width())?)?;
        bytes = bytes.get(format.width()..)?;
        found.push((name, TreeFile { mode, oid }));
    }
    Some(found)
}

/// One entry of a tree: name, mode, id.
type Named = (Vec<u8>, u32, Oid);

/// The id of the tree that holds exactly these files. The paths must come in the order of their
/// bytes, each once, and none may be a folder of another.
pub(crate) struct TreeBuilder {
    format: ObjectFormat,
    /// Open folders from the outermost to the innermost: name, and what is known of it so far.
    open: Vec<(Vec<u8>, Vec<Named>)>,
}

impl TreeBuilder {
    pub(crate) fn new(format: ObjectFormat) -> Self {
        Self { format, open: vec![(Vec::new(), Vec::new())] }
    }

    /// Add one file.
    pub(crate) fn add(&mut self, path: &[u8], mode: u32, oid: Oid) {
        let mut folders: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
        let Some(name) = folders.pop() else { return };
        let shared = self
            .open
            .iter()
            .skip(1)
            .zip(&folders)
            .take_while(|((open, _), wanted)| open == *wanted)
            .count();
        while self.open.len() > shared + 1 {
            self.close_innermost();
        }
        for folder in folders.iter().skip(shared) {
            self.open.push((folder.to_vec(), Vec::new()));
        }
        if let Some((_, files)) = self.open.last_mut() {
            files.push((name.to_vec(), mode, oid));
        }
    }

    fn close_innermost(&mut self) {
        let Some((name, files)) = self.open.pop() else { return };
        let id = tree_id(self.format, files);
        if let Some((_, outer)) = self.open.last_mut() {
            outer.push((name, super::index::TREE, id));
        }
    }

    pub(crate) fn finish(mut self) -> Oid {
        while self.open.len() > 1 {
            self.close_innermost();
        }
        let files = self.open.pop().map(|(_, files)| files).unwrap_or_default();
        tree_id(self.format, files)
    }
}

fn tree_id(format: ObjectFormat, mut files: Vec<Named>) -> Oid {
    // Git orders a folder as if its name ended in a slash.
    let key = |(name, mode, _): &Named| {
        let mut key = name.clone();
        if *mode == super::index::TREE {
            key.push(b'/');
        }
        key
    };
    files.sort_by_cached_key(key);
    let mut bytes = Vec::new();
    for (name, mode, oid) in &files {
        bytes.extend_from_slice(format!("{mode:o} ").as_bytes());
        bytes.extend_from_slice(name);
        bytes.push(0);
        bytes.extend_from_slice(oid.as_bytes());
    }
    format.id_of("tree", &bytes)
}
