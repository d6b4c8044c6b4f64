//! The `params` and `inputs` of the spec: names that the file chose, each with a source or a type.

use super::check;
use super::fault::{At, Faults};
use super::keys::{self, Field, Fields};
use super::read::{checked, choice_word, exactly_one, named_entries, read_variable};
use super::types::{Input, InputFrom, Param, ParamKind, Placed};
use super::yaml::{Node, quoted};

pub(super) fn read_params(field: &Field<'_>, faults: &mut Faults) -> Vec<Param> {
    let mut params = Vec::new();
    for (key, node) in named_entries(field, faults) {
        if !check::is_identifier(&key.name) {
            let what = format!("{} is no name for a parameter", quoted(&key.name));
            faults.add(key.at, what, "use letters, digits and \"_\", the first no digit");
            continue;
        }
        let path = format!("{}.{}", field.path, key.name);
        let param = read_param(&key.name, key.at, &path, node, faults);
        // A faulty one is declared all the same: the task that names it is not at fault.
        params.push(param.unwrap_or_else(|| Param {
            name: key.name.clone(),
            at: key.at,
            kind: ParamKind::String,
            default: None,
            about: None,
        }));
    }
    params
}

fn read_param(name: &str, at: At, path: &str, node: &Node, faults: &mut Faults) -> Option<Param> {
    let mut fields = Fields::open(node, path, keys::PARAM, faults)?;
    let word = match fields.take("type") {
        Some(field) => choice_word(&field, keys::PARAM_TYPES, faults),
        None => {
            let what = format!("\"{path}.type\" is missing");
            faults.add(at, what, format!("one of {}", keys::PARAM_TYPES.join(", ")));
            None
        }
    };
    let required = fields.take("required");
    let must = required.as_ref().and_then(|field| field.node.bool(&field.path, faults));
    let choices = fields.take("choices");
    let values = choices.as_ref().and_then(|field| field.node.strings(&field.path, faults));
    let default = fields.take("default");
    let default_text = default.as_ref().and_then(|field| field.node.string(&field.path, faults));
    let about = fields.take("about").and_then(|field| field.node.string(&field.path, faults));
    fields.finish(faults);
    match (must, &default) {
        (Some(true), Some(field)) => {
            let what = format!("\"{path}\" is required and has a default");
            faults.add(field.key_at, what, "keep one of them");
        }
        (Some(false), None) => {
            let what = format!("\"{path}\" is not required and has no default");
            faults.add(at, what, "give it a default, an empty text for instance");
        }
        _ => {}
    }
    let kind = match word? {
        "string" => ParamKind::String,
        "number" => ParamKind::Number,
        "bool" => ParamKind::Bool,
        "path" => ParamKind::Path,
        "file" => ParamKind::File,
        _ => match values {
            Some(values) if !values.is_empty() => ParamKind::Choice(values),
            _ => {
                let what = format!("\"{path}\" is a choice without choices");
                faults.add(at, what, "write choices: [one, another]");
                return None;
            }
        },
    };
    if let (Some(field), false) = (&choices, matches!(kind, ParamKind::Choice(_))) {
        let what = format!("\"{}\" belongs to the type choice alone", field.path);
        faults.add(field.key_at, what, "write type: choice, or take the choices out");
    }
    let param = Param { name: name.to_owned(), at, kind, default: default_text, about };
    if let (Some(field), Some(text)) = (&default, &param.default)
        && let Err(why) = param.check(text)
    {
        faults.add(field.node.at, format!("\"{}\" {why}", field.path), "");
    }
    Some(param)
}

pub(super) fn read_inputs(field: &Field<'_>, faults: &mut Faults) -> Vec<Placed<Input>> {
    let mut inputs = Vec::new();
    for (key, node) in named_entries(field, faults) {
        if !check::is_identifier(&key.name) {
            let what = format!("{} is no name for an input", quoted(&key.name));
            faults.add(key.at, what, "use letters, digits and \"_\", the first no digit");
            continue;
        }
        let path = format!("{}.{}", field.path, key.name);
        let Some(mut fields) = Fields::open(node, &path, keys::INPUT, faults) else { continue };
        let env = fields.take("env").and_then(|field| read_variable(&field, faults));
        let file = checked(fields.take("file"), faults, check::path);
        let text = fields.take("text").and_then(|field| field.node.string(&field.path, faults));
        fields.finish(faults);
        let sources = [
            env.map(InputFrom::Env),
            file.map(|path| InputFrom::File(path.value.into())),
            text.map(InputFrom::Text),
        ];
        if let Some(from) = exactly_one(&path, key.at, node, keys::INPUT, sources, faults) {
            inputs.push(Placed::new(Input { name: key.name.clone(), from }, key.at));
        }
    }
    inputs
}
