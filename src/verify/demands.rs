//! The operator's demands on what a Turn may and must have changed.

use crate::diff::TreeEntry;
use crate::protocol::Unmet;
use crate::rollout::{DiffRecord, FileChangeRecord, FileStatus};
use crate::workspace::{Workspace, WorkspaceError};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use std::collections::{BTreeMap, BTreeSet};

/// What the Turn must have done to the workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Expect {
    Changes,
    None,
    #[default]
    Any,
}

/// Demands of a spec, beside its checks.
#[derive(Debug, Clone, Default)]
pub struct Demands {
    pub expect: Expect,
    pub require_files: Vec<String>,
    /// May not change, whatever the policy grants.
    pub keep: Vec<String>,
    pub max_changed_files: Option<u64>,
    pub max_changed_lines: Option<u64>,
    /// Paths that earlier Turns of the Session changed: what is demanded of the work is demanded of
    /// all of it, not of the part after the last interruption. Lines are counted for this Turn alone.
    pub carried: BTreeSet<String>,
    /// The commit that the Session began from: a carried path that is as it was there is no change.
    pub carried_base: String,
}

impl Demands {
    /// Forgets carried paths that this Turn put back as they were when the Session began; `ends` are
    /// those that it changed.
    pub fn put_back(
        &mut self,
        ends: &BTreeMap<String, Option<TreeEntry>>,
        workspace: &mut Workspace,
    ) -> Result<BTreeSet<String>, WorkspaceError> {
        let back = workspace.as_committed(&self.carried_base, ends)?;
        self.carried.retain(|path| !back.contains(path));
        Ok(back)
    }

    /// What does not hold. `prefix` stands before every path of the diff.
    pub fn unmet(&self, diff: &DiffRecord, prefix: &[u8], workspace: &Workspace) -> Vec<Unmet> {
        let mut all = Vec::new();
        let diff = &self.with_carried(diff);
        all.extend(self.size(diff));
        all.extend(self.kept(diff, prefix, workspace));
        for file in &self.require_files {
            if !workspace.has_file(file) {
                all.push(unmet(
                    "require_files",
                    format!("the required file {file} does not exist"),
                ));
            }
        }
        match self.expect {
            Expect::Changes if diff.files.is_empty() => {
                all.push(unmet("expect.changes", "nothing was changed, but changes are expected"));
            }
            Expect::None if !diff.files.is_empty() => {
                let message = format!("no change is expected, but files changed: {}", names(diff));
                all.push(unmet("expect.none", message));
            }
            Expect::Changes | Expect::None | Expect::Any => {}
        }
        all
    }

    /// The diff with what earlier Turns changed and this one did not touch.
    fn with_carried(&self, diff: &DiffRecord) -> DiffRecord {
        let mut whole = diff.clone();
        let known: BTreeSet<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
        let earlier = self.carried.iter().filter(|path| !known.contains(path.as_str()));
        whole.files.extend(earlier.map(|path| FileChangeRecord {
            path: path.clone(),
            renamed_from: None,
            status: FileStatus::Modified,
            added: 0,
            removed: 0,
            binary: false,
            by: vec!["an earlier turn".into()],
        }));
        whole
    }

    fn size(&self, diff: &DiffRecord) -> Vec<Unmet> {
        let mut all = Vec::new();
        let files = diff.files.len() as u64;
        if let Some(limit) = self.max_changed_files
            && files > limit
        {
            let message = format!("{files} files changed; {limit} are the limit: {}", names(diff));
            all.push(unmet("limit.changed_files", message));
        }
        // A binary file has no lines; it counts as one.
        let binary = diff.files.iter().filter(|file| file.binary).count() as u64;
        let lines = diff.added + diff.removed + binary;
        if let Some(limit) = self.max_changed_lines
            && lines > limit
        {
            let message =
                format!("{lines} lines changed (added and removed); {limit} are the limit");
            all.push(unmet("limit.changed_lines", message));
        }
        all
    }

    fn kept(&self, diff: &DiffRecord, prefix: &[u8], workspace: &Workspace) -> Vec<Unmet> {
        let Some(set) = glob_set(&self.keep) else {
            let message = "the globs of keep cannot be compiled, so nothing counts as kept";
            return vec![unmet("keep", message)];
        };
        let place = String::from_utf8_lossy(prefix).into_owned();
        let inside = |path: &str| -> String {
            let path = path.strip_prefix(place.as_str()).unwrap_or(path);
            workspace.inside(path).to_owned()
        };
        let mut touched: Vec<&str> = diff
            .files
            .iter()
            .flat_map(|file| [Some(file.path.as_str()), file.renamed_from.as_deref()])
            .flatten()
            .filter(|path| set.is_match(inside(path)))
            .collect();
        touched.sort_unstable();
        touched.dedup();
        if touched.is_empty() {
            return Vec::new();
        }
        vec![unmet("keep", format!("these files must not change: {}", touched.join(", ")))]
    }
}

fn glob_set(globs: &[String]) -> Option<GlobSet> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(GlobBuilder::new(glob).literal_separator(true).build().ok()?);
    }
    set.build().ok()
}

fn names(diff: &DiffRecord) -> String {
    const SHOWN: usize = 10;
    let mut names: Vec<&str> = diff.files.iter().map(|file| file.path.as_str()).collect();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

fn unmet(reason: &str, message: impl Into<String>) -> Unmet {
    let message = message.into();
    Unmet { reason: reason.into(), detail: message.clone(), message }
}
