//! The Turn diff on the real binary: whatever changed the tree, and whatever the tree is, the diff
//! applied to the start gives the end, byte for byte and mode for mode, as git sees it.

use super::support::{Run, Sandboxed, command, patch, script, shell, with_scripts};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// A run with these calls in `folder`; its result.
#[track_caller]
fn turn_in(place: &Sandboxed, folder: &str, calls: &[&str], args: &[&str]) -> Value {
    place.write("model.yaml", script(calls));
    let mut all = vec!["exec", "-C", folder, "--artifacts", "out", "--policy", "policy.yaml"];
    all.extend(["--model", "scripted/model.yaml"]);
    all.extend(args);
    all.push("t");
    let done = Run::new(place, &all).finish();
    let result = done.result();
    assert_eq!(result["state"], "completed", "{result} {}", done.stderr);
    for output in done.outputs() {
        assert!(!output.contains("exit code: 1"), "{output}");
    }
    result
}

/// Runs a script in a repository that holds what is in `ws` by now.
#[track_caller]
fn turn(place: &Sandboxed, text: &str) -> Value {
    turn_in(place, "ws", &[&shell(place, text)], &[])
}

fn tree(place: &Sandboxed, folder: &Path) -> String {
    place.git(folder, &["write-tree"]).trim().to_owned()
}

/// The diff, applied by git to a clean checkout of the base, gives the end tree that the result
/// names; and the workspace is that tree.
#[track_caller]
fn round_trip(place: &Sandboxed, result: &Value) {
    let (ws, clean) = (place.path("ws"), place.path("clean"));
    let _ = fs::remove_dir_all(&clean);
    place.git(&place.path(""), &["clone", "-q", ws.to_str().unwrap(), clean.to_str().unwrap()]);
    let start = tree(place, &clean);
    apply(place, &clean, "out/turn.diff");
    let end = tree(place, &clean);
    assert_eq!(result["digests"]["start_tree"], start.as_str());
    assert_eq!(result["digests"]["end_tree"], end.as_str(), "{}", place.read("out/turn.diff"));
    place.git(&ws, &["add", "-A"]);
    assert_eq!(tree(place, &ws), end, "the workspace is another tree");
}

#[track_caller]
fn apply(place: &Sandboxed, folder: &Path, diff: &str) {
    let diff = place.path(diff);
    if fs::metadata(&diff).unwrap().len() > 0 {
        place.git(folder, &["apply", "--index", "--whitespace=nowarn", diff.to_str().unwrap()]);
    }
}

fn diff(place: &Sandboxed) -> Vec<u8> {
    fs::read(place.path("out/turn.diff")).unwrap()
}

fn holds(diff: &[u8], part: &str) -> bool {
    diff.windows(part.len()).any(|window| window == part.as_bytes())
}

#[test]
fn d37_patch_and_shell_together_make_one_net_change() {
    let place = with_scripts();
    for name in ["a", "b", "c", "f", "s"] {
        place.write(&format!("ws/{name}.txt"), format!("{name}\n"));
    }
    place.git_init(&place.path("ws"));
    let by_shell = shell(
        &place,
        "echo B > b.txt; rm c.txt; mkdir d; echo e > d/e.txt; echo x > f.txt; echo f > f.txt; sed -i s/A/AA/ a.txt\n",
    );
    let by_patch = patch("*** Begin Patch\n*** Update File: a.txt\n@@\n-a\n+A\n*** End Patch\n");
    let result = turn_in(&place, "ws", &[&by_patch, &by_shell], &[]);
    round_trip(&place, &result);
    assert!(!holds(&diff(&place), "f.txt"));
    let files = result["changed_files"].as_array().unwrap();
    let by = |path: &str| files.iter().find(|file| file["path"] == path).unwrap()["by"].to_string();
    assert!(by("a.txt").contains("patch:") && by("a.txt").contains("command:"), "{result}");
    assert!(by("d/e.txt").contains("command:") && !by("d/e.txt").contains("patch:"), "{result}");
}

#[test]
fn d39_binary_files_are_whole_and_the_text_beside_them_is_not_lost() {
    let place = with_scripts();
    place.write("ws/fix.txt", "wrong\n");
    place.write("ws/old.bin", [0u8, 1, 2, 255].repeat(300));
    place.git_init(&place.path("ws"));
    place.write("scripts/src.bin", [7u8, 0, 13, 10].repeat(256));
    let result = turn(
        &place,
        "echo right > fix.txt; cp $(dirname $0)/src.bin new.bin; printf 'a\\0b' > old.bin\n",
    );
    round_trip(&place, &result);
    assert!(holds(&diff(&place), "GIT binary patch"));
}

#[test]
fn d40_blank_context_lines_at_the_end_survive() {
    let place = with_scripts();
    place.write("ws/a", "o\n\n\n");
    place.git_init(&place.path("ws"));
    let result = turn(&place, "printf 'n\\n\\n\\n' > a\n");
    assert!(diff(&place).ends_with(b"\n \n \n"), "{:?}", String::from_utf8_lossy(&diff(&place)));
    round_trip(&place, &result);
}

#[test]
fn d41_carriage_returns_survive() {
    let place = with_scripts();
    place.write("ws/a", "a\r\nb\r\nc\r\n");
    place.git_init(&place.path("ws"));
    let result = turn(&place, "printf 'a\\r\\nX\\r\\nc\\r\\n' > a\n");
    round_trip(&place, &result);
    // The test itself is tested: without its CRs the artifact does not apply.
    let stripped: Vec<u8> = diff(&place).into_iter().filter(|byte| *byte != b'\r').collect();
    place.write("stripped.diff", stripped);
    let clean = place.path("clean");
    place.git(&clean, &["reset", "-q", "--hard"]);
    let path = place.path("stripped.diff");
    assert!(!place.try_git(&clean, &["apply", path.to_str().unwrap()]).0);
}

const CONFIG: [(&str, &str); 8] = [
    ("diff.noprefix", "true"),
    ("diff.mnemonicPrefix", "true"),
    ("color.ui", "always"),
    ("diff.external", "touch CANARY"),
    ("diff.renames", "copies"),
    ("core.quotePath", "false"),
    ("diff.algorithm", "histogram"),
    ("core.whitespace", "trailing-space,tab-in-indent"),
];

#[test]
fn d42_no_setting_changes_a_byte_of_the_diff() {
    let run = |configured: bool| {
        let place = with_scripts();
        place.write("ws/ä b.txt", "one\ntwo\nthree \n");
        place.write("ws/m", "moved\nand\nlong\nenough\n");
        place.git_init(&place.path("ws"));
        for (key, value) in CONFIG.iter().filter(|_| configured) {
            place.git(&place.path("ws"), &["config", key, value]);
            place.git(&place.path("ws"), &["config", "--global", key, value]);
        }
        turn(&place, "echo four >> 'ä b.txt'; mv m n\n");
        assert!(!place.exists("ws/CANARY"));
        diff(&place)
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn d43_nothing_that_the_repository_names_runs() {
    let place = with_scripts();
    place.write("ws/a.txt", "a\n");
    place.write("ws/sub/x", "x\n");
    place.write("ws/.gitattributes", "*.txt diff=evil filter=evil merge=evil\n");
    place.git_init(&place.path("ws"));
    // Outside the sandbox, so that even a writer that the sandbox would stop is seen.
    let canary = place.path("CANARY");
    let evil = format!("touch {}; cat", canary.display());
    for key in [
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "core.fsmonitor",
        "core.pager",
        "diff.external",
        "core.sshCommand",
        "credential.helper",
    ] {
        place.git(&place.path("ws"), &["config", key, &evil]);
    }
    place.git(&place.path("ws"), &["config", "filter.evil.required", "true"]);
    for hook in ["post-index-change", "post-checkout", "pre-commit", "reference-transaction"] {
        let path = format!("ws/.git/hooks/{hook}");
        place.write(&path, format!("#!/bin/sh\n{evil}\n"));
        fs::set_permissions(place.path(&path), fs::Permissions::from_mode(0o755)).unwrap();
    }
    for isolate in ["none", "copy"] {
        let shell = shell(&place, "echo b >> a.txt\n");
        let call = if isolate == "none" {
            shell
        } else {
            patch("*** Begin Patch\n*** Add File: c.txt\n+c\n*** End Patch\n")
        };
        let result = turn_in(&place, "ws", &[&call], &["--isolate", isolate]);
        assert_eq!(result["changed"], true, "{result}");
        assert!(!canary.exists(), "{isolate}");
    }
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(!canary.exists() && place.exists("ws/c.txt"));
}

#[test]
fn d44_the_marker_for_a_missing_newline_stands_on_its_own_side() {
    let cases = [
        ("a\nb", "printf 'a\\nX' > f\n"),
        ("a\nb", "printf 'a\\nb\\n' > f\n"),
        ("a\nb\n", "printf 'a\\nb' > f\n"),
        ("a\nb", "printf 'a\\nb\\nc' > f\n"),
    ];
    for (before, shell) in cases {
        let place = with_scripts();
        place.write("ws/f", before);
        place.git_init(&place.path("ws"));
        let result = turn(&place, shell);
        assert!(holds(&diff(&place), "\\ No newline at end of file"));
        round_trip(&place, &result);
    }
}

#[test]
fn d45_renames_modes_links_and_changes_of_type() {
    let long: String = (0..40).map(|n| format!("line {n}\n")).collect();
    let cases: [(&str, &[&str]); 8] = [
        (
            "mkdir bin; mv s.sh bin/s; chmod +x bin/s; sed -i 's/line 7/seven/' bin/s",
            &[
                "old mode 100644\nnew mode 100755\nsimilarity",
                "rename from s.sh\nrename to bin/s\n",
            ],
        ),
        ("mv s.sh t.sh", &["similarity index 100%"]),
        ("chmod +x s.sh", &["old mode 100644\nnew mode 100755\n"]),
        ("mv s.sh t; mv b s.sh; mv t b", &[]),
        ("rm s.sh; ln -s b s.sh", &["new file mode 120000"]),
        ("rm s.sh; mkdir s.sh; echo x > s.sh/in", &["b/s.sh/in"]),
        ("rm -r d; echo file > d", &["b/d\n"]),
        ("rm l; echo plain > l; ln -s nowhere l2", &["deleted file mode 120000"]),
    ];
    for (shell, parts) in cases {
        let place = with_scripts();
        place.write("ws/s.sh", &long);
        place.write("ws/b", "b\n");
        place.write("ws/d/one", "1\n");
        place.write("ws/d/e/two", "2\n");
        symlink("b", place.path("ws/l")).unwrap();
        place.git_init(&place.path("ws"));
        let result = turn(&place, shell);
        for part in parts {
            assert!(holds(&diff(&place), part), "{shell}: {part}\n{}", place.read("out/turn.diff"));
        }
        round_trip(&place, &result);
        // And our own applier takes it into another checkout.
        let other = place.path("other");
        place.git(&place.path("clean"), &["reset", "-q", "--hard"]);
        place.git(&place.path(""), &["clone", "-q", "clean", "other"]);
        let done = Run::new(&place, &["apply", "out", "-C", other.to_str().unwrap()]).finish();
        assert_eq!(done.status, 0, "{shell}: {}", done.stderr);
        place.git(&other, &["add", "-A"]);
        assert_eq!(result["digests"]["end_tree"], tree(&place, &other).as_str(), "{shell}");
        assert_eq!(place.git(&other, &["clean", "-ndx"]), "", "{shell}: no empty folder is left");
    }
}

#[test]
fn d105_a_checkout_of_another_owner_has_its_diff() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    let done = Command::new("chown").args(["-R", "12345:12345"]).arg(place.path("ws")).output();
    if !done.is_ok_and(|done| done.status.success()) {
        eprintln!("SKIPPED: only root can give a checkout to another owner");
        return;
    }
    // A command has no right of root's any more: what it may write is what others may.
    let open = Command::new("chmod").args(["-R", "a+rwX"]).arg(place.path("ws")).status().unwrap();
    assert!(open.success());
    let by_patch = patch("*** Begin Patch\n*** Delete File: a\n*** End Patch\n");
    let by_shell = shell(&place, "echo b > b\n");
    let result = turn_in(&place, "ws", &[&by_patch, &by_shell], &[]);
    assert_eq!(result["changed_files"][1]["path"], "b", "{result}");
    assert!(result["digests"]["end_tree"].as_str().is_some_and(|id| id.len() == 40), "{result}");
    let safe = ["-c", "safe.directory=*", "add", "-A"];
    place.git(&place.path("ws"), &safe);
    let end = place.git(&place.path("ws"), &["-c", "safe.directory=*", "write-tree"]);
    assert_eq!(result["digests"]["end_tree"], end.trim());
}

/// The full size is in `.ci/parts/huge.sh`.
#[test]
fn d107_a_huge_tree_delays_neither_the_first_request_nor_the_truth() {
    let place = with_scripts();
    place.write("ws/.gitignore", "node_modules/\n");
    for folder in 0..200 {
        let tracked = place.path(&format!("ws/src/d{folder}"));
        let ignored = place.path(&format!("ws/node_modules/d{folder}"));
        fs::create_dir_all(&tracked).unwrap();
        fs::create_dir_all(&ignored).unwrap();
        for file in 0..100 {
            fs::write(tracked.join(format!("f{file}")), "x\n").unwrap();
            fs::write(ignored.join(format!("f{file}")), "x\n").unwrap();
        }
    }
    place.git_init(&place.path("ws"));
    let patch = patch("*** Begin Patch\n*** Update File: src/d7/f7\n@@\n-x\n+y\n*** End Patch\n");
    let shell = shell(&place, "echo z > src/d9/f9; echo i > node_modules/new\n");
    place.write("model.yaml", script(&[&patch, &shell]));
    let args = ["--model", "scripted/model.yaml", "--json", "t"];
    let done = Run::exec(&place, &args).finish();
    done.assert(0, "completed", "completed");
    // The model was asked before anything was walked.
    let records = done.rollout();
    let at = |kind: &str| {
        let record = records.iter().find(|record| record["type"] == kind).unwrap();
        record["ts"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap()
    };
    let waited = at("usage").duration_since(at("run_started"));
    assert!(waited.as_millis() < 5_000, "the first answer came after {waited:?}");
    let result = done.result();
    let names: Vec<&str> = result["changed_files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| file["path"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["src/d7/f7", "src/d9/f9"]);
    round_trip(&place, &result);
}

#[test]
fn a_dirty_start_is_kept_apart_and_both_diffs_together_give_the_end() {
    let place = with_scripts();
    place.write("ws/tracked", "one\n");
    place.write("ws/staged", "one\n");
    place.write("ws/gone", "one\n");
    place.git_init(&place.path("ws"));
    let base = place.git(&place.path("ws"), &["rev-parse", "HEAD"]);
    place.write("ws/tracked", "two\n");
    place.write("ws/staged", "two\n");
    place.git(&place.path("ws"), &["add", "staged"]);
    fs::remove_file(place.path("ws/gone")).unwrap();
    place.write("ws/untracked", "u\n");
    place.write("ws/quiet", "never touched\n");
    let result = turn(&place, "echo three > tracked; rm untracked; echo n > new\n");
    let turn_diff = diff(&place);
    assert!(!holds(&turn_diff, "quiet") && !holds(&turn_diff, "staged"), "only what the Turn did");
    let clean = place.path("clean");
    place.git(&place.path(""), &["clone", "-q", "ws", "clean"]);
    place.git(&clean, &["checkout", "-q", base.trim()]);
    apply(&place, &clean, "out/start.diff");
    assert_eq!(result["digests"]["start_tree"], tree(&place, &clean).as_str());
    apply(&place, &clean, "out/turn.diff");
    assert_eq!(result["digests"]["end_tree"], tree(&place, &clean).as_str());
    place.git(&place.path("ws"), &["add", "-A"]);
    assert_eq!(tree(&place, &place.path("ws")), tree(&place, &clean));
}

#[test]
fn the_users_index_objects_refs_and_stash_are_as_before() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    place.write("ws/a", "stashed\n");
    place.git(&place.path("ws"), &["stash", "-q"]);
    place.write("ws/a", "dirty\n");
    let state = || {
        let mut all = Vec::new();
        let mut open = vec![place.path("ws/.git")];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                } else {
                    let meta = entry.metadata().unwrap();
                    all.push((
                        entry.path(),
                        fs::read(entry.path()).unwrap(),
                        meta.modified().unwrap(),
                    ));
                }
            }
        }
        all.sort();
        all
    };
    let before = state();
    for isolate in ["copy", "none"] {
        let add = patch(&format!("*** Begin Patch\n*** Add File: {isolate}\n+x\n*** End Patch\n"));
        turn_in(&place, "ws", &[&add, &command("true")], &["--isolate", isolate]);
        assert!(before == state(), "{isolate}: git's own files changed");
    }
    let done = Run::new(&place, &["apply", "out", "-C", "ws"]).finish();
    assert_eq!(done.status, 1, "`none` is there already: {}", done.stderr);
    assert!(before == state());
}

#[test]
fn worktrees_shallow_and_borrowing_clones() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    place.write("ws/a", "b\n");
    place.git(&place.path("ws"), &["commit", "-qam", "second"]);
    let url = format!("file://{}", place.path("ws").display());
    place.git(&place.path("ws"), &["worktree", "add", "-q", "../worktree"]);
    place.git(&place.path(""), &["clone", "-q", "--depth", "1", &url, "shallow"]);
    place.git(&place.path(""), &["clone", "-q", "-s", "ws", "borrowing"]);
    place.git(&place.path("ws"), &["config", "uploadpack.allowFilter", "true"]);
    place.git(&place.path(""), &["clone", "-q", "--filter=blob:none", &url, "partial"]);
    let shell = shell(&place, "echo c >> a; echo n > n; chmod +x n\n");
    for folder in ["worktree", "shallow", "borrowing", "partial"] {
        let result = turn_in(&place, folder, &[&shell], &[]);
        let clean = place.path(&format!("clean-{folder}"));
        place.git(&place.path(""), &["clone", "-q", "ws", clean.to_str().unwrap()]);
        apply(&place, &clean, "out/turn.diff");
        assert_eq!(result["digests"]["end_tree"], tree(&place, &clean).as_str(), "{folder}");
        assert!(!place.exists("out/start.diff"), "{folder}: the start was clean");
    }
}

#[test]
fn submodules_are_listed_and_sparse_checkouts_delete_nothing() {
    let place = with_scripts();
    place.write("lib/l", "l\n");
    place.git_init(&place.path("lib"));
    place.write("ws/in/a", "a\n");
    place.write("ws/out/b", "b\n");
    place.git_init(&place.path("ws"));
    place.git(&place.path("ws"), &["submodule", "--quiet", "add", "../lib", "lib"]);
    place.git(&place.path("ws"), &["commit", "-qam", "with a submodule"]);
    place.git(&place.path("ws"), &["sparse-checkout", "set", "--skip-checks", "in", "lib"]);
    assert!(!place.exists("ws/out"));
    let result = turn(&place, "echo c >> in/a; echo changed > lib/l\n");
    let listed = result["not_in_diff"].to_string();
    assert!(listed.contains("lib") && listed.contains("nested repository"), "{result}");
    let text = place.read("out/turn.diff");
    assert!(text.contains("in/a") && !text.contains("out/b") && !text.contains("lib/l"), "{text}");
    let clean = place.path("clean");
    place.git(&place.path(""), &["clone", "-q", "ws", "clean"]);
    apply(&place, &clean, "out/turn.diff");
    assert_eq!(result["digests"]["end_tree"], tree(&place, &clean).as_str());
}

#[test]
fn a_plain_folder_and_what_git_cannot_say() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.write("ws/secretive", "x\n");
    let result = turn(&place, "echo b >> a; chmod 600 secretive; mkdir empty; mkfifo pipe\n");
    let text = place.read("out/turn.diff");
    assert!(text.contains("a/a") && !text.contains("secretive"), "{text}");
    let listed = result["not_in_diff"].to_string();
    for part in ["secretive", "0600", "empty", "pipe"] {
        assert!(listed.contains(part), "{part}: {listed}");
    }
    assert!(!place.exists("out/start.diff"));
    fs::create_dir(place.path("plain")).unwrap();
    place.write("plain/a", "a\n");
    let done = Run::new(&place, &["apply", "out", "-C", "plain"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(place.read("plain/a"), "a\nb\n");
}

#[test]
fn what_changes_beside_the_calls_is_said_to_come_from_outside() {
    let place = with_scripts();
    place.write("ws/a", "a\n");
    place.git_init(&place.path("ws"));
    // The command waits for us while we write beside it.
    let wait = shell(&place, "touch ready; while [ ! -e go ]; do sleep 0.01; done; rm ready go\n");
    place.write(
        "model.yaml",
        script(&[
            &patch("*** Begin Patch\n*** Add File: p\n+p\n*** End Patch\n"),
            &wait,
            &command("true"),
        ]),
    );
    let running = Run::exec(&place, &["--model", "scripted/model.yaml", "t"]).start();
    super::support::eventually("the command runs", || place.exists("ws/ready"));
    place.write("ws/stranger", "s\n");
    place.write("ws/go", "");
    let done = running.wait(std::time::Duration::from_secs(60));
    done.assert(0, "completed", "completed");
    let result = done.result();
    let files = result["changed_files"].as_array().unwrap();
    let by = |path: &str| files.iter().find(|f| f["path"] == path).unwrap()["by"].to_string();
    assert!(by("p").contains("patch:"), "{result}");
    // While a command runs nobody can tell them apart: it is named, and that is all that is known.
    assert!(by("stranger").contains("command:") || by("stranger").contains("outside"), "{result}");
}

#[test]
fn odd_names_go_through() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let place = with_scripts();
    let names: [&[u8]; 7] = [
        b"sp ace",
        b"quo\"te",
        b"new\nline",
        b"tab\t",
        "ä-nfc \u{e9}".as_bytes(),
        "nfd e\u{301}".as_bytes(),
        b"raw \xff\xfe",
    ];
    fs::create_dir_all(place.path("ws/d")).unwrap();
    for name in names {
        fs::write(place.path("ws/d").join(OsStr::from_bytes(name)), "one\n").unwrap();
    }
    place.git_init(&place.path("ws"));
    let result = turn(&place, "for f in d/*; do echo two >> \"$f\"; cp \"$f\" \"$f-copy\"; done\n");
    assert_eq!(result["changed_files"].as_array().unwrap().len(), 14, "{result}");
    round_trip(&place, &result);
    place.git(&place.path("clean"), &["reset", "-q", "--hard"]);
    let done = Run::new(&place, &["apply", "out", "-C", "clean"]).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    place.git(&place.path("clean"), &["add", "-A"]);
    assert_eq!(result["digests"]["end_tree"], tree(&place, &place.path("clean")).as_str());
}

const SECRET: &str = "tk-9f8e7d6c5b4a39281706";

#[test]
fn a_known_secret_withholds_the_diff_only_where_it_is_added() {
    let run = |start: &str, text: &str| {
        let place = with_scripts();
        place.write("ws/conf", start);
        place.git_init(&place.path("ws"));
        place.write("model.yaml", script(&[&shell(&place, text)]));
        let done = Run::exec(&place, &["--model", "scripted/model.yaml", "t"])
            .env("DEPLOY_TOKEN", SECRET)
            .finish();
        (done.status, done.reason(), place.exists("out/turn.diff"))
    };
    let around = format!("a\nkey={SECRET}\nb\n");
    let taken_out = run(&around, "printf 'a\\nb\\n' > conf\n");
    assert_eq!(taken_out, (0, "completed".into(), true), "taking it out is good work");
    let beside = run(&around, "echo c >> conf; mv conf moved\n");
    assert_eq!(beside, (0, "completed".into(), true), "it was there before");
    let withheld = (10, "secret.in_diff".to_owned(), false);
    assert_eq!(run("a\n", &format!("echo {SECRET} >> conf\n")), withheld);
    assert_eq!(run("a\n", &format!("printf '\\0{SECRET}' > bin\n")), withheld);
    assert_eq!(run("a\n", &format!("touch {SECRET}\n")), withheld);
}
