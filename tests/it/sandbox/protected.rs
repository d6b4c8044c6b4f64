//! Protected names that a command makes anywhere in the tree, and what only looks like it.

use super::{MODEL, SETS, place, policy, run};
use crate::support::{Sandboxed, command, patch, script};
use std::fs;

/// What must not stay, and is told.
const ATTACKS: &str = r#"
mkdir -p sub/deep sub/.claude sub/other
echo evil > sub/deep/AGENTS.md
echo evil > sub/.claude/settings.json
echo evil > sub/other/CLAUDE.local.md; mv sub/other/CLAUDE.local.md sub/other/CLAUDE.md
git init -q sub/repository
mkdir sub/.GIT && echo evil > sub/.GIT/config
ln -s deep sub/.codex
echo evil > sub/.mcp.json
cp -r docs copied
mkdir -p 'odd
name' && echo evil > 'odd
name/GEMINI.md'
echo evil > sub/mine.key
echo work > sub/work
"#;

const TAKEN: &[&str] = &[
    "sub/deep/AGENTS.md",
    "sub/.claude",
    "sub/other/CLAUDE.md",
    "sub/repository/.git",
    "sub/.GIT",
    "sub/.codex",
    "sub/.mcp.json",
    "copied/AGENTS.md",
    "odd\nname/GEMINI.md",
    "sub/mine.key",
];

/// What tests and tools do all day.
const LEGITIMATE: &str = r#"
mkdir -p target/tmp node_modules/x/.claude sub/.vscode sub/.github made named/.claude
git init -q target/tmp/repository
echo x > node_modules/x/.claude/settings.json; echo x > node_modules/x/AGENTS.md
echo x > sub/.vscode/settings.json; echo x > sub/.github/x; echo x > sub/agents.md
git init -q "$TMPDIR/repository" && echo x > "$TMPDIR/repository/AGENTS.md" && echo temp works
git init -q made/repository && rm -rf made/repository
echo x > named/AGENTS.md; echo x > named/.claude/settings.json; echo x > named/.claude/other.json
"#;

const STAYS: &[&str] = &[
    "target/tmp/repository/.git/config",
    "node_modules/x/.claude/settings.json",
    "node_modules/x/AGENTS.md",
    "sub/.vscode/settings.json",
    "sub/.github/x",
    "sub/agents.md",
    "named/AGENTS.md",
    "named/.claude/settings.json",
];

#[test]
fn d86_protected_names_that_a_command_makes_anywhere_are_taken_away_and_told() {
    for set in SETS {
        let text = policy(set, "accept: [reverted]").replace(
            "write: [\"**\"]",
            "write: [\"**\", \"named/AGENTS.md\", \"named/.claude/settings.json\"]\n  protect: [\"**/*.key\"]",
        );
        let place = place(&text, &[("a.sh", ATTACKS), ("b.sh", LEGITIMATE)]);
        let add = "*** Begin Patch\n*** Add File: sub/new/AGENTS.md\n+evil\n*** End Patch";
        let begin = "{ tool: exec_command, args: { argv: [sh, a.sh] } }";
        place.write("model.yaml", script(&[begin, &command("sh b.sh"), &patch(add)]));
        place.write("ws/.gitignore", "target/\nnode_modules/\nCLAUDE.md\n");
        place.write("ws/docs/AGENTS.md", "good\n");
        place.write("ws/docs/page", "page\n");
        place.git_init(&place.path("ws"));
        let done = run(&place, &MODEL).finish();
        let told = done.outputs();
        let undone: Vec<String> = done
            .world_states()
            .iter()
            .filter_map(|(_, sections)| {
                Some(sections["undone"].as_array()?[0].as_str()?.to_owned())
            })
            .collect();
        for name in TAKEN {
            assert!(
                place.path(&format!("ws/{name}")).symlink_metadata().is_err(),
                "{set:?}: {name}"
            );
            let line = format!("/ws/{} was made and is gone again", name.replace('\n', "\\n"));
            assert!(undone[0].contains(&line), "{set:?}: {name}: {}", undone[0]);
        }
        assert_eq!(undone[0].matches("gone again").count(), TAKEN.len(), "{set:?}: {}", undone[0]);
        for (name, text) in
            [("sub/work", "work\n"), ("docs/AGENTS.md", "good\n"), ("copied/page", "page\n")]
        {
            assert_eq!(place.read(&format!("ws/{name}")), text, "{set:?}: {name}");
        }
        assert!(told[1].contains("temp works"), "{set:?}: {}", told[1]);
        for name in STAYS {
            assert!(place.exists(&format!("ws/{name}")), "{set:?}: {name}: {}", told[1]);
        }
        // Beside a file that the policy names, nothing comes along.
        assert_eq!(undone[1].matches("gone again").count(), 1, "{set:?}: {}", undone[1]);
        assert_eq!(undone.len(), 2, "{set:?}");
        assert!(!place.exists("ws/named/.claude/other.json"), "{set:?}");
        assert!(told[2].contains("protected"), "{set:?}: {}", told[2]);
        let diff = place.read("out/turn.diff");
        assert!(!diff.contains("evil") && diff.contains("+work"), "{set:?}: {diff}");
        assert!(diff.contains("named/AGENTS.md"), "{set:?}: {diff}");
        assert!(fs::read_dir(place.path("ws/sub/repository")).unwrap().next().is_none());
    }
}

#[test]
fn d86_a_session_that_still_runs_is_ended_before_a_new_protected_name_is_taken_away() {
    // Until the name is there, or for long enough where it is gone again already.
    const LOOKS: &str =
        "for i in $(seq 100); do [ -e sub/AGENTS.md ] && break; sleep 0.02; done; sleep 0.1\n";
    let watches = "while true; do mkdir -p sub; echo evil > sub/AGENTS.md; sleep 0.05; done\n";
    let place =
        place(&policy(SETS[1], "accept: [reverted]"), &[("a.sh", watches), ("b.sh", LOOKS)]);
    let session = "{ tool: exec_command, args: { argv: [sh, a.sh], yield_time_ms: 50 } }";
    place.write("model.yaml", script(&[session, &command("sh b.sh"), &command("sh b.sh")]));
    let done = run(&place, &MODEL).finish();
    let told = done.outputs().join("\n");
    assert!(told.contains("sessions were ended: 1"), "{told}");
    assert!(told.contains("sub/AGENTS.md was made and is gone again"), "{told}");
    assert!(!place.exists("ws/sub/AGENTS.md"), "{told}");
}

/// A command that makes a file and a protected name, a look for that name, and the end.
fn looked_at(files: usize) -> (Sandboxed, Vec<(u64, serde_json::Value)>) {
    let place = place(
        &policy("", "accept: [reverted]"),
        &[("a.sh", "mkdir sub; echo evil > sub/AGENTS.md; echo x > made\n")],
    );
    for file in 0..files {
        if file % 100 == 0 {
            fs::create_dir_all(place.path(&format!("ws/many/{}", file / 100))).unwrap();
        }
        fs::write(place.path(&format!("ws/many/{}/{file}", file / 100)), "").unwrap();
    }
    let read = "{ tool: read_file, args: { path: sub/AGENTS.md } }";
    place.write("model.yaml", script(&[&command("sh a.sh"), read, read]));
    let done = run(&place, &MODEL).finish();
    assert_eq!(done.status, 0, "{}", done.stderr);
    let outputs = done.outputs();
    assert!(!outputs[1].contains("evil") && !outputs[2].contains("evil"), "{outputs:?}");
    assert_eq!(done.kinds()[1..], ["failed", "failed"], "{outputs:?}");
    let warned = done.stderr.matches("sub/AGENTS.md was made and is gone again").count();
    assert_eq!(warned, 1, "{}", done.stderr);
    let result = done.result();
    let files = result["changed_files"].as_array().unwrap();
    let by: Vec<String> =
        files.iter().map(|file| format!("{}{}", file["path"], file["by"])).collect();
    assert_eq!(by, [r#""made"["command:call_1_1"]"#], "{result}");
    let states = done.world_states();
    (place, states)
}

#[test]
fn what_a_command_changed_is_told_with_the_next_request() {
    let (_place, states) = looked_at(0);
    let steps: Vec<u64> = states.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 2], "{states:?}");
    assert_eq!(states[1].1["changed"]["made"], "added");
    assert!(states[1].1["undone"][0].as_str().unwrap().contains("sub/AGENTS.md was made"));
}

#[test]
fn in_a_large_tree_no_request_waits_for_the_walk_and_what_it_found_is_told_with_the_one_after() {
    let (_place, states) = looked_at(10_000);
    let steps: Vec<u64> = states.iter().map(|(step, _)| *step).collect();
    assert_eq!(steps, [1, 3], "{states:?}");
    assert_eq!(states[1].1["changed"]["made"], "added");
    assert!(states[1].1["undone"][0].as_str().unwrap().contains("sub/AGENTS.md was made"));
}
