//! The `model` part of the spec. A key never stands in it, only where to find one, and no message
//! about a key repeats what was written in its place.

use super::check;
use super::fault::Faults;
use super::keys::{self, Field, Fields};
use super::read::{checked, duration, exactly_one, number, off, read_variable, switch, uint};
use super::types::{KeyFrom, ModelName, ModelSpec, Placed, Prices};
use super::yaml::Kind;

pub(super) fn read_model(field: &Field<'_>, faults: &mut Faults) -> ModelSpec {
    let mut model = ModelSpec::default();
    let Some(mut fields) = Fields::open(field.node, &field.path, keys::MODEL, faults) else {
        return model;
    };
    model.model = fields.take("use").and_then(|field| read_use(&field, faults));
    model.base_url = fields.take("base_url").and_then(|field| read_url(&field, faults));
    model.key = fields.take("key").and_then(|field| read_key(&field, faults));
    model.effort = checked(fields.take("effort"), faults, word);
    off(fields.take("vision"), faults);
    model.window = uint(fields.take("window"), 1024, faults);
    model.max_output_tokens = uint(fields.take("max_output_tokens"), 16, faults);
    model.server_state = switch(fields.take("server_state"), faults);
    model.ca_file = checked(fields.take("ca_file"), faults, check::path);
    if let Some(field) = fields.take("timeouts") {
        read_timeouts(&field, &mut model, faults);
    }
    if let Some(field) = fields.take("retries") {
        read_retries(&field, &mut model, faults);
    }
    model.prices = fields.take("prices").and_then(|field| read_prices(&field, faults));
    fields.finish(faults);
    model
}

fn read_use(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<ModelName>> {
    let text = field.node.string(&field.path, faults)?;
    match check::model_name(&text) {
        Ok(name) => Some(Placed::new(name, field.node.at)),
        Err(why) => {
            faults.add(
                field.node.at,
                format!("\"{}\" {why}", field.path),
                "openai/gpt-5.5, for instance",
            );
            None
        }
    }
}

/// Read without `string`'s messages: an address with a password in it would be repeated.
fn read_url(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<String>> {
    let Kind::Str(text) = &field.node.kind else {
        return field.node.wrong(&field.path, "an address", faults);
    };
    if let Err(why) = check::url(text) {
        faults.add(
            field.node.at,
            format!("\"{}\" {why}", field.path),
            "https://host/v1, for instance; the key has a place of its own: model.key",
        );
        return None;
    }
    Some(Placed::new(text.clone(), field.node.at))
}

fn read_key(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<KeyFrom>> {
    if !matches!(field.node.kind, Kind::Map(_)) {
        faults.add(
            field.node.at,
            format!(
                "\"{}\" must say where the key is; the key itself has no place in a spec",
                field.path
            ),
            "write key: { env: NAME }, { file: PATH } or { fd: NUMBER }",
        );
        return None;
    }
    let mut fields = Fields::open(field.node, &field.path, keys::MODEL_KEY, faults)?;
    let env = fields.take("env").and_then(|field| read_variable(&field, faults));
    let file = checked(fields.take("file"), faults, check::path);
    let fd = uint(fields.take("fd"), 3, faults);
    fields.finish(faults);
    let sources = [
        env.map(KeyFrom::Env),
        file.map(|path| KeyFrom::File(path.value.into())),
        fd.map(|fd| KeyFrom::Fd(fd.value)),
    ];
    let from =
        exactly_one(&field.path, field.node.at, field.node, keys::MODEL_KEY, sources, faults)?;
    Some(Placed::new(from, field.node.at))
}

fn read_timeouts(field: &Field<'_>, model: &mut ModelSpec, faults: &mut Faults) {
    if let Some(mut fields) = Fields::open(field.node, &field.path, keys::TIMEOUTS, faults) {
        model.timeout_connect = duration(fields.take("connect"), faults);
        model.timeout_first_byte = duration(fields.take("first_byte"), faults);
        model.timeout_idle = duration(fields.take("idle"), faults);
        model.timeout_total = duration(fields.take("total"), faults);
        fields.finish(faults);
    }
}

fn read_retries(field: &Field<'_>, model: &mut ModelSpec, faults: &mut Faults) {
    if let Some(mut fields) = Fields::open(field.node, &field.path, keys::RETRIES, faults) {
        model.retry_attempts = uint(fields.take("attempts"), 1, faults);
        model.retry_total_wait = duration(fields.take("total_wait"), faults);
        fields.finish(faults);
    }
}

fn read_prices(field: &Field<'_>, faults: &mut Faults) -> Option<Placed<Prices>> {
    let mut fields = Fields::open(field.node, &field.path, keys::PRICES, faults)?;
    let present = |node: &Option<Field<'_>>| node.is_some();
    let (input, cached, output) =
        (fields.take("input"), fields.take("cached"), fields.take("output"));
    for (name, there) in [("input", present(&input)), ("output", present(&output))] {
        if !there {
            let what = format!("\"{}.{name}\" is missing", field.path);
            faults.add(field.node.at, what, "a price per million tokens");
        }
    }
    let (input, cached, output) =
        (number(input, faults), number(cached, faults), number(output, faults));
    fields.finish(faults);
    let (input, output) = (input?.value, output?.value);
    let cached = cached.map_or(input, |cached| cached.value);
    Some(Placed::new(Prices { input, cached, output }, field.node.at))
}

fn word(text: &str) -> Result<(), String> {
    let fits = (1..=64).contains(&text.len()) && text.chars().all(|c| c.is_ascii_graphic());
    if fits { Ok(()) } else { Err("must be one word".into()) }
}
