//! The start, the changes, who made them.

use super::*;

#[test]
fn d37_all_changes_of_the_turn_whoever_made_them() {
    for scene in [Scene::git(), Scene::plain()] {
        for name in ["a.txt", "b.txt", "c.txt", "f.txt"] {
            scene.write(name, format!("{name}\n"));
        }
        if scene.path(".git").exists() {
            scene.commit_all();
        }
        let mut workspace = scene.captured();
        let committed = edit(&workspace, "a.txt", Some("patched\n")).expect("commits");
        workspace.note_patch("call-1", &committed).expect("notes");
        workspace.command_started(CallRef::command("call-2"));
        scene.write("b.txt", "rewritten\n");
        scene.remove("c.txt");
        scene.write("d/e.txt", "new\n");
        scene.write("f.txt", "changed\n");
        scene.write("f.txt", "f.txt\n");
        workspace.after_command(&CallRef::command("call-2")).expect("looks");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M a.txt", "M b.txt", "D c.txt", "A d/e.txt"]);
        assert!(changes.exact, "{:?}", changes.reasons);
        assert_eq!(content(&changes.files[1].before), b"b.txt\n");
        assert_eq!(content(&changes.files[1].after), b"rewritten\n");
        let who: Vec<_> = changes
            .attribution
            .iter()
            .map(|one| (one.calls[0].id.as_str(), one.calls[0].by, one.calls.len(), one.outside))
            .collect();
        let command = ("call-2", By::Command, 1, false);
        assert_eq!(who, [("call-1", By::Patch, 1, false), command, command, command]);
    }
}

#[test]
fn d38_untracked_files_only_if_new_or_changed() {
    let scene = Scene::git();
    scene.write(".gitignore", "*.log\n");
    scene.commit_all();
    scene.write("p.txt", "before\n");
    let mut workspace = scene.captured();
    scene.write("q.txt", "new\n");
    scene.write("deep/er/q.txt", "new\n");
    scene.write("r.log", "ignored\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["A deep/er/q.txt", "A q.txt"]);
    assert!(changes.exact);
    // Changed, it appears with what it held before, which git never knew.
    scene.write("p.txt", "after\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["A deep/er/q.txt", "M p.txt", "A q.txt"]);
    assert_eq!(content(&changes.files[1].before), b"before\n");
}

#[test]
fn d39_d40_d41_bytes_are_bytes() {
    let scene = Scene::git();
    let binary: Vec<u8> = (0..1024).map(|n| (n % 7 * 40) as u8).collect();
    scene.write("binary", &binary);
    scene.write("blank-lines", "o\n\n\n");
    scene.write("crlf", "a\r\nb\r\nc\r\n");
    scene.write("latin", b"x=1\n\xd6\xd0\xce\xc4\n");
    scene.commit_all();
    let mut workspace = scene.captured();
    scene.write("binary", [&binary[..], b"\0more"].concat());
    scene.write("blank-lines", "p\n\n\n");
    scene.write("crlf", "a\r\nB\r\nc\r\n");
    scene.write("latin", b"x=2\n\xd6\xd0\xce\xc4\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M binary", "M blank-lines", "M crlf", "M latin"]);
    assert_eq!(content(&changes.files[0].before), binary);
    assert_eq!(content(&changes.files[0].after), [&binary[..], b"\0more"].concat());
    assert_eq!(content(&changes.files[1].after), b"p\n\n\n");
    assert_eq!(content(&changes.files[2].before), b"a\r\nb\r\nc\r\n");
    assert_eq!(content(&changes.files[2].after), b"a\r\nB\r\nc\r\n");
    assert_eq!(content(&changes.files[3].after), b"x=2\n\xd6\xd0\xce\xc4\n");
}

#[test]
fn d45_renames_modes_links_and_changes_of_type() {
    let scene = Scene::git();
    scene.write("s.sh", "#!/bin/sh\necho\n");
    scene.write("mode-only", "x\n");
    scene.write("pure", "pure\n");
    scene.write("one", "1\n");
    scene.write("two", "2\n");
    scene.write("to-link", "x\n");
    scene.write("to-folder", "x\n");
    scene.write("folder/inner", "x\n");
    scene.link("one", "link");
    scene.commit_all();
    let mut workspace = scene.captured();
    std::fs::create_dir(scene.path("bin")).expect("folder");
    std::fs::rename(scene.path("s.sh"), scene.path("bin/s")).expect("renames");
    scene.write("bin/s", "#!/bin/sh\necho 2\n");
    scene.chmod("bin/s", 0o755);
    scene.chmod("mode-only", 0o755);
    std::fs::rename(scene.path("pure"), scene.path("purer")).expect("renames");
    std::fs::rename(scene.path("one"), scene.path("x")).expect("renames");
    std::fs::rename(scene.path("two"), scene.path("one")).expect("renames");
    std::fs::rename(scene.path("x"), scene.path("two")).expect("renames");
    scene.remove("to-link");
    scene.link("nowhere", "to-link");
    scene.remove("to-folder");
    scene.write("to-folder/inner", "y\n");
    scene.remove("folder/inner");
    std::fs::remove_dir(scene.path("folder")).expect("removes");
    scene.write("folder", "now a file\n");
    scene.remove("link");
    scene.link("two", "link");
    let changes = workspace.turn_changes().expect("compares");
    let want = [
        "A bin/s",
        "A folder",
        "D folder/inner",
        "M link",
        "M mode-only",
        "M one",
        "D pure",
        "A purer",
        "D s.sh",
        "D to-folder",
        "A to-folder/inner",
        "M to-link",
        "M two",
    ];
    assert_eq!(short(&changes.files), want);
    let by_name = |name: &str| {
        changes.files.iter().find(|file| file.path == name.as_bytes()).expect("in the diff")
    };
    assert_eq!(mode(&by_name("bin/s").after), Mode::Executable);
    assert_eq!(mode(&by_name("mode-only").before), Mode::Regular);
    assert_eq!(mode(&by_name("mode-only").after), Mode::Executable);
    assert_eq!(content(&by_name("one").after), b"2\n");
    assert_eq!(mode(&by_name("to-link").after), Mode::Symlink);
    assert_eq!(content(&by_name("link").before), b"one");
    assert!(changes.exact);
    assert!(changes.not_expressible.is_empty(), "{:?}", changes.not_expressible);
    round_trip(&scene, &changes);
}

/// Put the changes onto a clean checkout by hand; git must see the same tree there as here.
pub(super) fn round_trip(scene: &Scene, changes: &TurnChanges) {
    use std::os::unix::fs::PermissionsExt;
    let copy = scene.beside("copy");
    let _ = std::fs::remove_dir_all(&copy);
    git_in(&scene.root, &["clone", "-q", ".", copy.to_str().expect("utf-8")]);
    for file in changes.files.iter().filter(|file| file.before.is_some()) {
        std::fs::remove_file(copy.join(byte_path(&file.path))).expect("was there");
        // An emptied folder goes, as `git apply` has it.
        if let Some(folder) = copy.join(byte_path(&file.path)).parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
    for file in &changes.files {
        let Some(after) = &file.after else { continue };
        let path = copy.join(byte_path(&file.path));
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        if after.mode == Mode::Symlink {
            std::os::unix::fs::symlink(byte_path(&after.content), &path).expect("links");
        } else {
            std::fs::write(&path, &after.content).expect("writes");
            let mode = if after.mode == Mode::Executable { 0o755 } else { 0o644 };
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        }
    }
    let tree_of = |folder: &Path| {
        git_in(folder, &["add", "-A"]);
        git_in(folder, &["write-tree"])
    };
    let (there, here) = (tree_of(&copy), tree_of(&scene.root));
    assert_eq!(there, here, "the changes on a clean checkout give the tree of the workspace");
    assert_eq!(changes.end_tree.map(|oid| oid.hex()), Some(here), "and its id is known");
}

#[test]
fn tree_ids_are_those_of_git() {
    let scene = Scene::git();
    scene.write("a.b/x", "x\n");
    scene.write("a/x", "x\n");
    scene.write("a-b", "x\n");
    scene.write("a0", "x\n");
    scene.write("run", "x\n");
    scene.chmod("run", 0o755);
    scene.link("a", "link");
    scene.commit_all();
    let head = scene.run_git(&["rev-parse", "HEAD^{tree}"]);
    let mut workspace = scene.captured();
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(changes.start_tree.map(|oid| oid.hex()), Some(head.clone()));
    assert_eq!(changes.end_tree.map(|oid| oid.hex()), Some(head));
    assert_eq!(changes.files, []);
    scene.write("a/y/z", "new\n");
    scene.remove("a0");
    let changes = workspace.turn_changes().expect("compares");
    round_trip(&scene, &changes);
}

#[test]
fn a_change_within_one_tick_of_the_clock_is_seen() {
    for round in 0..30 {
        let scene = Scene::plain();
        scene.write("file", "aaaa");
        let mut workspace = scene.captured();
        scene.write("file", "bbbb");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M file"], "round {round}");
        assert_eq!(content(&changes.files[0].before), b"aaaa");
    }
}

#[test]
fn times_set_back_hide_nothing() {
    let scene = Scene::git();
    scene.write("file", "aaaa");
    scene.commit_all();
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    let set = |scene: &Scene| {
        let file = std::fs::File::options().write(true).open(scene.path("file")).expect("opens");
        file.set_modified(past).expect("sets");
    };
    set(&scene);
    let mut workspace = scene.captured();
    scene.write("file", "bbbb");
    set(&scene);
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file"]);
}

#[test]
fn ignoring_everything_hides_nothing() {
    let scene = Scene::git();
    scene.write("src/main.rs", "fn main() {}\n");
    scene.write(".gitignore", "target/\n");
    scene.commit_all();
    let mut workspace = scene.captured();
    scene.write(".gitignore", "*\n");
    scene.write("src/main.rs", "fn main() { evil() }\n");
    scene.write("src/new.rs", "new\n");
    scene.write("hidden/.gitignore", "*\n");
    scene.write("hidden/file", "new\n");
    scene.write("target/x", "ignored from the start\n");
    scene.write(".git/info/exclude", "*\n");
    workspace.after_command(&CallRef::command("1")).expect("looks");
    let changes = workspace.turn_changes().expect("compares");
    let want =
        ["M .gitignore", "A hidden/.gitignore", "A hidden/file", "M src/main.rs", "A src/new.rs"];
    assert_eq!(short(&changes.files), want);
    assert!(changes.git_warnings.iter().any(|one| one.path.ends_with("info/exclude")));
}

#[test]
fn calling_a_folder_a_repository_hides_nothing() {
    let scene = Scene::git();
    scene.write("src/main.rs", "fn main() {}\n");
    scene.commit_all();
    let mut workspace = scene.captured();
    scene.write("src/.git/HEAD", "ref: refs/heads/main\n");
    scene.write("new/.git/HEAD", "ref: refs/heads/main\n");
    scene.write("src/main.rs", "fn main() { evil() }\n");
    scene.write("new/file", "new\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["A new/file", "M src/main.rs"]);
    let said: Vec<_> = changes.not_expressible.iter().map(|one| shown(&one.path)).collect();
    assert_eq!(said, ["new", "src"]);
}

#[test]
fn tracked_files_count_though_ignored_and_others_do_not() {
    let scene = Scene::git();
    scene.write("build/tracked", "1\n");
    scene.write("build/deep/tracked", "1\n");
    scene.write("x.log", "1\n");
    scene.commit_all();
    scene.write(".gitignore", "build/\n*.log\n");
    scene.write("build/other", "ignored\n");
    let mut workspace = scene.captured();
    scene.write("build/tracked", "2\n");
    scene.remove("build/deep/tracked");
    scene.write("build/other", "changed\n");
    scene.write("build/deep/new", "new\n");
    scene.write("x.log", "2\n");
    scene.write("y.log", "new\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["D build/deep/tracked", "M build/tracked", "M x.log"]);
}

#[test]
fn ignored_files_that_a_patch_wrote_are_in_the_diff() {
    let scene = Scene::git();
    scene.write(".gitignore", "*.log\nout/\n");
    scene.commit_all();
    scene.write("old.log", "before\n");
    let mut workspace = scene.captured();
    for (path, text) in [("old.log", "after\n"), ("out/new", "new\n"), ("old.log", "last\n")] {
        let committed = edit(&workspace, path, Some(text)).expect("commits");
        workspace.note_patch("1", &committed).expect("notes");
    }
    scene.write("out/by-command", "ignored\n");
    workspace.after_command(&CallRef::command("2")).expect("looks");
    scene.write("out/new", "changed\n");
    workspace.after_command(&CallRef::command("3")).expect("looks");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M old.log", "A out/new"]);
    assert_eq!(content(&changes.files[0].before), b"before\n");
    assert_eq!(content(&changes.files[0].after), b"last\n");
    let calls = |at: usize| {
        changes.attribution[at].calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>()
    };
    assert_eq!((calls(0), calls(1)), (vec!["1"], vec!["1", "3"]));
    assert!(changes.attribution.iter().all(|one| !one.outside));
}

#[test]
fn a_file_made_by_a_command_and_patched_after_is_new() {
    let scene = Scene::git();
    scene.commit_all();
    let mut workspace = scene.captured();
    scene.write("made", "by command\n");
    workspace.after_command(&CallRef::command("1")).expect("looks");
    let committed = edit(&workspace, "made", Some("patched\n")).expect("commits");
    workspace.note_patch("2", &committed).expect("notes");
    workspace.after_command(&CallRef::command("3")).expect("looks");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["A made"]);
    let calls: Vec<_> = changes.attribution[0].calls.iter().map(|call| &call.id).collect();
    assert_eq!(calls, ["1", "2"], "and not 3");
}

#[test]
fn what_changes_between_calls_is_from_outside() {
    let scene = Scene::plain();
    scene.write("early", "1\n");
    scene.write("late", "1\n");
    scene.write("by-command", "1\n");
    let mut workspace = scene.captured();
    scene.write("early", "22\n");
    std::thread::sleep(std::time::Duration::from_millis(60));
    workspace.command_started(CallRef::command("1"));
    scene.write("by-command", "22\n");
    let changed = workspace.after_command(&CallRef::command("1")).expect("looks");
    let outside: Vec<_> = changed.iter().map(|one| (shown(&one.path), one.outside)).collect();
    assert_eq!(outside, [("by-command".to_owned(), false), ("early".to_owned(), true)]);
    scene.write("late", "22\n");
    let changes = workspace.turn_changes().expect("compares");
    let outside: Vec<_> = changes.attribution.iter().map(|one| one.outside).collect();
    assert_eq!(short(&changes.files), ["M by-command", "M early", "M late"]);
    assert_eq!(outside, [false, true, true]);
    assert!(changes.attribution[1].calls.is_empty());
}

#[test]
fn while_several_commands_run_all_are_named() {
    let scene = Scene::plain();
    let mut workspace = scene.captured();
    workspace.command_started(CallRef::command("1"));
    workspace.command_started(CallRef::command("2"));
    scene.write("x", "x\n");
    workspace.after_command(&CallRef::command("2")).expect("looks");
    scene.write("y", "y\n");
    workspace.while_command_runs(&CallRef::command("1")).expect("looks");
    scene.write("z", "z\n");
    let changes = workspace.turn_changes().expect("compares");
    let calls: Vec<Vec<&str>> = changes
        .attribution
        .iter()
        .map(|one| one.calls.iter().map(|call| call.id.as_str()).collect())
        .collect();
    assert_eq!(calls, [vec!["1", "2"], vec!["1"], vec!["1"]]);
}

#[test]
fn what_git_cannot_express_is_listed() {
    let scene = Scene::git();
    scene.write("file", "x\n");
    scene.write("folder/file", "x\n");
    scene.write("emptied/file", "x\n");
    scene.commit_all();
    std::fs::create_dir(scene.path("was-empty")).expect("folder");
    let mut workspace = scene.captured();
    scene.chmod("file", 0o600);
    scene.chmod("folder", 0o700);
    scene.remove("emptied/file");
    std::fs::create_dir(scene.path("empty")).expect("folder");
    std::fs::remove_dir(scene.path("was-empty")).expect("removes");
    super::doors::mkfifo(&scene.path("pipe"));
    scene.write("setuid", "x\n");
    scene.chmod("setuid", 0o4755);
    scene.chmod("emptied", 0o755);
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["D emptied/file", "A setuid"]);
    let said: Vec<_> = changes
        .not_expressible
        .iter()
        .map(|one| format!("{}: {}", shown(&one.path), one.what))
        .collect();
    let want = [
        "emptied: an empty folder now",
        "empty: an empty folder now",
        "file: mode 0644 → 0600",
        "folder: mode 0755 → 0700",
        "pipe: it is a named pipe now",
        "setuid: new with mode 4755",
        "was-empty: an empty folder was removed",
    ];
    assert_eq!(said, want);
    assert!(changes.exact);
}

#[test]
fn limits_make_the_diff_inexact_and_say_so() {
    let scene = Scene::plain();
    scene.write("big", vec![b'x'; 5000]);
    scene.write("big-unchanged", vec![b'x'; 5000]);
    scene.write("small", "x\n");
    let limits = Limits { start_file: 1000, ..Limits::default() };
    let mut workspace =
        Workspace::open(&scene.root, Options { limits, ..scene.options() }).expect("opens");
    workspace.capture_start().expect("captures");
    assert_eq!(workspace.not_kept().len(), 2);
    scene.write("small", "y\n");
    let changes = workspace.turn_changes().expect("compares");
    assert!(changes.exact, "nothing that was not kept has changed: {:?}", changes.reasons);
    scene.write("big", vec![b'y'; 5000]);
    let changes = workspace.turn_changes().expect("compares");
    assert!(!changes.exact);
    assert!(changes.reasons[0].starts_with("big: "), "{:?}", changes.reasons);
    assert_eq!(short(&changes.files), ["M small"]);

    let limits = Limits { diff_file: 1000, ..Limits::default() };
    let mut workspace =
        Workspace::open(&scene.root, Options { limits, ..scene.options() }).expect("opens");
    workspace.capture_start().expect("captures");
    scene.write("new-big", vec![b'z'; 5000]);
    let changes = workspace.turn_changes().expect("compares");
    assert!(!changes.exact && changes.files.is_empty(), "{:?}", changes.reasons);

    let limits = Limits { entries: 3, ..Limits::default() };
    let mut workspace =
        Workspace::open(&scene.root, Options { limits, ..scene.options() }).expect("opens");
    let error = workspace.capture_start().expect_err("too many");
    assert!(matches!(error, WorkspaceError::TooManyFiles { limit: 3 }), "{error}");
}

#[test]
fn excluded_folders_are_no_part_of_the_work() {
    let scene = Scene::git();
    scene.commit_all();
    scene.write("artifacts/old", "x\n");
    let options = Options { exclude: vec![scene.path("artifacts")], ..scene.options() };
    let mut workspace = Workspace::open(&scene.root, options).expect("opens");
    workspace.capture_start().expect("captures");
    scene.write("artifacts/turn.diff", "x\n");
    scene.write("artifacts/old", "y\n");
    assert_eq!(workspace.turn_changes().expect("compares").files, []);
    assert_eq!(workspace.outline().expect("outlines").tree.entries, []);
}

#[test]
fn capturing_twice_keeps_the_first_start() {
    let scene = Scene::plain();
    scene.write("file", "1\n");
    let mut workspace = scene.captured();
    scene.write("file", "2\n");
    workspace.capture_start().expect("again");
    assert_eq!(short(&workspace.turn_changes().expect("compares").files), ["M file"]);
    let mut other = scene.open();
    assert!(matches!(other.turn_changes(), Err(WorkspaceError::NotCaptured)));
    assert!(matches!(
        other.after_command(&CallRef::command("1")),
        Err(WorkspaceError::NotCaptured)
    ));
}
