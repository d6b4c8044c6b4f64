//! The parts of a policy file that are not rules: networks, environment, sandbox, limits, tests.

use super::super::model::{
    CommandLimits, EnvRules, Model, NetworkChoice, NetworkDefinition, PolicyTest, SandboxLevel,
    SandboxMode,
};
use super::rule::rule_ref;
use crate::protocol::Decision;
use crate::spec::fault::Faults;
use crate::spec::yaml::{Kind, Node, Table, quoted};

/// Names that have a meaning of their own and can't name a network.
const NETWORK_WORDS: &[&str] = &["none", "loopback", "open"];

pub fn networks(node: &Node, model: &mut Model, faults: &mut Faults) {
    let Some(table) = Table::new(node, "networks", faults) else { return };
    for (key, node) in table.all() {
        if NETWORK_WORDS.contains(&key.name.as_str()) {
            faults.add(
                key.at,
                format!("a network can't be named \"{}\"", key.name),
                "none, loopback and open have a meaning of their own",
            );
        } else if let Some(definition) = definition(node, faults) {
            model.networks.insert(key.name.clone(), definition);
        }
    }
}

fn definition(node: &Node, faults: &mut Faults) -> Option<NetworkDefinition> {
    if !matches!(node.kind, Kind::Map(_)) {
        let choices = [("loopback", false), ("open", true)];
        let open = node.choice("a network without hosts", &choices, faults)?;
        return Some(if open { NetworkDefinition::Open } else { NetworkDefinition::Loopback });
    }
    let mut table = Table::new(node, "network", faults)?;
    let Some(list) = table.get("hosts") else {
        faults.add(node.at, "the network has no \"hosts\"", "write `{ hosts: [\"example.com\"] }`");
        return None;
    };
    let mut hosts = Vec::new();
    for item in list.seq("hosts", faults).unwrap_or_default() {
        let Some(host) = item.string("hosts", faults) else { continue };
        if is_host(&host) {
            hosts.push(host);
        } else {
            faults.add(
                item.at,
                format!("{} is no host", quoted(&host)),
                "write a name or address, `*.example.com` for its sub-domains, `host:port` for one port",
            );
        }
    }
    table.finish("network", faults);
    if hosts.is_empty() {
        faults.add(list.at, "\"hosts\" names no host", "leave the network out, or name its hosts");
        return None;
    }
    Some(NetworkDefinition::Hosts(hosts))
}

/// A host name or IPv4 address, with `*.` in front or `:port` behind if wanted.
fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let (name, port) = match name.rsplit_once(':') {
        Some((name, port)) => (name, Some(port)),
        None => (name, None),
    };
    let port_is_good = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let label_is_good = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
    };
    port_is_good && name.len() <= 253 && name.split('.').all(label_is_good)
}

/// `none`, `loopback`, `open`, or the name of a network; that it exists is checked at the end.
pub fn network_choice(node: &Node, what: &str, faults: &mut Faults) -> Option<NetworkChoice> {
    let name = node.string(what, faults)?;
    Some(match name.as_str() {
        "none" => NetworkChoice::None,
        "loopback" => NetworkChoice::Loopback,
        "open" => NetworkChoice::Open,
        _ => NetworkChoice::Named(name),
    })
}

/// The name of an environment variable.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

pub fn environment(node: &Node, faults: &mut Faults) -> EnvRules {
    let mut rules = EnvRules::default();
    let Some(mut table) = Table::new(node, "env", faults) else { return rules };
    if let Some(list) = table.get("pass") {
        for item in list.seq("env.pass", faults).unwrap_or_default() {
            let Some(name) = item.string("env.pass", faults) else { continue };
            if !is_variable_name(&name) {
                faults.add(
                    item.at,
                    format!("{} is no variable name", quoted(&name)),
                    "names are spelled out one by one: letters, digits and _",
                );
            } else if changes_the_shell(&name) {
                faults.add(item.at, format!("{name} can't be passed: it changes how bash reads scripts or finds programs"), "");
            } else if rules.pass.contains(&name) {
                faults.add(
                    item.at,
                    format!("\"{name}\" stands in env.pass twice"),
                    "once is enough",
                );
            } else {
                rules.pass.push(name);
            }
        }
    }
    if let Some(node) = table.get("set") {
        rules.set = pairs(node, "env.set", faults);
    }
    table.finish("env", faults);
    rules
}

/// What is judged is what runs only in a shell that reads like the judge: not even the operator can
/// pass these.
fn changes_the_shell(name: &str) -> bool {
    matches!(
        name,
        "PATH"
            | "BASH_ENV"
            | "ENV"
            | "SHELLOPTS"
            | "BASHOPTS"
            | "CDPATH"
            | "IFS"
            | "GLOBIGNORE"
            | "EXECIGNORE"
            | "POSIXLY_CORRECT"
            | "PROMPT_COMMAND"
            | "PS4"
            | "BASH_COMPAT"
    ) || name.starts_with("BASH_FUNC_")
}

/// `NAME: value` pairs that become environment variables.
pub fn pairs(node: &Node, what: &str, faults: &mut Faults) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let Some(table) = Table::new(node, what, faults) else { return pairs };
    for (key, node) in table.all() {
        if !is_variable_name(&key.name) {
            faults.add(key.at, format!("{} is no variable name", quoted(&key.name)), "");
        } else if changes_the_shell(&key.name) {
            faults.add(
                key.at,
                format!(
                    "{} can't be set: it changes how bash reads scripts or finds programs",
                    key.name
                ),
                "name a program by its path in a rule",
            );
        } else if let Some(value) = node.string(what, faults) {
            if value.contains('\0') {
                faults.add(node.at, "a value can't hold a NUL", "");
            } else {
                pairs.push((key.name.clone(), value));
            }
        }
    }
    pairs
}

/// Layers that `sandbox.layers` can pin.
const LAYERS: &[(&str, &str)] = &[
    ("landlock", "landlock"),
    ("seccomp", "seccomp"),
    ("namespaces", "namespaces"),
    ("seatbelt", "seatbelt"),
];

/// What a sanitizer, debugger, browser or nested sandbox may need.
const SWITCHES: &[&str] =
    &["allow_ptrace", "allow_user_namespaces", "allow_io_uring", "allow_sysv_ipc"];

pub fn sandbox(node: &Node, faults: &mut Faults) -> SandboxMode {
    let mut mode = SandboxMode::default();
    if !matches!(node.kind, Kind::Map(_)) {
        mode.level = level(node, "sandbox", faults);
        return mode;
    }
    let Some(mut table) = Table::new(node, "sandbox", faults) else { return mode };
    if let Some(node) = table.get("mode") {
        mode.level = level(node, "sandbox.mode", faults);
    }
    for item in
        table.get("accept").and_then(|node| node.seq("sandbox.accept", faults)).unwrap_or_default()
    {
        if item.choice("sandbox.accept", &[("reverted", ())], faults).is_some() {
            mode.accept_reverted = true;
        }
    }
    for item in
        table.get("layers").and_then(|node| node.seq("sandbox.layers", faults)).unwrap_or_default()
    {
        if let Some(layer) = item.choice("sandbox.layers", LAYERS, faults) {
            if mode.layers.iter().any(|known| known == layer) {
                faults.add(item.at, format!("\"{layer}\" stands in layers twice"), "");
            }
            mode.layers.push(layer.to_owned());
        }
    }
    for switch in SWITCHES {
        if table.get(switch).and_then(|node| node.bool(switch, faults)) == Some(true) {
            mode.switches.push((*switch).to_owned());
        }
    }
    table.finish("sandbox", faults);
    mode
}

fn level(node: &Node, what: &str, faults: &mut Faults) -> SandboxLevel {
    let choices = [
        ("require", SandboxLevel::Require),
        ("best-effort", SandboxLevel::BestEffort),
        ("off", SandboxLevel::Off),
    ];
    node.choice(what, &choices, faults).unwrap_or_default()
}

pub fn limits(node: &Node, faults: &mut Faults) -> CommandLimits {
    let mut limits = CommandLimits::default();
    let Some(mut table) = Table::new(node, "command_limits", faults) else { return limits };
    if let Some(node) = table.get("timeout")
        && let Some(timeout) = node.duration("command_limits.timeout", faults)
    {
        limits.timeout = timeout;
    }
    if let Some(node) = table.get("output")
        && let Some(size) = node.size("command_limits.output", faults)
    {
        if (1024..=256 << 20).contains(&size) {
            limits.output = size;
        } else {
            faults.add(node.at, "\"command_limits.output\" is out of range", "1KiB to 256MiB");
        }
    }
    if let Some(node) = table.get("processes") {
        limits.processes = node.uint("command_limits.processes", 1, faults);
    }
    if let Some(node) = table.get("memory")
        && let Some(size) = node.size("command_limits.memory", faults)
    {
        if size >= 16 << 20 {
            limits.memory = Some(size);
        } else {
            faults.add(
                node.at,
                "\"command_limits.memory\" is too small for any program",
                "give at least 16MiB",
            );
        }
    }
    if let Some(node) = table.get("keep_free") {
        limits.keep_free = node.size("command_limits.keep_free", faults);
    }
    if let Some(node) = table.get("log")
        && let Some(size) = node.size("command_limits.log", faults)
    {
        if (4096..=16 << 30).contains(&size) {
            limits.log = Some(size);
        } else {
            faults.add(node.at, "\"command_limits.log\" is out of range", "4KiB to 16GiB");
        }
    }
    table.finish("command_limits", faults);
    limits
}

pub fn tests(node: &Node, faults: &mut Faults) -> Vec<PolicyTest> {
    let mut tests = Vec::new();
    for item in node.seq("tests", faults).unwrap_or_default() {
        let Some(mut table) = Table::new(item, "test", faults) else { continue };
        let run = table.get("run").and_then(|node| node.string("run", faults));
        let cwd = table.get("cwd").and_then(|node| node.string("cwd", faults));
        let choices =
            [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)];
        let expect = table.get("expect").map(|node| node.choice("expect", &choices, faults));
        if run.is_none() {
            faults.add(
                item.at,
                "the test has no \"run\"",
                "write `{ run: \"ls\", expect: allow }`",
            );
        }
        if expect.is_none() {
            faults.add(item.at, "the test has no \"expect\"", "write allow, ask or deny");
        }
        table.finish("a test", faults);
        if let (Some(run), Some(Some(expect))) = (run, expect) {
            let source = rule_ref(faults, item.at, format!("test: {run}"));
            tests.push(PolicyTest { run, cwd, expect, source });
        }
    }
    tests
}
