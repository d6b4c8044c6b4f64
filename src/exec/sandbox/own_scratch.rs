//! A sandbox for commands beside those of the model: the same walls, with another scratch in the place of
//! the one that the model's commands write.

use super::{Confinement, Grade, Sandbox};
use crate::exec::runner::Beside;
use crate::policy::Network;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The walls of `inner`, the scratch exchanged.
pub struct OwnScratch {
    inner: Arc<dyn Sandbox>,
    from: PathBuf,
    to: PathBuf,
    read: Vec<PathBuf>,
}

impl OwnScratch {
    pub fn new(inner: Arc<dyn Sandbox>, own: &Beside) -> Self {
        let (from, to) = (own.instead_of.clone(), own.scratch.clone());
        Self { inner, from, to, read: own.read.clone() }
    }

    fn moved(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.from).map_or_else(|_| path.to_owned(), |rest| self.to.join(rest))
    }
}

impl Sandbox for OwnScratch {
    fn confinement(&self, network: &Network) -> Result<Confinement, String> {
        let mut confinement = self.inner.confinement(network)?;
        for path in confinement.read.iter_mut().chain(&mut confinement.write) {
            *path = self.moved(path);
        }
        confinement.mounts.tmp = confinement.mounts.tmp.map(|path| self.moved(&path));
        if confinement.enabled {
            confinement.read.extend(self.read.iter().cloned());
        }
        Ok(confinement)
    }

    fn variables(&self, network: &Network) -> Vec<(String, String)> {
        self.inner.variables(network)
    }

    fn grades(&self) -> &[Grade] {
        self.inner.grades()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::sandbox::{Findings, Layers, Plan, PlanInput, Walls};
    use crate::exec::{CleanPath, Environment, EnvironmentInput};

    #[test]
    fn the_scratch_of_the_model_is_nowhere_in_the_walls() {
        let plan = Plan::new(PlanInput {
            write: vec!["/ws".into()],
            read: vec!["/ws".into()],
            scratch: "/state/scratch/1".into(),
            ..PlanInput::default()
        });
        let grades = plan.grades(Layers::ALL, &Findings::default());
        let walls = Arc::new(Walls::new(plan, Layers::ALL, Vec::new(), grades));
        let path = CleanPath::new(None, &|_| false);
        let own = Beside {
            environment: Environment::new(EnvironmentInput::default(), &path),
            scratch: "/state/hooks/1".into(),
            instead_of: "/state/scratch/1".into(),
            read: vec!["/guard.sh".into()],
        };
        let theirs = walls.confinement(&Network::None).unwrap();
        assert!(format!("{theirs:?}").contains("/state/scratch/1"));
        let ours = OwnScratch::new(walls, &own).confinement(&Network::None).unwrap();
        let shown = format!("{ours:?}");
        assert!(!shown.contains("/state/scratch"), "{shown}");
        assert!(ours.write.contains(&"/state/hooks/1".into()), "{shown}");
        assert!(ours.read.contains(&"/guard.sh".into()), "{shown}");
        assert!(ours.mounts.tmp.is_none_or(|tmp| tmp == Path::new("/state/hooks/1/tmp")));
    }
}
