//! The ignore rules of the workspace as they stood when the start was captured.
//!
//! A command that writes `*` into a `.gitignore` must not make its own changes invisible. So the
//! rules are read once, at the start, and the same ones are used for every later look. A folder
//! that appears later brings no rules of its own.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::beneath::Root;
use super::git::{GitPlace, read_bounded};

/// A rule file larger than this is cut: it would only slow every look down.
pub(crate) const RULE_FILE_LIMIT: u64 = 1 << 20;

/// The rules of one folder, and those of the folders around it.
#[derive(Debug)]
pub(crate) struct Rules {
    outer: Option<Arc<Rules>>,
    patterns: Gitignore,
    /// How a path of the workspace becomes one relative to the folder of these rules: so many
    /// bytes are cut off …
    cut: usize,
    /// … and for folders above the workspace this is put in front.
    front: Vec<u8>,
}

impl Rules {
    /// The rules of the folder `folder` of the workspace, whose rule file holds `text`.
    pub(crate) fn of_folder(outer: Option<Arc<Self>>, folder: &[u8], text: &[u8]) -> Arc<Self> {
        let cut = if folder.is_empty() { 0 } else { folder.len() + 1 };
        Arc::new(Self { outer, patterns: compile(text), cut, front: Vec::new() })
    }

    fn above(outer: Option<Arc<Self>>, front: &[u8], text: &[u8]) -> Arc<Self> {
        Arc::new(Self { outer, patterns: compile(text), cut: 0, front: front.to_vec() })
    }

    /// Whether these rules, innermost first, say anything of `path`.
    pub(crate) fn matched(&self, path: &[u8], is_folder: bool) -> Option<bool> {
        let mut rules = Some(self);
        while let Some(here) = rules {
            let relative = path.get(here.cut..).unwrap_or_default();
            let found = if here.front.is_empty() {
                here.patterns.matched(Path::new(OsStr::from_bytes(relative)), is_folder)
            } else {
                let whole = [&here.front, relative].concat();
                here.patterns.matched(Path::new(OsStr::from_bytes(&whole)), is_folder)
            };
            match found {
                Match::Ignore(_) => return Some(true),
                Match::Whitelist(_) => return Some(false),
                Match::None => rules = here.outer.as_deref(),
            }
        }
        None
    }
}

/// The rules by folder, for the folders that have a rule file.
pub(crate) type RuleMap = HashMap<Vec<u8>, Arc<Rules>>;

/// Whether `path` is left out by the rules of the start: it or a folder around it is ignored.
pub(crate) fn left_out(map: &RuleMap, outer: Option<&Arc<Rules>>, path: &[u8]) -> bool {
    let mut rules = map.get(b"".as_slice()).or(outer).cloned();
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
    for end in ends.chain([path.len()]) {
        let part = path.get(..end).unwrap_or_default();
        let is_folder = end < path.len();
        if rules.as_ref().and_then(|rules| rules.matched(part, is_folder)) == Some(true) {
            return true;
        }
        if let Some(own) = map.get(part) {
            rules = Some(own.clone());
        }
    }
    false
}

/// The rules that hold for the whole workspace: `info/exclude`, then the rule files of the folders
/// between the repository's root and the workspace. `None` with `true` when these rules ignore the
/// workspace itself, so that the repository has nothing to say of it.
pub(crate) fn around(place: &GitPlace, workspace: &Path) -> (Option<Arc<Rules>>, bool) {
    let inside = workspace.strip_prefix(&place.work_root).unwrap_or(Path::new(""));
    let prefix = prefix_of(inside);
    let exclude = read_bounded(&place.common_dir.join("info/exclude"), RULE_FILE_LIMIT);
    let mut rules = exclude.ok().map(|text| Rules::above(None, &prefix, &text));
    let mut folder = place.work_root.clone();
    let mut front = prefix.as_slice();
    for name in inside {
        if let Some(text) = read_rule_file(&folder, ".gitignore") {
            rules = Some(Rules::above(rules, front, &text));
        }
        folder.push(name);
        front = front.get(name.len() + 1..).unwrap_or_default();
        if rules.as_ref().and_then(|rules| rules.matched_above(front)) == Some(true) {
            return (None, true);
        }
    }
    (rules, false)
}

impl Rules {
    /// Whether the folder above the workspace that is `rest` away from it (`rest` as the front of
    /// that folder's rules, ending in `/` or empty) is ignored.
    fn matched_above(&self, rest: &[u8]) -> Option<bool> {
        let mut rules = Some(self);
        while let Some(here) = rules {
            let end = here.front.len().saturating_sub(rest.len());
            let path = here.front.get(..end).unwrap_or_default();
            let path = path.strip_suffix(b"/").unwrap_or(path);
            match here.patterns.matched(Path::new(OsStr::from_bytes(path)), true) {
                Match::Ignore(_) => return Some(true),
                Match::Whitelist(_) => return Some(false),
                Match::None => rules = here.outer.as_deref(),
            }
        }
        None
    }
}

/// `a/b` as the bytes `a/b/`; nothing as nothing.
pub(crate) fn prefix_of(inside: &Path) -> Vec<u8> {
    let mut prefix = inside.as_os_str().as_bytes().to_vec();
    if !prefix.is_empty() {
        prefix.push(b'/');
    }
    prefix
}

fn read_rule_file(folder: &Path, name: &str) -> Option<Vec<u8>> {
    let root = Root::open(folder).ok()?;
    super::read::read_small(&root, name.as_bytes(), RULE_FILE_LIMIT)
}

fn compile(text: &[u8]) -> Gitignore {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(text).lines() {
        // A line that is no pattern rules nothing; git takes it so, too.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Patterns of the files whose bytes git may change between blob and work tree, from the text of
/// one attributes file; `None` when it has none. A line that takes such a change away is passed
/// over: looking at a file once too often is harmless.
pub(crate) fn converting(text: &[u8]) -> Option<Vec<u8>> {
    const CHANGING: [&str; 6] = ["text", "eol", "crlf", "ident", "filter", "working-tree-encoding"];
    let text = String::from_utf8_lossy(text);
    let mut patterns = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (pattern, attributes) = split_pattern(line);
        let changes = attributes.split_ascii_whitespace().any(|attribute| {
            let name = attribute.split('=').next().unwrap_or_default();
            CHANGING.contains(&name)
        });
        if !changes {
            continue;
        }
        if pattern.starts_with("[attr]") || pattern.starts_with('"') {
            // A macro may be used anywhere, and a quoted pattern is rare: take every file.
            patterns.extend_from_slice(b"*\n");
        } else {
            let plain = pattern.trim_start_matches('!');
            patterns.extend_from_slice(plain.as_bytes());
            patterns.push(b'\n');
        }
    }
    (!patterns.is_empty()).then_some(patterns)
}

fn split_pattern(line: &str) -> (&str, &str) {
    line.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_rules_win_over_outer_ones() {
        let outer = Rules::of_folder(None, b"", b"*.log\n/build\nsub/*.tmp\n");
        let inner = Rules::of_folder(Some(outer.clone()), b"sub", b"!keep.log\n");
        let cases: [(&Rules, &str, bool, Option<bool>); 7] = [
            (&outer, "a.log", false, Some(true)),
            (&outer, "deep/a.log", false, Some(true)),
            (&outer, "build", true, Some(true)),
            (&outer, "deep/build", true, None),
            (&inner, "sub/keep.log", false, Some(false)),
            (&inner, "sub/other.log", false, Some(true)),
            (&inner, "sub/x.tmp", false, Some(true)),
        ];
        for (rules, path, is_folder, want) in cases {
            assert_eq!(rules.matched(path.as_bytes(), is_folder), want, "{path}");
        }
    }

    #[test]
    fn a_path_is_left_out_with_its_folder() {
        let mut map = RuleMap::new();
        map.insert(Vec::new(), Rules::of_folder(None, b"", b"target/\n"));
        assert!(left_out(&map, None, b"target/debug/x"));
        assert!(left_out(&map, None, b"a/target/x"));
        assert!(!left_out(&map, None, b"target"));
        assert!(!left_out(&map, None, b"src/x"));
    }

    #[test]
    fn attributes_that_change_bytes_are_found() {
        let text = b"# c\n*.png binary\n*.sh text eol=lf\n*.bin filter=lfs -text\n*.c -text\n";
        let found = converting(text).expect("some");
        assert_eq!(String::from_utf8(found).expect("utf-8"), "*.sh\n*.bin\n");
        assert_eq!(converting(b"*.c diff=cpp\n"), None);
        assert_eq!(converting(b"[attr]x text\n").expect("some"), b"*\n");
    }
}
