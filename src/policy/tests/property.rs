//! Properties: whatever comes in, the judge answers soon; stricter rules never open anything.

use super::*;
use crate::policy::source::PRESETS;
use proptest::prelude::*;

/// Words that rules, hazards and the shell have an opinion on.
const WORDS: &[&str] = &[
    "git",
    "cargo",
    "find",
    "sed",
    "sort",
    "awk",
    "env",
    "xargs",
    "bash",
    "sh",
    "timeout",
    "rg",
    "cat",
    "echo",
    "cd",
    "ls",
    "rm",
    "tee",
    "python",
    "make",
    "touch",
    "status",
    "diff",
    "test",
    "-c",
    "-n",
    "-o",
    "-exec",
    "-i",
    "--",
    "-p",
    "--output=x",
    "--help",
    "'10,20p'",
    "w x",
    "src",
    "/etc/passwd",
    "../x",
    ".env",
    "*.rs",
    "$x",
    "\"$x\"",
    "$(ls)",
    "`ls`",
    "x=1",
    "PATH=x",
    "{a,b}",
    ";",
    "&&",
    "||",
    "|",
    "&",
    "\n",
    ">",
    "<",
    ">>",
    "2>&1",
    "<<E\nx\nE\n",
    "(",
    ")",
    "{",
    "}",
    "if",
    "then",
    "fi",
    "for",
    "in",
    "do",
    "done",
    "while",
    "case",
    "esac",
    "[[",
    "]]",
    "!",
    "#",
    "'",
    "\"",
    "\\",
    "$",
    "..",
    "~",
    "read",
    "export",
    "unset",
    "break",
    "-C",
    "config",
    "commit",
    "-m",
    "{}",
    "\\;",
    "+",
    "[",
    "]",
    "$((1+1))",
    "${x%y}",
    "${x:-y}",
    "$?",
    "1",
    "true",
];

fn scripts() -> impl Strategy<Value = String> {
    let words = prop::collection::vec(prop::sample::select(WORDS), 1..16);
    prop_oneof![
        words.clone().prop_map(|words| words.join(" ")),
        words.prop_map(|words| words.concat()),
        any::<String>(),
        prop::collection::vec(any::<u8>(), 0..200)
            .prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    ]
}

fn rules() -> impl Strategy<Value = String> {
    let words = prop::sample::select(
        &[
            "git",
            "cargo",
            "find",
            "sed",
            "*",
            "...",
            "[git, ls]",
            "-c",
            "status",
            "echo",
            "cat",
            "c*",
            "x",
            "rm",
            "touch",
            "env",
            "-n",
            "src",
            "ls",
        ][..],
    );
    prop::collection::vec(words, 1..4).prop_map(|words| words.join(" "))
}

fn wide() -> String {
    let names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    format!(
        "version: 1\nuse: [{}]\nexec:\n  allow: ['env ...', 'xargs ...', 'bash ...', 'touch ...', {{ cmd: 'curl *', network: open }}]\n  ask: ['rm -r ...', 'git push ...']\nfiles: {{ read: ['**'], write: ['src/**'], deny_read: ['**/.env'] }}\napprovals: {{ on_ask: approve }}\n",
        names.join(", ")
    )
}

/// The wide policy, trusted and not, compiled once.
fn wides() -> &'static [Policy; 2] {
    static WIDES: std::sync::OnceLock<[Policy; 2]> = std::sync::OnceLock::new();
    WIDES.get_or_init(|| {
        [false, true].map(|untrusted| {
            compile(&wide(), &Ground { untrusted, ..ground() }).expect("the wide policy compiles")
        })
    })
}

fn compile(text: &str, ground: &Ground) -> Option<Policy> {
    let none = |_: &str| Err(String::new());
    PolicyFile::parse("p", text, &none).ok()?.compile(ground).ok()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_judged_soon(script in scripts(), cwd in prop::sample::select(&["/ws", "/ws/src", "/", "/etc"][..])) {
        let policy = &wides()[0];
        let started = crate::clock::now();
        let judged = policy.judge_command(&CommandRequest::script(script.clone(), cwd), &Fake::new());
        prop_assert!(started.elapsed() < std::time::Duration::from_secs(2));
        prop_assert_eq!(judged.permit.is_some(), judged.verdict.is_allow());
        prop_assert!(!judged.verdict.reason.is_empty());
        if judged.verdict.is_allow() {
            prop_assert!(judged.verdict.parts.iter().all(|part| part.decision != crate::protocol::Decision::Deny));
        }
        let words = script.split_whitespace().map(str::to_owned).collect();
        let judged = policy.judge_command(&CommandRequest::argv(words, cwd), &Fake::new());
        prop_assert_eq!(judged.permit.is_some(), judged.verdict.is_allow());
    }

    #[test]
    fn a_deny_more_never_opens(script in scripts(), rule in rules(), open in any::<bool>()) {
        let base = if open {
            "version: 1\nexec:\n  default: allow\n  ask: ['make ...']\nfiles: { read: ['**'], write: ['**'] }\napprovals: { on_ask: approve }\n".to_owned()
        } else {
            wide()
        };
        let with = if open {
            base.replace("  ask: ['make ...']", &format!("  ask: ['make ...']\n  deny: [{rule:?}]"))
        } else {
            base.replace("exec:\n", &format!("exec:\n  deny: [{rule:?}]\n"))
        };
        let (Some(without), Some(with)) = (compile(&base, &ground()), compile(&with, &ground())) else {
            // The rule contradicts another: a fault, and nothing runs at all.
            return Ok(());
        };
        let before = judge(&without, &script);
        let after = judge(&with, &script);
        prop_assert!(after.decision >= before.decision, "{} {} {:?} {:?}", script, rule, before, after);
    }

    #[test]
    fn untrusted_is_never_wider(script in scripts()) {
        let [trusted, untrusted] = wides();
        let a = judge(trusted, &script);
        let b = judge(untrusted, &script);
        prop_assert!(b.decision >= a.decision, "{} {:?} {:?}", script, a, b);
    }

    #[test]
    fn any_policy_text_is_read_or_refused(text in scripts(), rule in scripts()) {
        let none = |_: &str| Err(String::new());
        let _ = PolicyFile::parse("p", &text, &none);
        let rules = format!("version: 1\nexec: {{ allow: [{rule:?}] }}\nfiles: {{ read: [{rule:?}], write: [{text:?}] }}\n");
        if let Ok(file) = PolicyFile::parse("p", &rules, &none)
            && let Ok(policy) = file.compile(&ground())
        {
            let _ = judge(&policy, &text);
            let _ = policy.describe();
        }
    }

    #[test]
    fn any_path_is_judged(path in any::<String>()) {
        let policy = &wides()[0];
        let path = Path::new("/ws").join(path);
        let read = policy.judge_read(&path);
        prop_assert_eq!(read.permit.is_some(), read.verdict.is_allow());
        let write = policy.judge_write(std::slice::from_ref(&path));
        if write.permit.is_some() {
            prop_assert!(path.starts_with("/ws/src") && !path.to_string_lossy().contains(".."));
        }
    }
}
