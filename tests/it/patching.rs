//! Edits on the real binary: by apply_patch, by edit_file, and by a patch written as a command. What
//! each rung of the engine does stands in the tests of the room `patch`; here the bytes on disk count.

use super::support::model_server::{Call, Reply, Server};
use super::support::{Done, Run, Sandboxed, command, patch, script};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const POLICY: &str = r#"version: 1
exec: { allow: ["true", "sh change.sh"] }
files: { read: ["**"], write: ["src/**", "*", "b.txt/**"] }
"#;

fn place() -> Sandboxed {
    Sandboxed::with_policy(POLICY)
}

/// One run with these calls; the kinds and texts of their results.
fn run(place: &Sandboxed, calls: &[&str]) -> (Vec<String>, Vec<String>, Value) {
    place.write("model.yaml", script(calls));
    let done = Run::exec(place, &["--model", "scripted/model.yaml", "t"]).finish();
    (done.kinds(), done.outputs(), done.result())
}

fn update(path: &str, chunk: &str) -> String {
    format!("*** Begin Patch\n*** Update File: {path}\n{chunk}*** End Patch\n")
}

/// Patches `a` once; what is in it then. The patch must be taken.
#[track_caller]
fn patched(before: &[u8], chunk: &str) -> Vec<u8> {
    let place = place();
    place.write("ws/a", before);
    let (kinds, outputs, _) = run(&place, &[&patch(&update("a", chunk))]);
    assert_eq!(kinds, ["ok"], "{outputs:?}");
    fs::read(place.path("ws/a")).unwrap()
}

/// Patches `a` once, which must fail and change nothing; what the model is told.
#[track_caller]
fn refused(before: &[u8], chunk: &str) -> String {
    let place = place();
    place.write("ws/a", before);
    let (kinds, outputs, result) = run(&place, &[&patch(&update("a", chunk))]);
    assert_eq!(kinds, ["failed"], "{outputs:?}");
    assert_eq!(fs::read(place.path("ws/a")).unwrap(), before);
    assert_eq!(result["changed"], false);
    outputs[0].clone()
}

/// One `edit_file` call for [`script`].
fn edit(path: &str, old: &str, new: &str) -> String {
    let args = json!({"path": path, "old_text": old, "new_text": new});
    format!("{{ tool: edit_file, args: {args} }}")
}

#[test]
fn d23_crlf_files_stay_crlf_and_mixed_ones_change_only_in_the_hunk() {
    let after = patched(b"a\r\nb\r\nc\r\n", "@@\n a\n-b\n+x\n+y\n c\n");
    assert_eq!(after, b"a\r\nx\r\ny\r\nc\r\n");
    let after = patched(b"a\r\nb\nc\r\nd\n", "@@\n a\n-b\n+x\n c\n");
    assert!(after.starts_with(b"a\r\nx") && after.ends_with(b"c\r\nd\n"), "{after:?}");
    let place = place();
    place.write("ws/a", "a\r\nb\r\nc\r\n");
    let (kinds, outputs, _) = run(&place, &[&edit("a", "a\nb\n", "a\nx\ny\n")]);
    assert_eq!(kinds, ["ok"], "{outputs:?}");
    assert_eq!(fs::read(place.path("ws/a")).unwrap(), b"a\r\nx\r\ny\r\nc\r\n");
}

#[test]
fn d24_a_file_without_a_final_newline_stays_one() {
    let after = patched(b"{\"a\":1,\n\"b\":2}", "@@\n-{\"a\":1,\n+{\"a\":7,\n");
    assert_eq!(after, b"{\"a\":7,\n\"b\":2}");
}

#[test]
fn d25_look_alikes_of_ascii_match_and_keep_their_bytes() {
    let before = "top\u{2011}level \u{201c}x\u{201d}\u{a0}y\nold\n";
    let after = patched(before.as_bytes(), "@@\n top-level \"x\" y\n-old\n+new\n");
    assert_eq!(after, before.replace("old", "new").as_bytes());
}

#[test]
fn d26_a_byte_order_mark_stays_there_once() {
    let after = patched(b"\xef\xbb\xbfconst v=1;\n", "@@\n-const v=1;\n+const v=2;\n");
    assert_eq!(after, b"\xef\xbb\xbfconst v=2;\n");
}

#[test]
fn d27_foreign_bytes_elsewhere_are_untouched_and_wide_encodings_refused() {
    let after = patched(b"x=1\n\xd6\xd0\xce\xc4\n", "@@\n-x=1\n+x=2\n");
    assert_eq!(after, b"x=2\n\xd6\xd0\xce\xc4\n");
    let told = refused(b"\xff\xfea\0\n\0", "@@\n-a\n+b\n");
    assert!(told.contains("UTF-16"), "{told}");
}

#[test]
fn d28_an_insertion_goes_right_behind_its_anchor() {
    assert_eq!(patched(b"alpha\nbeta\ngamma\n", "@@ beta\n+NEW\n"), b"alpha\nbeta\nNEW\ngamma\n");
}

#[test]
fn d29_two_places_are_an_error_until_an_anchor_decides() {
    let twice = b"def first():\n    x = 1\n    return x\ndef second():\n    x = 1\n    return x\n";
    let chunk = "@@\n-    x = 1\n+    x = 2\n";
    let told = refused(twice, chunk);
    assert!(told.contains("2 places") && told.contains('5'), "how many and where: {told}");
    let after = patched(twice, &chunk.replace("@@", "@@ def second():"));
    assert!(after.starts_with(b"def first():\n    x = 1\n"), "{after:?}");
    assert!(after.ends_with(b"def second():\n    x = 2\n    return x\n"), "{after:?}");
}

#[test]
fn d30_a_move_onto_itself_is_an_update() {
    for target in ["a", "./a", "x/../a"] {
        let place = place();
        place.write("ws/a", "one\n");
        let text = format!(
            "*** Begin Patch\n*** Update File: a\n*** Move to: {target}\n@@\n-one\n+two\n*** End Patch\n"
        );
        let (kinds, outputs, _) = run(&place, &[&patch(&text)]);
        assert_eq!(kinds, ["ok"], "{target}: {outputs:?}");
        assert_eq!(place.read("ws/a"), "two\n", "{target}");
    }
}

#[test]
fn d31_add_and_move_replace_nothing() {
    let place = place();
    place.write("ws/file", "file\n");
    place.write("ws/dir/x", "x\n");
    symlink("file", place.path("ws/link")).unwrap();
    symlink("nowhere", place.path("ws/dangling")).unwrap();
    let add = |path: &str| {
        patch(&format!("*** Begin Patch\n*** Add File: {path}\n+new\n*** End Patch\n"))
    };
    let mv =
        patch("*** Begin Patch\n*** Update File: file\n*** Move to: dangling\n*** End Patch\n");
    let calls =
        [add("file"), add("link"), add("dangling"), add("dir"), mv, edit("file", "", "new")];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, result) = run(&place, &calls);
    assert_eq!(kinds, ["failed"; 6], "{outputs:?}");
    assert_eq!(result["changed"], false);
    assert_eq!(place.read("ws/file"), "file\n");
    assert_eq!(fs::read_link(place.path("ws/link")).unwrap().to_str(), Some("file"));
    assert!(!place.exists("ws/nowhere"));
}

#[test]
fn d32_no_patch_leaves_the_workspace_through_a_link() {
    let place = place();
    place.write("victim", "untouched\n");
    place.write("outside/x", "x\n");
    symlink(place.path("victim"), place.path("ws/link")).unwrap();
    symlink("..", place.path("ws/up")).unwrap();
    symlink(place.path("outside"), place.path("ws/out")).unwrap();
    let through = patch(&update("link", "@@\n-untouched\n+touched\n"));
    let add = |path: &str| {
        patch(&format!("*** Begin Patch\n*** Add File: {path}\n+new\n*** End Patch\n"))
    };
    let calls = [
        through,
        add("up/new"),
        add("out/new"),
        add("../new"),
        edit("link", "untouched", "touched"),
        edit("../victim", "untouched", "touched"),
        command(
            "cd .. && apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: new\n+x\n*** End Patch\nEOF",
        ),
    ];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, _) = run(&place, &calls);
    assert!(kinds.iter().all(|kind| kind != "ok"), "{kinds:?} {outputs:?}");
    assert_eq!(place.read("victim"), "untouched\n");
    for path in ["new", "outside/new"] {
        assert!(!place.exists(path), "{path}");
    }
}

#[test]
fn d33_a_patch_that_fails_half_way_leaves_nothing() {
    let place = place();
    place.write("ws/a.txt", "a\n");
    place.write("ws/b.txt", "b\n");
    let text = "*** Begin Patch\n*** Add File: src/new/c.txt\n+c\n*** Delete File: a.txt\n\
                *** Update File: b.txt\n@@\n-stale\n+x\n*** End Patch\n";
    // The second time the fault is the file system's: a file where a folder is needed.
    let late =
        "*** Begin Patch\n*** Delete File: a.txt\n*** Add File: b.txt/c\n+c\n*** End Patch\n";
    let (kinds, outputs, result) = run(&place, &[&patch(text), &patch(late)]);
    assert_eq!(kinds, ["failed", "failed"], "{outputs:?}");
    assert!(outputs.iter().all(|told| told.contains("nothing was changed")), "{outputs:?}");
    assert_eq!((place.read("ws/a.txt").as_str(), place.read("ws/b.txt").as_str()), ("a\n", "b\n"));
    assert!(!place.exists("ws/src/new"));
    assert_eq!(result["changed"], false);
}

#[test]
fn d34_an_edited_script_stays_executable() {
    let place = place();
    place.write("ws/s.sh", "one\n");
    fs::set_permissions(place.path("ws/s.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    place.git_init(&place.path("ws"));
    let moved = "*** Begin Patch\n*** Update File: s.sh\n*** Move to: src/s.sh\n@@\n-two\n+three\n\
                 *** Add File: plain\n+x\n*** End Patch\n";
    let (kinds, outputs, _) = run(&place, &[&edit("s.sh", "one", "two"), &patch(moved)]);
    assert_eq!(kinds, ["ok", "ok"], "{outputs:?}");
    let mode = |path: &str| fs::metadata(place.path(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("ws/src/s.sh"), 0o755);
    assert_eq!(mode("ws/plain") & 0o111, 0);
    assert!(!place.read("out/turn.diff").contains("old mode"), "{}", place.read("out/turn.diff"));
}

#[test]
fn d35_blank_lines_at_the_end_stay_as_many_as_they_were() {
    assert_eq!(patched(b"a\n}\n\n\n", "@@\n-a\n+b\n"), b"b\n}\n\n\n");
    assert_eq!(patched(b"a\n}\n\n\n", "@@\n-a\n+b\n }\n \n"), b"b\n}\n\n\n");
}

#[test]
fn d36_wide_characters_in_a_patch_break_nothing_wherever_text_is_cut() {
    let wide = "阴影".repeat(70);
    let place = place();
    let calls: Vec<String> = (0..6)
        .map(|n| {
            let path = format!("{}{wide}", "x".repeat(n));
            patch(&update(&path, &format!("@@\n-{}{wide}\n+y\n", "z".repeat(n))))
        })
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, _) = run(&place, &calls);
    assert!(kinds.iter().all(|kind| kind != "ok" && kind != "internal"), "{kinds:?} {outputs:?}");
}

const DELETE: &str = "*** Begin Patch\n*** Delete File: a\n*** End Patch";

#[test]
fn d110_every_unmistakable_wrapping_is_taken() {
    let heredoc = format!("apply_patch <<'EOF'\n{DELETE}\nEOF\n");
    let forms = [
        patch(DELETE),
        patch(&format!("\n\n{DELETE}\n\n\n")),
        patch(&DELETE.replace('\n', "\r\n")),
        patch(&format!("```diff\n{DELETE}\n```\n")),
        patch(&format!("<<'EOF'\n{DELETE}\nEOF")),
        patch(&heredoc),
        patch(&json!({ "input": DELETE }).to_string()),
        command(&heredoc),
        command(&heredoc.replace("apply_patch", "applypatch")),
        command(&format!("applypatch '{DELETE}'")),
        format!("{{ tool: exec_command, args: {{ argv: {} }} }}", json!(["apply_patch", DELETE])),
        format!("{{ tool: exec_command, args: {{ argv: {} }} }}", json!(["bash", "-lc", heredoc])),
    ];
    for form in forms {
        let place = place();
        place.write("ws/a", "a\n");
        let (kinds, outputs, _) = run(&place, &[&form]);
        assert_eq!(kinds, ["ok"], "{form}: {outputs:?}");
        assert!(!place.exists("ws/a"), "{form}");
    }
}

#[test]
fn d110_what_is_no_patch_is_told_with_what_was_received() {
    let place = place();
    place.write("ws/a", "a\n");
    let calls = [
        patch("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+b\n"),
        patch("please change the file"),
        patch(&format!("{DELETE}\nand then some\n")),
        command(&format!("apply_patch <<'EOF'\n{DELETE}\nEOF\nrm -rf src")),
        command("apply_patch \"$(cat patch)\""),
    ];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, _) = run(&place, &calls);
    assert_eq!(kinds, ["bad_arguments"; 5], "{outputs:?}");
    for (told, part) in outputs.iter().zip(["--- a/a", "please change", "and then", "rm -rf", ""]) {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(place.exists("ws/a"));
}

#[test]
fn a_patch_as_a_command_is_judged_as_file_writes_and_answers_like_a_command() {
    let place = place();
    place.write("ws/src/deep/a", "a\n");
    let word = |folder: &str, path: &str| {
        format!(
            "{folder}apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b\n*** End Patch\nEOF"
        )
    };
    let inside = format!(
        "{{ tool: exec_command, args: {{ cmd: {}, workdir: src }} }}",
        json!(word("cd deep && ", "a"))
    );
    let denied = command(&word("", ".git/config"));
    let misfit = command(&word("cd src/deep && ", "a"));
    place.write("model.yaml", script(&[&inside, &denied, &misfit]));
    let done = Run::exec(&place, &["--model", "scripted/model.yaml", "t"]).finish();
    assert_eq!(done.kinds(), ["ok", "denied", "failed"], "{:?}", done.outputs());
    assert_eq!(place.read("ws/src/deep/a"), "b\n");
    let outputs = done.outputs();
    assert!(outputs[0].starts_with("exit code: 0\n") && outputs[0].contains("M src/deep/a"));
    assert!(outputs[2].starts_with("exit code: 1\n"), "{}", outputs[2]);
    assert!(outputs[2].contains("line 5") && outputs[2].contains('b'), "{}", outputs[2]);
    let verdicts: Vec<String> = done
        .rollout()
        .iter()
        .filter(|record| record["type"] == "verdict")
        .map(|record| record["verdict"]["action"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert!(verdicts.iter().all(|action| action.starts_with("write ")), "{verdicts:?}");
    assert!(verdicts[0].contains("src/deep/a"), "{verdicts:?}");
    assert!(done.result()["changed_files"][0]["by"].to_string().contains("patch:"));
}

#[test]
fn edit_file_replaces_one_piece_of_text_with_the_guarantees_of_a_patch() {
    let place = place();
    place.write("ws/a", "one\ntwo\ntwo\n");
    place.write("ws/.github/x", "x\n");
    let calls = [
        edit("a", "one\n", "1\n"),
        edit("a", "two", "2"),
        edit("a", "three", "3"),
        edit("src/new/b", "", "fresh\n"),
        edit(".github/x", "x", "y"),
        "{ tool: edit_file, args: { path: a } }".to_owned(),
    ];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, _) = run(&place, &calls);
    assert_eq!(kinds, ["ok", "failed", "failed", "ok", "denied", "bad_arguments"], "{outputs:?}");
    assert!(outputs[1].contains("2 times: in lines 2, 3"), "{}", outputs[1]);
    assert!(outputs[2].contains("is not in the file"), "{}", outputs[2]);
    assert_eq!(place.read("ws/a"), "1\ntwo\ntwo\n");
    assert_eq!(place.read("ws/src/new/b"), "fresh\n");
}

#[test]
fn a_hard_link_that_no_longer_shares_its_content_is_told() {
    let place = place();
    place.write("ws/a", "one\n");
    fs::hard_link(place.path("ws/a"), place.path("other")).unwrap();
    let (kinds, outputs, _) = run(&place, &[&edit("a", "one", "two")]);
    assert_eq!(kinds, ["ok"]);
    assert!(outputs[0].contains("hard link"), "{}", outputs[0]);
    assert_eq!(place.read("other"), "one\n", "what lies outside keeps its content");
}

fn event_types(done: &Done<'_>) -> Vec<(String, Value)> {
    let values = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    values.map(|value| (value["type"].as_str().unwrap().to_owned(), value)).collect()
}

#[test]
fn files_are_named_while_the_patch_still_arrives() {
    let place = place();
    let text = "*** Begin Patch\n*** Add File: src/ä.rs\n+*** Delete File: no\n*** Add File: b\n+b\n*** End Patch\n";
    let server = Server::start([
        Reply::calls([Call::json("p1", "apply_patch", json!({ "input": text }))]),
        Reply::calls([Call::json("n", "exec_command", json!({"cmd": "*** Add File: no\ntrue"}))]),
        Reply::message("done"),
    ]);
    let base = server.base_url();
    let args = ["--json", "--model", "openai/gpt-test", "--base-url", base.as_str(), "t"];
    let done = Run::exec(&place, &args).env("OPENAI_API_KEY", "sk-test-key-of-the-model").finish();
    let events = event_types(&done);
    let named: Vec<String> = events
        .iter()
        .filter(|(kind, _)| kind == "patch.progress")
        .map(|(_, value)| format!("{} {}", value["action"], value["path"]).replace('"', ""))
        .collect();
    assert_eq!(named, ["add src/ä.rs", "add b"], "{}", done.stdout);
    let at = |wanted: &str| events.iter().position(|(kind, _)| kind == wanted).unwrap();
    assert!(at("patch.progress") < at("item.started"), "told before the call starts");
}

#[test]
fn large_patches_and_large_files() {
    let place = place();
    let body: String =
        (0..1000).map(|n| format!("*** Add File: src/d{}/f{n}\n+{n}\n", n % 50)).collect();
    let big = "0123456789abcde\n".repeat(10 << 16) + "the end\n";
    place.write("ws/big", &big);
    let calls = [
        patch(&format!("*** Begin Patch\n{body}*** End Patch\n")),
        edit("big", "the end", "THE END"),
        patch(&update("big", "@@\n-THE END\n+end\n*** End of File\n")),
    ];
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    let (kinds, outputs, result) = run(&place, &calls);
    assert_eq!(kinds, ["ok", "ok", "ok"], "{outputs:?}");
    assert_eq!(result["changed_files"].as_array().unwrap().len(), 1001);
    assert!(place.read("ws/big").ends_with("abcde\nend\n"));
    assert_eq!(place.read("ws/src/d49/f999"), "999\n");
}
