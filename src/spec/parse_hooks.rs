//! `hooks:` of the spec: for each point of the run its commands, in order.

use super::check;
use super::fault::Faults;
use super::keys::{self, Field, Fields};
use super::read::{bounded_seq, checked, checked_list, duration, switch};
use super::types::{HookPoint, HookSpec, Placed};
use super::yaml::{Kind, Node};

/// All hooks in the order of a run, whatever order the file has.
pub(super) fn read_hooks(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<Vec<HookSpec>>> {
    let mut fields = Fields::open(field.node, &field.path, keys::HOOKS, faults)?;
    let mut hooks = Vec::new();
    for point in HookPoint::ALL {
        let Some(list) = fields.take(point.as_str()) else { continue };
        for (index, node) in bounded_seq(&list, faults).unwrap_or_default().iter().enumerate() {
            let path = format!("{}[{index}]", list.path);
            hooks.extend(read_hook(point, &path, node, faults));
        }
    }
    fields.finish(faults);
    Some(Placed::new(hooks, field.node.at))
}

fn read_hook(point: HookPoint, path: &str, node: &Node, faults: &mut Faults) -> Option<HookSpec> {
    let Kind::Map(_) = node.kind else {
        let field = Field { path: path.to_owned(), key_at: node.at, node };
        let run = checked(Some(field), faults, check::command)?.value;
        let tools = Vec::new();
        return Some(HookSpec { point, run, timeout: None, required: true, tools, at: node.at });
    };
    let of_tools = point.is_of_tools();
    let keys = if of_tools { keys::TOOL_HOOK } else { keys::HOOK };
    let mut fields = Fields::open(node, path, keys, faults)?;
    let run = fields.take("run");
    let timeout = duration(fields.take("timeout"), faults).map(|timeout| timeout.value);
    let required = switch(fields.take("required"), faults);
    let tools = if of_tools { fields.take("tools") } else { None };
    let tools = checked_list(tools, faults, check::tool_names);
    fields.finish(faults);
    if let Some(required) = required.filter(|required| !required.value && point.decides()) {
        let what = format!("\"{path}.required\" cannot be false: the hook is asked, and without");
        let what = format!("{what} an answer nothing goes on");
        faults.add(required.at, what, "take it out; only after_tool and run_end can do without");
    }
    if let Some(tools) = tools.as_ref().filter(|tools| tools.value.is_empty()) {
        let what = format!("\"{path}.tools\" is empty, so that the hook would never run");
        faults.add(tools.at, what, "take it out for every tool, or name one");
    }
    let Some(run) = run else {
        let what = format!("\"{path}.run\" is missing");
        faults.add(node.at, what, "name the command of this hook");
        return None;
    };
    Some(HookSpec {
        point,
        run: checked(Some(run), faults, check::command)?.value,
        timeout,
        required: required.is_none_or(|required| required.value),
        tools: tools.map(|tools| tools.value).unwrap_or_default(),
        at: node.at,
    })
}
