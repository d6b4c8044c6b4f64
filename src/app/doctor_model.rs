//! `turnkey doctor --model`: asks the model one tiny thing and says what works. Yes is 0, no is 1,
//! wrong input is 2.

use super::exec_input::{self, Refused};
use super::{exit, refuse};
use crate::cli::DoctorArgs;
use crate::model::{self, Finding, Probe};
use crate::report::Output;
use crate::spec::{KeyFrom, ModelSettings};
use serde_json::json;

pub async fn run(args: &DoctorArgs, output: &Output) -> u8 {
    let (settings, config) = match exec_input::model_alone(args.flags(), args.spec.as_deref()) {
        Ok(gathered) => gathered,
        Err(Refused::Invalid(text)) => return refuse(output, &text).await,
        Err(Refused::Outcome(outcome)) => {
            let hint = if outcome.hint.is_empty() { "" } else { "\n  hint: " };
            return refuse(output, &format!("{}{hint}{}", outcome.message, outcome.hint)).await;
        }
    };
    let name = &settings.name.value;
    if name.provider == "scripted" {
        let text = format!("{name} is a file and nothing to reach: turnkey spec check checks it");
        return refuse(output, &text).await;
    }
    let asked = match model::open(&name.to_string(), config) {
        Ok(asked) => asked,
        Err(error) => return refuse(output, &error.to_string()).await,
    };
    let probe = model::probe(asked.as_ref()).await;
    let text = if args.json {
        super::spec::pretty(&as_json(&settings, &probe))
    } else {
        as_lines(&settings, &probe)
    };
    output.stdout(text).await;
    if probe.is_usable() { 0 } else { exit::NO }
}

/// Where the key comes from, in words; never the key.
fn key_of(settings: &ModelSettings) -> String {
    match (&settings.key.value, model::default_key_variable(&settings.name.value.provider)) {
        (Some(KeyFrom::Env(name)), _) => format!("from the variable {name}"),
        (Some(KeyFrom::File(path)), _) => format!("from the file {}", path.display()),
        (Some(KeyFrom::Fd(number)), _) => format!("from descriptor {number}"),
        (None, Some(name)) => format!("from the variable {name}, if it is set"),
        (None, None) => "none".into(),
    }
}

fn as_lines(settings: &ModelSettings, probe: &Probe) -> String {
    let address = match (&settings.base_url.value, settings.base_url.source) {
        (Some(url), source) => format!("{url} ({source})"),
        (None, _) => "the provider's own address".into(),
    };
    let mut lines = vec![
        format!("model: {} ({})", settings.name.value, settings.name.source),
        format!("address: {address}"),
        format!("key: {}", key_of(settings)),
    ];
    if let Some(served) = &probe.model_as_served {
        lines.push(format!("served as: {served}"));
    }
    for Finding { what, works, detail, hint } in &probe.findings {
        lines.push(format!("  {what:<10} {:<4} {detail}", word(*works)));
        if !hint.is_empty() {
            lines.push(format!("             hint: {hint}"));
        }
    }
    let usage = probe.usage;
    lines.push(format!(
        "cost: {} requests, {} tokens in ({} cached), {} out",
        probe.requests, usage.input, usage.cached, usage.output
    ));
    let verdict = if probe.is_usable() { "this model can be used" } else { "it can not be used" };
    lines.push(verdict.into());
    lines.join("\n")
}

fn word(works: Option<bool>) -> &'static str {
    match works {
        Some(true) => "ok",
        Some(false) => "no",
        None => "?",
    }
}

fn as_json(settings: &ModelSettings, probe: &Probe) -> serde_json::Value {
    let millis = |time: Option<std::time::Duration>| time.map(crate::clock::millis);
    let findings = probe.findings.iter().map(|finding| {
        json!({
            "what": finding.what, "works": finding.works, "detail": finding.detail,
            "hint": finding.hint,
        })
    });
    json!({
        "schema": 1,
        "model": settings.name.value.to_string(),
        "base_url": settings.base_url.value,
        "key": key_of(settings),
        "usable": probe.is_usable(),
        "model_as_served": probe.model_as_served,
        "first_event_ms": millis(probe.first_event),
        "whole_ms": millis(probe.whole),
        "requests": probe.requests,
        "usage": probe.usage,
        "findings": findings.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Source;

    #[test]
    fn a_key_is_named_by_its_place() {
        let name = crate::spec::ModelName { provider: "openai".into(), name: "m".into() };
        let flags = crate::spec::FlagValues { model: Some(name.to_string()), ..Default::default() };
        let mut settings =
            crate::spec::resolve_model(&flags, &crate::spec::EnvValues::default(), None).unwrap();
        assert_eq!(key_of(&settings), "from the variable OPENAI_API_KEY, if it is set");
        settings.key.value = Some(KeyFrom::File("/k".into()));
        assert_eq!(key_of(&settings), "from the file /k");
        assert_eq!(settings.name.source, Source::Flag("--model"));
    }
}
