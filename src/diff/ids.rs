//! Git's names for contents and trees: stable ids that anybody can check with git itself.

use std::collections::BTreeMap;

use sha1::{Digest, Sha1};

use super::Mode;

/// The id of the blob with this content, 40 hexadecimal digits.
pub fn blob_id(content: &[u8]) -> String {
    hex(&object_id("blob", content))
}

/// The id of the tree that holds exactly these files: path, mode, blob id. The order of the entries
/// does not matter, and where a path comes twice the later one counts. Folders exist only through
/// the files in them, as in git.
pub fn tree_id<'a>(entries: impl IntoIterator<Item = (&'a [u8], Mode, &'a str)>) -> String {
    let mut root = Folder::default();
    for (path, mode, blob) in entries {
        root.insert(path, mode, blob);
    }
    hex(&root.id())
}

/// The id of the empty side in index lines.
pub(super) const NO_BLOB: &str = "0000000000000000000000000000000000000000";

#[derive(Default)]
struct Folder<'a> {
    /// By name with a `/` after folders' names: that is the order in which git sorts a tree.
    entries: BTreeMap<Vec<u8>, Node<'a>>,
}

enum Node<'a> {
    File(Mode, &'a str),
    Folder(Folder<'a>),
}

impl<'a> Folder<'a> {
    fn insert(&mut self, path: &[u8], mode: Mode, blob: &'a str) {
        let mut folder = self;
        let mut parts = path.split(|byte| *byte == b'/').peekable();
        while let Some(name) = parts.next() {
            if parts.peek().is_none() {
                folder.entries.insert(name.to_vec(), Node::File(mode, blob));
                return;
            }
            let mut key = name.to_vec();
            key.push(b'/');
            let node = folder.entries.entry(key).or_insert_with(|| Node::Folder(Self::default()));
            match node {
                Node::Folder(inner) => folder = inner,
                // Files have keys without a slash, so this can't be one.
                Node::File(..) => return,
            }
        }
    }

    fn id(&self) -> Vec<u8> {
        let mut content = Vec::new();
        for (key, node) in &self.entries {
            let (mode, name, id) = match node {
                Node::File(mode, blob) => (mode.octal(), key.as_slice(), unhex(blob)),
                Node::Folder(inner) => ("40000", key.strip_suffix(b"/").unwrap_or(key), inner.id()),
            };
            content.extend_from_slice(mode.as_bytes());
            content.push(b' ');
            content.extend_from_slice(name);
            content.push(0);
            content.extend_from_slice(&id);
        }
        object_id("tree", &content)
    }
}

fn object_id(kind: &str, content: &[u8]) -> Vec<u8> {
    let mut hash = Sha1::new();
    hash.update(format!("{kind} {}\0", content.len()).as_bytes());
    hash.update(content);
    hash.finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, d| byte << 4 | digit(*d)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_gits() {
        assert_eq!(blob_id(b""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
        assert_eq!(blob_id(b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(tree_id([]), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
    }

    #[test]
    fn the_order_of_entries_does_not_matter() {
        let id = blob_id(b"x");
        let paths: [&[u8]; 4] = [b"a/b", b"a.c", b"a0", b"a/c/d"];
        let tree = |order: &[usize]| {
            tree_id(order.iter().map(|at| (paths[*at], Mode::Regular, id.as_str())))
        };
        assert_eq!(tree(&[0, 1, 2, 3]), tree(&[3, 2, 1, 0]));
    }
}
