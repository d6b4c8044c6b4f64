//! Protected names that a command makes anywhere in the tree, and what only looks like it.

use super::{MODEL, SETS, place, policy, run};
use crate::support::{command, patch, script};
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
        for name in TAKEN {
            assert!(
                place.path(&format!("ws/{name}")).symlink_metadata().is_err(),
                "{set:?}: {name}"
            );
            let line = format!("/ws/{name} was made and is gone again");
            assert!(told[0].contains(&line), "{set:?}: {name}: {}", told[0]);
        }
        assert_eq!(told[0].matches("gone again").count(), TAKEN.len(), "{set:?}: {}", told[0]);
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
        assert_eq!(told[1].matches("gone again").count(), 1, "{set:?}: {}", told[1]);
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
    let watches = "while true; do mkdir -p sub; echo evil > sub/AGENTS.md; sleep 0.05; done\n";
    let place = place(
        &policy(SETS[1], "accept: [reverted]"),
        &[("a.sh", watches), ("b.sh", "sleep 0.3\n")],
    );
    let session = "{ tool: exec_command, args: { argv: [sh, a.sh], yield_time_ms: 50 } }";
    place.write("model.yaml", script(&[session, &command("sh b.sh"), &command("sh b.sh")]));
    let done = run(&place, &MODEL).finish();
    let told = done.outputs().join("\n");
    assert!(told.contains("sessions were ended: 1"), "{told}");
    assert!(told.contains("sub/AGENTS.md was made and is gone again"), "{told}");
    assert!(!place.exists("ws/sub/AGENTS.md"), "{told}");
}
