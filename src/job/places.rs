//! From the policy's path patterns to the folders and files that the sandbox is told of.

use crate::exec::sandbox::{Limits, PlanInput, SYSTEM_READ, Switches};
use crate::policy::{FilePattern, FileRules, Policy};
use globset::{GlobBuilder, GlobMatcher};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// Entries looked at for one pattern that is neither a folder nor a file.
const MAX_LOOKED_AT: usize = 20_000;

/// What the operator's own part adds to the policy's.
pub struct Surroundings {
    pub scratch: PathBuf,
    /// Folders of the clean PATH and of tools that variables point to.
    pub programs: Vec<PathBuf>,
    /// Spec, policy, artifacts, git data: concrete paths that stay as they are.
    pub protected: Vec<PathBuf>,
    /// Where git keeps its data.
    pub git_dirs: Vec<PathBuf>,
    /// The repository around the workspace.
    pub repository: Option<PathBuf>,
}

/// The sandbox plan of a policy in its place. Once `stopped` is set nothing more is looked for: what
/// comes out then is no plan.
pub fn plan_input(policy: &Policy, around: &Surroundings, stopped: &AtomicBool) -> PlanInput {
    let files: &FileRules = policy.files();
    let mut input = PlanInput {
        scratch: around.scratch.clone(),
        programs: around.programs.clone(),
        repository: around.repository.clone(),
        ..PlanInput::default()
    };
    for pattern in &files.write {
        let (places, exact) = places(pattern, stopped);
        if !exact {
            input.narrowed.push(pattern.text.clone());
        }
        input.write.extend(places);
    }
    if policy.writes_git() {
        // A linked worktree has them elsewhere; what the policy grants is the same.
        input.write.extend(around.git_dirs.iter().filter_map(|dir| dir.canonicalize().ok()));
    }
    for pattern in &files.read {
        input.read.extend(places(pattern, stopped).0);
    }
    // What may be written can be read as well: a compiler reads back what it wrote.
    input.read.extend(input.write.iter().cloned());
    hidden(policy, &mut input, stopped);
    protected(policy, around, &mut input, stopped);
    let limits = policy.limits();
    input.limits =
        Limits { processes: limits.processes, memory: limits.memory, keep_free: limits.keep_free };
    input.switches = Switches::named(&policy.sandbox().switches);
    input
}

/// What must not be read and lies where commands may read.
fn hidden(policy: &Policy, input: &mut PlanInput, stopped: &AtomicBool) {
    let system = SYSTEM_READ.iter().map(PathBuf::from);
    let readable: Vec<PathBuf> =
        input.read.iter().chain(&input.programs).cloned().chain(system).collect();
    let reaches = |pattern: &&FilePattern| {
        readable
            .iter()
            .any(|root| pattern.base.starts_with(root) || root.starts_with(&pattern.base))
    };
    let inside: Vec<&FilePattern> = policy.files().deny_read.iter().filter(reaches).collect();
    for pattern in &inside {
        let list = match is_ours(pattern) {
            true => &mut input.default_deny_read_inside,
            false => &mut input.deny_read_inside,
        };
        if !list.contains(&pattern.text) {
            list.push(pattern.text.clone());
        }
    }
    let found = Found::of(&inside, stopped);
    // What a program needs to start is no place to hide anything in.
    input.hidden = found.places.into_iter().filter(|path| !path.starts_with("/proc")).collect();
    input.hidden_in_part = found.in_part;
}

fn is_ours(pattern: &FilePattern) -> bool {
    pattern.rule.file == "built-in" || pattern.rule.file.starts_with("preset:")
}

/// Protected places inside writable folders: the operator's own, those that the policy names, git's and
/// the agents' wherever they exist, and at the top of the workspace also where they do not.
fn protected(policy: &Policy, around: &Surroundings, input: &mut PlanInput, stopped: &AtomicBool) {
    let files = policy.files();
    let top = policy.workspace();
    let mut places = around.protected.clone();
    for pattern in &files.protect {
        if pattern.literal || pattern.whole_folder {
            places.push(pattern.base.clone());
        } else if let Some(name) = pattern.text.strip_prefix("**/") {
            // Patterns of ours that hold anywhere.
            let name = name.strip_suffix("/**").unwrap_or(name);
            if !name.contains(['*', '[', '/']) {
                places.push(top.join(name));
            }
        }
    }
    let mut wide: Vec<FilePattern> = files
        .protect
        .iter()
        .filter(|pattern| !pattern.literal && !pattern.whole_folder)
        .map(|pattern| match pattern.base == Path::new("/") {
            true => FilePattern { base: top.to_owned(), ..pattern.clone() },
            false => pattern.clone(),
        })
        .collect();
    // Where nothing can be written, nothing has to be found.
    wide.retain(|pattern| {
        let reaches =
            |root: &PathBuf| root.starts_with(&pattern.base) || pattern.base.starts_with(root);
        input.write.iter().any(reaches)
    });
    let found = Found::of(&wide.iter().collect::<Vec<_>>(), stopped);
    places.extend(found.places);
    let (ours, named): (Vec<_>, Vec<_>) = wide
        .iter()
        .filter(|pattern| found.in_part.contains(&pattern.text))
        .partition(|pattern| is_ours(pattern));
    let texts = |patterns: Vec<&FilePattern>| -> Vec<String> {
        patterns.into_iter().map(|pattern| pattern.text.clone()).collect()
    };
    input.protected_in_part = texts(named);
    input.default_protected_in_part = texts(ours);
    let writable = |path: &PathBuf| input.write.iter().any(|root| path.starts_with(root));
    // A file that a write rule names letter by letter may be written though it is agent configuration.
    // A pattern for all that is in a folder does not speak of the folder itself.
    let stays = |path: &PathBuf| {
        around.protected.contains(path)
            || files.may_write(path).is_err()
            || files.may_write(&path.join("any")).is_err()
    };
    places.retain(|path| writable(path) && stays(path));
    places.sort();
    places.dedup();
    if policy.writes_git() {
        input.held = places.iter().filter(|path| is_git_data(path, around)).cloned().collect();
        places = places.iter().flat_map(|path| within_git(path, around)).collect();
    }
    let named = Found::matchers(files.protect.iter().filter(|pattern| !is_ours(pattern)));
    input.protects_by_name =
        places.iter().any(|path| named.iter().any(|matcher| matcher.is_match(path)));
    input.protected_inside = places;
}

fn is_git_data(path: &Path, around: &Surroundings) -> bool {
    path.is_dir() && (around.git_dirs.iter().any(|dir| dir == path) || path.ends_with(".git"))
}

/// With a rule that lets git change the repository, what stays protected of its data is what would make
/// later git commands run something.
fn within_git(path: &Path, around: &Surroundings) -> Vec<PathBuf> {
    const STAYS: &[&str] =
        &["config", "config.worktree", "hooks", "info", "objects/info/alternates", "modules"];
    let is_data =
        path.is_dir() && (around.git_dirs.iter().any(|dir| dir == path) || path.ends_with(".git"));
    match is_data {
        true => STAYS.iter().map(|name| path.join(name)).collect(),
        false => vec![path.to_owned()],
    }
}

/// What patterns find on the disk.
#[derive(Default)]
struct Found {
    places: Vec<PathBuf>,
    /// Patterns that find more than was looked at or can be taken.
    in_part: Vec<String>,
}

/// Entries looked at for patterns that hold anywhere below a folder.
const MAX_WALKED: usize = 50_000;
/// Places taken of one pattern.
const MAX_FOUND: usize = 200;

impl Found {
    fn matchers<'a>(patterns: impl Iterator<Item = &'a FilePattern>) -> Vec<GlobMatcher> {
        let glob = |pattern: &FilePattern| {
            let glob = pattern.glob.strip_suffix("/**").unwrap_or(&pattern.glob);
            GlobBuilder::new(glob).literal_separator(true).build().ok()
        };
        patterns.filter_map(glob).map(|glob| glob.compile_matcher()).collect()
    }

    /// Folders as a whole where a pattern covers all that is in them.
    fn of(patterns: &[&FilePattern], stopped: &AtomicBool) -> Self {
        let mut found = Self::default();
        let mut globs: BTreeMap<&Path, Vec<(&FilePattern, GlobMatcher)>> = BTreeMap::new();
        for pattern in patterns {
            if pattern.literal || pattern.whole_folder {
                found.places.extend(resolved(&pattern.base));
                continue;
            }
            let glob = pattern.glob.strip_suffix("/**").unwrap_or(&pattern.glob);
            match GlobBuilder::new(glob).literal_separator(true).build() {
                Ok(glob) => {
                    globs.entry(&pattern.base).or_default().push((pattern, glob.compile_matcher()));
                }
                Err(_) => found.in_part.push(pattern.text.clone()),
            }
        }
        for (base, globs) in globs {
            found.walk(base, &globs, stopped);
        }
        found.places.sort();
        found.places.dedup();
        found
    }

    fn walk(&mut self, base: &Path, globs: &[(&FilePattern, GlobMatcher)], stopped: &AtomicBool) {
        let Ok(base) = base.canonicalize() else { return };
        let mut counts = vec![0usize; globs.len()];
        let mut looked = 0;
        let entries = ignore::WalkBuilder::new(&base)
            .standard_filters(false)
            // Objects of repositories are many, and nobody's own files.
            .filter_entry(|entry| entry.file_name() != "objects" || !is_in_git(entry.path()))
            .build();
        for entry in entries {
            if stopped.load(Ordering::Relaxed) {
                return;
            }
            looked += 1;
            if looked > MAX_WALKED {
                let all = globs.iter().map(|(pattern, _)| pattern.text.clone());
                self.in_part.extend(all);
                return;
            }
            let Ok(entry) = entry else { continue };
            // A link is judged by what it leads to.
            if entry.file_type().is_none_or(|kind| kind.is_symlink()) {
                continue;
            }
            for (count, (pattern, glob)) in counts.iter_mut().zip(globs) {
                if !glob.is_match(entry.path()) {
                    continue;
                }
                *count += 1;
                if *count > MAX_FOUND {
                    self.in_part.push(pattern.text.clone());
                } else {
                    self.places.push(entry.path().to_owned());
                }
            }
        }
    }
}

fn is_in_git(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.join("HEAD").is_file())
}

/// Whether a policy may have this path written, by its patterns alone: for keeping the run's own
/// folders out of the way before any place exists.
pub fn is_writable(policy: &Policy, path: &Path) -> bool {
    policy.files().write.iter().any(|pattern| {
        path.starts_with(&pattern.base) || (!pattern.literal && pattern.base.starts_with(path))
    })
}

/// The largest folders and single existing files that a pattern wholly covers; false where files that
/// do not exist yet would match as well.
fn places(pattern: &FilePattern, stopped: &AtomicBool) -> (Vec<PathBuf>, bool) {
    if pattern.whole_folder {
        // A folder that is not there yet (target/) is made, or no command could ever make it.
        if !pattern.base.exists() {
            let _ = std::fs::create_dir_all(&pattern.base);
        }
        return (resolved(&pattern.base), true);
    }
    if pattern.literal {
        return (resolved(&pattern.base), pattern.base.exists());
    }
    let Ok(glob) = GlobBuilder::new(&pattern.glob).literal_separator(true).build() else {
        return (Vec::new(), false);
    };
    let matcher = glob.compile_matcher();
    let walk = ignore::WalkBuilder::new(&pattern.base).standard_filters(false).build();
    let found = walk
        .take_while(|_| !stopped.load(Ordering::Relaxed))
        .flatten()
        .take(MAX_LOOKED_AT)
        .filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()))
        .filter(|entry| matcher.is_match(entry.path()))
        .flat_map(|entry| resolved(entry.path()))
        .collect();
    (found, false)
}

/// The place itself, links followed; nothing where it does not exist.
fn resolved(path: &Path) -> Vec<PathBuf> {
    path.canonicalize().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Ground, PolicyFile};

    #[test]
    fn once_a_signal_has_come_no_more_is_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap();
        for number in 0..10 {
            let folder = workspace.join(format!("d{number}"));
            std::fs::create_dir(&folder).unwrap();
            for name in ["a.txt", "a.secret", "AGENTS.md"] {
                std::fs::write(folder.join(name), "").unwrap();
            }
        }
        let text = "version: 1\nfiles: { write: [\"**/*.txt\"], read: [\"**\"], \
            deny_read: [\"**/*.secret\"], protect: [\"**/*.txt\"] }\n";
        let file = PolicyFile::parse("p", text, &|_| Err(String::new())).unwrap();
        let ground = Ground {
            workspace: workspace.clone(),
            home: None,
            protected: Vec::new(),
            untrusted: false,
            git_dirs: Vec::new(),
        };
        let policy = file.compile(&ground).unwrap();
        let around = Surroundings {
            scratch: dir.path().into(),
            programs: Vec::new(),
            protected: Vec::new(),
            git_dirs: Vec::new(),
            repository: None,
        };
        let found = |stopped| {
            let input = plan_input(&policy, &around, &AtomicBool::new(stopped));
            [&input.write, &input.hidden]
                .map(|places| places.iter().filter(|place| place.starts_with(&workspace)).count())
        };
        assert_eq!(found(false), [10, 10]);
        assert_eq!(found(true), [0, 0]);
    }
}
