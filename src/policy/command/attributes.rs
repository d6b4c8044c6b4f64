//! What an allowed command is granted, and what a script of several commands gets: the least that
//! its parts have in common.

use crate::policy::hazards::Examined;
use crate::policy::hazards::git::config::Tamed;
use crate::policy::model::{NetworkChoice, NetworkDefinition, Rule};
use crate::policy::permit::{Attributes, Network};
use crate::policy::policy::Policy;
use std::time::Duration;

/// What one part grants.
#[derive(Debug, Clone, Default)]
pub struct Granted {
    /// Nothing for parts that neither run programs of others' making nor use a network.
    pub network: Option<Network>,
    pub timeout: Option<Duration>,
    pub env: Option<Vec<(String, String)>>,
    /// The rule, for messages.
    pub cmd: String,
    /// What its repository's configuration could make git run.
    pub git: Option<Tamed>,
    /// The rule has a limit of calls.
    pub is_counted: bool,
}

impl Granted {
    pub fn nothing() -> Self {
        Self::default()
    }

    pub fn by(rule: &Rule, policy: &Policy, examined: &Examined, git: Option<Tamed>) -> Self {
        let is_counted = rule.max_calls.is_some();
        if examined.inert && rule.network.is_none() && rule.env.is_empty() {
            return Self { timeout: rule.timeout, is_counted, ..Self::default() };
        }
        let keeps = !policy.untrusted || rule.even_if_untrusted;
        let network = match &rule.network {
            Some(choice) => policy.network_of(choice),
            None => policy.network.clone(),
        };
        Self {
            network: Some(if keeps { network } else { Network::None }),
            timeout: rule.timeout,
            env: Some(if keeps { rule.env.clone() } else { Vec::new() }),
            cmd: rule.cmd.clone(),
            git,
            is_counted,
        }
    }

    pub fn by_default(
        policy: &Policy,
        program: &str,
        examined: &Examined,
        git: Option<Tamed>,
    ) -> Self {
        if examined.inert {
            return Self::default();
        }
        let network = if policy.untrusted { Network::None } else { policy.network.clone() };
        Self {
            network: Some(network),
            timeout: None,
            env: Some(Vec::new()),
            cmd: program.to_owned(),
            git,
            is_counted: false,
        }
    }
}

impl Policy {
    pub fn network_of(&self, choice: &NetworkChoice) -> Network {
        match choice {
            NetworkChoice::None => Network::None,
            NetworkChoice::Loopback => Network::Loopback,
            NetworkChoice::Open => Network::Open,
            NetworkChoice::Named(name) => match self.networks.get(name) {
                Some(NetworkDefinition::Loopback) => Network::Loopback,
                Some(NetworkDefinition::Open) => Network::Open,
                Some(NetworkDefinition::Hosts(hosts)) => Network::Hosts(hosts.clone()),
                // Checked when the file was read.
                None => Network::None,
            },
        }
    }
}

/// What the whole script gets, and a note when a part would have had more alone.
pub fn combine(parts: &[Granted], policy: &Policy) -> (Attributes, Option<String>) {
    let mut networks = parts.iter().filter_map(|part| part.network.as_ref());
    let network = match networks.next() {
        Some(first) if networks.all(|other| other == first) => first.clone(),
        _ => Network::None,
    };
    let mut sets = parts.iter().filter_map(|part| part.env.as_ref());
    let env = match sets.next() {
        Some(first) if sets.all(|other| other == first) => first.clone(),
        _ => Vec::new(),
    };
    let lost = parts.iter().find(|part| {
        part.network.as_ref().is_some_and(|own| *own != network && *own != Network::None)
            || part.env.as_ref().is_some_and(|own| *own != env && !own.is_empty())
    });
    let note = lost.map(|part| {
        format!("run `{}` alone to give it the network and variables its rule grants", part.cmd)
    });
    let mut attributes = Attributes { timeout: longest(parts, policy), network, env };
    if let Some(tamed) = tamed(parts) {
        let workspace = policy.workspace.to_string_lossy();
        // What the policy sets outranks nothing here: a script could not set these either.
        attributes.env.extend(tamed.environment(&workspace));
    }
    (attributes, note)
}

fn longest(parts: &[Granted], policy: &Policy) -> Option<Duration> {
    let longest = parts.iter().filter_map(|part| part.timeout).max();
    let is_mixed = parts.iter().any(|part| part.timeout.is_none() && part.network.is_some());
    // Commands without a limit of their own keep the general one.
    longest.map(|longest| if is_mixed { longest.max(policy.limits.timeout) } else { longest })
}

fn tamed(parts: &[Granted]) -> Option<Tamed> {
    let mut all: Option<Tamed> = None;
    for tamed in parts.iter().filter_map(|part| part.git.as_ref()) {
        match &mut all {
            Some(all) => all.merge(tamed),
            None => all = Some(tamed.clone()),
        }
    }
    all
}
