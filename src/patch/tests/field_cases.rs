//! Faults that people met in the field; each test carries the number of its case.

use super::*;

#[test]
fn d23_crlf_kept() {
    updates(b"a\r\nb\r\nc\r\n", "@@\n a\n-b\n+b1\n+b2\n c", b"a\r\nb1\r\nb2\r\nc\r\n");
    updates(b"a\r\nb\r\n", "@@ b\n+c", b"a\r\nb\r\nc\r\n");
    updates(b"a\r\nb\r\n", "@@\n+x\n a", b"x\r\na\r\nb\r\n");
    // Without a final newline, too.
    updates(b"a\r\nb", "@@\n-b\n+c\n+d", b"a\r\nc\r\nd");
    updates(b"a\r\nb", "+c", b"a\r\nb\r\nc");
}

#[test]
fn d23_mixed_endings_change_only_in_the_hunk() {
    updates(b"a\nb\r\nc\nd\r\n", "@@\n-b\n+x\n+y", b"a\nx\r\ny\r\nc\nd\r\n");
    updates(b"a\nb\r\nc\nd\r\n", "@@\n-c\n+x", b"a\nb\r\nx\nd\r\n");
    updates(b"a\nb\r\nc\n", "@@\n a\n+x\n b", b"a\nx\nb\r\nc\n");
}

#[test]
fn d23_a_patch_in_crlf_says_nothing_about_files() {
    let text =
        wrap("*** Update File: f\n@@\n a\n-b\n+c\n*** Add File: g\n+x").replace('\n', "\r\n");
    for (before, after) in [(&b"a\nb\n"[..], &b"a\nc\n"[..]), (b"a\r\nb\r\n", b"a\r\nc\r\n")] {
        let mut files = Memory::new([("f", before)]);
        let plan = plan_text(&text, &files).unwrap();
        files.commit(&plan);
        assert_eq!(files.bytes("f"), Some(after));
        assert_eq!(files.bytes("g"), Some(&b"x\n"[..]));
    }
}

#[test]
fn d23_line_endings_change_where_that_is_all_the_chunk_says() {
    updates(b"a\r\nb\r\n", "@@\n-a\r\n+a", b"a\nb\r\n");
    updates(b"a\nb\n", "@@\n-a\n+a\r", b"a\r\nb\n");
    // A CR that comes along with other changes does not double or mix endings.
    updates(b"a\r\nb\r\n", "@@\n-a\r\n+x\r", b"x\r\nb\r\n");
    updates(b"a\nb\n", "@@\n-a\n+x\r", b"x\nb\n");
}

#[test]
fn d24_no_final_newline_kept() {
    updates(b"{\"a\":1,\n\"b\":2}", "@@\n-{\"a\":1,\n+{\"a\":7,", b"{\"a\":7,\n\"b\":2}");
    updates(b"a\nb", "@@\n-b\n+c", b"a\nc");
    updates(b"a\nb", "@@\n b\n+c", b"a\nb\nc");
    updates(b"a\nb", "+c", b"a\nb\nc");
    updates(b"a\nb", "@@\n-a\n b", b"b");
    // What is removed takes nothing with it.
    updates(b"a\nb", "@@\n a\n-b", b"a\n");
    updates(b"a", "@@\n-a", b"");
}

#[test]
fn d24_the_patch_may_say_otherwise() {
    let marker = "\\ No newline at end of file";
    updates(b"a\nb", &format!("@@\n-b\n{marker}\n+b"), b"a\nb\n");
    updates(b"a\nb\n", &format!("@@\n-b\n+b\n{marker}"), b"a\nb");
    updates(b"a\nb", &format!("@@\n-b\n{marker}\n+c\n{marker}"), b"a\nc");
    updates(b"a\nb\n", &format!("@@\n b\n+c\n{marker}"), b"a\nb\nc");
}

#[test]
fn d25_look_alikes_match_and_stay() {
    let before = "top–level “x”\u{a0}y\nold\n".as_bytes();
    updates(before, "@@\n top-level \"x\" y\n-old\n+new", "top–level “x”\u{a0}y\nnew\n".as_bytes());
    for character in ['\u{2011}', '\u{2013}', '\u{2014}'] {
        updates(
            format!("a{character}b\nx\n").as_bytes(),
            "@@\n a-b\n-x\n+y",
            format!("a{character}b\ny\n").as_bytes(),
        );
    }
    for character in ['\u{a0}', '\u{202f}'] {
        updates(
            format!("a{character}b\nx\n").as_bytes(),
            "@@\n a b\n-x\n+y",
            format!("a{character}b\ny\n").as_bytes(),
        );
    }
    updates("it’s\nx\n".as_bytes(), "@@\n it's\n-x\n+y", "it’s\ny\n".as_bytes());
    // An exact match wins over a tolerant one, and the tolerant one must be unique.
    updates("a–b\na-b\n".as_bytes(), "@@\n-a-b\n+c", "a–b\nc\n".as_bytes());
    refuses("a–b\na—b\n".as_bytes(), "@@\n-a-b\n+c", PatchErrorKind::Ambiguous);
}

#[test]
fn d26_byte_order_mark_kept_once() {
    updates(
        b"\xEF\xBB\xBFconst v=1;\nx\n",
        "@@\n-const v=1;\n+const v=2;",
        b"\xEF\xBB\xBFconst v=2;\nx\n",
    );
    updates(
        "\u{feff}const v=1;\n".as_bytes(),
        "@@\n-\u{feff}const v=1;\n+\u{feff}const v=2;",
        "\u{feff}const v=2;\n".as_bytes(),
    );
    updates(b"\xEF\xBB\xBFa\nb\n", "@@\n-b\n+c", b"\xEF\xBB\xBFa\nc\n");
}

#[test]
fn d27_foreign_bytes_stay() {
    updates(b"x=1\n\xD6\xD0\xCE\xC4\n", "@@\n-x=1\n+x=2", b"x=2\n\xD6\xD0\xCE\xC4\n");
    let error = refuses(
        b"x=1\n\xD6\xD0\xCE\xC4\n",
        "@@\n-\u{fffd}\u{fffd}\u{fffd}\u{fffd}\n+y",
        PatchErrorKind::Encoding,
    );
    assert!(error.message.contains("line 2"), "{error}");
}

#[test]
fn d27_utf16_is_refused_clearly() {
    let wide: Vec<u8> =
        "\u{feff}hello\nthere\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = refuses(&wide, "@@\n-hello\n+x", PatchErrorKind::Encoding);
    assert!(error.message.contains("UTF-16"), "{error}");
}

#[test]
fn d28_pure_insertion_goes_after_its_anchor() {
    updates(b"alpha\nbeta\ngamma\n", "@@ beta\n+NEW", b"alpha\nbeta\nNEW\ngamma\n");
    updates(b"alpha\nbeta\ngamma\n", "@@ beta\n+NEW\n", b"alpha\nbeta\nNEW\ngamma\n");
    updates(b"alpha\n\nbeta\n\ngamma\n", "@@ beta\n+NEW\n\n", b"alpha\n\nbeta\nNEW\n\ngamma\n");
    // Only without an anchor it goes to the end.
    updates(b"alpha\nbeta\n", "@@\n+NEW", b"alpha\nbeta\nNEW\n");
    updates(b"alpha\nbeta\n", "+NEW", b"alpha\nbeta\nNEW\n");
    refuses(b"x\nbeta\ny\nbeta\n", "@@ beta\n+NEW", PatchErrorKind::Ambiguous);
}

const TWINS: &[u8] =
    b"def first():\n    x = 1\n    return x\n\ndef second():\n    x = 1\n    return x\n";

#[test]
fn d29_two_places_are_an_error() {
    let error = refuses(TWINS, "@@\n-    x = 1\n+    x = 2", PatchErrorKind::Ambiguous);
    assert!(error.message.contains("2 places"), "{error}");
    assert!(error.message.contains("lines 2, 6"), "{error}");
}

#[test]
fn d29_an_anchor_decides() {
    let second =
        b"def first():\n    x = 1\n    return x\n\ndef second():\n    x = 2\n    return x\n";
    for anchor in ["def second", "def second():", "  def second():  ", "second"] {
        updates(TWINS, &format!("@@ {anchor}\n-    x = 1\n+    x = 2"), second);
    }
    // Before the first of two anchors nothing is meant.
    let first =
        b"def first():\n    x = 2\n    return x\n\ndef second():\n    x = 1\n    return x\n";
    updates(TWINS, "@@ def first\n-    x = 1\n+    x = 2", first);
    refuses(TWINS, "@@ def\n-    x = 1\n+    x = 2", PatchErrorKind::Ambiguous);
}

#[test]
fn d29_order_decides() {
    // The first chunk has one place, and only one fit of the second follows it.
    updates(b"x\na\nx\n", "@@\n-a\n+b\n@@\n-x\n+y", b"x\nb\ny\n");
    // Two equal chunks for two equal places.
    updates(b"x\na\nx\n", "@@\n-x\n+1\n@@\n-x\n+2", b"1\na\n2\n");
    refuses(b"x\nx\nx\n", "@@\n-x\n+1\n@@\n-x\n+2", PatchErrorKind::Ambiguous);
}

#[test]
fn d30_move_onto_itself_is_an_update() {
    for target in ["a", "./a", "x/../a", "x//..//a"] {
        let mut files = Memory::new([("a", b"1\n")]);
        files.file("a", b"1\n", 0o755);
        let text = wrap(&format!("*** Update File: a\n*** Move to: {target}\n@@\n-1\n+2"));
        let plan = plan_text(&text, &files).unwrap();
        assert_eq!(plan.summary(), "M a (+1 -1)");
        files.commit(&plan);
        assert_eq!(files.0.len(), 1);
        assert_eq!(files.bytes("a"), Some(&b"2\n"[..]));
        let touched = paths(&parse(&text).unwrap());
        assert_eq!(touched.len(), 1);
        assert_eq!(touched[0].action, PathAction::Update);
    }
}

/// A file system that ignores case gives both spellings one canonical name.
struct Folding(Memory);

impl Files for Folding {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        self.0.read(path)
    }

    fn canonical(&self, path: &str) -> Result<String, String> {
        Ok(path.to_lowercase())
    }
}

#[test]
fn d30_move_onto_itself_where_case_does_not_count() {
    let files = Folding(Memory::new([("readme", b"1\n")]));
    let text = wrap("*** Update File: readme\n*** Move to: README\n@@\n-1\n+2");
    let plan = plan(&parse(&text).unwrap(), &files).unwrap();
    assert_eq!(plan.summary(), "M readme (+1 -1)");
}

#[test]
fn d31_add_does_not_replace() {
    let mut files = Memory::new([("file", b"1\n"), ("dir/x", b"")]);
    files.link("link", "file");
    files.link("dangling", "nowhere");
    for (path, kind) in [
        ("file", PatchErrorKind::Exists),
        ("link", PatchErrorKind::Exists),
        ("dangling", PatchErrorKind::Exists),
        ("dir", PatchErrorKind::NotAFile),
        ("file/below", PatchErrorKind::NotAFile),
        ("link/below", PatchErrorKind::Symlink),
    ] {
        let error = plan_text(&wrap(&format!("*** Add File: {path}\n+x")), &files).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        let text = wrap(&format!("*** Update File: dir/x\n*** Move to: {path}"));
        assert_eq!(plan_text(&text, &files).unwrap_err().kind, kind, "move to {path}");
    }
}

#[test]
fn d33_a_stale_hunk_fails_the_whole_patch() {
    let files = Memory::new([("a.txt", b"a\n"), ("b.txt", b"b\n")]);
    let text = wrap("*** Delete File: a.txt\n*** Update File: b.txt\n@@\n-stale\n+new");
    let error = plan_text(&text, &files).unwrap_err();
    assert_eq!((error.kind, error.path.as_deref()), (PatchErrorKind::Context, Some("b.txt")));
}

#[test]
fn d34_modes_kept() {
    let mut files = Memory::default();
    files.file("s.sh", b"echo 1\n", 0o755);
    let text = wrap(
        "*** Update File: s.sh\n*** Move to: bin/s.sh\n@@\n-echo 1\n+echo 2\n*** Add File: n\n+x",
    );
    let plan = plan_text(&text, &files).unwrap();
    files.commit(&plan);
    assert!(matches!(files.0.get("bin/s.sh"), Some(FileState::Regular { mode: 0o755, .. })));
    assert!(matches!(files.0.get("n"), Some(FileState::Regular { mode: 0o644, .. })));
    let text = wrap("*** Delete File: bin/s.sh\n*** Add File: bin/s.sh\n+echo 3");
    let plan = plan_text(&text, &files).unwrap();
    files.commit(&plan);
    assert!(matches!(files.0.get("bin/s.sh"), Some(FileState::Regular { mode: 0o755, .. })));
}

#[test]
fn d35_trailing_blank_lines_kept() {
    updates(b"a\n}\n\n\n", "@@\n-a\n+b", b"b\n}\n\n\n");
    updates(b"a\n}\n", "@@\n-a\n+b\n }\n ", b"b\n}\n");
    updates(b"a\n}\n", "@@\n-a\n+b\n }\n\n", b"b\n}\n");
    updates(b"a\n}\n\n", "@@\n-a\n+b\n }\n \n ", b"b\n}\n\n");
    updates(b"a\n\nc\n", "@@\n-a\n+b\n\n c", b"b\n\nc\n");
    updates(b"a\n\n\n", "@@\n-a\n+b\n \n \n*** End of File", b"b\n\n\n");
}

#[test]
fn d36_no_cut_falls_inside_a_character() {
    for padding in 0..4 {
        let body = format!("{}{}", "x".repeat(padding), "阴影".repeat(70));
        let text = wrap(&format!("*** Add File: f\n+{body}"));
        for cut in 0..text.len() {
            let piece = String::from_utf8_lossy(&text.as_bytes()[..cut]).into_owned();
            let message =
                parse(&piece).map(|_| String::new()).unwrap_or_else(|error| error.to_string());
            assert!(message.chars().count() < 600, "{message}");
        }
        let error = refuses(b"other\n", &format!("@@\n-{body}\n+y"), PatchErrorKind::Context);
        assert!(error.to_string().chars().count() < 600);
    }
}

#[test]
fn d110_every_unmistakable_wrapping_is_taken() {
    let plain = wrap("*** Update File: a\n@@\n-x\n+y");
    let expected = parse(&plain).unwrap();
    let json = |value: serde_json::Value| value.to_string();
    let heredoc = format!("apply_patch <<'EOF'\n{plain}EOF\n");
    for text in [
        format!("\n\n  \n{plain}\n\n"),
        plain.replace('\n', "\r\n"),
        format!("```\n{plain}```"),
        format!("```patch\n{plain}```\n"),
        format!("~~~~diff\n{plain}~~~~\n"),
        format!("<<'EOF'\n{plain}EOF"),
        heredoc.clone(),
        format!("applypatch <<\"PATCH\"\n{plain}PATCH"),
        format!("applypatch '{plain}'"),
        format!("```bash\n{heredoc}```"),
        json(serde_json::json!({ "input": plain })),
        json(serde_json::json!({ "patch": plain })),
        json(serde_json::json!({ "command": ["apply_patch", plain] })),
        json(serde_json::json!({ "cmd": heredoc })),
        json(serde_json::json!(["bash", "-lc", heredoc])),
        json(serde_json::json!(plain)),
        format!("{plain}EOF\n"),
        format!("{plain}```\n"),
        format!("\u{feff}{plain}"),
        plain.replace("*** Begin", "  *** Begin").replace("*** End", " *** End"),
    ] {
        match parse(&text) {
            Ok(mut patch) => {
                // Line numbers differ with the wrapping, and nothing else may.
                let mut expected = expected.clone();
                forget_lines(&mut patch);
                forget_lines(&mut expected);
                assert_eq!(patch, expected, "{text}");
            }
            Err(error) => panic!("{error}\n{text}"),
        }
    }
}

fn forget_lines(patch: &mut Patch) {
    for operation in &mut patch.operations {
        if let Operation::Update { line, chunks, .. } = operation {
            *line = 0;
            for chunk in chunks {
                chunk.line = 0;
                chunk.lines.iter_mut().for_each(|line| line.line = 0);
            }
        }
    }
}

#[test]
fn d110_other_forms_are_named() {
    let plain = wrap("*** Delete File: a");
    for (text, kind, part) in [
        (String::new(), PatchErrorKind::Envelope, "nothing but white space"),
        (
            "Sure! Here it is.".to_owned(),
            PatchErrorKind::Envelope,
            "received text where a patch is due: \"Sure! Here it is.\"",
        ),
        (format!("Sure!\n\n{plain}"), PatchErrorKind::Envelope, "2 lines later"),
        ("--- a/x\n+++ b/x\n".to_owned(), PatchErrorKind::Envelope, "a unified diff"),
        ("{\"path\": \"x\"}".to_owned(), PatchErrorKind::Envelope, "JSON without a patch"),
        (
            "{\"input\": \"*** Begin".to_owned(),
            PatchErrorKind::Envelope,
            "can't be read (line 1, column",
        ),
        ("*** Update File: a\n@@\n".to_owned(), PatchErrorKind::Envelope, "without its first line"),
        ("*** Begin Patch\n*** Delete File: a\n".to_owned(), PatchErrorKind::Incomplete, "cut off"),
        (
            format!("{plain}and then run the tests"),
            PatchErrorKind::TrailingText,
            "and then run the tests",
        ),
        (format!("{plain}{plain}"), PatchErrorKind::TrailingText, "*** Begin Patch"),
        ("null".to_owned(), PatchErrorKind::Envelope, "received text"),
        ("[]".to_owned(), PatchErrorKind::Envelope, "JSON without a patch"),
    ] {
        let error = parse(&text).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.hint.is_empty());
    }
}
