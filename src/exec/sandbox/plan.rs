//! From the policy's clauses to the folders and files that the kernel is told of.

use super::{Confinement, Findings, Grade, Held, Hidden, Layers, Limits, Mounts, Switches, Wall};
use std::path::{Path, PathBuf};

/// System paths that programs need; always readable and executable, and listed by `doctor`.
///
/// Named one by one where secrets lie beside them: a command of root owns `/etc/shadow`, the disks in
/// `/dev` and other programs' data in `/var/lib`, and needs no privilege to read what it owns. Not
/// `/home`, `/root`, `/var/run` or `/run`: that is where keys and sockets live.
pub const SYSTEM_READ: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/opt",
    "/nix",
    "/snap",
    "/proc",
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/bindresvport.blacklist",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/environment",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/gitattributes",
    "/etc/gitconfig",
    "/etc/gnutls",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hostname",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/issue",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/localtime",
    "/etc/login.defs",
    "/etc/lsb-release",
    "/etc/machine-id",
    "/etc/magic",
    "/etc/magic.mime",
    "/etc/mailcap",
    "/etc/mime.types",
    "/etc/mtab",
    "/etc/netconfig",
    "/etc/networks",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/pki",
    "/etc/profile",
    "/etc/profile.d",
    "/etc/protocols",
    "/etc/redhat-release",
    "/etc/resolv.conf",
    "/etc/rpc",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/vim",
    "/etc/xdg",
    "/etc/xml",
    "/run/systemd/resolve",
    "/sys/block",
    "/sys/bus",
    "/sys/class",
    "/sys/devices",
    "/sys/fs/cgroup",
    "/sys/kernel/mm",
    "/sys/module",
    "/var/lib/alternatives",
    "/var/lib/dpkg",
    "/var/lib/gems",
    "/var/lib/ghc",
    "/var/lib/php",
    "/var/lib/texmf",
];

/// Beginnings of names in `/etc` under which languages and their tools keep their settings.
const ETC_TOOLS: &[&str] =
    &["gradle", "java", "maven", "node", "npm", "perl", "php", "pip", "python", "ruby"];

/// What of `/etc` the tools on this machine keep there.
fn etc_of_tools() -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir("/etc").into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| ETC_TOOLS.iter().any(|tool| name.starts_with(tool)))
    })
}

/// Devices that may be read and written. Not all of /dev: terminals, disks and the shared memory of others
/// lie there.
const SYSTEM_WRITE: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What a plan is made from. All paths are resolved and absolute.
#[derive(Debug, Clone, Default)]
pub struct PlanInput {
    /// Folders and single files that `files.write` grants.
    pub write: Vec<PathBuf>,
    /// Folders and single files that `files.read` grants.
    pub read: Vec<PathBuf>,
    /// The repository around the workspace: git compares all of it, so it must be there to be seen also
    /// where nothing of it may be read.
    pub repository: Option<PathBuf>,
    /// The run's own scratch: HOME, TMPDIR and caches of the commands.
    pub scratch: PathBuf,
    /// Folders of the clean PATH, and what the programs in them need.
    pub programs: Vec<PathBuf>,
    /// `deny_read` patterns of the operator's policy that reach into a readable folder.
    pub deny_read_inside: Vec<String>,
    /// The same of presets and the built-in policy, which are defaults of ours.
    pub default_deny_read_inside: Vec<String>,
    /// What these patterns find there.
    pub hidden: Vec<PathBuf>,
    /// Patterns that find more than can be hidden or looked at.
    pub hidden_in_part: Vec<String>,
    /// `write` patterns that no folder or existing file expresses exactly.
    pub narrowed: Vec<String>,
    /// Protected places that lie inside a writable folder.
    pub protected_inside: Vec<PathBuf>,
    /// Folders inside writable ones, with protected places in them, that must stay where they are.
    pub held: Vec<PathBuf>,
    /// The operator's policy names some of them.
    pub protects_by_name: bool,
    /// Patterns of the operator's policy that find more places than are looked at.
    pub protected_in_part: Vec<String>,
    /// The same of patterns of ours.
    pub default_protected_in_part: Vec<String>,
    pub switches: Switches,
    pub limits: Limits,
    /// The runner hears what Landlock refuses.
    pub audited: bool,
}

/// The confinement of a run's commands.
#[derive(Debug, Clone)]
pub struct Plan {
    input: PlanInput,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    hidden: Vec<Hidden>,
}

impl Plan {
    pub fn new(input: PlanInput) -> Self {
        // What is not there now does not come with a command: these places are nobody's to write.
        let there = SYSTEM_READ.iter().map(PathBuf::from).filter(|path| path.exists());
        let mut read: Vec<PathBuf> = there.chain(etc_of_tools()).collect();
        read.extend(input.programs.iter().cloned());
        read.extend(input.read.iter().cloned());
        let mut write: Vec<PathBuf> = SYSTEM_WRITE.iter().map(PathBuf::from).collect();
        write.push(input.scratch.clone());
        write.extend(input.write.iter().cloned());
        let hidden = input.hidden.iter().cloned().map(Hidden::new).collect();
        Self { read: outermost(read), write: outermost(write), hidden, input }
    }

    pub fn confinement(&self, layers: Layers, wall: Wall) -> Confinement {
        let tmp = Path::new("/tmp");
        let grants_tmp = self.read.iter().chain(&self.write).any(|root| tmp.starts_with(root));
        let own_tmp = (!grants_tmp && tmp.is_dir()).then(|| self.input.scratch.join("tmp"));
        let mounts = if layers.namespaces {
            Mounts {
                read_only: self.input.protected_inside.clone(),
                held: self.input.held.clone(),
                hidden: self.hidden.clone(),
                tmp: own_tmp,
                seen: self.input.repository.clone(),
            }
        } else {
            // There are none; the supervisor keeps what they would.
            Mounts { read_only: self.input.protected_inside.clone(), ..Mounts::default() }
        };
        Confinement {
            enabled: true,
            layers,
            switches: self.input.switches,
            read: self.read.clone(),
            write: self.write.clone(),
            wall,
            mounts,
            limits: self.input.limits,
            // In a process namespace the runner knows a command by another number than the log.
            audited: self.input.audited && layers.landlock && !layers.namespaces,
        }
    }

    pub fn writable(&self) -> &[PathBuf] {
        &self.write
    }

    pub fn readable(&self) -> &[PathBuf] {
        &self.read
    }

    /// Protected places inside writable folders: what must be checked after each command.
    pub fn protected_inside(&self) -> &[PathBuf] {
        &self.input.protected_inside
    }

    /// A hidden place that is not where it was, whatever is there now: an earlier command moved a folder
    /// around it, and it may lie open under another name.
    pub fn moved(&self) -> Option<&PathBuf> {
        self.hidden.iter().find(|hidden| hidden.is_moved()).map(|hidden| &hidden.path)
    }

    /// One grade per clause, from what the probe found when it tried.
    pub fn grades(&self, layers: Layers, findings: &Findings) -> Vec<Grade> {
        let mut grades = vec![
            findings.grade("files.write", "files", true),
            findings.grade("files.read", "files", true),
        ];
        if !layers.landlock && layers.namespaces {
            // Mounts hold back writing; what may be read is left as it is.
            grades[1].held = Held::NotHeld;
            grades[1].by = "mounts: nothing but Landlock holds back reading".into();
        }
        grades.extend(self.deny_read(layers, findings));
        grades.extend(self.protect(layers));
        let metadata = findings.grade("files.metadata", "metadata", false);
        grades.push(self.unless_io_uring(metadata, layers));
        for wall in ["network.none", "network.loopback", "network.hosts"] {
            if findings.of(wall).is_some() {
                let clause = if wall == "network.none" { "network" } else { wall };
                grades.push(self.unless_io_uring(findings.grade(clause, wall, true), layers));
            }
        }
        if findings.of("network.none").is_none() {
            grades.push(findings.grade("network", "network.none", true));
        }
        let sockets = findings.grade("sockets", "sockets", true);
        grades.push(self.unless_io_uring(sockets, Layers::default()));
        grades.push(findings.grade("signals", "signals", false));
        grades.push(match layers.namespaces {
            true => Grade {
                clause: "ipc".into(),
                held: Held::Prevented,
                by: "namespaces: the command has its own".into(),
                required: false,
            },
            false => findings.grade("ipc", "ipc", false),
        });
        grades.push(findings.grade("privileges", "privileges", true));
        grades.push(processes(layers));
        if self.input.limits != Limits::default() {
            grades.push(Grade {
                clause: "command_limits".into(),
                held: Held::Reverted,
                by: "counted every 100 ms over all that a command started, which is ended when it \
                     takes more"
                    .into(),
                required: false,
            });
        }
        grades
    }

    /// The filter does not see what io_uring does; only namespaces hold it then.
    fn unless_io_uring(&self, mut grade: Grade, layers: Layers) -> Grade {
        let by_namespaces = ["network.loopback", "files.metadata"];
        let is_held_else = layers.namespaces && by_namespaces.contains(&grade.clause.as_str());
        if self.input.switches.io_uring && !is_held_else && grade.held == Held::Prevented {
            grade.held = Held::NotHeld;
            grade.by = "allow_io_uring lets it past the filter".into();
        }
        grade
    }

    fn deny_read(&self, layers: Layers, findings: &Findings) -> Vec<Grade> {
        let lists =
            [(&self.input.deny_read_inside, true), (&self.input.default_deny_read_inside, false)];
        let mounted = layers.namespaces && findings.of("hidden").is_some_and(|hidden| hidden.holds);
        let mut grades = Vec::new();
        for (patterns, required) in lists {
            let (held, open): (Vec<&String>, Vec<&String>) = patterns
                .iter()
                .partition(|text| mounted && !self.input.hidden_in_part.contains(text));
            let text = |list: &[&String]| {
                list.iter().map(|text| text.as_str()).collect::<Vec<_>>().join(", ")
            };
            if !held.is_empty() {
                grades.push(Grade {
                    clause: "files.deny_read".into(),
                    held: Held::Prevented,
                    by: format!("mounts: {} covered by what nobody may open", text(&held)),
                    required,
                });
            }
            if !open.is_empty() {
                let why = match mounted {
                    true => "finds more than can be covered or looked at",
                    false => {
                        "lies inside a readable folder, out of which Landlock cannot carve it; \
                         namespaces could; the policy still denies it to every tool and judged \
                         command"
                    }
                };
                grades.push(Grade {
                    clause: "files.deny_read".into(),
                    held: Held::NotHeld,
                    by: format!("{} {why}", text(&open)),
                    required,
                });
            }
        }
        grades
    }

    fn protect(&self, layers: Layers) -> Vec<Grade> {
        let (there, absent): (Vec<&PathBuf>, Vec<&PathBuf>) =
            self.input.protected_inside.iter().partition(|path| path.exists());
        let mut grades = Vec::new();
        if !there.is_empty() {
            let (held, by) = match layers.namespaces {
                true => (Held::Prevented, "mounts: read-only over the writable folder"),
                false => (Held::Reverted, "checked after each command, undone and reported"),
            };
            grades.push(Grade {
                clause: "files.protect".into(),
                held,
                by: by.into(),
                required: self.input.protects_by_name,
            });
        }
        let in_part =
            [(&self.input.protected_in_part, true), (&self.input.default_protected_in_part, false)];
        for (patterns, required) in in_part.into_iter().filter(|(patterns, _)| !patterns.is_empty())
        {
            let by = format!(
                "{} finds more than is looked at: places beyond that are held in tools and judged \
                 commands, not in what commands start; name fewer files, or folders as a whole",
                patterns.join(", ")
            );
            let clause = "files.protect (in part)".into();
            grades.push(Grade { clause, held: Held::NotHeld, by, required });
        }
        if !absent.is_empty() {
            grades.push(Grade {
                clause: "files.protect (not there yet)".into(),
                held: Held::Reverted,
                by: "what a command makes there is taken away after it, and reported".into(),
                required: false,
            });
        }
        grades
    }
}

fn processes(layers: Layers) -> Grade {
    let by = match layers.namespaces {
        true => "namespaces: the command's own process 1 goes, and all it started with it",
        false => "the launcher adopts what a command leaves behind, and ends it",
    };
    Grade { clause: "processes".into(), held: Held::Prevented, by: by.into(), required: false }
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
    use crate::exec::order::Finding;

    #[test]
    fn nested_paths_are_named_once() {
        let paths = ["/a/b", "/a", "/ab", "/c/d"].map(PathBuf::from).to_vec();
        assert_eq!(outermost(paths), ["/a", "/ab", "/c/d"].map(PathBuf::from));
    }

    #[test]
    fn what_was_not_probed_does_not_hold() {
        let plan = Plan::new(PlanInput::default());
        let grades = plan.grades(Layers::ALL, &Findings::default());
        let required: Vec<&Grade> = grades.iter().filter(|grade| grade.required).collect();
        assert!(required.len() >= 5, "{grades:?}");
        assert!(required.iter().all(|grade| grade.held == Held::NotHeld), "{grades:?}");
    }

    #[test]
    fn one_failed_try_of_a_clause_is_enough() {
        let findings = Findings(vec![
            Finding::new("files", "landlock", true, "ABI 7"),
            Finding::new("files", "landlock", false, "went through"),
        ]);
        let grade = findings.grade("files.write", "files", true);
        assert_eq!(grade.held, Held::NotHeld);
        assert!(grade.falls_short(true));
    }

    #[test]
    fn grades_follow_the_layers() {
        let input = PlanInput {
            deny_read_inside: vec!["**/.env".into()],
            protected_inside: vec!["/".into(), "/no/such/place".into()],
            protects_by_name: true,
            switches: Switches { io_uring: true, ..Switches::default() },
            ..PlanInput::default()
        };
        let plan = Plan::new(input);
        let findings = Findings(vec![
            Finding::new("hidden", "mounts", true, ""),
            Finding::new("network.none", "seccomp", true, ""),
        ]);
        let held = |layers: Layers, clause: &str| {
            let grades = plan.grades(layers, &findings);
            grades.into_iter().find(|grade| grade.clause == clause).unwrap()
        };
        assert_eq!(held(Layers::ALL, "files.deny_read").held, Held::Prevented);
        assert_eq!(held(Layers::FLOOR, "files.deny_read").held, Held::NotHeld);
        assert_eq!(held(Layers::ALL, "files.protect").held, Held::Prevented);
        let reverted = held(Layers::FLOOR, "files.protect");
        assert!(reverted.falls_short(false) && !reverted.falls_short(true));
        assert_eq!(held(Layers::ALL, "files.protect (not there yet)").held, Held::Reverted);
        assert_eq!(held(Layers::FLOOR, "network").held, Held::NotHeld, "io_uring opens it");
    }
}
