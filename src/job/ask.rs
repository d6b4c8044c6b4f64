//! A policy bound to a folder without a run: for the commands that ask what it makes of something. It
//! is bound and looked up exactly as in a run.

use super::places;
use super::prepare::{ground, read_policy};
use crate::exec::CleanPath;
use crate::policy::Policy;
use crate::tools::WorldFacts;
use std::path::{Path, PathBuf};

/// A policy in its place, with the look-ups it needs.
pub struct AskedPolicy {
    pub policy: Policy,
    pub facts: WorldFacts,
    /// The workspace, resolved.
    pub workspace: PathBuf,
    /// The file as it was named, or `built-in`.
    pub file: String,
}

/// Binds the policy of `file`, or the built-in one, to `workspace`. `Err` is a message with every
/// fault.
pub fn bind_policy(
    file: Option<&Path>,
    workspace: &Path,
    home: Option<PathBuf>,
    path: Option<&str>,
    untrusted: bool,
) -> Result<AskedPolicy, String> {
    let (source, name) = read_policy(file).map_err(|refusal| refusal.message)?;
    let workspace = workspace
        .canonicalize()
        .map_err(|error| format!("the workspace {}: {error}", workspace.display()))?;
    let protected = file.and_then(|file| file.canonicalize().ok()).into_iter().collect();
    let ground = ground(&workspace, home, protected, untrusted);
    let policy = source
        .compile(&ground)
        .map_err(|faults| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let writable =
        |place: &Path| place.starts_with(&workspace) || places::is_writable(&policy, place);
    let path = CleanPath::new(path, &writable);
    let written: Vec<PathBuf> =
        policy.files().write.iter().map(|pattern| pattern.base.clone()).collect();
    Ok(AskedPolicy {
        facts: WorldFacts { path, writable: written, reach: None },
        policy,
        workspace,
        file: name,
    })
}
