//! Reads one policy file into its part of the model. Every key is known here, or is a fault.

use super::super::model::{DefaultDecision, FileLists, Model, OnAsk, OnDeny, PathRule};
use super::parts;
use super::rule::{read_rules, rule_ref};
use crate::protocol::Decision;
use crate::spec::fault::{At, Fault, Faults};
use crate::spec::yaml::{Node, Table};

/// Which file it is: some keys decide for the whole policy and belong to the main file alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Main,
    Used,
    Preset,
}

/// One entry of `use`.
pub struct Use {
    pub name: String,
    pub at: At,
}

/// Keys of the whole file, in the order of the schema.
const MAIN_ONLY: &[&str] = &["approvals", "network", "sandbox", "command_limits", "tests"];

pub fn read(file: &str, node: &Node, place: Place) -> (Model, Vec<Use>, Vec<Fault>) {
    let mut faults = Faults::new(file);
    let mut model = Model::default();
    let mut uses = Vec::new();
    if let Some(mut table) = Table::new(node, "policy", &mut faults) {
        version(&mut table, &mut faults);
        uses = read_uses(&mut table, &mut faults);
        if place != Place::Main {
            refuse_main_keys(&table, &mut faults);
        }
        if let Some(node) = table.get("exec") {
            exec(node, place, &mut model, &mut faults);
        }
        if let Some(node) = table.get("approvals") {
            approvals(node, &mut model, &mut faults);
        }
        if let Some(node) = table.get("files") {
            model.files = files(node, &mut faults);
        }
        if let Some(node) = table.get("networks") {
            parts::networks(node, &mut model, &mut faults);
        }
        if let Some(node) = table.get("network") {
            model.network = parts::network_choice(node, "network", &mut faults);
        }
        if let Some(node) = table.get("env") {
            model.env = parts::environment(node, &mut faults);
        }
        if let Some(node) = table.get("sandbox") {
            model.sandbox = parts::sandbox(node, &mut faults);
        }
        if let Some(node) = table.get("command_limits") {
            model.limits = parts::limits(node, &mut faults);
        }
        if let Some(node) = table.get("tests") {
            model.tests = parts::tests(node, &mut faults);
        }
        table.finish("the policy", &mut faults);
    }
    faults.list.sort_by_key(|fault| fault.at);
    (model, uses, faults.list)
}

fn version(table: &mut Table<'_>, faults: &mut Faults) {
    let Some(node) = table.get("version") else {
        return faults.add(table.at(), "\"version\" is missing", "write `version: 1` first");
    };
    if let Some(version) = node.uint("version", 1, faults)
        && version != 1
    {
        faults.add(
            node.at,
            format!("version {version} is not known"),
            "this binary reads version 1",
        );
    }
}

fn read_uses(table: &mut Table<'_>, faults: &mut Faults) -> Vec<Use> {
    let Some(items) = table.get("use").and_then(|node| node.seq("use", faults)) else {
        return Vec::new();
    };
    let mut uses: Vec<Use> = Vec::new();
    for item in items {
        let Some(name) = item.string("use", faults) else { continue };
        if uses.iter().any(|known| known.name == name) {
            faults.add(item.at, format!("\"{name}\" is used twice"), "once is enough");
        } else {
            uses.push(Use { name, at: item.at });
        }
    }
    uses
}

fn refuse_main_keys(table: &Table<'_>, faults: &mut Faults) {
    for (key, _) in table.all() {
        if MAIN_ONLY.contains(&key.name.as_str()) {
            faults.add(
                key.at,
                format!("\"{}\" can't stand in a file that is used by another", key.name),
                "the main policy file alone decides this",
            );
        }
    }
}

fn exec(node: &Node, place: Place, model: &mut Model, faults: &mut Faults) {
    let Some(mut table) = Table::new(node, "exec", faults) else { return };
    if let Some((key, node)) = table.entry("default") {
        if place != Place::Main {
            faults.add(
                key.at,
                "\"exec.default\" can't stand in a file that is used by another",
                "the main policy file alone decides this",
            );
        }
        let choices =
            [("deny", Decision::Deny), ("ask", Decision::Ask), ("allow", Decision::Allow)];
        if let Some(decision) = node.choice("exec.default", &choices, faults) {
            let text = format!("exec.default: {decision}");
            model.default = DefaultDecision { decision, source: rule_ref(faults, key.at, text) };
        }
    }
    if let Some((key, node)) = table.entry("on_deny") {
        if place != Place::Main {
            faults.add(
                key.at,
                "\"exec.on_deny\" can't stand in a file that is used by another",
                "the main policy file alone decides this",
            );
        }
        let choices = [
            ("continue", OnDeny::Continue),
            ("stop", OnDeny::Stop),
            ("fail_at_end", OnDeny::FailAtEnd),
        ];
        model.on_deny = node.choice("exec.on_deny", &choices, faults).unwrap_or_default();
    }
    for (key, decision) in
        [("allow", Decision::Allow), ("ask", Decision::Ask), ("deny", Decision::Deny)]
    {
        if let Some(node) = table.get(key) {
            model.rules.extend(read_rules(node, key, decision, faults));
        }
    }
    table.finish("exec", faults);
}

fn approvals(node: &Node, model: &mut Model, faults: &mut Faults) {
    let Some(mut table) = Table::new(node, "approvals", faults) else { return };
    if let Some(node) = table.get("on_ask") {
        let choices = [("deny", OnAsk::Deny), ("approve", OnAsk::Approve)];
        model.on_ask = node.choice("approvals.on_ask", &choices, faults).unwrap_or_default();
    }
    table.finish("approvals", faults);
}

fn files(node: &Node, faults: &mut Faults) -> FileLists {
    let mut lists = FileLists::default();
    let Some(mut table) = Table::new(node, "files", faults) else { return lists };
    if let Some(node) = table.get("read") {
        lists.says_read = true;
        lists.read = paths(node, "files.read", faults);
    }
    if let Some(node) = table.get("write") {
        lists.write = paths(node, "files.write", faults);
    }
    if let Some(node) = table.get("deny_read") {
        lists.deny_read = paths(node, "files.deny_read", faults);
    }
    if let Some(node) = table.get("protect") {
        lists.protect = paths(node, "files.protect", faults);
    }
    table.finish("files", faults);
    lists
}

fn paths(node: &Node, what: &str, faults: &mut Faults) -> Vec<PathRule> {
    let mut rules: Vec<PathRule> = Vec::new();
    for item in node.seq(what, faults).unwrap_or_default() {
        let Some(text) = item.string(what, faults) else { continue };
        if let Err((why, hint)) = super::super::files::check_pattern(&text) {
            faults.add(item.at, format!("\"{what}\": {why}"), hint);
        } else if rules.iter().any(|known| known.text == text) {
            faults.add(item.at, format!("\"{text}\" stands in {what} twice"), "once is enough");
        } else {
            let source = rule_ref(faults, item.at, format!("{what}: {text}"));
            rules.push(PathRule { text, source });
        }
    }
    rules
}
