//! Diffs that somebody has tampered with: refused, never half applied, never a panic.

use proptest::prelude::*;

use super::*;

const NO_BLOB: &str = "0000000000000000000000000000000000000000";

fn start() -> Tree {
    tree(&[
        ("f", Mode::Regular, b"1\n2\n3\n"),
        ("bin", Mode::Regular, b"\0a"),
        ("s", Mode::Executable, b"run\nlong enough to be alike\n"),
    ])
}

fn genuine() -> Vec<u8> {
    let end = tree(&[
        ("f", Mode::Regular, b"1\nx\n3\n"),
        ("bin", Mode::Regular, b"\0b"),
        ("t", Mode::Regular, b"run\nlong enough to be alike\nmore\n"),
        ("new", Mode::Symlink, b"f"),
    ]);
    diff(&start(), &end).bytes
}

#[track_caller]
fn refused(diff: &str, kind: ApplyErrorKind) {
    let error = applied(diff.as_bytes(), &start()).expect_err(diff);
    assert_eq!(error.kind, kind, "{error}\n{diff}");
}

#[test]
fn paths_that_leave_the_root_are_refused() {
    for path in ["../x", "/etc/x", "a/../../x", ".git/config", "sub/.GIT/hooks/x", "a//b", "./x"] {
        let diff = format!(
            "diff --git a/{path} b/{path}\nnew file mode 100644\nindex {}..{}\n",
            NO_BLOB,
            blob_id(b"")
        );
        refused(&diff, ApplyErrorKind::Path);
    }
}

#[test]
fn another_start_is_refused() {
    let diff = genuine();
    let other = |path: &str, entry: Option<TreeEntry>| {
        let mut tree = start();
        tree.remove(path.as_bytes());
        tree.extend(entry.map(|entry| (path.as_bytes().to_vec(), entry)));
        applied(&diff, &tree).unwrap_err().kind
    };
    assert_eq!(other("f", None), ApplyErrorKind::Missing);
    assert_eq!(other("f", Some(entry(Mode::Regular, b"1\n2\n4\n"))), ApplyErrorKind::Mismatch);
    assert_eq!(other("f", Some(entry(Mode::Executable, b"1\n2\n3\n"))), ApplyErrorKind::Mismatch);
    assert_eq!(other("bin", Some(entry(Mode::Regular, b"\0z"))), ApplyErrorKind::Mismatch);
    assert_eq!(other("new", Some(entry(Mode::Regular, b""))), ApplyErrorKind::Exists);
}

#[test]
fn results_are_checked() {
    let text = String::from_utf8(genuine()).unwrap();
    refused(&text.replace("+x\n", "+y\n"), ApplyErrorKind::Result);
    refused(&text.replace("-2\n", "-7\n"), ApplyErrorKind::Mismatch);
    refused(&text.replace("@@ -1,3 +1,3 @@", "@@ -2,3 +2,3 @@"), ApplyErrorKind::Mismatch);
    refused(&format!("{text}{text}"), ApplyErrorKind::Malformed);
    refused(&text[..text.len() - 1], ApplyErrorKind::Malformed);
    refused("--- a/f\n+++ b/f\n", ApplyErrorKind::Malformed);
    refused(&format!("preface\n{text}"), ApplyErrorKind::Malformed);
}

#[test]
fn a_file_can_not_be_a_folder() {
    let diff = format!(
        "diff --git a/f/x b/f/x\nnew file mode 100644\nindex {}..{}\n",
        NO_BLOB,
        blob_id(b"")
    );
    refused(&diff, ApplyErrorKind::Exists);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is done to a diff, applying it gives the true end or an error.
    #[test]
    fn damage_is_an_error_or_harmless(at in 0usize..2000, byte in any::<u8>(), cut in any::<bool>()) {
        let diff = genuine();
        let end = applied(&diff, &start()).unwrap();
        let mut damaged = diff.clone();
        let at = at % damaged.len();
        if cut {
            damaged.truncate(at);
        } else {
            damaged[at] = byte;
        }
        if let Ok(tree) = applied(&damaged, &start()) {
            // A damaged name may lead elsewhere; contents are always what an id says.
            let known = |entry: &TreeEntry| end.values().chain(start().values()).any(|other| other.content == entry.content);
            prop_assert!(tree.values().all(known));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = applied(&bytes, &start());
        let mut headed = b"diff --git a/f b/f\n".to_vec();
        headed.extend(&bytes);
        let _ = applied(&headed, &start());
    }
}
