//! What comes from a repository, and what does not.

use super::capture::round_trip;
use super::*;

/// Make git certain of all files: as if they had been checked out long before the index was
/// written.
pub(super) fn settle(scene: &Scene) {
    std::thread::sleep(std::time::Duration::from_millis(60));
    scene.run_git(&["status", "--porcelain"]);
    std::fs::write(scene.path("poke"), "x").expect("writes");
    scene.run_git(&["add", "poke"]);
    scene.run_git(&["rm", "-q", "-f", "--cached", "poke"]);
    scene.remove("poke");
}

#[test]
fn clean_files_are_not_copied_and_come_back_from_objects() {
    for packed in [false, true] {
        let scene = Scene::git();
        let long = "a line that is long enough to be worth a delta\n".repeat(400);
        for n in 0..20 {
            scene.write(&format!("file{n}"), format!("{long}{n}\n"));
            scene.commit_all();
        }
        if packed {
            scene.run_git(&["repack", "-adfq", "--depth=50", "--window=50"]);
            scene.run_git(&["prune-packed"]);
        }
        settle(&scene);
        let mut workspace = scene.captured();
        assert_eq!(workspace.copied(), 0);
        for n in 0..20 {
            scene.write(&format!("file{n}"), "changed\n");
        }
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(changes.files.len(), 20);
        assert!(changes.exact, "{:?}", changes.reasons);
        for file in &changes.files {
            let n = String::from_utf8_lossy(&file.path).replace("file", "");
            assert_eq!(content(&file.before), format!("{long}{n}\n").as_bytes());
        }
        assert_eq!(workspace.start_changes().expect("compares").files, []);
    }
}

#[test]
fn objects_that_the_turn_removes_or_forges_make_it_inexact() {
    let scene = Scene::git();
    scene.write("gone", "gone\n");
    scene.write("forged", "forged\n");
    scene.write("packed", "packed\n");
    scene.commit_all();
    settle(&scene);
    let mut workspace = scene.captured();
    let object = |name: &str| {
        let id = scene.run_git(&["rev-parse", &format!("HEAD:{name}")]);
        scene.path(&format!(".git/objects/{}/{}", &id[..2], &id[2..]))
    };
    std::fs::remove_file(object("gone")).expect("removes");
    std::fs::remove_file(object("forged")).expect("removes");
    std::fs::copy(object("packed"), object("forged")).expect("copies");
    for name in ["gone", "forged", "packed"] {
        scene.write(name, "changed\n");
    }
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M packed"]);
    assert!(!changes.exact);
    assert_eq!(changes.reasons.len(), 2, "{:?}", changes.reasons);
    assert_eq!(changes.end_tree, None);
}

#[test]
fn packs_removed_by_the_turn_are_still_open() {
    let scene = Scene::git();
    scene.write("file", "before\n");
    scene.commit_all();
    scene.run_git(&["repack", "-adfq"]);
    scene.run_git(&["prune-packed"]);
    settle(&scene);
    let mut workspace = scene.captured();
    std::fs::remove_dir_all(scene.path(".git/objects")).expect("removes");
    scene.write("file", "after\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file"]);
    assert_eq!(content(&changes.files[0].before), b"before\n");
}

#[test]
fn a_start_that_is_dirty_is_told_apart() {
    let scene = Scene::git();
    for name in ["clean", "edited", "staged", "deleted", "mode", "staged-then-edited"] {
        scene.write(name, format!("{name}\n"));
    }
    scene.commit_all();
    scene.write("edited", "edited 2\n");
    scene.write("staged", "staged 2\n");
    scene.write("staged-then-edited", "2\n");
    scene.write("added", "added\n");
    scene.run_git(&["add", "staged", "added", "staged-then-edited"]);
    scene.write("staged-then-edited", "3\n");
    scene.write("untracked", "untracked\n");
    scene.write("intended", "intended\n");
    scene.run_git(&["add", "-N", "intended"]);
    scene.remove("deleted");
    scene.chmod("mode", 0o755);
    let mut workspace = scene.captured();
    let start = workspace.start_changes().expect("compares");
    let want = [
        "A added",
        "D deleted",
        "M edited",
        "A intended",
        "M mode",
        "M staged",
        "M staged-then-edited",
        "A untracked",
    ];
    assert_eq!(short(&start.files), want);
    assert!(start.exact, "{:?}", start.reasons);
    assert_eq!(start.commit.map(|oid| oid.hex()), Some(scene.run_git(&["rev-parse", "HEAD"])));
    assert_eq!(content(&start.files[6].before), b"staged-then-edited\n");
    assert_eq!(content(&start.files[6].after), b"3\n");
    // The Turn's own changes begin where the start ended.
    scene.write("edited", "edited 3\n");
    scene.write("deleted", "back\n");
    let turn = workspace.turn_changes().expect("compares");
    assert_eq!(short(&turn.files), ["A deleted", "M edited"]);
    assert_eq!(content(&turn.files[1].before), b"edited 2\n");
    // And the user's index is as it was.
    let status = scene.run_git(&["status", "--porcelain", "staged", "added"]);
    assert_eq!(status, "A  added\nM  staged");
}

#[test]
fn a_branch_without_a_commit() {
    let scene = Scene::git();
    scene.write("file", "x\n");
    let mut workspace = scene.captured();
    let head = &workspace.git().expect("git").head;
    assert_eq!((head.branch.as_deref(), head.commit), (Some("main"), None));
    let start = workspace.start_changes().expect("compares");
    assert_eq!(short(&start.files), ["A file"]);
    let plain = Scene::plain();
    let start = plain.captured().start_changes().expect("compares");
    assert!(start.files.is_empty() && start.commit.is_none());
}

#[test]
fn heads_and_refs_are_read() {
    let scene = Scene::git();
    scene.commit_all();
    let commit = scene.run_git(&["rev-parse", "HEAD"]);
    let head = |scene: &Scene| {
        let workspace = scene.open();
        let head = workspace.git().expect("git").head.clone();
        (head.branch, head.commit.map(|oid| oid.hex()))
    };
    assert_eq!(head(&scene), (Some("main".to_owned()), Some(commit.clone())));
    scene.run_git(&["pack-refs", "--all"]);
    assert_eq!(head(&scene), (Some("main".to_owned()), Some(commit.clone())));
    scene.run_git(&["checkout", "-q", "-b", "topic/deep"]);
    assert_eq!(head(&scene), (Some("topic/deep".to_owned()), Some(commit.clone())));
    scene.run_git(&["checkout", "-q", "--detach"]);
    assert_eq!(head(&scene), (None, Some(commit)));
    for bad in ["ref: refs/../../../etc/passwd", "ref: ../x", "nonsense", ""] {
        scene.write(".git/HEAD", bad);
        assert_eq!(head(&scene), (None, None), "{bad}");
    }
}

#[test]
fn d42_d43_nothing_the_repository_configures_runs_or_is_obeyed() {
    let quiet = Scene::git();
    let loud = Scene::git();
    let canary = loud.beside("CANARY");
    for scene in [&quiet, &loud] {
        scene.write("a.txt", "one\n");
        scene.write("b.txt", "one\n");
        scene.write(".gitattributes", "*.txt diff=evil filter=evil merge=evil text=auto ident\n");
        scene.commit_all();
    }
    let touch = format!("touch {}; cat", canary.display());
    for (key, value) in [
        ("diff.external", touch.as_str()),
        ("diff.evil.command", &touch),
        ("diff.evil.textconv", &touch),
        ("filter.evil.clean", &touch),
        ("filter.evil.smudge", &touch),
        ("filter.evil.process", &touch),
        ("core.fsmonitor", &touch),
        ("core.sshCommand", &touch),
        ("core.pager", &touch),
        ("core.editor", &touch),
        ("core.attributesFile", "/nonexistent"),
        ("core.excludesFile", loud.path("a.txt").to_str().expect("utf-8")),
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.renames", "copies"),
        ("color.ui", "always"),
        ("core.quotePath", "false"),
        ("diff.algorithm", "patience"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", "ext::sh -c touch%20CANARY"),
    ] {
        loud.run_git(&["config", key, value]);
    }
    loud.write(".git/hooks/post-index-change", format!("#!/bin/sh\n{touch}\n"));
    loud.chmod(".git/hooks/post-index-change", 0o755);
    let mut all = Vec::new();
    for scene in [&quiet, &loud] {
        let mut workspace = scene.captured();
        scene.write("a.txt", "two\n");
        workspace.after_command(&CallRef::command("1")).expect("looks");
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact, "{:?}", changes.reasons);
        let start = workspace.start_changes().expect("compares");
        all.push((changes.files, changes.start_tree, changes.end_tree, start.files));
        workspace.outline().expect("outlines");
    }
    assert!(!canary.exists(), "something ran");
    assert_eq!(all[0], all[1]);
}

#[test]
fn d49_a_linked_worktree_is_a_repository_like_any_other() {
    let scene = Scene::git();
    scene.write("file", "main\n");
    scene.write(".gitignore", "*.log\n");
    scene.commit_all();
    let tree = scene.beside("linked");
    scene.run_git(&["worktree", "add", "-q", "-b", "side", tree.to_str().expect("utf-8")]);
    std::fs::write(tree.join("only-here"), "x\n").expect("writes");
    git_in(&tree, &["add", "-A"]);
    git_in(&tree, &["commit", "-q", "-m", "side"]);
    let mut workspace = Workspace::open(&tree, scene.options()).expect("opens");
    let git = workspace.git().expect("git");
    assert_eq!(git.head.branch.as_deref(), Some("side"));
    assert_eq!(git.work_root, tree);
    assert_eq!(git.common_dir, scene.path(".git"));
    assert_eq!(git.git_dir, scene.path(".git/worktrees/linked"));
    workspace.capture_start().expect("captures");
    assert_eq!(workspace.start_changes().expect("compares").files, []);
    std::fs::write(tree.join("file"), "edited\n").expect("writes");
    std::fs::write(tree.join("x.log"), "ignored\n").expect("writes");
    let committed = edit(&workspace, "only-here", Some("y\n")).expect("commits");
    workspace.note_patch("1", &committed).expect("notes");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file", "M only-here"]);
    assert!(changes.exact, "{:?}", changes.reasons);
    assert_eq!(content(&changes.files[0].before), b"main\n");
}

#[test]
fn d86_hooks_and_settings_that_appear_are_told() {
    let scene = Scene::git();
    scene.commit_all();
    std::fs::remove_dir_all(scene.path(".git/hooks")).expect("removes");
    scene.write(".git/hooks/kept", "x\n");
    scene.write(".git/hooks/removed", "x\n");
    scene.write(".git/hooks/made-executable", "x\n");
    let mut workspace = scene.captured();
    scene.write(".git/hooks/pre-commit", "#!/bin/sh\nevil\n");
    scene.remove(".git/hooks/removed");
    scene.chmod(".git/hooks/made-executable", 0o755);
    scene.run_git(&["config", "core.fsmonitor", "evil"]);
    scene.write(".git/config.worktree", "x\n");
    scene.write(".git/modules/sub/HEAD", "ref: refs/heads/main\n");
    scene.write(".git/modules/sub/hooks/post-checkout", "evil\n");
    let changes = workspace.turn_changes().expect("compares");
    let said: Vec<_> = changes
        .git_warnings
        .iter()
        .map(|one| {
            let path = one.path.strip_prefix(scene.path(".git")).expect("inside");
            format!("{} {}", one.what, path.display())
        })
        .collect();
    let want = [
        "changed config",
        "added config.worktree",
        "changed hooks/made-executable",
        "added hooks/pre-commit",
        "added modules/sub/hooks/post-checkout",
        "removed hooks/removed",
    ];
    assert_eq!(said, want);
    assert_eq!(changes.files, []);
}

#[test]
fn d105_another_owner_does_not_matter() {
    let scene = Scene::git();
    scene.write("file", "x\n");
    scene.commit_all();
    if rustix::process::geteuid().is_root() {
        let words = ["-R", "4242:4242", scene.root.to_str().expect("utf-8")];
        assert!(Command::new("chown").args(words).status().expect("chown runs").success());
        let status = Command::new("git")
            .current_dir(&scene.root)
            .args(["status"])
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output();
        let err = String::from_utf8_lossy(&status.expect("git runs").stderr).into_owned();
        assert!(err.contains("dubious ownership"), "the test must be hard: {err}");
    }
    let mut workspace = scene.captured();
    assert!(workspace.git().is_some());
    scene.write("file", "y\n");
    scene.write("new", "y\n");
    let committed = edit(&workspace, "file", Some("patched\n")).expect("commits");
    workspace.note_patch("1", &committed).expect("notes");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file", "A new"]);
    assert!(changes.exact);
    assert_eq!(content(&changes.files[0].before), b"x\n");
    use std::os::unix::fs::MetadataExt;
    if rustix::process::geteuid().is_root() {
        let owner = scene.path("file").metadata().expect("meta").uid();
        assert_eq!(owner, 4242, "a patch does not take the file away from its owner");
    }
}

#[test]
fn conflicts_at_the_start_are_taken_as_they_lie() {
    let scene = Scene::git();
    scene.write("file", "base\n");
    scene.commit_all();
    scene.run_git(&["checkout", "-q", "-b", "side"]);
    scene.write("file", "side\n");
    scene.commit_all();
    scene.run_git(&["checkout", "-q", "main"]);
    scene.write("file", "main\n");
    scene.commit_all();
    let merge = Command::new("git")
        .current_dir(&scene.root)
        .args(["-c", "user.name=A", "-c", "user.email=a@b", "merge", "-q", "side"])
        .output()
        .expect("git runs");
    assert!(!merge.status.success(), "a conflict");
    let lying = scene.bytes("file").expect("there");
    let mut workspace = scene.captured();
    scene.write("file", "resolved\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file"]);
    assert_eq!(content(&changes.files[0].before), lying);
    let start = workspace.start_changes().expect("compares");
    assert_eq!(content(&start.files[0].before), b"main\n");
}

#[test]
fn a_command_that_commits_changes_nothing_of_the_truth() {
    let scene = Scene::git();
    scene.write("file", "x\n");
    scene.commit_all();
    let mut workspace = scene.captured();
    let before = scene.run_git(&["rev-parse", "HEAD"]);
    scene.write("file", "y\n");
    scene.commit_all();
    scene.run_git(&["gc", "-q", "--prune=now"]);
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file"]);
    assert!(changes.exact, "{:?}", changes.reasons);
    assert_eq!(changes.head_at_start.commit.map(|oid| oid.hex()), Some(before));
    assert_ne!(changes.head_at_start, changes.head_at_end);
    let copy = scene.beside("copy");
    assert!(!copy.exists());
}

#[test]
fn shell_and_patch_together_make_the_tree_that_git_sees() {
    // Random trees and random edits; the seed of a failing round is its number.
    for seed in 0..15_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let scene = Scene::git();
        let name = |n: u64| format!("d{}/e{}/f{n}", n % 3, n % 5);
        for n in 0..20 {
            scene.write(&name(n), format!("{}\n", next(5)).repeat(next(9) as usize));
        }
        scene.commit_all();
        if next(2) == 0 {
            settle(&scene);
        }
        let mut workspace = scene.captured();
        for _ in 0..25 {
            let path = name(next(30));
            let exists = scene.path(&path).symlink_metadata().is_ok();
            match next(6) {
                0 if exists => scene.remove(&path),
                1 if exists && !scene.path(&path).is_symlink() => {
                    scene.chmod(&path, if next(2) == 0 { 0o755 } else { 0o644 });
                }
                2 if exists => {
                    scene.remove(&path);
                    scene.link("somewhere", &path);
                }
                3 | 4 if !scene.path(&path).is_symlink() => {
                    let text = format!("patched {}\n", next(9));
                    let committed = edit(&workspace, &path, Some(&text)).expect("commits");
                    workspace.note_patch("p", &committed).expect("notes");
                }
                _ if !scene.path(&path).is_symlink() => {
                    scene.write(&path, format!("shell {}\n", next(9)));
                    workspace.after_command(&CallRef::command("c")).expect("looks");
                }
                _ => {}
            }
        }
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact, "seed {seed}: {:?}", changes.reasons);
        round_trip(&scene, &changes);
    }
}

/// Every object of a repository as git names it, one per line.
fn every_object(folder: &Path) -> String {
    let check = "--batch-check=%(objectname) %(objecttype) %(objectsize)";
    git_in(folder, &["cat-file", "--batch-all-objects", check])
}

#[test]
fn loose_objects_of_a_copy_are_one_pack_and_nothing_of_them_is_lost_or_mended() {
    for format in ["sha1", "sha256"] {
        let scene = Scene::plain();
        scene.run_git(&["init", "-q", "-b", "main", &format!("--object-format={format}")]);
        for n in 0..150u32 {
            // Empty, tiny, and some that fill more than a few bytes of their length.
            scene.write(&format!("d{}/f{n}", n % 7), format!("{n}\n").repeat((n * n) as usize));
        }
        let mut random = 1u64;
        let noise = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 33) as u8
        });
        // Larger than what is packed: as it lies, and as it is inside.
        scene.write("noise", noise.take(40_000).collect::<Vec<u8>>());
        scene.write("long", "long\n".repeat(100_000));
        scene.commit_all();
        scene.run_git(&["-c", "user.name=a", "-c", "user.email=a@b", "tag", "-a", "-m", "t", "v1"]);
        let before = every_object(&scene.root);
        let damaged = scene.run_git(&["rev-parse", "HEAD:d3/f3"]);
        let damaged = format!(".git/objects/{}/{}", &damaged[..2], &damaged[2..]);
        let whole = scene.bytes(&damaged).expect("a loose object");
        scene.chmod(&damaged, 0o644);
        for (round, bytes) in [whole.clone(), b"not an object".to_vec()].into_iter().enumerate() {
            scene.write(&damaged, &bytes);
            let to = tempfile::tempdir().expect("a folder");
            scene.open().copy_to(to.path(), &Default::default()).expect("copies");
            let at = |name: &str| to.path().join(name);
            let listed = |name: &str| std::fs::read_dir(at(name)).expect("lists").count();
            assert_eq!(listed(".git/objects/pack"), 2, "{format}: a pack and its index");
            assert!(listed(".git/objects") < 8, "{format}: few folders are left");
            if round == 0 {
                assert_eq!(every_object(to.path()), before, "{format}");
                git_in(to.path(), &["fsck", "--full", "--strict"]);
                assert_eq!(git_in(to.path(), &["status", "--porcelain"]), "");
                git_in(to.path(), &["index-pack", "--verify", &pack_of(to.path())]);
            } else {
                let same = std::fs::read(at(&damaged)).expect("it is there, as it was");
                assert_eq!(same, bytes, "{format}");
            }
            for name in ["noise", "long"] {
                let oid = scene.run_git(&["rev-parse", &format!("HEAD:{name}")]);
                let file = format!(".git/objects/{}/{}", &oid[..2], &oid[2..]);
                assert_eq!(std::fs::read(at(&file)).ok(), scene.bytes(&file), "{format}: {name}");
            }
        }
    }
}

fn pack_of(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder.join(".git/objects/pack")).expect("lists").flatten();
    let mut names = entries.map(|entry| entry.path().display().to_string());
    names.find(|name| name.ends_with(".pack")).expect("a pack")
}
