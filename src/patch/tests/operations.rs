//! Where chunks go, and what several operations make of each other.

use super::*;

#[test]
fn the_ladder_has_four_rungs() {
    updates(b"a  \nb\n", "@@\n a\n-b\n+c", b"a  \nc\n");
    updates(b"\ta\nb\n", "@@\n a\n-b\n+c", b"\ta\nc\n");
    updates(b"  x\nx\n", "@@\n-x\n+y", b"  x\ny\n");
    refuses(b"  x\n x\n", "@@\n-x\n+y", PatchErrorKind::Ambiguous);
    let mut files = Memory::new([("f", b"\ta\nb\n")]);
    let plan = plan_text(&wrap("*** Update File: f\n@@\n a\n-b\n+c"), &files).unwrap();
    assert!(plan.summary().contains("indentation"), "{}", plan.summary());
    files.commit(&plan);
}

#[test]
fn stacked_anchors_narrow_the_place() {
    let before = b"class A\n  def f\n    x\nclass B\n  def f\n    x\n  def g\n    x\n";
    let after = b"class A\n  def f\n    x\nclass B\n  def f\n    y\n  def g\n    x\n";
    updates(before, "@@ class B\n@@   def f\n-    x\n+    y", after);
    updates(before, "@@ class B\n@@ def f\n-    x\n+    y", after);
    // An anchor may be repeated as context.
    updates(before, "@@ class B\n   def f\n-    x\n+    y", after);
    let error = refuses(before, "@@ class C\n-    x\n+    y", PatchErrorKind::Anchor);
    assert!(error.message.contains("class"), "{error}");
    refuses(before, "@@ class B\n@@ class A\n-    x\n+    y", PatchErrorKind::Anchor);
}

#[test]
fn end_of_file_ties_a_chunk_to_the_end() {
    updates(b"x\na\nx\n", "@@\n-x\n+y\n*** End of File", b"x\na\ny\n");
    updates(b"x\na\nx\n\n", "@@\n-x\n+y\n*** End of File", b"x\na\ny\n\n");
    updates(b"a\nb\n", "@@\n b\n+c\n*** End of File", b"a\nb\nc\n");
    updates(b"a\nb\n", "@@ a\n+c\n*** End of File", b"a\nb\nc\n");
    let error = refuses(b"x\na\n", "@@\n-x\n+y\n*** End of File", PatchErrorKind::Context);
    assert!(error.message.contains("goes on with `a`"), "{error}");
}

#[test]
fn chunks_in_any_order_where_that_is_certain() {
    updates(b"a\nb\nc\n", "@@\n-c\n+3\n@@\n-a\n+1", b"1\nb\n3\n");
    // Elimination: the first chunk's place leaves one for the second.
    updates(b"x\nk\nx\n", "@@\n k\n-x\n+2\n@@\n-x\n+1", b"1\nk\n2\n");
    refuses(b"a\nb\n", "@@\n-a\n+1\n@@\n-a\n+2", PatchErrorKind::Overlap);
}

#[test]
fn contexts_may_overlap_changes_may_not() {
    updates(b"a\nb\nc\nd\n", "@@\n-a\n+1\n b\n c\n@@\n b\n c\n-d\n+4", b"1\nb\nc\n4\n");
    updates(b"a\nb\n", "@@ a\n+1\n@@ a\n+2", b"a\n1\n2\nb\n");
    refuses(b"a\nb\nc\n", "@@\n-a\n-b\n+1\n@@\n-b\n-c\n+2", PatchErrorKind::Overlap);
}

#[test]
fn not_found_shows_the_nearest_place() {
    let before = b"fn one() {\n    let a = 1;\n    let b = 2;\n}\n";
    let error = refuses(
        before,
        "@@\n fn one() {\n-    let a = 7;\n     let b = 2;\n+x",
        PatchErrorKind::Context,
    );
    let text = error.to_string();
    for part in [
        "patch line 5, f",
        "the patch has `    let a = 7;`",
        "line 2 is `    let a = 1;`",
        "2 of 3 lines",
    ] {
        assert!(text.contains(part), "{text}\n  lacks {part}");
    }
    let error = refuses(before, "@@\n-fn onee() {\n+x", PatchErrorKind::Context);
    assert!(error.message.contains("line 1 `fn one() {`"), "{error}");
    let error = refuses(b"", "@@\n-a\n+b", PatchErrorKind::Context);
    assert!(error.message.contains("empty"), "{error}");
    let error = refuses(b"a\nb\n", "@@\n b\n-c\n+d", PatchErrorKind::Context);
    assert!(error.message.contains("the patch has `c`"), "{error}");
}

#[test]
fn empty_files_and_long_lines() {
    updates(b"", "+a\n+b", b"a\nb\n");
    updates(b"a\nb\n", "@@\n-a\n-b", b"");
    let long = "y".repeat(1_000_000);
    let before = format!("x\n{long}\n");
    updates(before.as_bytes(), &format!("@@\n-x\n+z\n {long}"), format!("z\n{long}\n").as_bytes());
}

#[test]
fn operations_on_one_path_run_in_order() {
    let mut files = Memory::new([("a", b"1\n")]);
    let text = wrap(
        "*** Update File: a\n@@\n-1\n+2\n*** Update File: ./a\n@@\n-2\n+3\n*** Update File: a\n\
         *** Move to: b\n*** Update File: b\n@@\n-3\n+4\n*** Add File: a\n+new",
    );
    let plan = plan_text(&text, &files).unwrap();
    assert_eq!(plan.summary(), "M a (+1)\nR a -> b (+3 -3)");
    files.commit(&plan);
    assert_eq!(files.bytes("a"), Some(&b"new\n"[..]));
    assert_eq!(files.bytes("b"), Some(&b"4\n"[..]));
}

#[test]
fn what_cancels_out_is_no_change() {
    let files = Memory::new([("a", b"1\n")]);
    for body in [
        "*** Add File: t\n+x\n*** Delete File: t",
        "*** Update File: a\n*** Move to: b\n*** Update File: b\n*** Move to: a",
        "*** Update File: a\n@@\n-1\n+1",
        "*** Delete File: a\n*** Add File: a\n+1",
    ] {
        let plan = plan_text(&wrap(body), &files).unwrap();
        assert_eq!(plan.changes, [], "{body}");
    }
}

#[test]
fn conflicting_operations_are_refused() {
    let files = Memory::new([("a", b"1\n"), ("d/x", b"1\n")]);
    for (body, kind) in [
        ("*** Delete File: a\n*** Update File: a\n@@\n-1\n+2", PatchErrorKind::Missing),
        ("*** Delete File: a\n*** Delete File: a", PatchErrorKind::Missing),
        ("*** Add File: n\n+x\n*** Add File: n\n+x", PatchErrorKind::Exists),
        ("*** Add File: n\n+x\n*** Add File: n/m\n+x", PatchErrorKind::NotAFile),
        ("*** Add File: n/m\n+x\n*** Add File: n\n+x", PatchErrorKind::NotAFile),
        ("*** Delete File: d", PatchErrorKind::NotAFile),
        ("*** Update File: d\n@@\n-1\n+2", PatchErrorKind::NotAFile),
        ("*** Delete File: none", PatchErrorKind::Missing),
        ("*** Update File: a\n*** Move to: d/x", PatchErrorKind::Exists),
        ("*** Add File: d/\n+x", PatchErrorKind::Path),
        ("*** Add File: ..\n+x", PatchErrorKind::Path),
    ] {
        let error = plan_text(&wrap(body), &files).expect_err(body);
        assert_eq!(error.kind, kind, "{error}");
    }
}

#[test]
fn a_file_makes_way_for_a_folder() {
    let mut files = Memory::new([("a", b"1\n"), ("z", b"1\n")]);
    let text =
        wrap("*** Delete File: z\n*** Update File: a\n*** Move to: a.tmp\n*** Add File: a/b\n+x");
    let plan = plan_text(&text, &files).unwrap();
    let order: Vec<&str> = plan.changes.iter().map(|change| change.path.as_str()).collect();
    assert_eq!(order, ["a", "a.tmp", "a/b", "z"]);
    files.commit(&plan);
    assert_eq!(plan.summary(), "R a -> a.tmp\nA a/b (+1)\nD z");
}

#[test]
fn links_are_never_followed() {
    let mut files = Memory::new([("real/f", b"1\n")]);
    files.link("link", "real/f");
    files.link("dir", "real");
    for body in [
        "*** Update File: link\n@@\n-1\n+2",
        "*** Update File: dir/f\n@@\n-1\n+2",
        "*** Delete File: dir/f",
        "*** Update File: link\n*** Move to: x",
    ] {
        let error = plan_text(&wrap(body), &files).expect_err(body);
        assert_eq!(error.kind, PatchErrorKind::Symlink, "{error}");
        assert!(error.to_string().contains("real"), "{error}");
    }
    let plan = plan_text(&wrap("*** Delete File: link"), &files).unwrap();
    files.commit(&plan);
    assert_eq!(files.bytes("real/f"), Some(&b"1\n"[..]));
}

#[test]
fn every_path_is_listed_for_the_policy() {
    let text = wrap(
        "*** Add File: ./n\n+x\n*** Delete File: d\n*** Update File: u\n@@\n-1\n+2\n*** Update File: m\n*** Move to: x/../../t",
    );
    let listed: Vec<(String, &str)> = paths(&parse(&text).unwrap())
        .into_iter()
        .map(|path| (path.path, path.action.verb()))
        .collect();
    let expected =
        [("n", "add"), ("d", "delete"), ("u", "update"), ("m", "move from"), ("../t", "move to")];
    assert_eq!(listed, expected.map(|(path, verb)| (path.to_owned(), verb)));
}

#[test]
fn edit_replaces_text_that_occurs_once() {
    let files = Memory::new([("f", b"one\r\ntwo\r\n"), ("g", b"aaa b b")]);
    let content = |plan: &Plan| plan.changes[0].after.as_ref().map(|file| file.bytes.to_vec());
    let plan = edit("./f", "one\ntwo", "1\n2", &files).unwrap();
    assert_eq!(content(&plan).unwrap(), b"1\r\n2\r\n");
    assert_eq!(
        edit("f", "two", "2\n3", &files).map(|plan| content(&plan)).unwrap().unwrap(),
        b"one\r\n2\r\n3\r\n"
    );
    assert_eq!(
        edit("f", "one\r\ntwo", "x\n", &files).map(|plan| content(&plan)).unwrap().unwrap(),
        b"x\r\n\r\n"
    );
    assert_eq!(edit("n", "", "new\n", &files).unwrap().summary(), "A n (+1)");
    for (path, old, new, kind) in [
        ("g", "b", "c", PatchErrorKind::Ambiguous),
        ("g", "aa", "c", PatchErrorKind::Ambiguous),
        ("g", "zzz", "c", PatchErrorKind::Context),
        ("g", "b", "b", PatchErrorKind::NoChange),
        ("g", "", "x", PatchErrorKind::Exists),
        ("none", "x", "y", PatchErrorKind::Missing),
        ("", "x", "y", PatchErrorKind::Path),
    ] {
        assert_eq!(edit(path, old, new, &files).unwrap_err().kind, kind, "{path} {old}");
    }
    let error = edit("f", "twoo", "x", &files).unwrap_err();
    assert!(error.message.contains("line 2 `two`"), "{error}");
}

#[test]
fn a_thousand_files_in_one_patch() {
    let mut files = Memory::default();
    let mut body = String::new();
    for number in 0..1000 {
        files.file(&format!("d{}/f{number}", number % 37), b"a\nb\nc\n", 0o644);
        body.push_str(&format!(
            "*** Update File: d{}/f{number}\n@@\n a\n-b\n+B{number}\n",
            number % 37
        ));
    }
    let plan = plan_text(&wrap(&body), &files).unwrap();
    assert_eq!(plan.changes.len(), 1000);
    files.commit(&plan);
    assert_eq!(files.bytes("d0/f999"), Some(&b"a\nB999\nc\n"[..]));
}

/// Files and patches made to be slow: each of these took minutes with a plain search.
#[test]
fn nothing_is_quadratic() {
    let equal = "x\n".repeat(20_000);
    let long_chunk = "-x\n".repeat(5_000);
    let error =
        refuses(equal.as_bytes(), &format!("@@\n{long_chunk}+y\n"), PatchErrorKind::Ambiguous);
    assert!(error.message.contains("15001 places"), "{error}");
    refuses(equal.as_bytes(), &format!("@@\n{long_chunk}-z\n+y\n"), PatchErrorKind::Context);
    let many = "@@\n-x\n+y\n".repeat(2_000);
    refuses(equal.as_bytes(), &many, PatchErrorKind::Ambiguous);
    let blank = "\n".repeat(20_000);
    let after = format!("{blank}y\n");
    updates(blank.as_bytes(), "@@\n \n+y\n*** End of File\n", after.as_bytes());
    let latin: Vec<u8> = b"\xe9 line\n".repeat(20_000);
    let wanted: String = (0..5_000).map(|line| format!("-wanted {line}\n")).collect();
    refuses(&latin, &format!("@@\n{wanted}+y\n"), PatchErrorKind::Context);
    let anchors = "@@ x\n".repeat(300);
    updates(
        equal.as_bytes(),
        &format!("{anchors}-x\n+y\n*** End of File\n"),
        format!("{}y\n", "x\n".repeat(19_999)).as_bytes(),
    );
}
