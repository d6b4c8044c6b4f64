//! The grammar, its lenient corners, and the words of its errors.

use super::*;

fn parse_error(body: &str) -> String {
    parse(&wrap(body)).expect_err(body).to_string()
}

#[test]
fn every_operation_is_read() {
    let patch = parse(&wrap(
        "*** Add File: new.rs\n+one\n+\n+three\n*** Delete File: old\n*** Update File: a b\n\
         *** Move to: c\n@@ class X\n@@   def f\n context\n-old\n+new\n*** End of File",
    ))
    .unwrap();
    assert_eq!(
        patch.operations[0],
        Operation::Add { line: 2, path: "new.rs".into(), content: b"one\n\nthree\n".to_vec() }
    );
    assert_eq!(patch.operations[1], Operation::Delete { line: 6, path: "old".into() });
    let Operation::Update { path, move_to, chunks, .. } = &patch.operations[2] else { panic!() };
    assert_eq!((path.as_str(), move_to.as_deref()), ("a b", Some("c")));
    assert_eq!(chunks[0].anchors, ["class X", "  def f"]);
    assert!(chunks[0].end_of_file);
    assert_eq!(chunks[0].lines.iter().map(|line| line.line).collect::<Vec<_>>(), [11, 12, 13]);
}

#[test]
fn padded_markers_are_markers_where_one_is_due() {
    let patch =
        parse(" *** Begin Patch \n  *** Update File: a  \n-x\n+y\n  *** End Patch  \n").unwrap();
    assert_eq!(paths(&patch)[0].path, "a");
    // Inside a chunk the space makes it a context line.
    let patch = parse(&wrap("*** Update File: a\n@@\n *** Update File: b\n-x\n+y")).unwrap();
    assert_eq!(patch.operations.len(), 1);
}

#[test]
fn markers_inside_content_are_content() {
    let patch = parse(&wrap("*** Add File: a\n+*** End Patch\n+*** Delete File: x")).unwrap();
    assert_eq!(patch.operations.len(), 1);
}

#[test]
fn unified_hunk_headers_lose_their_numbers() {
    updates(b"fn a\nx\nfn b\nx\n", "@@ -3,2 +3,2 @@ fn b\n-x\n+y", b"fn a\nx\nfn b\ny\n");
    updates(b"a\nx\n", "@@ -1,2 +1,2 @@\n-x\n+y", b"a\ny\n");
}

#[test]
fn forgotten_prefixes_of_blank_lines() {
    updates(b"a\n\nb\n", "@@\n a\n\n-b\n+c", b"a\n\nc\n");
    let patch = parse(&wrap("*** Add File: a\n+x\n\n+y\n\n")).unwrap();
    assert!(
        matches!(&patch.operations[0], Operation::Add { content, .. } if content == b"x\n\ny\n")
    );
}

#[test]
fn an_added_file_may_lack_its_final_newline() {
    let patch = parse(&wrap("*** Add File: a\n+x\n\\ No newline at end of file")).unwrap();
    assert!(matches!(&patch.operations[0], Operation::Add { content, .. } if content == b"x"));
    let patch = parse(&wrap("*** Add File: a")).unwrap();
    assert!(matches!(&patch.operations[0], Operation::Add { content, .. } if content.is_empty()));
}

#[test]
fn errors_name_line_and_text() {
    for (body, parts) in [
        ("", &["patch line 3", "no operation", "*** Add File: PATH"][..]),
        ("hello", &["patch line 2", "file header is due", "`hello`"]),
        ("*** Change File: x", &["patch line 2", "no known header"]),
        ("*** Add File: x\nhello", &["patch line 3", "begins with `+`", "`hello`"]),
        ("*** Update File: x", &["patch line 2, x", "no chunk and no move"]),
        ("*** Update File: x\n@@ fn a", &["patch line 3, x", "no lines"]),
        ("*** Update File: x\n@@\nhello", &["patch line 4", "`hello`", "one space"]),
        ("*** Update File: x\n\t-a\n", &["patch line 3", "`\\t-a`"]),
        ("*** Update File:  ", &["patch line 2", "names no file"]),
        ("*** Move to: y", &["right after `*** Update File:`"]),
        ("*** Update File: x\n-a\n+b\n*** Move to: y", &["patch line 5", "right after"]),
        ("*** Update File: x\n*** End of File", &["patch line 3", "without a chunk"]),
        ("*** Delete File: x\n-a", &["patch line 3", "file header is due", "`-a`"]),
        ("*** Add File: \"x\\q\"\n+a", &["patch line 2", "quoted name"]),
    ] {
        let error = parse_error(body);
        for part in parts {
            assert!(error.contains(part), "{error}\n  lacks {part}");
        }
    }
}

#[test]
fn line_numbers_count_from_the_first_line_received() {
    let error = parse("```\n*** Begin Patch\nhello\n*** End Patch\n```").unwrap_err();
    assert_eq!(error.line, 3);
    let error = parse("\n\n*** Begin Patch\nhello\n*** End Patch").unwrap_err();
    assert_eq!(error.line, 4);
    let error =
        parse("cd x && apply_patch <<'E'\n*** Begin Patch\nhello\n*** End Patch\nE").unwrap_err();
    assert_eq!(error.line, 3);
}

#[test]
fn a_folder_in_front_of_the_command_leads_every_path() {
    let body = "*** Add File: a\n+x\n*** Update File: b\n*** Move to: ../c\n*** Delete File: /abs";
    let text = format!("cd sub/dir && apply_patch <<'EOF'\n{}EOF\n", wrap(body));
    let found: Vec<String> =
        paths(&parse(&text).unwrap()).into_iter().map(|path| path.path).collect();
    assert_eq!(found, ["sub/dir/a", "sub/dir/b", "sub/c", "/abs"]);
    // The way of exec_command gives the same, line numbers included.
    let form = from_shell(&text).unwrap().unwrap();
    assert_eq!(form.parse(), parse(&text));
    let argv = ["bash", "-lc", &text].map(str::to_owned);
    assert_eq!(from_argv(&argv).unwrap().unwrap().parse(), parse(&text));
}

#[test]
fn too_much_is_refused_by_name() {
    let many = "*** Delete File: x\n".repeat(MAX_OPERATIONS + 1);
    assert!(parse_error(&many).contains("more than"));
    let deep = (0..8).fold(wrap("*** Delete File: a"), |text, _| format!("```\n{text}```\n"));
    assert!(parse(&deep).unwrap_err().to_string().contains("wrapped more than"));
}
