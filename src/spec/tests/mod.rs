//! The room's promises, tested over whole specs.

mod examples;
mod render;
mod settings;
mod wrong;

use super::yaml::{self, Kind, Node};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::time::Duration;

/// A spec that says everything this version can act on, once.
pub(super) const FULL: &str = r#"
version: 1
name: fix-failing-test
task: |
  Make the failing test pass. Crate: {{ crate }}, mode {{ mode }}.
params:
  crate: { type: string, required: true, about: the crate }
  mode: { type: choice, choices: [fast, slow], default: fast }
inputs:
  title: { env: PR_TITLE }
  log: { file: build.log }
  note: { text: "see {{ nothing }}" }
instructions: [docs/agent.md]
workspace: sample
isolate: copy
model:
  use: openai/gpt-5.5
  base_url: https://api.example.com/v1
  key: { env: OPENAI_API_KEY }
  effort: medium
  vision: false
  window: 272000
  max_output_tokens: 9000
  server_state: true
  ca_file: acme.pem
  timeouts: { connect: 5s, first_byte: 1m, idle: 90s, total: 20m }
  retries: { attempts: 2, total_wait: 1m }
  prices: { input: 1.25, cached: 0.125, output: 10 }
policy: policy.yaml
limits: { steps: 7, tool_calls: 500, tokens: 2000000, cost: 5.00, time: 10m }
expect: changes
require_files: [CHANGELOG.md]
keep: ["tests/**", ".github/**"]
max_changed_files: 20
max_changed_lines: 500
verify:
  attempts: 2
  baseline: false
  clean_checkout: false
  checks:
    - cargo fmt --check
    - { name: tests, run: cargo test, timeout: 2m }
hooks:
  session_start: [./first.sh, { run: ./start.sh, timeout: 5s, required: true }]
  user_prompt: [{ run: ./prompt.sh, timeout: 5s, required: true }]
  before_tool:
    - ./guard.sh
    - { run: ./guard.py, timeout: 5s, required: true, tools: [exec_command, "apply_*"] }
  after_tool: [{ run: ./log.sh, timeout: 2s, required: false, tools: [read_file] }]
  stop: [{ run: ./stop.sh, timeout: 5s, required: true }]
  run_end: [{ run: ./tell.sh, timeout: 5s, required: false }]
agents: { enabled: false }
environment: { container: { image: team/tools:1, runtime: docker } }
artifacts: out
"#;

fn full() -> Spec {
    parse("jobs/task.yaml", FULL).unwrap()
}

#[test]
fn a_whole_spec_is_read() {
    let spec = full();
    assert_eq!(spec.dir, std::path::Path::new("jobs"));
    assert_eq!(spec.params.len(), 2);
    assert_eq!(spec.inputs[0].value.from, InputFrom::Env("PR_TITLE".into()));
    assert_eq!(spec.isolate.unwrap().value, Isolate::Copy);
    assert_eq!(spec.model.timeout_idle.unwrap().value, Duration::from_secs(90));
    assert_eq!(spec.model.prices.unwrap().value.output, 10.0);
    assert_eq!(spec.limits.cost.unwrap().value, 5.0);
    assert_eq!(spec.limits.cost.unwrap().at.line, 30);
    let checks = spec.verify.checks.unwrap().value;
    assert_eq!((checks[0].name.as_str(), checks[0].timeout), ("cargo fmt --check", None));
    assert_eq!(checks[1].timeout, Some(Duration::from_secs(120)));
    let hooks = spec.hooks.unwrap().value;
    let points: Vec<&str> = hooks.iter().map(|hook| hook.point.as_str()).collect();
    let order =
        "session_start session_start user_prompt before_tool before_tool after_tool stop run_end";
    assert_eq!(points.join(" "), order);
    assert_eq!((hooks[3].run.as_str(), hooks[3].required), ("./guard.sh", true));
    assert_eq!(hooks[4].tools, ["exec_command", "apply_*"]);
    assert_eq!((hooks[5].timeout, hooks[5].required), (Some(Duration::from_secs(2)), false));
}

#[test]
fn the_files_a_spec_names_are_told_with_their_keys() {
    let named: Vec<String> = full()
        .named_files()
        .iter()
        .map(|file| format!("{} {}", file.key, file.path.display()))
        .collect();
    assert_eq!(
        named,
        [
            "inputs.log jobs/build.log",
            "instructions[0] jobs/docs/agent.md",
            "workspace jobs/sample",
            "policy jobs/policy.yaml",
        ]
    );
}

#[test]
fn null_is_as_good_as_nothing() {
    let spec =
        parse("t", "version: 1\nartifacts: null\npolicy:\noutput_schema: ~\nmcp:\n").unwrap();
    assert_eq!(spec, Spec { file: "t".into(), ..parse("t", "version: 1\n").unwrap() });
}

#[test]
fn a_byte_order_mark_and_crlf_change_nothing() {
    let crlf = format!("\u{feff}{}", FULL.replace('\n', "\r\n"));
    assert_eq!(parse("jobs/task.yaml", &crlf).unwrap(), full());
}

#[test]
fn d02_a_task_of_300_kib_is_read_and_rendered() {
    let long = "x".repeat(300 * 1024);
    let spec = parse("t", &format!("version: 1\ntask: {long}\n")).unwrap();
    assert_eq!(spec.render_task(&Default::default(), &long).unwrap(), long);
}

/// The dotted paths of all keys that a tree holds, names the file chose as `*`.
fn paths_in(node: &Node, prefix: &str, paths: &mut BTreeSet<String>) {
    match &node.kind {
        Kind::Map(entries) => {
            for (key, value) in entries {
                let chosen = ["params.", "inputs."].contains(&prefix);
                let path = format!("{prefix}{}", if chosen { "*" } else { &key.name });
                if !chosen {
                    paths.insert(path.clone());
                }
                paths_in(value, &format!("{path}."), paths);
            }
        }
        Kind::Seq(items) => {
            let prefix = format!("{}[].", prefix.trim_end_matches('.'));
            items.iter().for_each(|item| paths_in(item, &prefix, paths));
        }
        _ => {}
    }
}

/// The dotted paths of all keys that the schema names.
fn paths_of_schema(schema: &serde_json::Value, prefix: &str, paths: &mut BTreeSet<String>) {
    for (name, value) in schema["properties"].as_object().into_iter().flatten() {
        paths.insert(format!("{prefix}{name}"));
        paths_of_schema(value, &format!("{prefix}{name}."), paths);
    }
    if schema["additionalProperties"].is_object() {
        paths_of_schema(&schema["additionalProperties"], &format!("{prefix}*."), paths);
    }
    if schema["items"].is_object() {
        let prefix = format!("{}[].", prefix.trim_end_matches('.'));
        paths_of_schema(&schema["items"], &prefix, paths);
    }
    for part in schema["anyOf"].as_array().into_iter().flatten() {
        paths_of_schema(part, prefix, paths);
    }
}

#[test]
fn parser_schema_and_reference_know_the_same_keys() {
    let known: BTreeSet<String> = reference().into_iter().map(|row| row.path).collect();
    let mut in_schema = BTreeSet::new();
    paths_of_schema(&schema(), "", &mut in_schema);
    assert_eq!(in_schema, known);

    // FULL parses, so the parser takes every key in it (one that nobody takes is refused).
    let mut taken = BTreeSet::new();
    paths_in(&yaml::parse("t", FULL).unwrap(), "", &mut taken);
    let alternatives =
        ["task_file", "model.key.file", "model.key.fd", "environment.container.name"];
    for path in alternatives {
        let mut lines: Vec<String> = vec!["version: 1".into()];
        for (depth, name) in path.split('.').enumerate() {
            lines.push(format!("{}{name}:", "  ".repeat(depth)));
        }
        let source = format!("{} 3\n", lines.join("\n"));
        parse("t", &source).unwrap();
        taken.insert(path.to_owned());
    }
    let supported: BTreeSet<String> =
        reference().into_iter().filter(|row| row.supported).map(|row| row.path).collect();
    assert_eq!(taken, supported);
}

#[test]
fn every_key_of_a_later_version_is_refused_and_null_in_the_schema() {
    for row in reference().into_iter().filter(|row| !row.supported) {
        let mut source = String::from("version: 1\n");
        let depth = row.path.split('.').count();
        for (index, name) in row.path.split('.').enumerate() {
            let value = if index + 1 == depth { " [x]" } else { "" };
            source.push_str(&format!("{}{name}:{value}\n", "  ".repeat(index)));
        }
        let faults = parse("t", &source).unwrap_err();
        assert_eq!(faults[0].text, format!("\"{}\" is not supported yet", row.path));
        let pointer = format!("/properties/{}", row.path.replace('.', "/properties/"));
        assert_eq!(schema().pointer(&pointer).unwrap()["type"], "null");
    }
}

#[test]
fn the_schema_carries_the_defaults() {
    let schema = schema();
    assert_eq!(schema["properties"]["limits"]["properties"]["steps"]["default"], 50);
    assert_eq!(schema["properties"]["isolate"]["enum"], serde_json::json!(["none", "copy", null]));
    assert_eq!(schema["additionalProperties"], false);
    assert_eq!(schema["required"], serde_json::json!(["version"]));
}

/// Lines that look like a spec, so that the random ones get past the first fault.
fn spec_like() -> impl Strategy<Value = String> {
    let names: Vec<String> = reference()
        .into_iter()
        .flat_map(|row| row.path.split('.').map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let value = prop_oneof![
        Just(String::new()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("null".to_owned()),
        "[a-z{}\\[\\]:'\"|>&*!%@0-9 .-]{0,12}",
        "\\PC{0,12}",
    ];
    let line = (0usize..3, proptest::sample::select(names), value, any::<bool>());
    proptest::collection::vec(line, 0..12).prop_map(|lines| {
        let render = |(depth, name, value, dash): (usize, String, String, bool)| {
            let dash = if dash { "- " } else { "" };
            format!("{}{dash}{name}: {value}\n", "  ".repeat(depth))
        };
        lines.into_iter().map(render).collect()
    })
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse("t", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn nothing_like_a_spec_panics_and_faults_are_placed(source in spec_like()) {
        for source in [source.clone(), format!("version: 1\n{source}")] {
            if let Err(faults) = parse("t", &source) {
                prop_assert!(!faults.is_empty());
                let lines = source.lines().count().max(1) as u32 + 1;
                prop_assert!(faults.iter().all(|fault| fault.at.line <= lines), "{faults:?}");
            }
        }
    }
}
