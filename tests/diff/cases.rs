//! Field cases and corners, each a round trip through git.

use std::time::Instant;

use super::*;

const R: Mode = Mode::Regular;
const X: Mode = Mode::Executable;
const L: Mode = Mode::Symlink;

#[track_caller]
fn trip(start: &[(&str, Mode, &[u8])], end: &[(&str, Mode, &[u8])]) -> String {
    let diff = round_trip(&tree(start), &tree(end));
    String::from_utf8_lossy(&diff.bytes).into_owned()
}

fn statuses(start: &[(&str, Mode, &[u8])], end: &[(&str, Mode, &[u8])]) -> Vec<FileStatus> {
    diff(&tree(start), &tree(end)).files.iter().map(|file| file.status).collect()
}

#[test]
fn d37_the_net_change_whoever_made_it() {
    let start = [
        ("a.txt", R, &b"a\n"[..]),
        ("b.txt", R, b"b\n"),
        ("c.txt", R, b"other\n"),
        ("f.txt", R, b"f\n"),
    ];
    let end = [
        ("a.txt", R, &b"A\n"[..]),
        ("b.txt", R, b"B\n"),
        ("d/e.txt", R, b"e\n"),
        ("f.txt", R, b"f\n"),
    ];
    let text = trip(&start, &end);
    assert!(!text.contains("f.txt"));
    let stats = diff(&tree(&start), &tree(&end));
    assert_eq!((stats.added, stats.removed, stats.files.len()), (3, 3, 4));
}

#[test]
fn d38_new_files_in_new_folders() {
    let text = trip(
        &[("p.txt", R, b"p\n")],
        &[("p.txt", R, b"p\n"), ("x/y/q.txt", R, b"q\n"), ("empty", R, b""), ("run", X, b"#!\n")],
    );
    assert!(text.contains("new file mode 100755") && text.contains("new file mode 100644"));
}

#[test]
fn d39_binary_files_are_whole_and_nothing_is_lost() {
    let noise: Vec<u8> =
        (0..1024u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let mut other = noise.clone();
    other.insert(17, 0);
    trip(
        &[("t", R, b"a\n"), ("bin", R, &noise), ("gone", R, b"\0")],
        &[("t", R, b"b\n"), ("bin", R, &other), ("new", X, b"\0\0")],
    );
    // Between empty, text and binary.
    trip(
        &[("a", R, b""), ("b", R, b"\0"), ("c", R, b"text\n"), ("d", R, b"\0x")],
        &[("a", R, b"\0"), ("b", R, b""), ("c", R, b"\0"), ("d", R, b"text\n")],
    );
    let zeros = vec![0; 200_000];
    trip(&[("z", R, b"\0")], &[("z", R, &zeros)]);
}

#[test]
fn d40_blank_context_lines_stay() {
    let text = trip(&[("f", R, b"o\n\n\n")], &[("f", R, b"x\n\n\n")]);
    assert!(text.ends_with("-o\n+x\n \n \n"), "{text:?}");
}

#[test]
fn d41_carriage_returns_stay() {
    let (start, end) =
        (tree(&[("f", R, b"a\r\nb\r\nc\r\n")]), tree(&[("f", R, b"a\r\nx\r\nc\r\n")]));
    let diff = round_trip(&start, &end);
    // The test of the test: without its CRs the diff must not apply.
    let stripped: Vec<u8> = diff.bytes.iter().copied().filter(|byte| *byte != b'\r').collect();
    let git = Git::new();
    git.check_out(&start);
    assert!(git.try_run(&["apply", "--check", "-"], Some(&stripped)).is_err());
    assert!(applied(&stripped, &start).is_err());
    trip(&[("f", R, b"a\rb\rc\n\rd\n")], &[("f", R, b"a\rb\rC\n\rd\n\r")]);
    trip(&[("f", R, b"a\r\nb\nc\r\n")], &[("f", R, b"a\nb\r\nc\r\n")]);
}

#[test]
fn d42_no_setting_of_a_user_can_change_the_output() {
    // The writer has no way to read a setting; the applying git's own are neutralised by its caller.
    let (start, end) = (tree(&[("é", R, b"a\n")]), tree(&[("é", R, b"b\n")]));
    let text = String::from_utf8(diff(&start, &end).bytes).unwrap();
    assert!(text.starts_with("diff --git \"a/\\303\\251\" \"b/\\303\\251\"\n"), "{text}");
    let git = Git::new();
    git.check_out(&start);
    for setting in ["diff.noprefix", "diff.mnemonicPrefix", "core.quotePath"] {
        git.run(&["config", setting, "true"], None);
    }
    git.run(&["config", "diff.renames", "copies"], None);
    git.run(&["config", "color.ui", "always"], None);
    git.run(&["apply", "-"], Some(text.as_bytes()));
    assert_eq!(git.work_tree(), id_of(&end));
}

#[test]
fn d43_nothing_of_the_repository_runs() {
    // Attributes in the tree are content like any other: no driver, no filter, no conversion.
    let attributes = b"* text=auto eol=crlf filter=x diff=x -text\n";
    trip(&[(".gitattributes", R, b"")], &[(".gitattributes", R, attributes)]);
}

#[test]
fn d44_missing_newline_is_marked_on_its_own_side() {
    for (before, after) in [
        (&b"a\nb"[..], &b"a\nc"[..]),
        (b"a\nb", b"a\nb\n"),
        (b"a\nb\n", b"a\nb"),
        (b"a\nb", b"a\nb\nc"),
        (b"a", b""),
        (b"", b"a"),
        (b"a\n1\n2\n3\n4\nb", b"A\n1\n2\n3\n4\nb"),
    ] {
        trip(&[("f", R, before)], &[("f", R, after)]);
    }
    let text = trip(&[("f", R, b"a")], &[("f", R, b"b")]);
    assert!(text.ends_with("-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"));
}

#[test]
fn d45_rename_with_mode_has_its_headers_in_order() {
    let body: Vec<u8> = (0..30).flat_map(|i| format!("echo {i}\n").into_bytes()).collect();
    let mut edited = body.clone();
    edited.extend(b"echo more\n");
    let text = trip(&[("s.sh", R, &body)], &[("bin/s", X, &edited)]);
    let heads: Vec<&str> = text.lines().take(7).collect();
    assert_eq!(
        &heads[..6],
        [
            "diff --git a/s.sh b/bin/s",
            "old mode 100644",
            "new mode 100755",
            "similarity index 95%",
            "rename from s.sh",
            "rename to bin/s"
        ],
        "{text}"
    );
    assert!(heads[6].starts_with("index ") && heads[6].len() == 6 + 82, "{}", heads[6]);
    assert_eq!(statuses(&[("s.sh", R, &body)], &[("bin/s", X, &edited)]), [FileStatus::Renamed]);
}

#[test]
fn d45_pure_rename_pure_mode_and_swap() {
    let text = trip(&[("a", R, b"content\n")], &[("b", R, b"content\n")]);
    assert_eq!(text, "diff --git a/a b/b\nsimilarity index 100%\nrename from a\nrename to b\n");
    let text = trip(&[("a", R, b"content\n")], &[("a", X, b"content\n")]);
    assert_eq!(text, "diff --git a/a b/a\nold mode 100644\nnew mode 100755\n");
    assert_eq!(statuses(&[("a", R, b"x")], &[("a", X, b"x")]), [FileStatus::ModeChanged]);
    trip(&[("a", R, b"one\n"), ("b", X, b"two\n")], &[("a", X, b"two\n"), ("b", R, b"one\n")]);
    trip(&[("a", R, b"one\n")], &[("a", X, b"two\n")]);
}

#[test]
fn d45_type_changes() {
    let text = trip(&[("a", R, b"x\n")], &[("a", L, b"target")]);
    assert!(text.contains("deleted file mode 100644") && text.contains("new file mode 120000"));
    assert_eq!(statuses(&[("a", R, b"x\n")], &[("a", L, b"t")]), [FileStatus::TypeChanged]);
    trip(&[("a", L, b"target")], &[("a", X, b"x\n")]);
    trip(&[("a", L, b"x")], &[("a", R, b"x")]);
    trip(&[("a", L, b"one")], &[("a", L, b"two")]);
    trip(&[("a", L, b"one")], &[("b", L, b"one")]);
    trip(&[("a", R, b"\0bin")], &[("a", L, b"t")]);
}

#[test]
fn d45_files_become_folders_and_back() {
    trip(&[("a", R, b"first\n")], &[("a/b", R, b"other\n"), ("a/c/d", R, b"more\n")]);
    trip(&[("a/b", R, b"other\n"), ("a/c/d", R, b"more\n")], &[("a", R, b"first\n")]);
    // By renames, too.
    trip(&[("a", R, b"same\n")], &[("a/b", R, b"same\n")]);
    trip(&[("a/b", R, b"same\n")], &[("a", R, b"same\n")]);
    trip(&[("a/b/c", L, b"same")], &[("a", L, b"same")]);
    // A link that moves away makes room for a folder: as a pure rename git would not see it go.
    let text = trip(&[("a", L, b"same")], &[("b", L, b"same"), ("a/x", R, b"new\n")]);
    assert!(!text.contains("rename"), "{text}");
}

#[test]
fn a_looping_link_becomes_a_folder_at_least_by_us() {
    // The one change seen that git's own diff can't carry through `git apply` either.
    let (start, end) = (tree(&[("a", L, b"a")]), tree(&[("a/a", R, b"x\n")]));
    let diff = diff(&start, &end);
    assert_eq!(applied(&diff.bytes, &start).unwrap(), end);
}

#[test]
fn renames_take_the_likeliest_partner() {
    let text = trip(
        &[("x/one.rs", R, b"same\n"), ("x/two.rs", R, b"same\n")],
        &[("y/one.rs", R, b"same\n"), ("y/two.rs", R, b"same\n")],
    );
    assert!(
        text.contains("rename from x/one.rs\nrename to y/one.rs")
            && text.contains("rename from x/two.rs\nrename to y/two.rs")
    );
    // A chain: b's content goes to c, a's to b.
    trip(
        &[("a", R, b"1\n2\n3\n"), ("b", R, b"4\n5\n6\n")],
        &[("b", R, b"1\n2\n3\n"), ("c", R, b"4\n5\n6\n")],
    );
    let options = DiffOptions { renames: false, ..DiffOptions::default() };
    let plain =
        write_diff(changes(&tree(&[("a", R, b"1\n")]), &tree(&[("b", R, b"1\n")])), &options);
    assert_eq!(plain.files.len(), 2);
}

#[test]
fn odd_names_are_quoted() {
    let names: [&[u8]; 16] = [
        b"sp ace",
        b"tab\there",
        b"new\nline",
        b"quo\"te",
        b"back\\slash",
        "n\u{e9}".as_bytes(),
        "ne\u{301}".as_bytes(),
        b"\xff\xfe",
        b" lead",
        b"trail ",
        b"-dash",
        b"x b/x",
        b"a/b c/d",
        b"cr\r",
        b"\x01\x7f",
        b"=> ",
    ];
    let file = |content: &'static [u8]| -> Tree {
        names.iter().map(|name| (name.to_vec(), entry(R, content))).collect()
    };
    let executable: Tree = names.iter().map(|name| (name.to_vec(), entry(X, b"a\n"))).collect();
    let moved: Tree =
        names.iter().map(|name| ([b"to/ ", *name].concat(), entry(R, b"a\n"))).collect();
    let none = Tree::new();
    for (start, end) in [
        (&none, &file(b"a\n")),
        (&file(b"a\n"), &none),
        (&file(b"a\n"), &file(b"b\n")),
        (&file(b""), &file(b"\0")),
        (&none, &file(b"")),
        (&file(b"a\n"), &executable),
        (&file(b"a\n"), &moved),
    ] {
        round_trip(start, end);
    }
}

#[test]
fn hunks_far_apart_and_close_together() {
    let lines = |change: &[usize]| -> Vec<u8> {
        (0..60)
            .flat_map(|i| {
                if change.contains(&i) { format!("new {i}\nand\n") } else { format!("line {i}\n") }
                    .into_bytes()
            })
            .collect()
    };
    let count = |change: &[usize]| {
        trip(&[("f", R, &lines(&[]))], &[("f", R, &lines(change))]).matches("\n@@ ").count()
    };
    assert_eq!(count(&[0, 59]), 2);
    assert_eq!(count(&[10, 17]), 1);
    assert_eq!(count(&[10, 18]), 2);
    assert_eq!(count(&[0]), 1);
}

#[test]
fn beyond_its_bounds_a_diff_is_coarse_and_true() {
    let start: Vec<u8> = (0..2000).flat_map(|i| format!("{}\n", i % 7).into_bytes()).collect();
    let end: Vec<u8> = (0..2000).flat_map(|i| format!("{}\n", (i * i) % 5).into_bytes()).collect();
    let (start, end) = (tree(&[("f", R, &start)]), tree(&[("f", R, &end)]));
    let past = Instant::now();
    for options in [
        DiffOptions { deadline: Some(past), ..DiffOptions::default() },
        DiffOptions { max_searched_bytes: 10, ..DiffOptions::default() },
        DiffOptions { context: 0, ..DiffOptions::default() },
    ] {
        let diff = write_diff(changes(&start, &end), &options);
        assert_eq!(applied(&diff.bytes, &start).unwrap(), end);
        let git = Git::new();
        git.check_out(&start);
        let zero: &[&str] = if options.context == 0 { &["--unidiff-zero"] } else { &[] };
        git.run(&[&["apply"], zero, &["-"]].concat(), Some(&diff.bytes));
        assert_eq!(git.work_tree(), id_of(&end));
    }
}

#[test]
fn what_a_change_brings_in_can_be_searched() {
    let change = |before: Option<TreeEntry>, after: Option<TreeEntry>| {
        added_text(&FileChange { path: b"f".to_vec(), before, after }, &DiffOptions::default())
    };
    let text = |content: &[u8]| Some(entry(R, content));
    assert_eq!(change(text(b"a\nb\n"), text(b"a\nx\ny\nb\n")), b"x\ny\n");
    assert_eq!(change(text(b"a\n"), None), b"");
    assert_eq!(change(None, text(b"a\n")), b"a\n");
    assert_eq!(change(text(b"a\n"), text(b"a\n\0")), b"a\n\0");
    assert_eq!(change(text(b"a"), Some(entry(L, b"target"))), b"target");
}

#[test]
fn thousands_of_renames_stay_cheap() {
    let (mut start, mut end) = (Tree::new(), Tree::new());
    for number in 0..3000 {
        let body = format!("file {number}\n").repeat(4);
        start.insert(format!("old/{number}").into_bytes(), entry(R, body.as_bytes()));
        // Every third is edited, every third keeps its name.
        let edited = if number % 3 == 0 { body + "more\n" } else { body };
        let name = if number % 2 == 0 { number.to_string() } else { format!("x{number}") };
        end.insert(format!("new/{name}").into_bytes(), entry(R, edited.as_bytes()));
    }
    let diff = diff(&start, &end);
    assert_eq!(applied(&diff.bytes, &start).unwrap(), end);
    let renamed = diff.files.iter().filter(|file| file.status == FileStatus::Renamed).count();
    assert!(renamed >= 2500, "{renamed}");
}

#[test]
fn the_same_changes_give_the_same_bytes() {
    let start = tree(&[("b", R, b"1\n2\n"), ("a", R, b"x\0"), ("c", R, b"same\n")]);
    let end = tree(&[("b", R, b"1\n3\n"), ("a", R, b"y\0"), ("d", R, b"same\n")]);
    let forwards = write_diff(changes(&start, &end), &DiffOptions::default());
    let mut backwards = changes(&start, &end);
    backwards.reverse();
    assert_eq!(write_diff(backwards, &DiffOptions::default()), forwards);
    assert_eq!(write_diff(changes(&start, &start), &DiffOptions::default()), Diff::default());
}
