//! Door and rules together: what the door saw, written as a diff, is taken by git on a clean
//! checkout and gives the very tree.
//!
//! One repository holds many cases, each in a folder of its own with edits by patch, by shell, or by
//! both: one `git apply` then judges all of them, which is what makes thousands of cases cheap.
//! `TURNKEY_CASES` and `TURNKEY_SEED` set how many there are and where they begin.

use super::repositories::settle;
use super::*;
use crate::diff::{DiffOptions, apply, write_diff};
use crate::patch::{parse, plan as plan_patch};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

const CASES: u64 = 2_000;
/// More make each walk longer, fewer cost more runs of git.
const IN_ONE: u64 = 20;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn applies(scene: &Scene, changes: TurnChanges, about: &str) {
    let end = changes.end_tree.map(|oid| oid.hex());
    let ours = changes.files.clone();
    let diff = write_diff(changes.files, &DiffOptions::default());
    let copy = scene.beside("applied");
    let _ = std::fs::remove_dir_all(&copy);
    git_in(&scene.root, &["clone", "-q", "-s", ".", copy.to_str().expect("utf-8")]);
    std::fs::write(scene.beside("turn.diff"), &diff.bytes).expect("writes");
    if !diff.bytes.is_empty() {
        let words = ["apply", "--index", "--whitespace=nowarn", "../turn.diff"];
        git_in(&copy, &words);
    }
    let applied = git_in(&copy, &["write-tree"]);
    assert_eq!(Some(applied), end, "{about}: {}", String::from_utf8_lossy(&diff.bytes));
    // The work tree itself, as git sees it, is that tree too.
    git_in(&scene.root, &["add", "-A"]);
    assert_eq!(Some(git_in(&scene.root, &["write-tree"])), end, "{about}");
    // And our own applier says the same.
    let before: BTreeMap<Vec<u8>, _> =
        ours.iter().map(|change| (change.path.clone(), change.before.clone())).collect();
    let start = |path: &[u8]| before.get(path).cloned().flatten();
    assert_eq!(apply(&diff.bytes, &start).expect("applies"), ours, "{about}");
}

fn name(case: u64, n: u64) -> String {
    format!("case{case}/d {}/e{}/f{n}", n % 2, n % 3)
}

/// Edits of one case. `how`: 0 by patch, 1 by shell, 2 by both.
fn edits(scene: &Scene, workspace: &mut Workspace, case: u64, how: u64, random: &mut Random) {
    for _ in 0..4 + random.below(10) {
        let by_patch = how == 0 || (how == 2 && random.below(2) == 0);
        if by_patch {
            let text = random_patch(scene, case, random);
            patch(workspace, &text, scene, case);
        } else {
            by_shell(scene, case, random);
            if how == 2 && random.below(4) == 0 {
                workspace.after_command(&CallRef::command("c")).expect("looks");
            }
        }
    }
    workspace.after_command(&CallRef::command("c")).expect("looks");
}

/// One to three operations, some of which may not fit what is there.
fn random_patch(scene: &Scene, case: u64, random: &mut Random) -> String {
    let mut text = String::from("*** Begin Patch\n");
    for _ in 0..1 + random.below(3) {
        let path = name(case, random.below(30));
        let old = scene.bytes(&path).unwrap_or_default();
        let line = String::from_utf8_lossy(&old).lines().next().map(str::to_owned);
        match (random.below(5), line) {
            (0, _) => text.push_str(&format!("*** Delete File: {path}\n")),
            (1, Some(line)) => text.push_str(&format!(
                "*** Update File: {path}\n*** Move to: {}\n@@\n-{line}\n+moved\n",
                name(case, random.below(30))
            )),
            (2 | 3, Some(line)) => text.push_str(&format!(
                "*** Update File: {path}\n@@\n-{line}\n+patched {}\n",
                random.below(9)
            )),
            _ => text.push_str(&format!("*** Add File: {path}\n+new {}\n", random.below(9))),
        }
    }
    text.push_str("*** End Patch\n");
    text
}

/// A patch that does not fit leaves every file of the case as it was.
fn patch(workspace: &mut Workspace, text: &str, scene: &Scene, case: u64) {
    let look = || -> Vec<_> {
        let names = (0..30).map(|n| scene.path(&name(case, n)));
        names
            .map(|path| (path.symlink_metadata().ok().map(|m| m.mode()), std::fs::read(&path).ok()))
            .collect()
    };
    let before = look();
    let parsed = parse(text).expect("parses");
    let Ok(plan) = plan_patch(&parsed, &workspace.files()) else {
        assert!(look() == before, "planning wrote something: {text}");
        return;
    };
    let paths: Vec<&str> = plan.changes.iter().map(|change| change.path.as_str()).collect();
    match workspace.commit(&permit(workspace, &paths), &plan) {
        Ok(committed) => workspace.note_patch("p", &committed).expect("notes"),
        Err(error) => {
            assert!(error.nothing_changed(), "{error}: {text}");
            assert!(look() == before, "half a patch: {error}: {text}");
        }
    }
}

fn by_shell(scene: &Scene, case: u64, random: &mut Random) {
    let path = name(case, random.below(30));
    let meta = scene.path(&path).symlink_metadata().ok();
    let (exists, link) = (meta.is_some(), meta.is_some_and(|meta| meta.is_symlink()));
    match random.below(7) {
        0 if exists => scene.remove(&path),
        1 if exists && !link => {
            scene.chmod(&path, if random.below(2) == 0 { 0o755 } else { 0o644 });
        }
        2 if exists => {
            scene.remove(&path);
            scene.link("somewhere", &path);
        }
        3 if exists && !link => {
            let to = scene.path(&name(case, random.below(30)));
            std::fs::create_dir_all(to.parent().expect("parent")).expect("folder");
            std::fs::rename(scene.path(&path), to).expect("renames");
        }
        _ if !link => {
            let length = random.below(40);
            let bytes: Vec<u8> =
                (0..length).map(|_| b"ab\n\r\0\xff"[random.below(6) as usize]).collect();
            scene.write(&path, bytes);
        }
        _ => {}
    }
}

#[test]
fn random_turns_apply_on_a_clean_checkout() {
    let seed = number("TURNKEY_SEED", 20_261_130);
    let cases = number("TURNKEY_CASES", CASES);
    println!("{cases} cases, seed {seed}");
    for round in 0..cases.div_ceil(IN_ONE) {
        let about = format!("seed {seed}, round {round}");
        let mut random = Random::new(seed.wrapping_add(round));
        let scene = Scene::in_memory();
        for case in 0..IN_ONE {
            for n in 0..12 + random.below(8) {
                let line = format!("{}\n", random.below(5));
                scene.write(&name(case, n), line.repeat(random.below(9) as usize));
            }
        }
        scene.commit_all();
        if random.below(4) == 0 {
            settle(&scene);
        }
        let mut workspace = scene.captured();
        for case in 0..IN_ONE {
            let how = random.below(3);
            edits(&scene, &mut workspace, case, how, &mut random);
        }
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact, "{about}: {:?}", changes.reasons);
        applies(&scene, changes, &about);
    }
}
