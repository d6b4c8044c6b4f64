//! Scripts and what becomes of them.

use super::*;
use crate::policy::Command;

#[track_caller]
fn allowed(policy: &Policy, script: &str) {
    let verdict = judge(policy, script);
    assert!(verdict.is_allow(), "{script}: {verdict:#?}");
}

#[track_caller]
fn denied(policy: &Policy, script: &str, part: &str) {
    let verdict = judge(policy, script);
    assert!(!verdict.is_allow(), "{script} was allowed");
    assert!(verdict.reason.contains(part), "{script}: {:?} does not name {part:?}", verdict.reason);
}

#[test]
fn d55_every_command_of_a_chain_is_judged() {
    let policy = allowing(&["echo ..."]);
    for operator in ["&&", "||", ";", "|", "|&", "&", "\n"] {
        for script in
            [format!("echo ok {operator} touch CANARY"), format!("echo ok{operator}touch CANARY")]
        {
            denied(&policy, &script, "touch CANARY");
        }
    }
    allowed(&policy, "echo a; echo b && echo c | echo d & echo e");
}

#[test]
fn one_plain_command_runs_without_a_shell() {
    let policy = allowing(&["cargo ..."]);
    let request = CommandRequest::script("cargo test 'a b'", "/ws");
    let permit = policy.judge_command(&request, &Fake::new()).permit.unwrap();
    assert_eq!(
        *permit.command(),
        Command::Argv {
            program: "/usr/bin/cargo".into(),
            argv: vec!["cargo".into(), "test".into(), "a b".into()]
        }
    );
    let request = CommandRequest::script("cargo test | cargo build", "/ws");
    let permit = policy.judge_command(&request, &Fake::new()).permit.unwrap();
    assert!(matches!(permit.command(), Command::Script(_)));
}

#[test]
fn d03_the_denial_names_the_part_without_a_rule() {
    let policy = allowing(&["npx ..."]);
    denied(&policy, "npx tsc | head -40", "head -40");
}

#[test]
fn the_state_is_followed() {
    let policy = allowing(&["cat ...", "cargo test ...", "echo ...", "true", "\"[\" ..."]);
    allowed(&policy, "for f in a b; do cat \"$f\"; done");
    allowed(&policy, "cd src && cargo test 2>&1 | cat");
    allowed(&policy, "x=1; echo \"$x\"; echo \"exit: $?\"");
    allowed(&policy, "if [ -f src/a ]; then cat src/a; else echo none; fi");
    allowed(&policy, "cat <<'EOF' > src/x\n$(touch CANARY)\nEOF\n");
    allowed(&policy, "cargo test || exit 1\necho done");
    denied(&policy, "cd /etc && cargo test", "cargo test");
    denied(&policy, "cat <<EOF\n$(touch CANARY)\nEOF\n", "touch CANARY");
    denied(&policy, "echo x > ../out", "write ../out");
    denied(&policy, "for f in touch; do \"$f\" CANARY; done", "touch CANARY");
    denied(&policy, "cd \"$X\" && cargo test", "cd");
}

#[test]
fn built_in_is_sound() {
    let policy = PolicyFile::built_in();
    assert_eq!(policy.model().sources, ["built-in", "preset:inspect"]);
    let policy = policy.compile(&ground()).unwrap();
    allowed(&policy, "ls -la src | head -5");
    denied(&policy, "touch CANARY", "touch");
    assert!(policy.describe().len() < 6000);
    assert!(policy.offers_commands() && policy.offers_writes());
}

#[test]
fn the_workspace_is_readable_unless_something_else_is_said() {
    let silent = policy("version: 1\nexec: { allow: ['cat ...'] }\n");
    allowed(&silent, "cat src/a");
    denied(&silent, "cat /etc/passwd", "outside");
    let narrow = policy("version: 1\nexec: { allow: ['cat ...'] }\nfiles: { read: ['src/**'] }\n");
    allowed(&narrow, "cat src/a");
    denied(&narrow, "cat docs/a", "outside");
    let nothing = policy("version: 1\nexec: { allow: ['cat ...'] }\nfiles: { read: [] }\n");
    denied(&nothing, "cat src/a", "outside");
}

#[test]
fn protected_paths_stay() {
    let policy =
        policy("version: 1\nfiles: { read: ['**'], write: ['**'], protect: ['.github/**'] }\n");
    for path in [
        "/ws/.git/config",
        "/ws/sub/.git/hooks/x",
        "/ws/.github/workflows/a.yml",
        "/ws/policy.yaml",
        "/ws/AGENTS.md",
        "/ws/.git",
        "/etc/passwd",
    ] {
        assert!(policy.judge_write(&[path.into()]).permit.is_none(), "{path}");
    }
    assert!(policy.judge_write(&["/ws/src/a.rs".into(), "/ws/b".into()]).permit.is_some());
    assert!(policy.judge_write(&["/ws/src/../../x".into()]).permit.is_none());
    assert!(policy.judge_read(Path::new("/ws/src")).permit.is_some());
    assert!(policy.judge_read(Path::new("/ws")).permit.is_some());
    assert!(policy.judge_read(Path::new("/home/me/.ssh/id")).permit.is_none());
}

#[test]
fn names_that_are_protected_anywhere_are_told_from_others() {
    let policy = policy(
        "version: 1\nfiles: { read: ['**'], write: ['**', 'a/AGENTS.md', 'b/.claude/x'], protect: ['**/*.key', '**/locked/**', 'docs/only.md'] }\n",
    );
    let files = policy.files();
    for name in [".git", ".GIT", "AGENTS.md", ".claude", ".mcp.json", "x.key", "locked"] {
        assert!(files.is_protected_name(name), "{name}");
    }
    for name in ["agents.md", ".gitignore", ".github", "only.md", "docs", "key"] {
        assert!(!files.is_protected_name(name), "{name}");
    }
    for path in ["/ws/sub/AGENTS.md", "/ws/sub/.claude", "/ws/sub/x.key", "/ws/x/locked/y"] {
        assert!(files.is_protected(Path::new(path)).is_some(), "{path}");
    }
    assert!(files.is_protected(Path::new("/ws/a/AGENTS.md")).is_none(), "named by a write rule");
    assert!(files.named_below(Path::new("/ws/b/.claude")));
    assert!(!files.named_below(Path::new("/ws/c/.claude")));
}

/// A denial names a form that would run, if the same words less an option are one.
#[test]
fn a_denial_names_the_nearest_form_that_would_run() {
    let policy = policy("version: 1\nuse: [inspect, git-read]\nfiles: { read: [\"**\"] }\n");
    for (script, form) in [
        ("git -c core.pager=x log", "git log"),
        ("git diff --ext-diff HEAD", "git diff HEAD"),
        ("sort -o out src/a", "sort src/a"),
        ("cd src && rg --pre=x needle .", "rg needle ."),
        ("find . -name a -delete", "find . -name a"),
    ] {
        denied(&policy, script, &format!("; `{form}` would be allowed"));
        allowed(&policy, form);
    }
    for script in ["git push --force", "touch -r a b", "echo a > b; git -c a=b log", "git $X log"] {
        let verdict = judge(&policy, script);
        assert!(!verdict.is_allow() && !verdict.reason.contains("would be allowed"), "{verdict:?}");
    }
}

#[test]
fn each_command_of_a_verdict_has_its_words() {
    let policy = allowing(&["echo ..."]);
    let words = |script: &str| -> Vec<Vec<String>> {
        judge(&policy, script).parts.into_iter().map(|part| part.argv).collect()
    };
    let list = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [list(&["echo", "a b"]), vec![], list(&["touch", "$X"])];
    assert_eq!(words("echo 'a b'; touch $X > out/x"), expected);
    assert_eq!(words("timeout 5 touch a"), [list(&["timeout", "5", "touch", "a"])]);
    assert_eq!(words("bash -c 'touch a'"), [list(&["touch", "a"])]);
    let long = words(&format!("touch {}", "x".repeat(5_000)));
    assert!(long[0][1].ends_with('…') && long[0][1].chars().count() < 2_001, "{long:?}");
}
