//! A diff from anywhere, applied to a small tree: a tree comes out, or an error.

use turnkey::diff::{self, DiffOptions, Mode, TreeEntry};

fn start(path: &[u8]) -> Option<TreeEntry> {
    let (mode, content): (Mode, &[u8]) = match path {
        b"a" => (Mode::Regular, b"one\ntwo\nthree\n"),
        b"s.sh" => (Mode::Executable, b"true\n"),
        b"link" => (Mode::Symlink, b"a"),
        b"d/c" => (Mode::Regular, b"\0\xff"),
        _ => return None,
    };
    Some(TreeEntry { mode, content: content.into() })
}

pub fn run(data: &[u8]) {
    let Ok(changes) = diff::apply(data, &start) else { return };
    for change in &changes {
        assert_eq!(change.before, start(&change.path), "it starts from what is there");
        for part in change.path.split(|byte| *byte == b'/') {
            assert!(!part.is_empty() && part != b".." && !part.eq_ignore_ascii_case(b".git"));
        }
    }
    // What was read can be written, and means the same then.
    let written = diff::write_diff(changes.clone(), &DiffOptions::default());
    let again = diff::apply(&written.bytes, &start).expect("our own diff applies");
    let real = changes.into_iter().filter(|change| change.before != change.after);
    assert_eq!(again, real.collect::<Vec<_>>());
}
