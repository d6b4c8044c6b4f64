//! From the policy's clauses to the folders and files that the kernel is told of.

use super::{Confinement, Grade, Held};
use crate::exec::order::Finding;
use std::path::{Path, PathBuf};

/// System paths that programs need; always readable and executable, and listed by `doctor`.
/// Not `/home`, `/root`, `/var/run` or `/run`: that is where keys and sockets live.
pub const SYSTEM_READ: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/snap",
    "/proc",
    "/sys",
    "/dev",
    "/var/lib",
    "/run/systemd/resolve",
];

/// Devices that may be written as well.
const SYSTEM_WRITE: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What a plan is made from. All paths are resolved and absolute.
#[derive(Debug, Clone, Default)]
pub struct PlanInput {
    /// Folders and single files that `files.write` grants.
    pub write: Vec<PathBuf>,
    /// Folders and single files that `files.read` grants.
    pub read: Vec<PathBuf>,
    /// The run's own scratch: HOME, TMPDIR and caches of the commands.
    pub scratch: PathBuf,
    /// Folders of the clean PATH, and what the programs in them need.
    pub programs: Vec<PathBuf>,
    /// `deny_read` patterns of the operator's policy that reach into a readable folder.
    pub deny_read_inside: Vec<String>,
    /// The same of presets and the built-in policy, which are defaults of ours.
    pub default_deny_read_inside: Vec<String>,
    /// `write` patterns that no folder or existing file expresses exactly.
    pub narrowed: Vec<String>,
    /// Protected places that lie inside a writable folder.
    pub protected_inside: Vec<PathBuf>,
}

/// The confinement of a run's commands.
#[derive(Debug, Clone)]
pub struct Plan {
    input: PlanInput,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
}

impl Plan {
    pub fn new(input: PlanInput) -> Self {
        let mut read: Vec<PathBuf> = SYSTEM_READ.iter().map(PathBuf::from).collect();
        read.extend(input.programs.iter().cloned());
        read.extend(input.read.iter().cloned());
        let mut write: Vec<PathBuf> = SYSTEM_WRITE.iter().map(PathBuf::from).collect();
        write.push(input.scratch.clone());
        write.extend(input.write.iter().cloned());
        Self { read: outermost(read), write: outermost(write), input }
    }

    pub fn confinement(&self, inet: bool) -> Confinement {
        Confinement { enabled: true, read: self.read.clone(), write: self.write.clone(), inet }
    }

    pub fn writable(&self) -> &[PathBuf] {
        &self.write
    }

    /// Protected places inside writable folders: what must be checked after each command.
    pub fn protected_inside(&self) -> &[PathBuf] {
        &self.input.protected_inside
    }

    /// One grade per clause, from what the probe found when it tried.
    pub fn grades(&self, findings: &[Finding]) -> Vec<Grade> {
        let mut grades = vec![
            probed("files.write", "landlock", findings),
            probed("files.read", "landlock", findings),
            probed("network", "seccomp", findings),
            probed("privileges", "no_new_privs and capabilities", findings),
        ];
        let carved =
            [(&self.input.deny_read_inside, true), (&self.input.default_deny_read_inside, false)];
        for (patterns, required) in carved {
            if !patterns.is_empty() {
                grades.push(Grade {
                    clause: "files.deny_read".into(),
                    held: Held::NotHeld,
                    by: format!(
                        "{} lies inside a readable folder, out of which Landlock cannot carve it; \
                         the policy still denies it to every tool and judged command",
                        patterns.join(", ")
                    ),
                    required,
                });
            }
        }
        if !self.input.protected_inside.is_empty() {
            grades.push(Grade {
                clause: "files.protect".into(),
                held: Held::Reverted,
                by: "checked after each command, undone and reported".into(),
                required: false,
            });
        }
        grades
    }
}

/// What the probe of a layer says of a clause.
fn probed(clause: &str, layer: &str, findings: &[Finding]) -> Grade {
    let (held, by) = match findings.iter().find(|finding| finding.layer == layer) {
        Some(finding) if finding.holds => (Held::Prevented, format!("{layer}: {}", finding.detail)),
        Some(finding) => (Held::NotHeld, format!("{layer}: {}", finding.detail)),
        None => (Held::NotHeld, format!("{layer} was not probed")),
    };
    Grade { clause: clause.into(), held, by, required: true }
}

/// Without paths that lie below another one of the list.
fn outermost(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup();
    let mut kept: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !kept.iter().any(|outer: &PathBuf| inside(&path, outer)) {
            kept.push(path);
        }
    }
    kept
}

fn inside(path: &Path, outer: &Path) -> bool {
    path.starts_with(outer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_paths_are_named_once() {
        let paths = ["/a/b", "/a", "/ab", "/c/d"].map(PathBuf::from).to_vec();
        assert_eq!(outermost(paths), ["/a", "/ab", "/c/d"].map(PathBuf::from));
    }

    #[test]
    fn what_was_not_probed_does_not_hold() {
        let plan = Plan::new(PlanInput::default());
        assert!(plan.grades(&[]).iter().all(|grade| grade.held == Held::NotHeld));
    }
}
