//! The policy bound to its place: immutable, shared, and the only one who makes Permits.

use super::facts::{Ground, Judged};
use super::files::FileRules;
use super::model::{
    CommandLimits, DefaultDecision, EnvRules, Model, NetworkDefinition, OnAsk, OnDeny, PolicyTest,
    SandboxMode,
};
use super::permit::{Network, ReadPermit, WritePermit};
use super::rules::RuleSet;
use super::source;
use crate::protocol::{Decision, PartVerdict, RuleRef, Verdict};
use crate::spec::fault::Fault;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A policy as it was written: parsed and checked, not yet bound to a place.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    model: Model,
    digest: String,
}

/// What runs without a policy of its own: read, search and patch in the workspace.
const BUILT_IN: &str = "\
version: 1
use: [inspect]
exec: { default: deny, on_deny: continue }
files: { read: [\"**\"], write: [\"**\"], deny_read: [\"**/.env\", \"**/.env.*\"] }
network: none
sandbox: require
";

impl PolicyFile {
    /// Reads a policy and everything it uses. `load` gives the text of another file by its path;
    /// presets are in the binary.
    pub fn parse(
        file: &str,
        source: &str,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Self, Vec<Fault>> {
        let model = source::load(file, source, load)?;
        let digest = digest(&model);
        Ok(Self { model, digest })
    }

    /// The policy of a run that names none.
    pub fn built_in() -> Self {
        let none = |_: &str| Err("the built-in policy uses no files".to_owned());
        match Self::parse("built-in", BUILT_IN, &none) {
            Ok(policy) => policy,
            // A test reads it; if it could ever fail, a policy that allows nothing is the safe one.
            Err(_) => {
                let model = Model::default();
                let digest = digest(&model);
                Self { model, digest }
            }
        }
    }

    /// SHA-256 of what the policy says, the files and presets it uses included; comments and the
    /// order of keys do not count.
    pub fn digest(&self) -> String {
        self.digest.clone()
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Binds the policy to a place.
    pub fn compile(&self, ground: &Ground) -> Result<Policy, Vec<Fault>> {
        let model = &self.model;
        let mut env = model.env.clone();
        if ground.untrusted {
            env.pass.retain(|name| !looks_secret(name));
        }
        let mut policy = Policy {
            workspace: ground.workspace.clone(),
            default: model.default.clone(),
            on_deny: model.on_deny,
            on_ask: model.on_ask,
            untrusted: ground.untrusted,
            rules: RuleSet::bind(model, ground),
            files: FileRules::bind(&model.files, ground)?,
            networks: model.networks.clone(),
            network: Network::None,
            env,
            limits: model.limits.clone(),
            sandbox: model.sandbox.clone(),
            tests: model.tests.clone(),
            sources: model.sources.clone(),
            digest: self.digest.clone(),
        };
        if let Some(choice) = &model.network {
            policy.network = policy.network_of(choice);
        }
        Ok(policy)
    }
}

fn digest(model: &Model) -> String {
    let canonical = serde_json::to_string(model).unwrap_or_default();
    let hash = Sha256::digest(canonical.as_bytes());
    hash.iter().fold(String::new(), |mut hex, byte| {
        hex.push_str(&format!("{byte:02x}"));
        hex
    })
}

/// Names that usually hold a secret; with untrusted input in the Turn they are not passed.
fn looks_secret(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    [
        "TOKEN",
        "SECRET",
        "PASSW",
        "CREDENTIAL",
        "APIKEY",
        "API_KEY",
        "PRIVATE",
        "_KEY",
        "AUTH",
        "COOKIE",
        "SESSION",
    ]
    .iter()
    .any(|sign| upper.contains(sign))
}

/// A policy that judges.
#[derive(Debug)]
pub struct Policy {
    pub(super) workspace: PathBuf,
    pub(super) default: DefaultDecision,
    pub(super) on_deny: OnDeny,
    pub(super) on_ask: OnAsk,
    pub(super) untrusted: bool,
    pub(super) rules: RuleSet,
    pub(super) files: FileRules,
    pub(super) networks: BTreeMap<String, NetworkDefinition>,
    /// What a rule without a network of its own gets.
    pub(super) network: Network,
    pub(super) env: EnvRules,
    pub(super) limits: CommandLimits,
    pub(super) sandbox: SandboxMode,
    pub(super) tests: Vec<PolicyTest>,
    pub(super) sources: Vec<String>,
    pub(super) digest: String,
}

impl Policy {
    /// Judges reading one resolved path.
    pub fn judge_read(&self, path: &Path) -> Judged<ReadPermit> {
        let part = format!("read {}", self.shown(path));
        let verdict = match self.files.may_read(path) {
            Ok(rule) => one(part, Decision::Allow, rule.clone(), "files.read covers it".into()),
            Err((rule, why)) => one(part, Decision::Deny, rule, why),
        };
        let permit = verdict.is_allow().then(|| ReadPermit::granted(path.to_path_buf()));
        Judged { verdict, permit }
    }

    /// Judges writing all of these resolved paths, as one patch does.
    pub fn judge_write(&self, paths: &[PathBuf]) -> Judged<WritePermit> {
        let mut parts = Vec::new();
        for path in paths {
            let part = format!("write {}", self.shown(path));
            let (decision, rule, reason) = match self.files.may_write(path) {
                Ok(rule) => (Decision::Allow, rule.clone(), "files.write covers it".into()),
                Err((rule, why)) => (Decision::Deny, rule, why),
            };
            parts.push(PartVerdict { part, argv: Vec::new(), decision, rule, reason });
        }
        let first_denied = parts.iter().find(|part| part.decision == Decision::Deny);
        let deciding = first_denied.or(parts.first());
        let verdict = match deciding {
            None => Verdict {
                action: "write nothing".into(),
                decision: Decision::Deny,
                asked: false,
                rule: RuleRef::built_in("files: no path was named"),
                reason: "no path was named".into(),
                parts,
            },
            Some(part) => Verdict {
                action: match parts.len() {
                    1 => part.part.clone(),
                    count => format!("write {count} files"),
                },
                decision: part.decision,
                asked: false,
                rule: part.rule.clone(),
                reason: part.reason.clone(),
                parts: parts.clone(),
            },
        };
        let permit = verdict.is_allow().then(|| WritePermit::granted(paths.to_vec()));
        Judged { verdict, permit }
    }

    /// A path as the model knows it.
    fn shown(&self, path: &Path) -> String {
        match path.strip_prefix(&self.workspace) {
            Ok(inside) if inside.as_os_str().is_empty() => ".".into(),
            Ok(inside) => inside.display().to_string(),
            Err(_) => path.display().to_string(),
        }
    }

    /// Whether any command can be allowed at all.
    pub fn offers_commands(&self) -> bool {
        let approves = self.on_ask == OnAsk::Approve;
        let could = |decision, keeps: bool| match decision {
            Decision::Allow => true,
            Decision::Ask => approves && (!self.untrusted || keeps),
            Decision::Deny => false,
        };
        could(self.default.decision, false)
            || self.rules.all().any(|rule| could(rule.decision, rule.even_if_untrusted))
    }

    /// Whether any file can be written by a patch.
    pub fn offers_writes(&self) -> bool {
        self.files.any_write()
    }

    /// Whether some rule lets git change the repository, so that the sandbox must leave its objects,
    /// index and refs writable. Its configuration and hooks never are.
    pub fn writes_git(&self) -> bool {
        let granted = self.rules.all().filter(|rule| rule.decision != Decision::Deny);
        self.default.decision != Decision::Deny
            || granted.into_iter().any(|rule| rule.changes_git())
    }

    pub fn on_deny(&self) -> OnDeny {
        self.on_deny
    }

    pub fn files(&self) -> &FileRules {
        &self.files
    }

    pub fn environment(&self) -> &EnvRules {
        &self.env
    }

    pub fn limits(&self) -> &CommandLimits {
        &self.limits
    }

    pub fn sandbox(&self) -> &SandboxMode {
        &self.sandbox
    }

    pub fn is_untrusted(&self) -> bool {
        self.untrusted
    }

    /// The network that commands get whose rule names none.
    pub fn default_network(&self) -> &Network {
        &self.network
    }

    /// Every network that some command could get, for the sandbox to be ready.
    pub fn networks_in_use(&self) -> Vec<Network> {
        let mut all = vec![self.network.clone()];
        for rule in self.rules.all().filter(|rule| rule.decision != Decision::Deny) {
            if let Some(choice) = &rule.network
                && (!self.untrusted || rule.even_if_untrusted)
            {
                let network = self.network_of(choice);
                if !all.contains(&network) {
                    all.push(network);
                }
            }
        }
        all
    }

    pub fn tests(&self) -> &[PolicyTest] {
        &self.tests
    }

    pub fn sources(&self) -> &[String] {
        &self.sources
    }

    pub fn digest(&self) -> &str {
        &self.digest
    }

    pub fn workspace(&self) -> &Path {
        &self.workspace
    }

    /// Whether the policy hands this variable to commands, so that a script may set it.
    pub(super) fn passes(&self, name: &str) -> bool {
        self.env.pass.iter().any(|known| known == name)
            || self.env.set.iter().any(|(known, _)| known == name)
    }
}

fn one(part: String, decision: Decision, rule: RuleRef, reason: String) -> Verdict {
    let verdict = PartVerdict {
        part: part.clone(),
        argv: Vec::new(),
        decision,
        rule: rule.clone(),
        reason: reason.clone(),
    };
    Verdict { action: part, decision, asked: false, rule, reason, parts: vec![verdict] }
}
