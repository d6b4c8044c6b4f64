//! Path rules: which files may be read, written, and never touched.
//!
//! Patterns are written relative to the workspace, with `~`, or absolute; bound to a place they are
//! absolute globs over resolved paths, so that a link never decides. Case is kept. `*` stays within
//! one folder, `**` goes through all.

use super::facts::Ground;
use super::model::{FileLists, PathRule};
use crate::protocol::RuleRef;
use crate::spec::fault::{At, Fault};
use globset::{Candidate, Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Where programs and their libraries lie. Always readable: nothing runs without them. `doctor`
/// lists them, and the sandbox opens the same ones.
pub const SYSTEM_READ: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/opt",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/os-release",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki",
    "/nix/store",
    "/System",
    "/Library",
];

/// Device files that are no files: reading and writing them leaves nothing behind.
pub const HARMLESS_DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/stdin",
    "/dev/stdout",
    "/dev/stderr",
];

/// Agent configuration: what is written here steers later runs. A write rule that names one of these
/// files letter by letter lifts the protection of that file.
const AGENT_FILES: &[&str] = &[
    "**/AGENTS.md",
    "**/AGENTS.override.md",
    "**/CLAUDE.md",
    "**/GEMINI.md",
    "**/.mcp.json",
    "**/.cursorrules",
    "**/.turnkey/**",
    "**/.agents/**",
    "**/.claude/**",
    "**/.codex/**",
    "**/.cursor/**",
    "**/.gemini/**",
    "**/.opencode/**",
];

/// One pattern, bound to its place.
#[derive(Debug, Clone)]
pub struct FilePattern {
    /// As written.
    pub text: String,
    /// The same as an absolute glob.
    pub glob: String,
    /// The folder that all matches lie in, or the file itself when `literal`.
    pub base: PathBuf,
    /// The pattern covers everything below `base`.
    pub whole_folder: bool,
    /// The pattern names exactly one path.
    pub literal: bool,
    pub rule: RuleRef,
}

/// The path rules, bound and compiled.
#[derive(Debug, Clone, Default)]
pub struct FileRules {
    pub read: Vec<FilePattern>,
    pub write: Vec<FilePattern>,
    pub deny_read: Vec<FilePattern>,
    pub protect: Vec<FilePattern>,
    /// How many of `protect`, from its end, are agent configuration.
    agent: usize,
    sets: Sets,
}

#[derive(Debug, Clone, Default)]
struct Sets {
    read: GlobSet,
    write: GlobSet,
    deny_read: GlobSet,
    protect: GlobSet,
    names: Names,
}

/// The names that are protected in every folder.
#[derive(Debug, Clone, Default)]
struct Names {
    plain: HashSet<String>,
    globs: GlobSet,
}

/// What a path rule said.
pub type Ruling<'a> = Result<&'a RuleRef, (RuleRef, String)>;

/// Whether a path pattern can be read at all; the reason and a hint if not.
pub fn check_pattern(text: &str) -> Result<(), (String, String)> {
    let fail = |why: String, hint: &str| Err((why, hint.to_owned()));
    if text.is_empty() {
        return fail("the path is empty".into(), "write `**` for everything in the workspace");
    }
    if text.chars().any(|c| c.is_control()) {
        return fail(format!("{text:?} holds a control character"), "");
    }
    if text.split('/').any(|part| part == "..") {
        return fail(
            format!("`{text}` climbs with `..`"),
            "write the path without it: relative to the workspace, with ~, or absolute",
        );
    }
    if text.starts_with('!') {
        return fail(
            format!("`{text}`: there are no exceptions with `!`"),
            "use deny_read or protect for what must be spared",
        );
    }
    if text.starts_with('~') && text != "~" && !text.starts_with("~/") {
        return fail(format!("`{text}` names another user's home"), "write the absolute path");
    }
    match build(text) {
        Ok(_) => Ok(()),
        Err(why) => fail(format!("`{text}` is no valid glob: {why}"), "escape signs with `\\`"),
    }
}

fn build(glob: &str) -> Result<Glob, String> {
    GlobBuilder::new(glob)
        .literal_separator(true)
        .backslash_escape(true)
        .case_insensitive(false)
        .build()
        .map_err(|why| why.kind().to_string())
}

/// Takes `./` and doubled or trailing slashes away; a trailing slash means the whole folder.
fn tidy(text: &str) -> String {
    let whole = text.ends_with('/') && text.len() > 1;
    let absolute = text.starts_with('/');
    let parts: Vec<&str> =
        text.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let mut tidy = String::new();
    if absolute {
        tidy.push('/');
    }
    tidy.push_str(&parts.join("/"));
    if whole {
        tidy.push_str(if parts.is_empty() { "**" } else { "/**" });
    }
    if tidy.is_empty() {
        // `.` or `./`: the workspace itself.
        tidy.push_str("**");
    }
    tidy
}

fn has_glob(text: &str) -> bool {
    text.contains(['*', '?', '[', '{', '\\'])
}

/// Binds one pattern; nothing when it speaks of `~` and there is no home.
fn bind(text: &str, rule: &RuleRef, ground: &Ground) -> Option<FilePattern> {
    let tidied = tidy(text);
    let (root, pattern) = match tidied.strip_prefix('~') {
        Some(rest) => (ground.home.clone()?, rest.trim_start_matches('/').to_owned()),
        None => match tidied.strip_prefix('/') {
            Some(rest) => (PathBuf::from("/"), rest.to_owned()),
            None => (ground.workspace.clone(), tidied),
        },
    };
    let pattern = if pattern.is_empty() { "**".to_owned() } else { pattern };
    let mut base = root.clone();
    let mut parts = pattern.split('/').peekable();
    while let Some(part) = parts.next_if(|part| !has_glob(part)) {
        base.push(part);
    }
    let left: Vec<&str> = parts.collect();
    let root = globset::escape(root.to_str()?);
    let glob = format!("{}/{pattern}", root.trim_end_matches('/'));
    Some(FilePattern {
        text: text.to_owned(),
        glob,
        base,
        whole_folder: left == ["**"],
        literal: left.is_empty(),
        rule: rule.clone(),
    })
}

fn compile(patterns: &[FilePattern]) -> GlobSet {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        // Checked when the file was read; the root in front is escaped.
        match build(&pattern.glob) {
            Ok(glob) => builder.add(glob),
            Err(_) => continue,
        };
    }
    builder.build().unwrap_or_default()
}

impl FileRules {
    pub fn bind(lists: &FileLists, ground: &Ground) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut grants = |rules: &[PathRule]| -> Vec<FilePattern> {
            let mut bound = Vec::new();
            for rule in rules {
                match bind(&rule.text, &rule.source, ground) {
                    Some(pattern) => bound.push(pattern),
                    None => faults.push(Fault {
                        file: rule.source.file.clone(),
                        at: At { line: rule.source.line, column: rule.source.column },
                        text: format!("`{}`: there is no home folder here", rule.text),
                        hint: "write an absolute path".into(),
                    }),
                }
            }
            bound
        };
        let whole = PathRule {
            text: "**".into(),
            source: RuleRef::built_in("files.read: the workspace, where nothing else is said"),
        };
        let read = if lists.says_read { grants(&lists.read) } else { grants(&[whole]) };
        let write = grants(&lists.write);
        if !faults.is_empty() {
            return Err(faults);
        }
        // Without a home there is nothing of it to protect.
        let guards = |rules: &[PathRule]| -> Vec<FilePattern> {
            rules.iter().filter_map(|rule| bind(&rule.text, &rule.source, ground)).collect()
        };
        let deny_read = guards(&lists.deny_read);
        let mut protect = guards(&lists.protect);
        protect.extend(built_in_protection(ground));
        let agent = agent_files();
        let agent_count = agent.len();
        protect.extend(agent);
        let sets = Sets {
            read: compile(&read),
            write: compile(&write),
            deny_read: compile(&deny_read),
            protect: compile(&protect),
            names: names_anywhere(&protect),
        };
        Ok(Self { read, write, deny_read, protect, agent: agent_count, sets })
    }

    /// Whether a resolved path may be read.
    pub fn may_read(&self, path: &Path) -> Ruling<'_> {
        if let Some(reason) = unclean(path) {
            return Err((RuleRef::built_in("files: resolved paths only"), reason));
        }
        if let Some(pattern) = first(&self.sets.deny_read, &self.deny_read, path) {
            let reason = format!("{} may not be read", path.display());
            return Err((pattern.rule.clone(), reason));
        }
        if let Some(pattern) = first(&self.sets.read, &self.read, path) {
            return Ok(&pattern.rule);
        }
        if is_system(path) {
            return Ok(system_rule());
        }
        let reason = format!("{} is outside what may be read", path.display());
        Err((RuleRef::built_in("files.read: everything else is denied"), reason))
    }

    /// The rule that forbids reading a path by name; nothing when only its place could.
    pub fn must_not_read(&self, path: &Path) -> Option<(RuleRef, String)> {
        let pattern = first(&self.sets.deny_read, &self.deny_read, path)?;
        Some((pattern.rule.clone(), format!("{} may not be read", path.display())))
    }

    /// Whether a resolved path may be written.
    pub fn may_write(&self, path: &Path) -> Ruling<'_> {
        if let Some(reason) = unclean(path) {
            return Err((RuleRef::built_in("files: resolved paths only"), reason));
        }
        if HARMLESS_DEVICES.iter().any(|device| Path::new(device) == path) {
            return Ok(system_rule());
        }
        let written = first(&self.sets.write, &self.write, path);
        if let Some(pattern) = self.protecting(path) {
            let reason = format!("{} is protected and can't be written", path.display());
            return Err((pattern.rule.clone(), reason));
        }
        if let Some(pattern) = written {
            return Ok(&pattern.rule);
        }
        let mut reason = format!("{} is outside what may be written", path.display());
        if let Some(folder) =
            self.write.iter().find(|rule| rule.literal && path.starts_with(&rule.base))
        {
            reason.push_str(&format!(
                "; `{0}` names one path, `{0}/**` is all below it",
                folder.text
            ));
        }
        Err((RuleRef::built_in("files.write: everything else is denied"), reason))
    }

    /// The pattern that protects a path, unless a write rule names that very file and it is only
    /// agent configuration.
    fn protecting(&self, path: &Path) -> Option<&FilePattern> {
        let named = || self.write.iter().any(|pattern| pattern.literal && pattern.base == path);
        let hard = self.protect.len().saturating_sub(self.agent);
        let mut hits = self.sets.protect.matches_candidate(&Candidate::new(path));
        hits.sort_unstable();
        hits.into_iter()
            .find(|index| *index < hard || !named())
            .and_then(|index| self.protect.get(index))
    }

    /// The rule that protects a path, whoever makes it.
    pub fn is_protected(&self, path: &Path) -> Option<&RuleRef> {
        self.protecting(path).map(|pattern| &pattern.rule)
    }

    /// Files below a folder that write rules name letter by letter.
    pub fn named_below(&self, folder: &Path) -> bool {
        self.write.iter().any(|pattern| pattern.literal && pattern.base.starts_with(folder))
    }

    /// Whether a name alone can make a path protected, wherever it stands.
    pub fn is_protected_name(&self, name: &str) -> bool {
        let Names { plain, globs } = &self.sets.names;
        plain.contains(name)
            || name.eq_ignore_ascii_case(".git")
            || (!globs.is_empty() && globs.is_match(Path::new(name)))
    }

    /// Whether any file can be written at all.
    pub fn any_write(&self) -> bool {
        !self.write.is_empty()
    }
}

/// The first pattern of a list that covers the path; a whole folder covers the folder itself.
fn first<'a>(set: &GlobSet, patterns: &'a [FilePattern], path: &Path) -> Option<&'a FilePattern> {
    let hit = set.matches_candidate(&Candidate::new(path)).into_iter().min();
    match hit {
        Some(index) => patterns.get(index),
        None => patterns.iter().find(|pattern| pattern.whole_folder && pattern.base == path),
    }
}

/// A path that is not resolved must not be judged: `..` or a relative path would mean another file
/// than the one the rule sees.
fn unclean(path: &Path) -> Option<String> {
    use std::path::Component;
    let clean = path.is_absolute()
        && path.to_str().is_some()
        && path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    (!clean).then(|| format!("{} is no resolved path of readable text", path.display()))
}

pub fn is_system(path: &Path) -> bool {
    SYSTEM_READ.iter().any(|root| path.starts_with(root))
        || HARMLESS_DEVICES.iter().any(|device| Path::new(device) == path)
}

fn system_rule() -> &'static RuleRef {
    static RULE: std::sync::OnceLock<RuleRef> = std::sync::OnceLock::new();
    RULE.get_or_init(|| RuleRef::built_in("system paths that programs need"))
}

/// What is protected whatever the policy grants.
fn built_in_protection(ground: &Ground) -> Vec<FilePattern> {
    let mut patterns = Vec::new();
    let git = RuleRef::built_in("protect: .git");
    for glob in ["**/.[gG][iI][tT]", "**/.[gG][iI][tT]/**"] {
        patterns.push(anywhere(glob, &git));
    }
    let held = RuleRef::built_in("protect: git data");
    for folder in &ground.git_dirs {
        patterns.extend(exactly(folder, &held));
    }
    let held = RuleRef::built_in("protect: spec, policy, artifacts and CI command files");
    for path in &ground.protected {
        patterns.extend(exactly(path, &held));
    }
    patterns
}

fn agent_files() -> Vec<FilePattern> {
    let rule = RuleRef::built_in("protect: agent configuration");
    let mut patterns = Vec::new();
    for glob in AGENT_FILES {
        patterns.push(anywhere(glob, &rule));
        if let Some(folder) = glob.strip_suffix("/**") {
            patterns.push(anywhere(folder, &rule));
        }
    }
    patterns
}

/// The names in patterns of the form `**/NAME` and `**/NAME/**`, the operator's among them.
fn names_anywhere(patterns: &[FilePattern]) -> Names {
    let mut plain = HashSet::new();
    let mut globs = GlobSetBuilder::new();
    for pattern in patterns.iter().filter(|pattern| !pattern.text.starts_with("**/.[gG]")) {
        let Some(name) = pattern.text.strip_prefix("**/") else { continue };
        let name = name.strip_suffix("/**").unwrap_or(name);
        if name.contains('/') {
            continue;
        }
        match build(name) {
            _ if !has_glob(name) => drop(plain.insert(name.to_owned())),
            Ok(glob) => drop(globs.add(glob)),
            Err(_) => {}
        }
    }
    Names { plain, globs: globs.build().unwrap_or_default() }
}

fn anywhere(glob: &str, rule: &RuleRef) -> FilePattern {
    FilePattern {
        text: glob.to_owned(),
        glob: format!("/{glob}"),
        base: PathBuf::from("/"),
        whole_folder: false,
        literal: false,
        rule: rule.clone(),
    }
}

/// A path and everything below it.
fn exactly(path: &Path, rule: &RuleRef) -> Vec<FilePattern> {
    let Some(text) = path.to_str() else { return Vec::new() };
    let escaped = globset::escape(text.trim_end_matches('/'));
    [(escaped.clone(), true), (format!("{escaped}/**"), false)]
        .into_iter()
        .map(|(glob, literal)| FilePattern {
            text: text.to_owned(),
            glob,
            base: path.to_path_buf(),
            whole_folder: !literal,
            literal,
            rule: rule.clone(),
        })
        .collect()
}

impl FileRules {
    /// Whether every file that a glob in `folder` can name may be read. The folder is resolved;
    /// `rest` is the pattern below it.
    pub fn may_read_glob(&self, folder: &Path, rest: &str) -> Ruling<'_> {
        let rule = self.may_read(folder)?;
        match hit(&self.deny_read, folder, rest) {
            Some(pattern) => {
                let reason = format!("the glob could name a file that `{}` denies", pattern.text);
                Err((pattern.rule.clone(), reason))
            }
            None => Ok(rule),
        }
    }

    /// The same for writing: one write rule must cover the whole folder.
    pub fn may_write_glob(&self, folder: &Path, rest: &str) -> Ruling<'_> {
        if let Some(pattern) = hit(&self.protect, folder, rest) {
            let reason = format!("the glob could name a file that `{}` protects", pattern.text);
            return Err((pattern.rule.clone(), reason));
        }
        if let Some(pattern) = self.protecting(folder) {
            let reason = format!("{} is protected", folder.display());
            return Err((pattern.rule.clone(), reason));
        }
        let covering = self
            .write
            .iter()
            .find(|pattern| pattern.whole_folder && folder.starts_with(&pattern.base));
        match covering {
            Some(pattern) => Ok(&pattern.rule),
            None => {
                let reason = format!("no write rule covers all of {}", folder.display());
                Err((RuleRef::built_in("files.write: everything else is denied"), reason))
            }
        }
    }

    /// What would go when this path goes with all it holds.
    pub fn protected_below(&self, path: &Path) -> Option<&FilePattern> {
        let is_real = |pattern: &&FilePattern| pattern.base != Path::new("/");
        self.protect
            .iter()
            .chain(&self.deny_read)
            .filter(is_real)
            .find(|pattern| pattern.base.starts_with(path))
    }
}

/// The pattern that a glob below a folder could hit.
fn hit<'a>(patterns: &'a [FilePattern], folder: &Path, rest: &str) -> Option<&'a FilePattern> {
    patterns.iter().find(|pattern| {
        let related = pattern.base.starts_with(folder) || folder.starts_with(&pattern.base);
        let glob = pattern.glob.strip_suffix("/**").unwrap_or(&pattern.glob);
        let name = glob.rsplit('/').next().unwrap_or(glob);
        related && rest.split('/').any(|part| names_may_meet(part, name))
    })
}

/// Whether some name matches both globs; yes when that is not certain.
fn names_may_meet(glob: &str, name: &str) -> bool {
    // Bash never expands a glob to a hidden name unless the dot is spelled out.
    if name.starts_with('.') && !glob.starts_with('.') {
        return false;
    }
    if !has_glob(name) {
        return build(glob).is_ok_and(|glob| glob.compile_matcher().is_match(name));
    }
    let head =
        |text: &str| text.split(['*', '?', '[', '{', '\\']).next().unwrap_or_default().to_owned();
    let tail =
        |text: &str| text.rsplit(['*', '?', ']', '}', '\\']).next().unwrap_or_default().to_owned();
    let (a, b) = (head(glob), head(name));
    let (c, d) = (tail(glob), tail(name));
    (a.starts_with(&b) || b.starts_with(&a)) && (c.ends_with(&d) || d.ends_with(&c))
}

/// A rule's `cwd`: the folder itself and, with `**`, those below it.
pub fn folder_glob(text: &str, ground: &Ground) -> Option<globset::GlobMatcher> {
    let bound = bind(text, &RuleRef::built_in("cwd"), ground)?;
    let glob = if bound.whole_folder {
        let base = globset::escape(bound.base.to_str()?);
        format!("{{{base},{base}/**}}")
    } else {
        bound.glob
    };
    build(&glob).ok().map(|glob| glob.compile_matcher())
}
