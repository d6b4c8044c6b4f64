//! A policy file of any bytes, and any bytes judged by a policy: more rules that deny never open
//! anything, and untrusted input never widens anything.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use turnkey::policy::{CommandForm, CommandRequest, Facts, Ground, Network, Policy, PolicyFile};
use turnkey::protocol::RuleRef;

const ALLOW: &str = "version: 1
use: [inspect, git-read]
exec:
  allow:
    - cargo [build, test] ...
    - { cmd: npm ci, network: registry }
    - echo ...
    - { cmd: python -m pytest ..., without: [\"-p\"] }
    - touch ...
    - { cmd: make ..., network: registry, even_if_untrusted: true }
  ask: [git push ...]
approvals: { on_ask: approve }
files: { read: [\"**\"], write: [\"src/**\"] }
networks: { registry: { hosts: [registry.example.com] } }
";

/// None of them takes a whole rule away: that would be a fault of the policy.
const DENY: [&str; 6] = [
    "cargo test --release ...",
    "echo a ...",
    "cargo build -p ...",
    "git log --oneline ...",
    "touch src/a ...",
    "make all ...",
];

struct World;

impl Facts for World {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        if text.contains('\0') {
            return Err("a NUL".to_owned());
        }
        let mut path = if text.starts_with('/') { PathBuf::from("/") } else { cwd.to_owned() };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(path.pop()),
                name => path.push(name),
            }
        }
        Ok(path)
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
        plain.then(|| PathBuf::from(format!("/usr/bin/{name}")))
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        path.starts_with("/ws")
    }

    fn git_config(&self, _: &Path) -> Option<String> {
        Some(String::new())
    }

    fn calls_so_far(&self, _: &RuleRef) -> u64 {
        0
    }
}

fn bound(text: &str, untrusted: bool) -> Result<Policy, String> {
    let none = |name: &str| Err(format!("no file {name}"));
    let ground = Ground {
        workspace: "/ws".into(),
        home: Some("/home/me".into()),
        untrusted,
        git_dirs: vec!["/ws/.git".into()],
        ..Ground::default()
    };
    let said = |faults: Vec<_>| format!("{faults:?}");
    PolicyFile::parse("policy.yaml", text, &none).map_err(said)?.compile(&ground).map_err(said)
}

struct Policies {
    plain: Policy,
    untrusted: Policy,
    /// With one rule of [`DENY`] each.
    narrowed: Vec<Policy>,
}

static POLICIES: LazyLock<Policies> = LazyLock::new(|| {
    let sound = |text: &str, untrusted| {
        bound(text, untrusted).unwrap_or_else(|faults| panic!("a policy of this target: {faults}"))
    };
    let with = |rule: &&str| ALLOW.replace("  ask:", &format!("  deny: [\"{rule}\"]\n  ask:"));
    Policies {
        plain: sound(ALLOW, false),
        untrusted: sound(ALLOW, true),
        narrowed: DENY.iter().map(|rule| sound(&with(rule), false)).collect(),
    }
});

pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let _ = bound(&text, false);
    let form = match data.first() {
        Some(byte) if byte % 4 == 0 => {
            CommandForm::Argv(text.split(' ').map(str::to_owned).collect())
        }
        _ => CommandForm::Script(text.into_owned()),
    };
    let request = CommandRequest { form, cwd: "/ws".into() };
    let judged = |policy: &Policy| policy.judge_command(&request, &World);
    let plain = judged(&POLICIES.plain);
    assert_eq!(plain.permit.is_some(), plain.verdict.is_allow(), "a Permit exactly with an allow");
    for (policy, rule) in POLICIES.narrowed.iter().zip(DENY) {
        let denied = judged(policy).verdict.decision;
        assert!(denied >= plain.verdict.decision, "the deny rule {rule} opened something");
    }
    let untrusted = judged(&POLICIES.untrusted);
    assert!(untrusted.verdict.decision >= plain.verdict.decision, "untrusted input widened it");
    if let (Some(then), Some(now)) = (&plain.permit, &untrusted.permit) {
        let network = &now.attributes().network;
        assert!(*network == Network::None || *network == then.attributes().network);
    }
}
