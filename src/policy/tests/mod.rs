//! Tests of the room as a whole, on facts that are made up.

mod faults;
mod field;
mod oracle;
mod presets;
mod property;
mod scripts;

use super::{CommandRequest, Facts, Ground, Policy, PolicyFile};
use crate::protocol::{RuleRef, Verdict};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A world of a few programs and links.
#[derive(Default)]
pub struct Fake {
    pub programs: BTreeMap<String, PathBuf>,
    pub links: BTreeMap<PathBuf, PathBuf>,
    pub git_config: String,
    pub unchanged: bool,
    pub calls: u64,
}

/// Programs that every made-up machine has.
const PROGRAMS: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "grep", "rg", "find", "sed", "awk", "sort", "git", "cargo",
    "touch", "env", "timeout", "xargs", "echo", "printf", "true", "false", "test", "[", "pwd",
    "python", "python3", "node", "npm", "npx", "make", "go", "bash", "sh", "tee", "cp", "mv", "rm",
    "mkdir", "curl", "diff", "file", "stat", "uniq", "cut", "tr", "tar", "nice", "nohup", "stdbuf",
    "time", "sudo", "perl", "jq", "date", "basename", "dirname", "sleep", "kill", "tree", "du",
    "df",
];

impl Fake {
    pub fn new() -> Self {
        let mut fake = Self {
            git_config: "[filter \"lfs\"]\n\tclean = git-lfs clean\n".into(),
            ..Self::default()
        };
        for name in PROGRAMS {
            fake.programs.insert((*name).into(), PathBuf::from(format!("/usr/bin/{name}")));
        }
        fake
    }
}

impl Facts for Fake {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        let mut path = if text.starts_with('/') { PathBuf::from("/") } else { cwd.to_path_buf() };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    path.pop();
                }
                name => path.push(name),
            }
            if let Some(target) = self.links.get(&path) {
                path.clone_from(target);
            }
        }
        Ok(path)
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        self.programs.get(name).cloned()
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        path.starts_with("/ws")
    }

    fn git_config(&self, _cwd: &Path) -> Option<String> {
        Some(self.git_config.clone())
    }

    fn is_unchanged(&self, _path: &Path) -> bool {
        self.unchanged
    }

    fn calls_so_far(&self, _rule: &RuleRef) -> u64 {
        self.calls
    }
}

pub fn policy(text: &str) -> Policy {
    let none = |name: &str| Err(format!("no file {name}"));
    let file = match PolicyFile::parse("policy.yaml", text, &none) {
        Ok(file) => file,
        Err(faults) => {
            panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        }
    };
    file.compile(&ground()).unwrap()
}

pub fn ground() -> Ground {
    Ground {
        workspace: "/ws".into(),
        home: Some("/home/me".into()),
        protected: vec!["/ws/policy.yaml".into()],
        untrusted: false,
        git_dirs: vec!["/ws/.git".into()],
    }
}

pub fn judge(policy: &Policy, script: &str) -> Verdict {
    policy.judge_command(&CommandRequest::script(script, "/ws"), &Fake::new()).verdict
}

/// Rules for allowed commands around the given ones.
pub fn allowing(rules: &[&str]) -> Policy {
    let mut text = String::from(
        "version: 1\nfiles: { read: [\"**\"], write: [\"src/**\"] }\nexec:\n  allow:\n",
    );
    for rule in rules {
        text.push_str(&format!("    - {rule:?}\n"));
    }
    policy(&text)
}
