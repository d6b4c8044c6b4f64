//! Which value holds, and where it came from.

use crate::spec::*;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn flags() -> FlagValues {
    FlagValues { task: Some("do it".into()), model: Some("openai/x".into()), ..Default::default() }
}

fn told(result: Result<Settings, Vec<Fault>>) -> Vec<String> {
    let faults = result.unwrap_err();
    faults.iter().map(|fault| fault.to_string().replace("\n  hint: ", " | ")).collect()
}

fn alone(flags: FlagValues) -> Result<Settings, Vec<Fault>> {
    resolve(flags, EnvValues::default(), None)
}

#[test]
fn without_a_spec_the_defaults_hold() {
    let settings = alone(flags()).unwrap();
    assert_eq!(settings.limits.steps, Setting::new(50, Source::Default));
    assert_eq!(settings.limits.time.value, Duration::from_secs(1800));
    assert_eq!(settings.limits.tool_calls.value, None);
    assert_eq!(settings.workspace.value, Path::new("."));
    assert_eq!(settings.isolate.value, Isolate::None);
    assert_eq!(settings.expect.value, Expect::Any);
    assert_eq!(settings.task.value, TaskSource::Literal("do it".into()));
    assert_eq!(settings.model.base_dir, PathBuf::new());
    assert_eq!(settings.policy.value, None);
}

#[test]
fn the_words_of_the_default_table_are_what_the_code_falls_back_to() {
    for row in alone(flags()).unwrap().rows() {
        let Some(default) = defaults::text_of(&row.key) else { continue };
        let value = row.value.as_str().map_or_else(|| row.value.to_string(), str::to_owned);
        assert_eq!(value, default, "{}", row.key);
        assert_eq!(row.source, Source::Default, "{}", row.key);
    }
}

#[test]
fn nothing_runs_by_accident() {
    assert_eq!(
        told(alone(FlagValues::default())),
        [
            "task: there is no task | give it as an argument, with - on standard input, with --task-file, or as task: in a spec",
            "model: no model is named | give --model PROVIDER/NAME, or model: { use: PROVIDER/NAME } in a spec",
        ]
    );
    let spec = parse("t.yaml", "version: 1\n").unwrap();
    let faults = told(resolve(FlagValues::default(), EnvValues::default(), Some(&spec)));
    assert!(faults[0].starts_with("t.yaml: there is no task"), "{faults:?}");
    assert!(faults[1].starts_with("t.yaml: no model is named"), "{faults:?}");
}

#[test]
fn a_spec_gives_everything_with_its_line() {
    let spec = super::full();
    let settings = resolve(FlagValues::default(), EnvValues::default(), Some(&spec)).unwrap();
    assert_eq!(settings.workspace, Setting::new("jobs/sample".into(), Source::Spec { line: 14 }));
    assert_eq!(settings.policy.value.as_deref(), Some(Path::new("jobs/policy.yaml")));
    assert_eq!(settings.instructions.value, [PathBuf::from("jobs/docs/agent.md")]);
    assert_eq!(settings.artifacts.value.as_deref(), Some(Path::new("jobs/out")));
    assert_eq!(settings.model.base_dir, Path::new("jobs"));
    assert_eq!(settings.model.key.value, Some(KeyFrom::Env("OPENAI_API_KEY".into())));
    assert_eq!(settings.model.ca_file.value.as_deref(), Some(Path::new("jobs/acme.pem")));
    assert_eq!(settings.limits.cost.value, Some(5.0));
    assert_eq!(settings.inputs[1].value.from, InputFrom::File("jobs/build.log".into()));
    assert_eq!(settings.checks.value[0].timeout, Duration::from_secs(600));
    assert!(matches!(settings.task.value, TaskSource::Template(_)));
    assert!(settings.notes.is_empty());
    for row in settings.rows() {
        let from_spec = matches!(row.source, Source::Spec { line } if line > 1);
        let by_flag_alone = ["sandbox", "fail_on_changes", "json", "quiet", "color"];
        assert!(from_spec || by_flag_alone.contains(&row.key.as_str()), "{row:?}");
    }
}

#[test]
fn flag_then_environment_then_spec() {
    let spec = super::full();
    let env = EnvValues {
        model: Some("openai/from-env".into()),
        base_url: Some("http://env/v1".into()),
        output: Some("json".into()),
        color: Some("never".into()),
        no_color: false,
    };
    let settings = resolve(FlagValues::default(), env.clone(), Some(&spec)).unwrap_err();
    assert!(settings[0].text.contains("needs the prices of openai/from-env"), "{settings:?}");

    let mut flags = FlagValues { model: Some("openai/gpt-5.5".into()), ..Default::default() };
    let settings = resolve(flags.clone(), env.clone(), Some(&spec)).unwrap();
    assert_eq!(settings.model.name.source, Source::Flag("--model"));
    assert_eq!(settings.model.base_dir, PathBuf::new());
    assert_eq!(settings.model.base_url.source, Source::Env("TURNKEY_BASE_URL"));
    assert_eq!(settings.json, Setting::new(true, Source::Env("TURNKEY_OUTPUT")));
    assert_eq!(settings.color.source, Source::Env("TURNKEY_COLOR"));

    flags.base_url = Some("http://flag/v1".into());
    flags.quiet = true;
    flags.color = Some("always".into());
    flags.max_steps = Some(3);
    flags.timeout = Some("90s".into());
    flags.workspace = Some("elsewhere".into());
    flags.verify = vec!["make test".into()];
    flags.require_file = vec!["a".into()];
    flags.expect = Some("none".into());
    let settings = resolve(flags, env, Some(&spec)).unwrap();
    assert_eq!(settings.model.base_url.source, Source::Flag("--base-url"));
    assert_eq!((settings.json.value, settings.quiet.value), (false, true));
    assert_eq!(settings.color.value, Color::Always);
    assert_eq!(settings.limits.steps, Setting::new(3, Source::Flag("--max-steps")));
    assert_eq!(settings.limits.time.value, Duration::from_secs(90));
    assert_eq!(settings.workspace.value, Path::new("elsewhere"));
    assert_eq!(settings.checks.value.len(), 1);
    assert_eq!(settings.require_files.value, ["a"]);
    assert_eq!(settings.expect.value, Expect::None);
}

#[test]
fn no_color_counts_and_empty_variables_do_not() {
    let env = EnvValues {
        model: Some(String::new()),
        color: Some(String::new()),
        no_color: true,
        ..Default::default()
    };
    let settings = resolve(flags(), env, None).unwrap();
    assert_eq!(settings.color, Setting::new(Color::Never, Source::Env("NO_COLOR")));
    assert_eq!(settings.model.name.source, Source::Flag("--model"));
}

#[test]
fn a_key_written_for_one_provider_is_never_handed_to_another() {
    let spec = super::full();
    let flags = FlagValues { model: Some("scripted/m.yaml".into()), ..Default::default() };
    let faults = told(resolve(flags.clone(), EnvValues::default(), Some(&spec)));
    assert_eq!(
        faults,
        [
            "jobs/task.yaml:30:61: a cost limit needs the prices of scripted/m.yaml | write model: { prices: { input: …, output: … } } (per million tokens) in a spec that names this model"
        ]
    );
    let mut spec = spec;
    spec.limits.cost = None;
    let settings = resolve(flags, EnvValues::default(), Some(&spec)).unwrap();
    assert_eq!(settings.model.key.value, None);
    assert_eq!(settings.model.base_url.value, None);
    assert_eq!(settings.model.timeout_idle.value, Duration::from_secs(90));
    assert_eq!(settings.notes.len(), 7);
    assert_eq!(
        settings.notes[1],
        "model.key of jobs/task.yaml is written for openai/gpt-5.5 and is not used for scripted/m.yaml."
    );
}

#[test]
fn wrong_flags_are_told_at_once() {
    let flags = FlagValues {
        task: Some(" ".into()),
        task_file: Some("t.md".into()),
        model: Some("gpt".into()),
        base_url: Some("https://u:hunter2@h".into()),
        params: vec!["a".into(), "b=1".into(), "b=2".into()],
        inputs: vec!["stranger text".into(), "t=1".into(), "t=2".into()],
        max_steps: Some(0),
        max_cost: Some(f64::NAN),
        timeout: Some("5".into()),
        expect: Some("chnges".into()),
        isolate: Some("container".into()),
        sandbox: Some("on".into()),
        workspace: Some("".into()),
        color: Some("yes".into()),
        verify: vec![" ".into()],
        require_file: vec!["/etc/x".into()],
        ..Default::default()
    };
    let env = EnvValues { output: Some("xml".into()), ..Default::default() };
    assert_eq!(
        told(resolve(flags, env, None)),
        [
            "--task-file: given beside a task | give one of them",
            "task: the task is empty | say what is to be done",
            "--param: must be NAME=VALUE, not \"a\"",
            "--param: \"b\" is given twice | give it once",
            "--param: the task given here is no template, so nothing takes the parameters | use a spec whose task names them",
            "--input: must be NAME=TEXT or NAME=@FILE | NAME: letters, digits, \"_\"",
            "--input: \"t\" is given twice | give it once",
            "--model: must be PROVIDER/NAME, not \"gpt\" | openai/gpt-5.5, for instance",
            "--base-url: must not hold a user name or password | https://host/v1, for instance",
            "--max-steps: must be a whole number of at least 1, not 0",
            "--max-cost: must be more than 0, not NaN",
            "--timeout: \"5\" has no unit | write a number and a unit: 500ms, 10s, 5m, 2h",
            "--workspace: must be a path, not an empty text",
            "--isolate: must be one of none, copy, not \"container\"",
            "--expect: must be one of changes, none, any, not \"chnges\" | did you mean \"changes\"?",
            "--sandbox: must be one of require, best-effort, off, not \"on\"",
            "--require-file: must be relative to the workspace, not \"/etc/x\"",
            "--verify: must be a command, not an empty text",
            "TURNKEY_OUTPUT: must be one of human, json, quiet, not \"xml\"",
            "--color: must be one of auto, always, never, not \"yes\"",
        ]
    );
}

#[test]
fn inputs_of_flags_stand_over_those_of_the_spec() {
    let spec = super::full();
    let flags = FlagValues {
        inputs: vec!["title=x=y".into(), "more=@log.txt".into(), "at=@@home".into()],
        ..Default::default()
    };
    let settings = resolve(flags, EnvValues::default(), Some(&spec)).unwrap();
    let from = |name: &str| {
        let found: Vec<_> =
            settings.inputs.iter().filter(|input| input.value.name == name).collect();
        assert_eq!(found.len(), 1);
        found[0].value.from.clone()
    };
    assert_eq!(from("title"), InputFrom::Text("x=y".into()));
    assert_eq!(from("more"), InputFrom::File("log.txt".into()));
    assert_eq!(from("at"), InputFrom::Text("@home".into()));
    assert_eq!(from("log"), InputFrom::File("jobs/build.log".into()));
}

#[test]
fn a_cost_flag_without_prices_is_refused() {
    let faults = told(alone(FlagValues { max_cost: Some(2.0), ..flags() }));
    assert!(
        faults[0].starts_with("--max-cost: a cost limit needs the prices of openai/x"),
        "{faults:?}"
    );
}

#[test]
fn a_task_file_flag_is_a_template_only_beside_a_spec() {
    let flags = FlagValues {
        task_file: Some("t.md".into()),
        model: Some("openai/x".into()),
        ..Default::default()
    };
    let file = |template| TaskSource::File { path: "t.md".into(), template };
    assert_eq!(alone(flags.clone()).unwrap().task.value, file(false));
    let spec = parse("jobs/t.yaml", "version: 1\ntask: x\n").unwrap();
    let settings = resolve(flags, EnvValues::default(), Some(&spec)).unwrap();
    assert_eq!(settings.task, Setting::new(file(true), Source::Flag("--task-file")));
}

#[test]
fn the_record_names_sources_and_holds_no_untrusted_text() {
    let spec = super::full();
    let settings = resolve(FlagValues::default(), EnvValues::default(), Some(&spec)).unwrap();
    let json = settings.to_json();
    assert_eq!(json["limits.steps"], serde_json::json!({ "value": 7, "source": "spec line 30" }));
    assert_eq!(json["inputs.note"]["value"]["text"], "17 bytes");
    assert_eq!(json["verify.attempts"]["source"], "spec line 37");
    assert_eq!(json["json"]["source"], "default");
    assert!(!json.to_string().contains("nothing"));
}

#[test]
fn only_one_wire_keeps_the_history_at_the_provider() {
    let text = |model: &str| {
        format!("version: 1\ntask: t\nmodel: {{ use: {model}, server_state: true }}\n")
    };
    let read = |model: &str| parse("t.yaml", &text(model)).unwrap();
    let resolve_with =
        |flags: FlagValues, spec: &Spec| resolve(flags, EnvValues::default(), Some(spec));
    let kept = resolve_with(FlagValues::default(), &read("openai/m")).unwrap();
    assert!(kept.model.server_state.value);
    let faults = resolve_with(FlagValues::default(), &read("chat/m")).unwrap_err();
    assert!(faults[0].to_string().starts_with("t.yaml:3:"), "{faults:?}");
    assert!(faults[0].text.contains("not possible with chat/m"), "{faults:?}");
    // Written for one provider, it is not a wish for another.
    let flags = FlagValues { model: Some("chat/m".into()), ..FlagValues::default() };
    let other = resolve_with(flags, &read("openai/m")).unwrap();
    assert!(!other.model.server_state.value && !other.notes.is_empty());
}
