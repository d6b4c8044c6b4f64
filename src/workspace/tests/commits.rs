//! Patches: all or nothing, and only what was permitted.

use super::*;
use crate::workspace::commit::gate::testing::{Fault, arm, calls, meddle, on_old_file_system};

#[test]
fn a_patch_makes_replaces_and_deletes() {
    let scene = Scene::plain();
    scene.write("old.txt", "old\n");
    scene.write("gone.txt", "gone\n");
    let workspace = scene.open();
    let changes = vec![
        change("new/deep/file.txt", None, Some(new_file("new\n", 0o644))),
        change("old.txt", Some(regular("old\n", 0o644)), Some(new_file("newer\n", 0o644))),
        change("gone.txt", Some(regular("gone\n", 0o644)), None),
    ];
    let permit = permit(&workspace, &["new/deep/file.txt", "old.txt", "gone.txt"]);
    let committed = workspace.commit(&permit, &plan(changes)).expect("commits");
    assert_eq!(committed.files.len(), 3);
    assert_eq!(committed.notes, Vec::<String>::new());
    assert_eq!(scene.bytes("new/deep/file.txt").as_deref(), Some(b"new\n".as_slice()));
    assert_eq!(scene.bytes("old.txt").as_deref(), Some(b"newer\n".as_slice()));
    assert_eq!(scene.bytes("gone.txt"), None);
    assert_eq!(scene.tree().len(), 4, "{:?}", scene.tree());
    assert_eq!(std::fs::read_dir(&scene.store).expect("store").count(), 0);
}

#[test]
fn d31_add_never_replaces() {
    let scene = Scene::plain();
    scene.write("file", "mine\n");
    scene.chmod("file", 0o600);
    std::fs::create_dir(scene.path("folder")).expect("folder");
    scene.link("file", "link");
    scene.link("/nonexistent/target", "dangling");
    let workspace = scene.open();
    let before = scene.tree();
    for name in ["file", "folder", "link", "dangling"] {
        let change = change(name, None, Some(new_file("new\n", 0o644)));
        let error = workspace
            .commit(&permit(&workspace, &[name]), &plan(vec![change]))
            .expect_err("refused");
        assert!(matches!(error, CommitError::Refused { .. }), "{name}: {error}");
        assert!(error.to_string().contains("already exists"), "{error}");
        assert_eq!(scene.tree(), before, "{name}");
    }
}

#[test]
fn d31_add_loses_against_a_file_made_in_the_last_instant() {
    for made in ["file", "dangling link"] {
        let scene = Scene::plain();
        let workspace = scene.open();
        let path = scene.path("new");
        arm(Fault::Never);
        edit(&workspace, "probe", Some("x")).expect("commits");
        let at = calls().iter().position(|call| *call == "rename").expect("renames") + 1;
        scene.remove("probe");
        arm(Fault::Never);
        meddle(at, move || match made {
            "file" => std::fs::write(path, "theirs\n").expect("writes"),
            _ => std::os::unix::fs::symlink("/nonexistent", path).expect("links"),
        });
        let error = edit(&workspace, "new", Some("ours\n")).expect_err("refused");
        assert!(matches!(error, CommitError::Stale { .. }), "{error}");
        assert_eq!(scene.tree().len(), 1, "{made}: nothing of ours is left");
        assert!(scene.bytes("new").is_none_or(|bytes| bytes == b"theirs\n"));
    }
}

#[test]
fn d32_no_link_leads_out_of_the_workspace() {
    let scene = Scene::plain();
    let victim = scene.beside("victim");
    std::fs::write(&victim, "theirs\n").expect("writes");
    scene.link(&victim, "link");
    scene.link("..", "dir");
    scene.link("../victim", "relative");
    scene.link("/nonexistent/x", "dangling");
    let workspace = scene.open();
    let before = scene.tree();

    // The planner sees a link as a link, and nothing at all beyond a folder that leads out.
    let seen = workspace.files().read("link").expect("reads");
    assert!(matches!(seen, Some(FileState::Symlink { .. })));
    let why = workspace.files().read("dir/victim").expect_err("refused");
    assert!(why.contains("out of the workspace"), "{why}");

    // Even a permit for the outside does not help.
    let permit = WritePermit::operator(vec![victim.clone(), scene.beside("x"), scene.path("link")]);
    let attempts = [
        change("link", Some(regular("theirs\n", 0o644)), Some(new_file("ours\n", 0o644))),
        change("relative", Some(regular("theirs\n", 0o644)), Some(new_file("ours\n", 0o644))),
        change("dir/x", None, Some(new_file("ours\n", 0o644))),
        change("dir/victim", Some(regular("theirs\n", 0o644)), None),
        change("../x", None, Some(new_file("ours\n", 0o644))),
        change("dangling", None, Some(new_file("ours\n", 0o644))),
    ];
    for attempt in attempts {
        let path = attempt.path.clone();
        let error = workspace.commit(&permit, &plan(vec![attempt])).expect_err("refused");
        assert!(error.nothing_changed(), "{path}");
        assert_eq!(scene.tree(), before, "{path}");
        assert_eq!(std::fs::read(&victim).expect("reads"), b"theirs\n", "{path}");
        assert!(!scene.beside("x").exists(), "{path}");
    }
}

#[test]
fn d32_a_folder_swapped_for_a_link_after_the_verdict() {
    let scene = Scene::plain();
    scene.write("sub/file", "mine\n");
    let outside = scene.beside("outside");
    std::fs::create_dir(&outside).expect("folder");
    std::fs::write(outside.join("file"), "mine\n").expect("writes");
    let workspace = scene.open();
    let permit = permit(&workspace, &["sub/file"]);
    let change = change("sub/file", Some(regular("mine\n", 0o644)), Some(new_file("x\n", 0o644)));

    // Between verdict and commit.
    std::fs::rename(scene.path("sub"), scene.path("kept")).expect("renames");
    scene.link(&outside, "sub");
    let error = workspace.commit(&permit, &plan(vec![change.clone()])).expect_err("refused");
    assert!(error.nothing_changed());
    assert_eq!(std::fs::read(outside.join("file")).expect("reads"), b"mine\n");

    // In the middle of the commit, before each of its calls.
    for at in 1..20 {
        if scene.path("sub").is_symlink() {
            scene.remove("sub");
            std::fs::rename(scene.path("kept"), scene.path("sub")).expect("renames");
        }
        scene.write("sub/file", "mine\n");
        arm(Fault::Never);
        let (sub, kept, target) = (scene.path("sub"), scene.path("kept"), outside.clone());
        meddle(at, move || {
            std::fs::rename(&sub, kept).expect("renames");
            std::os::unix::fs::symlink(target, sub).expect("links");
        });
        let _ = workspace.commit(&permit, &plan(vec![change.clone()]));
        assert_eq!(std::fs::read(outside.join("file")).expect("reads"), b"mine\n", "call {at}");
        assert_eq!(std::fs::read_dir(&outside).expect("lists").count(), 1, "call {at}");
    }
    meddle(usize::MAX, || ());
}

#[test]
fn d33_a_patch_that_fails_half_way_changes_nothing() {
    let scene = Scene::plain();
    scene.write("a.txt", "a\n");
    scene.write("sub/b.txt", "b\n");
    let workspace = scene.open();
    let before = scene.tree();
    let permit = permit(&workspace, &["a.txt", "sub/b.txt"]);

    // Stale context.
    let stale = plan(vec![
        change("a.txt", Some(regular("a\n", 0o644)), None),
        change("sub/b.txt", Some(regular("other\n", 0o644)), Some(new_file("c\n", 0o644))),
    ]);
    let error = workspace.commit(&permit, &stale).expect_err("refused");
    assert!(matches!(error, CommitError::Stale { .. }), "{error}");
    assert_eq!(scene.tree(), before);

    // Verified, then the write fails.
    let good = plan(vec![
        change("a.txt", Some(regular("a\n", 0o644)), None),
        change("sub/b.txt", Some(regular("b\n", 0o644)), Some(new_file("c\n", 0o644))),
    ]);
    arm(Fault::Once(4));
    let error = workspace.commit(&permit, &good).expect_err("fails");
    arm(Fault::Never);
    assert!(matches!(error, CommitError::Failed { .. }), "{error}");
    assert!(error.to_string().ends_with("nothing was changed"), "{error}");
    assert_eq!(scene.tree(), before);
}

#[test]
fn d34_modes_are_kept_and_new_files_follow_the_umask() {
    let scene = Scene::plain();
    scene.write("run.sh", "#!/bin/sh\n");
    scene.write("odd", "x\n");
    scene.chmod("run.sh", 0o755);
    scene.chmod("odd", 0o640);
    scene.write("privileged", "x\n");
    scene.chmod("privileged", 0o6755);
    let workspace = scene.open();
    edit(&workspace, "run.sh", Some("#!/bin/sh\ntrue\n")).expect("commits");
    edit(&workspace, "odd", Some("y\n")).expect("commits");
    edit(&workspace, "fresh/new", Some("z\n")).expect("commits");
    assert_eq!(scene.mode("run.sh"), 0o755);
    assert_eq!(scene.mode("odd"), 0o640);
    // New content does not run as somebody else.
    let committed = edit(&workspace, "privileged", Some("y\n")).expect("commits");
    assert_eq!(scene.mode("privileged"), 0o755);
    assert!(committed.notes[0].contains("set-id"), "{:?}", committed.notes);
    std::fs::write(scene.path("by-std"), "z\n").expect("writes");
    std::fs::create_dir(scene.path("by-std-folder")).expect("folder");
    assert_eq!(scene.mode("fresh/new"), scene.mode("by-std"), "0644 less umask");
    assert_eq!(scene.mode("fresh"), scene.mode("by-std-folder") & 0o755, "0755 less umask");

    // A move takes the mode along.
    let mut moved = change("moved.sh", None, Some(new_file("#!/bin/sh\ntrue\n", 0o755)));
    moved.moved_from = Some("run.sh".to_owned());
    let gone = change("run.sh", Some(regular("#!/bin/sh\ntrue\n", 0o755)), None);
    let permit = permit(&workspace, &["run.sh", "moved.sh"]);
    workspace.commit(&permit, &plan(vec![moved, gone])).expect("commits");
    assert_eq!(scene.mode("moved.sh"), 0o755);
    assert!(!scene.path("run.sh").exists());
}

/// A patch with every kind of change, and a scene for it.
fn everything() -> (Scene, Plan, Vec<&'static str>) {
    let scene = Scene::plain();
    scene.write("keep", "keep\n");
    scene.write("edit", "edit\n");
    scene.chmod("edit", 0o755);
    scene.write("sub/edit", "sub\n");
    scene.write("delete", "delete\n");
    scene.write("way", "in the way\n");
    scene.link("keep", "link");
    scene.write("folder/inner/one", "one\n");
    scene.write("folder/two", "two\n");
    scene.chmod("folder/inner", 0o750);
    let to_link = NewFile { symlink: true, ..new_file("keep", 0o777) };
    let plan = plan(vec![
        change("way", Some(regular("in the way\n", 0o644)), None),
        change("edit", Some(regular("edit\n", 0o755)), Some(new_file("edited\n", 0o755))),
        change("sub/edit", Some(regular("sub\n", 0o644)), Some(new_file("", 0o644))),
        change("sub/new", None, Some(new_file("new\n", 0o644))),
        change("far/away/new", None, Some(new_file("new\n", 0o644))),
        change("way/new", None, Some(new_file("new\n", 0o644))),
        change("delete", Some(regular("delete\n", 0o644)), None),
        change("link", Some(FileState::Symlink { target: b"keep".to_vec() }), None),
        change("folder/inner/one", Some(regular("one\n", 0o644)), None),
        change("folder/two", Some(regular("two\n", 0o644)), None),
        change("folder", None, Some(new_file("a file now\n", 0o644))),
        change("linked", None, Some(to_link)),
    ]);
    let paths = vec![
        "way",
        "edit",
        "sub/edit",
        "sub/new",
        "far/away/new",
        "way/new",
        "delete",
        "link",
        "folder/inner/one",
        "folder/two",
        "folder",
        "linked",
    ];
    (scene, plan, paths)
}

#[test]
fn a_failure_at_every_call_leaves_all_or_nothing() {
    for old in [false, true] {
        on_old_file_system(old);
        fail_every_call();
    }
}

#[test]
fn a_kill_at_every_call_is_settled_by_recovery() {
    for old in [false, true] {
        on_old_file_system(old);
        kill_every_call();
    }
}

fn fail_every_call() {
    let (scene, patch, paths) = everything();
    let workspace = scene.open();
    arm(Fault::Never);
    let whole = permit(&workspace, &paths);
    workspace.commit(&whole, &patch).expect("commits");
    let total = calls().len();
    assert!(total > 30, "{:?}", calls());
    let after: Vec<_> = relative(&scene);
    assert_eq!(scene.bytes("way/new").as_deref(), Some(b"new\n".as_slice()));

    for at in 1..=total {
        let (scene, patch, paths) = everything();
        let workspace = scene.open();
        let before = relative(&scene);
        let permit = permit(&workspace, &paths);
        arm(Fault::Once(at));
        let result = workspace.commit(&permit, &patch);
        let call = calls()[at - 1];
        arm(Fault::Never);
        match result {
            Ok(_) => assert_eq!(relative(&scene), after, "call {at}, {call}"),
            Err(error) => {
                assert!(error.nothing_changed(), "call {at}, {call}: {error}");
                assert_eq!(relative(&scene), before, "call {at}, {call}");
            }
        }
        let left = std::fs::read_dir(&scene.store).expect("store").count();
        assert_eq!(left, 0, "call {at}, {call}: a journal is left");
    }
}

fn kill_every_call() {
    let (scene, patch, paths) = everything();
    let workspace = scene.open();
    arm(Fault::Never);
    workspace.commit(&permit(&workspace, &paths), &patch).expect("commits");
    let total = calls().len();
    let after = relative(&scene);
    let mut finished = 0;
    for at in 1..=total {
        let (scene, patch, paths) = everything();
        let workspace = scene.open();
        let before = relative(&scene);
        let permit = permit(&workspace, &paths);
        arm(Fault::From(at));
        let _ = workspace.commit(&permit, &patch);
        arm(Fault::Never);
        // A new process.
        drop(workspace);
        let workspace = scene.open();
        let recovered = workspace.recover(&scene.store).expect("recovers");
        let done = recovered.iter().any(|one| one.finished);
        finished += usize::from(done);
        let now = relative(&scene);
        assert!(now == if done { after.clone() } else { before }, "kill at {at}: {now:?}");
        assert!(recovered.len() <= 1);
        assert_eq!(workspace.recover(&scene.store).expect("again"), []);
    }
    assert!(finished > 0, "some kills come after the commit");
}

/// The tree with paths relative to the workspace, times and inodes left out.
fn relative(scene: &Scene) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let strip = |(path, mode, content): (PathBuf, u32, Vec<u8>)| {
        (path.strip_prefix(&scene.root).expect("inside").to_owned(), mode, content)
    };
    scene.tree().into_iter().map(strip).collect()
}

#[test]
fn a_foreign_or_damaged_journal_touches_nothing() {
    let scene = Scene::plain();
    scene.write("file", "x\n");
    scene.write(".turnkey-1-0", "looks like ours\n");
    let workspace = scene.open();
    let before = scene.tree();
    let lines = [
        r#"{"staging":{"v":1,"workspace":"/elsewhere","folders":[],"files":[]}}"#.to_owned(),
        r#"{"staging":{"v":9,"workspace":"/elsewhere","folders":[],"files":[]}}"#.to_owned(),
        "not json".to_owned(),
        format!(
            r#"{{"staging":{{"v":1,"workspace":{:?},"folders":[],"files":[{{"path":"file","folder":"","temp":"file","makes_way":false,"act":"create","old_inode":null}}]}}}}"#,
            scene.root
        ),
        format!(
            r#"{{"staging":{{"v":1,"workspace":{:?},"folders":["../x"],"files":[{{"path":"../y","folder":"..","temp":".turnkey-1-0","makes_way":false,"act":"create","old_inode":null}}]}}}}"#,
            scene.root
        ),
    ];
    for line in lines {
        let journal = scene.store.join("patch-1.journal");
        std::fs::write(&journal, format!("{line}\n")).expect("writes");
        workspace.recover(&scene.store).expect_err("refused");
        assert_eq!(scene.tree(), before, "{line}");
        assert!(journal.exists(), "a person must see it");
    }
    // A first line that a kill cut off stands for a commit that did nothing yet.
    std::fs::write(scene.store.join("patch-1.journal"), "{\"staging\":{\"v\":").expect("writes");
    assert_eq!(workspace.recover(&scene.store).expect("recovers"), []);
    assert_eq!(scene.tree(), before);
}

#[test]
fn every_path_must_be_permitted() {
    let scene = Scene::plain();
    scene.write("a", "a\n");
    let workspace = scene.open();
    let before = scene.tree();
    let patch = plan(vec![
        change("a", Some(regular("a\n", 0o644)), Some(new_file("b\n", 0o644))),
        change("b", None, Some(new_file("b\n", 0o644))),
    ]);
    let error = workspace.commit(&permit(&workspace, &["a"]), &patch).expect_err("refused");
    assert!(matches!(error, CommitError::Refused { .. }), "{error}");
    assert_eq!(scene.tree(), before);
}

#[test]
fn git_s_own_files_and_artifacts_are_never_written() {
    let scene = Scene::git();
    std::fs::create_dir(scene.path("out")).expect("folder");
    let options = Options { exclude: vec![scene.path("out")], ..scene.options() };
    let workspace = Workspace::open(&scene.root, options).expect("opens");
    for path in [".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "out/x", "out"] {
        let resolved = workspace.resolve_entry(&scene.root, path).expect("resolves");
        let permit = WritePermit::operator(vec![resolved]);
        let change = change(path, None, Some(new_file("x\n", 0o644)));
        let error = workspace.commit(&permit, &plan(vec![change])).expect_err("refused");
        assert!(matches!(error, CommitError::Refused { .. }), "{path}: {error}");
        workspace.files().read(path).expect_err("nor read for a patch");
    }
    assert!(!scene.path("out/x").exists() && !scene.path("sub").exists());
}

#[test]
fn two_ways_to_one_file_are_refused() {
    let scene = Scene::plain();
    scene.write("real/file", "x\n");
    scene.link("real", "alias");
    let workspace = scene.open();
    assert_eq!(workspace.files().canonical("alias/file").as_deref(), Ok("real/file"));
    let patch = plan(vec![
        change("real/file", Some(regular("x\n", 0o644)), Some(new_file("y\n", 0o644))),
        change("alias/file", Some(regular("x\n", 0o644)), None),
    ]);
    let error = workspace.commit(&permit(&workspace, &["real/file"]), &patch).expect_err("refused");
    assert!(error.to_string().contains("same file"), "{error}");
    // One of them alone is fine: the link stays inside.
    edit(&workspace, "alias/file", Some("z\n")).expect("commits");
    assert_eq!(scene.bytes("real/file").as_deref(), Some(b"z\n".as_slice()));
    assert!(scene.path("alias").is_symlink());
}

#[test]
fn hard_links_are_told() {
    let scene = Scene::plain();
    scene.write("one", "x\n");
    std::fs::hard_link(scene.path("one"), scene.path("two")).expect("links");
    let workspace = scene.open();
    let committed = edit(&workspace, "one", Some("y\n")).expect("commits");
    assert!(committed.notes[0].contains("hard link"), "{:?}", committed.notes);
    assert_eq!(scene.bytes("two").as_deref(), Some(b"x\n".as_slice()));
}

#[test]
fn a_file_changed_in_the_last_instant_is_kept() {
    for act in ["replace", "delete"] {
        let scene = Scene::plain();
        scene.write("file", "checked\n");
        let workspace = scene.open();
        arm(Fault::Never);
        let text = (act == "replace").then_some("ours\n");
        edit(&workspace, "file", text).expect("commits");
        let name = if act == "replace" { "exchange" } else { "rename" };
        let at = calls().iter().position(|call| *call == name).expect("such a call") + 1;
        scene.write("file", "checked\n");
        arm(Fault::Never);
        let path = scene.path("file");
        meddle(at, move || std::fs::write(path, "theirs, longer\n").expect("writes"));
        let error = edit(&workspace, "file", text).expect_err("stale");
        assert!(matches!(error, CommitError::Stale { .. }), "{error}");
        assert_eq!(scene.bytes("file").as_deref(), Some(b"theirs, longer\n".as_slice()), "{act}");
        assert_eq!(scene.tree().len(), 1, "{act}");
    }
}

#[test]
fn what_the_plan_saw_must_still_be_there() {
    let scene = Scene::plain();
    scene.write("file", "now\n");
    std::fs::create_dir(scene.path("folder")).expect("folder");
    scene.link("file", "link");
    let workspace = scene.open();
    let before = scene.tree();
    let after = || Some(new_file("new\n", 0o644));
    let cases = [
        change("file", Some(regular("old\n", 0o644)), after()),
        change("file", Some(regular("now\n", 0o755)), after()),
        change("file", Some(FileState::Symlink { target: b"x".to_vec() }), after()),
        change("gone", Some(regular("now\n", 0o644)), after()),
        change("folder", Some(regular("now\n", 0o644)), after()),
        change("link", Some(FileState::Symlink { target: b"other".to_vec() }), None),
        change("file/inner", None, after()),
        change("folder", Some(FileState::Directory), None),
    ];
    for case in cases {
        let path = case.path.clone();
        let permit = WritePermit::operator(vec![scene.path(&path)]);
        let error = workspace.commit(&permit, &plan(vec![case])).expect_err("refused");
        assert!(error.nothing_changed(), "{path}: {error}");
        assert_eq!(scene.tree(), before, "{path}: {error}");
    }
}

#[test]
fn large_files_and_many_files() {
    let scene = Scene::plain();
    let big = "0123456789abcde\n".repeat(10 << 16);
    scene.write("big", &big);
    let workspace = scene.open();
    let edited = big.replacen("0123", "edit", 1);
    edit(&workspace, "big", Some(&edited)).expect("commits");
    assert_eq!(scene.bytes("big").map(|bytes| bytes.len()), Some(10 << 20));

    let names: Vec<String> = (0..1000).map(|n| format!("many/{}/{n}", n % 200)).collect();
    let changes = names.iter().map(|name| change(name, None, Some(new_file(name, 0o644))));
    let paths: Vec<&str> = names.iter().map(String::as_str).collect();
    let permit = permit(&workspace, &paths);
    workspace.commit(&permit, &plan(changes.collect())).expect("commits");
    assert_eq!(scene.bytes("many/199/999").as_deref(), Some(b"many/199/999".as_slice()));
}

#[test]
fn extended_attributes_go_along() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let scene = Scene::plain();
    scene.write("file", "x\n");
    let path = scene.path("file");
    if setxattr(&path, "user.origin", b"here", XattrFlags::empty()).is_err() {
        return; // This file system has none.
    }
    let workspace = scene.open();
    edit(&workspace, "file", Some("y\n")).expect("commits");
    let mut value = [0_u8; 16];
    let len = getxattr(&path, "user.origin", &mut value).expect("still there");
    assert_eq!(&value[..len], b"here");
}
