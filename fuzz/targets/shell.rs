//! Shell text: the parts of a script and its verdict agree, and a patch in it is taken only whole.

use std::path::{Path, PathBuf};
use turnkey::patch;
use turnkey::policy::{self, CommandForm, CommandRequest, Facts, Ground, Policy, PolicyFile};
use turnkey::protocol::Decision;

struct World;

impl Facts for World {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        if text.contains('\0') { Err("a NUL".to_owned()) } else { Ok(cwd.join(text)) }
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        (!name.contains('/')).then(|| PathBuf::from(format!("/usr/bin/{name}")))
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        path.starts_with("/ws")
    }
}

/// Allows every command that it can tell the words of.
fn open() -> Option<Policy> {
    let text = "version: 1\nexec: { default: allow }\nfiles: { read: [\"**\"], write: [\"**\"] }\n";
    let none = |name: &str| Err(format!("no file {name}"));
    let ground = Ground { workspace: "/ws".into(), ..Ground::default() };
    PolicyFile::parse("policy.yaml", text, &none).ok()?.compile(&ground).ok()
}

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let policy = open().expect("the policy of this target is sound");
    let request = CommandRequest { form: CommandForm::Script(text.clone()), cwd: "/ws".into() };
    let verdict = policy.judge_command(&request, &World).verdict;
    let strictest = verdict.parts.iter().map(|part| part.decision).max();
    if verdict.decision == Decision::Allow {
        assert!(strictest.is_none_or(|part| part == Decision::Allow), "a part was lost");
        assert!(!text.contains('\0') && !text.contains('\r'), "what bash would not run as read");
    }
    let explained = policy::explain(&policy, &request, &World);
    assert_eq!(explained.decision, verdict.decision, "explain says what a run does");
    if let Some(Ok(found)) = patch::from_shell(&text) {
        // Whatever was taken as a patch stands in the script, up to its quoting.
        assert!(found.text.len() <= text.len());
        let _ = found.inside(Some("some/folder")).parse();
    }
}
