//! From the policy's path patterns to the folders and files that the sandbox is told of.

use crate::exec::sandbox::PlanInput;
use crate::policy::{FilePattern, FileRules, Policy};
use globset::GlobBuilder;
use std::path::{Path, PathBuf};

/// Entries looked at for one pattern that is neither a folder nor a file.
const MAX_LOOKED_AT: usize = 20_000;

/// What the operator's own part adds to the policy's.
pub struct Surroundings {
    pub scratch: PathBuf,
    /// Folders of the clean PATH and of tools that variables point to.
    pub programs: Vec<PathBuf>,
    /// Spec, policy, artifacts, git data: concrete paths that stay as they are.
    pub protected: Vec<PathBuf>,
}

/// The sandbox plan of a policy in its place.
pub fn plan_input(policy: &Policy, around: &Surroundings) -> PlanInput {
    let files: &FileRules = policy.files();
    let mut input = PlanInput {
        scratch: around.scratch.clone(),
        programs: around.programs.clone(),
        ..PlanInput::default()
    };
    for pattern in &files.write {
        let (places, exact) = places(pattern);
        if !exact {
            input.narrowed.push(pattern.text.clone());
        }
        input.write.extend(places);
    }
    for pattern in &files.read {
        input.read.extend(places(pattern).0);
    }
    // What may be written can be read as well: a compiler reads back what it wrote.
    input.read.extend(input.write.iter().cloned());
    for pattern in &files.deny_read {
        let reaches =
            |root: &PathBuf| pattern.base.starts_with(root) || root.starts_with(&pattern.base);
        if input.read.iter().any(reaches) {
            let ours = pattern.rule.file == "built-in" || pattern.rule.file.starts_with("preset:");
            let list = if ours {
                &mut input.default_deny_read_inside
            } else {
                &mut input.deny_read_inside
            };
            list.push(pattern.text.clone());
        }
    }
    input.protected_inside = around
        .protected
        .iter()
        .filter(|path| input.write.iter().any(|root| path.starts_with(root)))
        .cloned()
        .collect();
    input
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
fn places(pattern: &FilePattern) -> (Vec<PathBuf>, bool) {
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
