//! Denials recognised: a command that the sandbox stopped prints `Permission denied` and no more. Where it
//! is certain that the sandbox was the reason, one line tells the model the path, the operation and the
//! policy key. A check that failed gets the same line, for the model and for the operator.
//!
//! Nothing is guessed. A path counts only if it lies outside of what the policy grants **and** outside of
//! what the sandbox was told, and if the file's own permissions would have let the command through.
//! Anything in doubt is left as the command printed it.

use crate::exec::sandbox::Held;
use crate::exec::{Executor, Refused};
use crate::policy::{Command, ExecPermit, Network, Policy};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Lines told at the most.
const MAX_TOLD: usize = 3;
/// Bytes of output looked at: a loud command says the same thing again and again.
const MAX_LOOKED_AT: usize = 256 * 1024;

/// What the sandbox lets commands reach; only made where it really holds.
#[derive(Debug, Clone, Default)]
pub struct Reach {
    pub read: Vec<PathBuf>,
    pub write: Vec<PathBuf>,
    /// Shared objects of System V and message queues are refused.
    pub no_ipc: bool,
}

impl Reach {
    /// What the commands of an executor reach, where the kernel prevents the rest.
    pub fn of(executor: &Executor) -> Option<Self> {
        let holds = |clause: &str| {
            let mut grades = executor.sandbox().grades().iter();
            grades.any(|grade| grade.clause == clause && grade.held == Held::Prevented)
        };
        let confinement = executor.sandbox().confinement(&Network::None).ok()?;
        let no_ipc = holds("ipc") && !confinement.layers.namespaces;
        (holds("files.write") && holds("files.read") && confinement.enabled).then_some(Self {
            read: confinement.read,
            write: confinement.write,
            no_ipc,
        })
    }

    fn may(list: &[PathBuf], path: &Path) -> bool {
        list.iter().any(|root| path.starts_with(root))
    }
}

/// Where a command started, and whether its relative paths are relative to there.
#[derive(Debug, Clone)]
pub struct Origin {
    cwd: PathBuf,
    /// Programs whose relative paths can be trusted.
    tools: Vec<String>,
    /// The command's words: a relative path must be one of them.
    words: BTreeSet<String>,
}

/// Programs that work where they were started and name paths as they were given.
const PLAIN_TOOLS: &[&str] = &[
    "cat", "chmod", "cp", "dd", "head", "install", "ln", "ls", "mkdir", "mktemp", "mv", "rm",
    "rmdir", "sort", "tail", "tee", "touch", "truncate", "wc",
];
/// Words after which a relative path may belong to any folder.
const MOVERS: &[&str] = &[
    "cd", "pushd", "popd", "-C", "env", "find", "xargs", "make", "sh", "bash", "dash", "zsh",
    "python", "python3", "perl", "ruby", "node", "git",
];

impl Origin {
    pub fn of(permit: &ExecPermit) -> Self {
        let text = match permit.command() {
            Command::Argv { argv, .. } => argv.join(" "),
            Command::Script(text) => text.clone(),
        };
        Self::new(permit.cwd(), &text)
    }

    fn new(cwd: &Path, text: &str) -> Self {
        let words: BTreeSet<String> = text
            .split(|c: char| c.is_whitespace() || ";|&(){}<>\"'`".contains(c))
            .map(str::to_owned)
            .collect();
        let names: BTreeSet<&str> =
            words.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
        let moves = MOVERS.iter().any(|word| names.contains(word));
        let tools = PLAIN_TOOLS.iter().filter(|tool| !moves && names.contains(**tool));
        let tools = tools.map(|tool| (*tool).to_owned()).collect();
        Self { cwd: cwd.to_owned(), tools, words }
    }

    fn names_tool(&self, text: &str) -> bool {
        self.tools.iter().any(|tool| tool == text)
    }
}

/// The lines for the model; nothing where nothing is certain.
/// `heard` is what Landlock itself says that it refused.
pub fn explain(
    output: &str,
    origin: &Origin,
    reach: &Reach,
    policy: &Policy,
    heard: impl FnOnce() -> Vec<Refused>,
) -> Option<String> {
    let mut told = Vec::new();
    let mut is_refused = false;
    let start = crate::rollout::char_ceil(output, output.len().saturating_sub(MAX_LOOKED_AT));
    for line in output.get(start..).unwrap_or_default().lines() {
        let Some(refusal) = Refusal::in_line(line) else { continue };
        is_refused = true;
        let path = refusal.path(origin);
        let found = path.and_then(|path| refused(&path, &refusal, reach, policy));
        if let Some(line) = found.filter(|line| !told.contains(line)) {
            told.push(line);
        }
        if told.len() == MAX_TOLD {
            break;
        }
    }
    if is_refused && told.is_empty() {
        // Programs try much that they can do without: only what the command complains of is explained.
        told = heard().iter().filter_map(|refused| by_landlock(refused, policy)).collect();
        told.dedup();
        told.truncate(MAX_TOLD);
    }
    told.extend(ipc(output.get(start..).unwrap_or_default()).filter(|_| reach.no_ipc));
    let lines: Vec<String> = told.iter().map(|line| format!("[sandbox: {line}]")).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Programs name the call, or what it was to give, near the error.
fn ipc(output: &str) -> Option<String> {
    const NAMES: &[&str] = &[
        "shmget",
        "shmat",
        "semget",
        "semctl",
        "msgget",
        "mq_open",
        "shared memory segment",
        "message queue",
    ];
    /// Lines around the error.
    const NEAR: usize = 2;
    let lines: Vec<String> = output.lines().map(str::to_ascii_lowercase).collect();
    let failed =
        |line: &String| line.contains("function not implemented") || line.contains("enosys");
    let is_near = |at: usize| {
        let near = &lines[at.saturating_sub(NEAR)..lines.len().min(at + NEAR + 1)];
        near.iter().any(|line| NAMES.iter().any(|name| line.contains(name)))
    };
    lines.iter().enumerate().any(|(at, line)| failed(line) && is_near(at)).then(|| {
        "System V objects and message queues were refused: without namespaces they are shared with every \
         process of this user; the policy key that would allow it is sandbox.allow_sysv_ipc"
            .to_owned()
    })
}

/// The error numbers that a sandbox answers with, as programs print them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Access,
    Permission,
    ReadOnly,
}

const SIGNS: &[(&str, Sign)] = &[
    ("permission denied", Sign::Access),
    ("eacces", Sign::Access),
    ("operation not permitted", Sign::Permission),
    ("eperm", Sign::Permission),
    ("read-only file system", Sign::ReadOnly),
    ("erofs", Sign::ReadOnly),
];

/// Words by which a program says that it wanted to change something.
const WRITE_WORDS: &[&str] = &[
    "cannot create",
    "can't create",
    "cannot remove",
    "cannot touch",
    "cannot move",
    "for writing",
    "cannot overwrite",
    "failed to write",
    "failed to create",
    "failed to remove",
    "unlink",
];

/// One line that tells of a refusal.
struct Refusal<'a> {
    line: &'a str,
    /// What stands around the sign.
    parts: [&'a str; 2],
    sign: Sign,
    says_write: bool,
}

impl<'a> Refusal<'a> {
    fn in_line(line: &'a str) -> Option<Self> {
        // ASCII only, so that places in the lowered line are places in the line.
        let lower = line.to_ascii_lowercase();
        let (at, length, sign) = SIGNS
            .iter()
            .find_map(|(text, sign)| lower.find(text).map(|at| (at, text.len(), *sign)))?;
        // Another owner's file needs a capability that no policy can give.
        if lower.contains("chown") || lower.contains("ownership") || lower.contains("chgrp") {
            return None;
        }
        let says_write = WRITE_WORDS.iter().any(|word| lower.contains(word));
        Some(Self { line, parts: [line.get(..at)?, line.get(at + length..)?], sign, says_write })
    }

    /// The one path that the line is about, resolved. A line with two could mean either, and counts as
    /// none.
    fn path(&self, origin: &Origin) -> Option<PathBuf> {
        let text = self.quoted_text()?.or_else(|| self.plain_text())?;
        let relative_too = self.line.split(':').next().is_some_and(|program| {
            origin.tools.iter().any(|tool| tool == program.rsplit('/').next().unwrap_or(program))
        });
        let named = relative_too && origin.words.contains(text) && !origin.names_tool(text);
        if !text.starts_with('/') && !named {
            return None;
        }
        let path = crate::workspace::resolve(&origin.cwd, text).ok()?;
        let is_there = path.symlink_metadata().is_ok() || path.parent().is_some_and(Path::is_dir);
        is_there.then_some(path)
    }

    /// What stands in quotes: nothing, or one text; `None` for more than one.
    fn quoted_text(&self) -> Option<Option<&'a str>> {
        let mut texts: Vec<&str> = Vec::new();
        for quote in [('\'', '\''), ('"', '"'), ('`', '`'), ('‘', '’'), ('`', '\'')] {
            texts.extend(quoted(self.line, quote).into_iter().filter(|text| !text.is_empty()));
        }
        texts.sort_unstable();
        texts.dedup();
        (texts.len() < 2).then(|| texts.first().copied())
    }

    /// Without quotes: what stands right before the sign, `PROGRAM: line 3: PATH: Permission denied`, or
    /// else right after it.
    fn plain_text(&self) -> Option<&'a str> {
        let [before, after] = self.parts;
        let before = before.trim_end().trim_end_matches(['(', '[']).trim_end();
        let before = before.strip_suffix(':').unwrap_or(before);
        let field = before.rsplit(": ").next().unwrap_or(before).trim();
        // `cannot create /a/b`: the path is the last word; one that begins the field may hold spaces.
        let text = match field.starts_with('/') {
            true => field,
            false => field.rsplit(' ').next().unwrap_or(field),
        };
        if text.starts_with('/') || (!text.is_empty() && !before.is_empty() && before != text) {
            return Some(text);
        }
        let after = after.trim_start_matches([':', ')', ']', ' ', ',']);
        after.split([' ', ',', ';', ')']).next().filter(|text| text.starts_with('/'))
    }
}

fn quoted(line: &str, (open, close): (char, char)) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = line;
    while let Some(start) = rest.find(open) {
        let inner = rest.get(start + open.len_utf8()..).unwrap_or_default();
        let Some(end) = inner.find(close) else { break };
        found.push(inner.get(..end).unwrap_or_default());
        rest = inner.get(end + close.len_utf8()..).unwrap_or_default();
    }
    found
}

/// Why the sandbox refused this path, where it is certain that it did.
fn refused(path: &Path, refusal: &Refusal<'_>, reach: &Reach, policy: &Policy) -> Option<String> {
    if !reachable(path) {
        return None;
    }
    let writable = Reach::may(&reach.write, path);
    let readable = writable || Reach::may(&reach.read, path);
    let meta = path.symlink_metadata().ok();
    let parent_open = || path.parent().is_some_and(|parent| permits(parent, WRITE | EXECUTE));
    if refusal.sign == Sign::ReadOnly && is_read_only_here(path) {
        return None;
    }
    let Some(meta) = meta else {
        // What is not there can't be opened: it was to be made.
        let certain = !writable && refusal.sign != Sign::Permission && parent_open();
        return certain.then(|| write_line("creating", path, policy)).flatten();
    };
    if writable {
        // A place inside a writable folder that mounts keep as it is, or whose mode, owner, times and
        // attributes the supervisor keeps.
        let verdict = policy.judge_write(&[path.to_owned()]).verdict;
        let by_sandbox = match refusal.sign {
            Sign::ReadOnly => true,
            Sign::Permission => meta.uid() == own_uid(),
            Sign::Access => false,
        };
        let carved = by_sandbox && !verdict.is_allow();
        return carved.then(|| write_line("writing", path, policy)).flatten();
    }
    if !readable {
        let verdict = policy.judge_read(path).verdict;
        let certain = refusal.sign == Sign::Access
            && !refusal.says_write
            && !verdict.is_allow()
            && permits(path, READ);
        return certain.then(|| {
            line("reading", path, &verdict.reason, &verdict.rule.to_string(), "files.read")
        });
    }
    // It may be read, so that something else was refused: a change, or the execution of a file that is
    // none. The command says which, or there is only one of the two.
    let executable = meta.is_dir() || meta.mode() & 0o111 != 0;
    let own_rights = match refusal.sign {
        // Mode, times, attributes: the owner's right.
        Sign::Permission => meta.uid() == own_uid(),
        _ if refusal.says_write => permits(path, WRITE) && parent_open(),
        _ => permits(path, READ | WRITE) && executable,
    };
    own_rights.then(|| write_line("writing", path, policy)).flatten()
}

/// What Landlock says that it refused, where the policy says so too.
fn by_landlock(refused: &Refused, policy: &Policy) -> Option<String> {
    let has = |beginnings: &[&str]| {
        let mut rights = refused.rights.iter();
        rights.any(|right| beginnings.iter().any(|beginning| right.starts_with(beginning)))
    };
    let path = &refused.path;
    if has(&["fs.make_", "fs.remove_", "fs.refer"]) {
        let verdict = policy.judge_write(&[path.join("any")]).verdict;
        let (reason, rule) = (&verdict.reason, verdict.rule.to_string());
        return (!verdict.is_allow())
            .then(|| line("making or removing something in", path, reason, &rule, "files.write"));
    }
    if has(&["fs.write_file", "fs.truncate"]) {
        return write_line("writing", path, policy);
    }
    let verdict = policy.judge_read(path).verdict;
    (has(&["fs.read_", "fs.execute"]) && !verdict.is_allow())
        .then(|| line("reading", path, &verdict.reason, &verdict.rule.to_string(), "files.read"))
}

fn write_line(operation: &str, path: &Path, policy: &Policy) -> Option<String> {
    let verdict = policy.judge_write(&[path.to_owned()]).verdict;
    if verdict.is_allow() {
        // The pattern covers it, but the kernel knows only folders and files that were there.
        return Some(format!(
            "{operation} {} was refused: a pattern of files.write covers it ({}), but commands can \
             only write what it matched when the run began; apply_patch can",
            path.display(),
            verdict.rule
        ));
    }
    Some(line(operation, path, &verdict.reason, &verdict.rule.to_string(), "files.write"))
}

fn line(operation: &str, path: &Path, reason: &str, rule: &str, key: &str) -> String {
    let path = path.display();
    let key = if reason.contains("protected") {
        "no policy key allows it from inside a run".to_owned()
    } else {
        format!("the policy key that would allow it is {key}")
    };
    format!("{operation} {path} was refused: {reason} ({rule}); {key}")
}

const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

/// Whether the file's own permissions give all of these to a command of ours, which has no capabilities.
fn permits(path: &Path, wanted: u32) -> bool {
    let Ok(meta) = path.metadata() else { return false };
    let bits = if meta.uid() == own_uid() {
        meta.mode() >> 6
    } else if is_own_group(meta.gid()) {
        meta.mode() >> 3
    } else {
        meta.mode()
    };
    bits & wanted == wanted
}

/// Whether every folder on the way can be walked through.
fn reachable(path: &Path) -> bool {
    path.ancestors().skip(1).all(|folder| permits(folder, EXECUTE))
}

fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn is_own_group(gid: u32) -> bool {
    rustix::process::getegid().as_raw() == gid
        || rustix::process::getgroups()
            .is_ok_and(|groups| groups.iter().any(|group| group.as_raw() == gid))
}

/// Whether the file system is read-only for the runner too: then the sandbox is not the reason.
fn is_read_only_here(path: &Path) -> bool {
    let existing = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    rustix::fs::statvfs(existing)
        .is_ok_and(|fs| fs.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Ground, PolicyFile};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    /// A workspace `ws` where `src/` may be written, and a folder beside it.
    struct Place {
        dir: tempfile::TempDir,
        policy: Policy,
        reach: Reach,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().canonicalize().unwrap();
            for folder in ["ws/src", "ws/docs", "outside"] {
                fs::create_dir_all(root.join(folder)).unwrap();
            }
            fs::write(root.join("outside/there"), "").unwrap();
            fs::write(root.join("ws/docs/a.txt"), "").unwrap();
            let source = "version: 1\nexec: { allow: [ls ...] }\nfiles: { read: [\"**\"], write: [\"src/**\", \"docs/*.md\"] }\n";
            let file = PolicyFile::parse("policy.yaml", source, &|_| Err("none".into())).unwrap();
            let ground = Ground { workspace: root.join("ws"), ..Ground::default() };
            let policy = file.compile(&ground).unwrap();
            let reach = Reach {
                read: vec![root.join("ws")],
                write: vec![root.join("ws/src")],
                no_ipc: false,
            };
            Self { dir, policy, reach }
        }

        fn root(&self) -> PathBuf {
            self.dir.path().canonicalize().unwrap()
        }

        /// What is said of an output in which ROOT stands for the place, after `command`.
        fn told(&self, command: &str, output: &str) -> Option<String> {
            self.told_with(command, output, Vec::new)
        }

        fn told_with(
            &self,
            command: &str,
            output: &str,
            heard: impl FnOnce() -> Vec<Refused>,
        ) -> Option<String> {
            let root = self.root().display().to_string();
            let origin = Origin::new(&self.root().join("ws"), command);
            let output = output.replace("ROOT", &root);
            let told = explain(&output, &origin, &self.reach, &self.policy, heard);
            told.map(|text| text.replace(&root, "ROOT"))
        }
    }

    #[test]
    fn d54_a_denial_names_path_operation_and_key() {
        let place = Place::new();
        let created = "[sandbox: creating ROOT/outside/new was refused: ROOT/outside/new is outside what may be \
                       written (built-in: files.write: everything else is denied); the policy key that would allow it is files.write]";
        for output in [
            "touch: cannot touch 'ROOT/outside/new': Permission denied",
            "bash: line 1: ROOT/outside/new: Permission denied",
            "PermissionError: [Errno 13] Permission denied: 'ROOT/outside/new'",
            "error: failed to open: ROOT/outside/new\n  EACCES: permission denied, open 'ROOT/outside/new'",
            "error: failed to write `ROOT/outside/new`: Permission denied (os error 13)",
            "ROOT/ws/run.sh: line 12: ROOT/outside/new: Permission denied",
            "build.sh: 3: cannot create ROOT/outside/new: Permission denied",
            "java.nio.file.AccessDeniedException: Permission denied: ROOT/outside/new",
        ] {
            assert_eq!(place.told("x", output).as_deref(), Some(created), "{output}");
        }
        let read = place.told("cat x", "cat: ROOT/outside/there: Permission denied").unwrap();
        assert!(read.starts_with("[sandbox: reading ROOT/outside/there was refused:"), "{read}");
        assert!(read.contains("is files.read]"), "{read}");
        let removed = place.told("x", "rm: cannot remove 'ROOT/ws/docs/a.txt': Permission denied");
        assert!(removed.unwrap().contains("writing ROOT/ws/docs/a.txt was refused"));
        let relative = place.told("touch build", "touch: cannot touch 'build': Permission denied");
        assert!(relative.unwrap().contains("creating ROOT/ws/build was refused"));
    }

    #[test]
    fn where_a_command_names_nothing_landlocks_own_word_counts() {
        let place = Place::new();
        let refused = |rights: &[&str], path: &str| Refused {
            rights: rights.iter().map(ToString::to_string).collect(),
            path: place.root().join(path),
        };
        let silent = "error: Permission denied (os error 13)";
        for (what, said) in [
            (
                refused(&["fs.write_file"], "outside/there"),
                "writing ROOT/outside/there was refused",
            ),
            (
                refused(&["fs.remove_file", "fs.make_reg"], "outside"),
                "making or removing something in ROOT/outside was refused",
            ),
            (refused(&["fs.read_dir"], "outside"), "reading ROOT/outside was refused"),
        ] {
            let told = place.told_with("x", silent, || vec![what.clone()]).unwrap();
            assert!(told.contains(said) && told.contains("the policy key"), "{told}");
            assert_eq!(place.told_with("x", "all is well", || vec![what.clone()]), None);
            // What it names itself comes first.
            let named = "touch: cannot touch 'ROOT/outside/new': Permission denied";
            let told = place.told_with("x", named, || vec![what.clone()]).unwrap();
            assert!(told.contains("creating ROOT/outside/new") && !told.contains(said), "{told}");
        }
        let granted = || vec![refused(&["fs.make_reg"], "ws/src"), refused(&["net.bind_tcp"], "x")];
        assert_eq!(place.told_with("x", silent, granted), None);
    }

    #[test]
    fn a_call_that_is_not_there_is_told_with_its_switch() {
        let mut place = Place::new();
        let output = "FATAL:  could not create shared memory segment: Function not implemented\nDETAIL:  Failed system call was shmget(key=1, size=56, 03600).";
        assert_eq!(place.told("x", output), None);
        place.reach.no_ipc = true;
        assert!(place.told("x", output).unwrap().contains("sandbox.allow_sysv_ipc"));
        assert_eq!(place.told("x", "open_tree: Function not implemented"), None);
    }

    #[test]
    fn a_pattern_that_the_kernel_cannot_hold_is_told_with_the_way_out() {
        let place = Place::new();
        let told = place.told("x", "sh: 1: cannot create ROOT/ws/docs/b.md: Permission denied");
        let told = told.unwrap();
        assert!(told.contains("a pattern of files.write covers it"), "{told}");
        assert!(told.contains("apply_patch can"), "{told}");
    }

    #[test]
    fn nothing_is_said_where_the_sandbox_need_not_be_the_reason() {
        let place = Place::new();
        let closed = place.root().join("outside/closed");
        fs::write(&closed, "").unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
        for (command, output) in [
            // Granted: its own permissions are the reason.
            ("x", "touch: cannot touch 'ROOT/ws/src/new': Permission denied"),
            // Its own permissions deny it as well.
            ("cat x", "cat: ROOT/outside/closed: Permission denied"),
            // A file that is no program, in a place that may be read.
            ("x", "bash: line 1: ROOT/ws/docs/a.txt: Permission denied"),
            // Nobody knows which folder this is relative to.
            ("cd src; touch x", "touch: cannot touch 'x': Permission denied"),
            ("make", "cc: error: x.o: Permission denied"),
            // No such folder: the path is not what it seems.
            ("x", "remote: ROOT/nowhere/deep/x: Permission denied"),
            ("x", "git@example.com: Permission denied (publickey)."),
            // Which of the two?
            ("x", "mv: cannot move 'ROOT/ws/docs/a.txt' to 'ROOT/outside/b': Permission denied"),
            ("x", "ROOT/outside/new: line 3: exec: Permission denied"),
            // Another owner needs a capability.
            ("x", "chown: changing ownership of 'ROOT/outside/there': Operation not permitted"),
            ("x", "all is well: ROOT/outside/new"),
        ] {
            assert_eq!(place.told(command, output), None, "{output}");
        }
    }

    #[test]
    fn the_same_denial_is_told_once_and_many_are_cut() {
        let place = Place::new();
        let mut output = String::new();
        for number in 0..20 {
            let line =
                format!("touch: cannot touch 'ROOT/outside/{}': Permission denied\n", number / 4);
            output.push_str(&line);
        }
        assert_eq!(place.told("x", &output).unwrap().lines().count(), MAX_TOLD);
    }
}
