//! `turnkey patch`, `turnkey apply`, and the copy that isolated runs work on.

use super::support::{Run, Sandboxed, patch, script, shell, with_scripts};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Every file below a folder but git's own: name, mode, content or target.
fn tree(folder: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(at) = open.pop() {
        for entry in fs::read_dir(at).unwrap().flatten() {
            let path = entry.path();
            if entry.file_name() == ".git" {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else if meta.is_file() {
                fs::read(&path).unwrap()
            } else {
                open.push(path.clone());
                Vec::new()
            };
            let inside = path.strip_prefix(folder).unwrap().to_owned();
            all.push((inside, meta.permissions().mode(), content));
        }
    }
    all.sort();
    all
}

#[track_caller]
fn isolated(place: &Sandboxed, folder: &str, text: &str, args: &[&str]) -> Value {
    place.write("model.yaml", script(&[&shell(place, text)]));
    let mut all = vec!["exec", "-C", folder, "--artifacts", "out", "--policy", "policy.yaml"];
    all.extend(["--isolate", "copy", "--model", "scripted/model.yaml"]);
    all.extend(args);
    all.push("t");
    let done = Run::new(place, &all).finish();
    assert_eq!(done.kinds(), ["ok"], "{:?} {}", done.outputs(), done.stderr);
    done.result()
}

fn write_tree(place: &Sandboxed, folder: &Path) -> String {
    place.git(folder, &["add", "-A"]);
    place.git(folder, &["write-tree"]).trim().to_owned()
}

#[test]
fn a_patch_of_the_operator_is_all_or_nothing_and_answers_by_its_status() {
    let place = with_scripts();
    place.write("ws/a", "one\n");
    place.write("ws/b", "b\n");
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** Add File: n/c\n+c\n*** End Patch\n";
    let args = ["patch", "-C", "ws", text];
    let done = Run::new(&place, &["patch", "-C", "ws", "--dry-run", text]).finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "M a (+1 -1)\nA n/c (+1)\n"));
    assert_eq!(place.read("ws/a"), "one\n");
    let done = Run::new(&place, &args).finish();
    assert_eq!((done.status, done.stdout.as_str()), (0, "M a (+1 -1)\nA n/c (+1)\n"));
    assert_eq!((place.read("ws/a").as_str(), place.read("ws/n/c").as_str()), ("two\n", "c\n"));
    let before = tree(&place.path("ws"));
    let done = Run::new(&place, &args).finish();
    assert_eq!(done.status, 1, "{}", done.stdout);
    assert!(
        done.stderr.contains("nothing was changed") && done.stderr.contains("line"),
        "{}",
        done.stderr
    );
    for wrong in ["no patch at all", "*** Begin Patch\n*** Delete File: b\n"] {
        let done = Run::new(&place, &["patch", "-C", "ws", wrong]).finish();
        assert_eq!(done.status, 2, "{wrong}: {}", done.stderr);
    }
    let outside = "*** Begin Patch\n*** Add File: ../x\n+x\n*** End Patch\n";
    let done = Run::new(&place, &["patch", "-C", "ws", outside]).finish();
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert_eq!(tree(&place.path("ws")), before);
    assert!(!place.exists("x"));
    let back = text
        .replace("-one\n+two", "-two\n+one")
        .replace("*** Add File: n/c\n+c", "*** Delete File: n/c");
    let done = Run::new(&place, &["patch", "-C", "ws", "-"]).stdin(&back).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(place.read("ws/a"), "one\n");
    place.write("p.txt", text);
    let done = Run::new(&place, &["patch", "-C", "ws", "--file", "p.txt"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
}

#[test]
fn what_a_kill_cut_is_undone_by_the_next_command_for_the_same_tree() {
    let place = with_scripts();
    place.write("ws/a", "one\n");
    let text = "*** Begin Patch\n*** Update File: a\n@@\n-one\n+two\n*** End Patch\n";
    assert_eq!(Run::new(&place, &["patch", "-C", "ws", text]).finish().status, 0);
    // A commit that was killed after its first step: the journal, and the old file aside.
    let stores = place.path("home/.local/state/turnkey/patch");
    let store = fs::read_dir(stores).unwrap().next().unwrap().unwrap().path();
    let inode = |path: &str| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(place.path(path)).unwrap().ino()
    };
    let old = inode("ws/a");
    fs::rename(place.path("ws/a"), place.path("ws/.turnkey-x-0")).unwrap();
    place.write("ws/a", "half done\n");
    let staging = serde_json::json!({"staging": {
        "v": 2, "workspace": place.path("ws"), "gone": [], "folders": [],
        "files": [{"path": "a", "folder": "", "temp": ".turnkey-x-0", "makes_way": false,
                   "act": "replace", "old_inode": old}],
    }});
    let committing = serde_json::json!({"committing": {"new_inodes": [inode("ws/a")]}});
    fs::write(store.join("patch-x.journal"), format!("{staging}\n{committing}\n")).unwrap();
    let asked = Run::new(&place, &["patch", "-C", "ws", "--dry-run", text]).finish();
    assert_ne!(asked.status, 0);
    assert!(place.exists("ws/.turnkey-x-0"), "a question changes nothing");
    let back = "*** Begin Patch\n*** Update File: a\n@@\n-two\n+three\n*** End Patch\n";
    let done = Run::new(&place, &["patch", "-C", "ws", back]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("cut short before is undone"), "{}", done.stderr);
    assert_eq!(place.read("ws/a"), "three\n");
    assert!(!place.exists("ws/.turnkey-x-0"));
}

#[test]
fn an_isolated_run_leaves_the_tree_alone_until_it_is_applied() {
    let place = with_scripts();
    place.write("ws/.gitignore", "*.log\n");
    place.write("ws/kept.log", "tracked though ignored\n");
    place.write("ws/text", "one\ntwo \nthree\t\n");
    place.write("ws/bin", [0u8, 1, 2].repeat(100));
    place.write("ws/run.sh", "true\n");
    place.write("ws/old/name", "a\nb\nc\nd\ne\nf\n");
    place.write("ws/becomes/folder", "x\n");
    place.write("ws/file", "file\n");
    symlink("text", place.path("ws/link")).unwrap();
    place.git_init(&place.path("ws"));
    place.git(&place.path("ws"), &["add", "-f", "kept.log"]);
    place.git(&place.path("ws"), &["commit", "-qm", "ignored"]);
    place.write("ws/build.log", "ignored\n");
    // What the start has on top of its commit is carried, and stays apart.
    place.write("ws/text", "one\ntwo \nthree\t\nlocal\n");
    place.write("ws/untracked", "u\n");
    // Settings with which git itself would not put these bytes in place.
    for (key, value) in [("apply.whitespace", "fix"), ("core.whitespace", "trailing-space")] {
        place.git(&place.path("ws"), &["config", key, value]);
    }
    let before = tree(&place.path("ws"));
    let result = isolated(
        &place,
        "ws",
        "ls build.log && exit 1\n\
         test -e kept.log && grep -q local text && test -e untracked || exit 1\n\
         git log --oneline | grep -q ignored || exit 1\n\
         printf 'one\\ntwo \\n3\\t \\nlocal\\n' > text; printf '\\0new' > bin; chmod +x run.sh\n\
         mv old/name new-name; rm -r becomes; echo file > becomes; rm file; mkdir file; echo x > file/in\n\
         rm link; ln -s bin link; rm untracked; echo n > sp\\ ace\n",
        &[],
    );
    assert_eq!(result["state"], "completed", "{result}");
    assert_eq!(tree(&place.path("ws")), before, "the tree is as it was");
    let done = Run::new(&place, &["apply", "out", "-C", "ws", "--dry-run"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(tree(&place.path("ws")), before);
    let done = Run::new(&place, &["apply", "latest", "-C", "ws/old"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.contains("M text\n"), "{}", done.stdout);
    assert!(!place.exists("ws/old"), "a folder that is emptied goes with its files");
    assert_eq!(place.read("ws/text"), "one\ntwo \n3\t \nlocal\n", "white space is as it was made");
    assert_eq!(result["digests"]["end_tree"], write_tree(&place, &place.path("ws")).as_str());
    let again = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(again.status, 1, "{}", again.stdout);
}

#[test]
fn a_checkout_that_is_not_the_start_is_refused_whole() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.write("ws/b", "b\n");
    place.git_init(&place.path("ws"));
    isolated(&place, "ws", "echo x >> a; echo x >> b; echo n > n\n", &[]);
    for (path, text) in [("ws/b", "other\n"), ("ws/n", "n\n")] {
        place.git(&place.path("ws"), &["reset", "-q", "--hard"]);
        place.write(path, text);
        let before = tree(&place.path("ws"));
        let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
        assert_eq!(done.status, 1, "{path}: {}", done.stdout);
        assert!(
            done.stderr.contains(&path[3..]) && done.stderr.contains("hint"),
            "{}",
            done.stderr
        );
        assert_eq!(tree(&place.path("ws")), before, "{path}");
        fs::remove_file(place.path(path)).unwrap();
    }
    // A file behind a link is another file.
    place.git(&place.path("ws"), &["reset", "-q", "--hard"]);
    fs::rename(place.path("ws/a"), place.path("elsewhere")).unwrap();
    symlink(place.path("elsewhere"), place.path("ws/a")).unwrap();
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 1, "{}", done.stdout);
    assert_eq!(place.read("elsewhere"), "a\n");
}

#[test]
fn a_run_that_changed_nothing_says_that_there_is_nothing_to_apply() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    isolated(&place, "ws", "true\n", &[]);
    for more in [&[][..], &["--dry-run"]] {
        let done = Run::new(&place, &[&["apply", "out", "-C", "ws"], more].concat()).finish();
        assert_eq!((done.status, done.stdout.as_str()), (0, ""), "{}", done.stderr);
        assert!(done.stderr.contains("changed nothing"), "{}", done.stderr);
    }
}

#[test]
fn only_the_diff_that_the_run_recorded_is_applied() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    isolated(&place, "ws", "echo x >> a\n", &[]);
    let whole = place.read("out/turn.diff");
    fs::write(place.path("out/turn.diff"), whole.replace("+x", "+y")).unwrap();
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 2, "{}", done.stdout);
    assert!(done.stderr.contains("not the diff"), "{}", done.stderr);
    fs::remove_file(place.path("out/turn.diff")).unwrap();
    // The run's own folder still has it.
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    for args in [["apply", "no-such-run"], ["apply", "ws"]] {
        let done = Run::new(&place, &args).finish();
        assert_eq!(done.status, 2, "{args:?}: {}", done.stderr);
    }
}

#[test]
fn a_workspace_inside_its_repository_has_the_whole_repository_in_its_copy() {
    let place = with_scripts();
    place.write("ws/top", "top\n");
    place.write("ws/sub/a", "a\n");
    place.write("ws/sub/.gitignore", "/dist\n");
    place.git_init(&place.path("ws"));
    let result = isolated(
        &place,
        "ws/sub",
        "echo b >> a; mkdir dist; echo x > dist/x\n",
        &["--require-file", "a"],
    );
    assert_eq!(result["state"], "completed", "{result}");
    assert_eq!(result["changed_files"][0]["path"], "sub/a", "{result}");
    assert!(!place.exists("out/start.diff"), "the copy of a clean start is clean");
    let done = Run::new(&place, &["apply", "out", "-C", "ws/sub"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(place.read("ws/sub/a"), "a\nb\n");
    assert!(!place.exists("ws/sub/dist"));
}

#[test]
fn a_plain_folder_is_copied_and_applied_too() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.write("ws/.gitignore", "skip\n");
    place.write("ws/skip", "s\n");
    let result = isolated(&place, "ws", "test -e skip && exit 1; echo b >> a; echo c > c\n", &[]);
    assert_eq!(result["state"], "completed", "{result}");
    assert_eq!(place.read("ws/a"), "a\n");
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!((place.read("ws/a").as_str(), place.read("ws/c").as_str()), ("a\nb\n", "c\n"));
}

#[test]
fn worktrees_submodules_and_staged_changes_come_along() {
    let place = with_scripts();
    place.write("lib/l", "l\n");
    place.git_init(&place.path("lib"));
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    place.git(&place.path("ws"), &["submodule", "--quiet", "add", "../lib", "lib"]);
    place.git(&place.path("ws"), &["commit", "-qam", "with a submodule"]);
    place.git(&place.path("ws"), &["worktree", "add", "-q", "../tree"]);
    place.write("tree/a", "staged\n");
    place.git(&place.path("tree"), &["add", "a"]);
    let result = isolated(
        &place,
        "tree",
        "git status --porcelain | grep -q '^M  a' || exit 1\n\
         git log --oneline | grep -q submodule || exit 1\necho more >> a\n",
        &[],
    );
    assert_eq!(result["changed_files"].as_array().unwrap().len(), 1, "{result}");
    let result = isolated(
        &place,
        "ws",
        "test -z \"$(git status --porcelain)\" || exit 1\ngit -C lib log --oneline | grep -q start || exit 1\n\
         echo more >> a; echo inside >> lib/l\n",
        &[],
    );
    assert_eq!(result["changed_files"].as_array().unwrap().len(), 1, "{result}");
    assert!(result["not_in_diff"].to_string().contains("lib"), "{result}");
    assert_eq!(place.read("ws/lib/l"), "l\n");
}

#[test]
fn what_the_policy_protects_is_protected_in_the_copy() {
    let place = Sandboxed::new();
    fs::create_dir(place.path("ws")).unwrap();
    place.write("ws/policy.yaml", "version: 1\nfiles: { read: [\"**\"], write: [\"**\"] }\n");
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    let own = patch(
        "*** Begin Patch\n*** Update File: policy.yaml\n@@\n-version: 1\n+version: 2\n*** End Patch\n",
    );
    let other = patch("*** Begin Patch\n*** Delete File: a\n*** End Patch\n");
    place.write("model.yaml", script(&[&own, &other]));
    let args = [
        "exec",
        "-C",
        "ws",
        "--artifacts",
        "out",
        "--policy",
        "ws/policy.yaml",
        "--isolate",
        "copy",
        "--model",
        "scripted/model.yaml",
        "t",
    ];
    let done = Run::new(&place, &args).finish();
    assert_eq!(done.kinds(), ["denied", "ok"], "{:?} {}", done.outputs(), done.stderr);
}

#[test]
fn fail_on_changes_leaves_the_tree_changed_only_without_a_copy() {
    for isolate in ["none", "copy"] {
        let place = with_scripts();
        place.write("ws/a", "a\n");
        place.git_init(&place.path("ws"));
        let call = patch("*** Begin Patch\n*** Delete File: a\n*** End Patch\n");
        place.write("model.yaml", script(&[&call]));
        let args =
            ["--model", "scripted/model.yaml", "--fail-on-changes", "--isolate", isolate, "t"];
        let done = Run::exec(&place, &args).finish();
        done.assert(14, "changes_found", "changes_found");
        assert_eq!(place.exists("ws/a"), isolate == "copy", "{isolate}");
        assert!(place.read("out/turn.diff").contains("deleted file"));
    }
}

#[test]
fn demands_on_change_hold_in_a_copy_as_anywhere() {
    let place = with_scripts();
    place.write("ws/sub/keep/a", "a\n");
    place.write("ws/sub/b", "b\n");
    place.git_init(&place.path("ws"));
    let spec = |more: &str| {
        format!(
            "version: 1\ntask: t\nworkspace: ws/sub\nmodel: {{ use: scripted/model.yaml }}\npolicy: policy.yaml\nverify: {{ attempts: 0 }}\n{more}\n"
        )
    };
    let both =
        "*** Begin Patch\n*** Delete File: keep/a\n*** Update File: b\n@@\n-b\n+c\n*** End Patch\n";
    place.write("model.yaml", script(&[&patch(both)]));
    for (more, reason) in [
        ("keep: [\"keep/**\"]", "keep"),
        ("max_changed_files: 1", "limit.changed_files"),
        ("max_changed_lines: 2", "limit.changed_lines"),
        ("expect: none", "expect.none"),
    ] {
        place.write("spec.yaml", spec(more));
        let args = ["exec", "--spec", "spec.yaml", "--artifacts", "out", "--isolate", "copy"];
        let done = Run::new(&place, &args).finish();
        done.assert(10, "unverified", reason);
        assert!(place.exists("ws/sub/keep/a"), "{more}");
    }
}
