//! Door and rules together: what the door saw, written as a diff, is taken by git on a clean
//! checkout and gives the very tree.

use super::repositories::settle;
use super::*;
use crate::diff::{DiffOptions, write_diff};
use crate::patch::{parse, plan as plan_patch};

fn applies(scene: &Scene, changes: TurnChanges) {
    let end = changes.end_tree.map(|oid| oid.hex());
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
    assert_eq!(Some(applied), end, "{}", String::from_utf8_lossy(&diff.bytes));
}

#[test]
fn random_turns_apply_on_a_clean_checkout() {
    for seed in 100..120_u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = move |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let scene = Scene::git();
        let name = |n: u64| format!("d {}/e{}/f{n}", n % 3, n % 5);
        for n in 0..20 {
            scene.write(&name(n), format!("{}\n", next(5)).repeat(next(9) as usize));
        }
        scene.commit_all();
        if next(4) == 0 {
            settle(&scene);
        }
        let mut workspace = scene.captured();
        for _ in 0..25 {
            let path = name(next(30));
            let exists = scene.path(&path).symlink_metadata().is_ok();
            let link = scene.path(&path).is_symlink();
            match next(7) {
                0 if exists => scene.remove(&path),
                1 if exists && !link => {
                    scene.chmod(&path, if next(2) == 0 { 0o755 } else { 0o644 })
                }
                2 if exists => {
                    scene.remove(&path);
                    scene.link("somewhere", &path);
                }
                3 | 4 if !link => {
                    let text = if exists {
                        let old = scene.bytes(&path).expect("there");
                        let old = String::from_utf8_lossy(&old).into_owned();
                        match old.lines().next() {
                            Some(line) => format!(
                                "*** Begin Patch\n*** Update File: {path}\n@@\n-{line}\n+patched {}\n*** End Patch\n",
                                next(9)
                            ),
                            None => continue,
                        }
                    } else {
                        format!(
                            "*** Begin Patch\n*** Add File: {path}\n+new {}\n*** End Patch\n",
                            next(9)
                        )
                    };
                    let patch = parse(&text).expect("parses");
                    let Ok(plan) = plan_patch(&patch, &workspace.files()) else { continue };
                    let committed =
                        workspace.commit(&permit(&workspace, &[&path]), &plan).expect("commits");
                    workspace.note_patch("p", &committed).expect("notes");
                }
                5 if exists && !link => {
                    let to = scene.path(&name(next(30)));
                    std::fs::create_dir_all(to.parent().expect("parent")).expect("folder");
                    std::fs::rename(scene.path(&path), to).expect("renames");
                }
                _ if !link => {
                    let bytes: Vec<u8> =
                        (0..next(40)).map(|_| b"ab\n\r\0\xff"[next(6) as usize]).collect();
                    scene.write(&path, bytes);
                    workspace.after_command("c").expect("looks");
                }
                _ => {}
            }
        }
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact, "seed {seed}: {:?}", changes.reasons);
        applies(&scene, changes);
    }
}
