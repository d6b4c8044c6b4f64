//! Wrong specs and exactly what is said about each: one line a fault, `hint` after ` | `.

use crate::spec::parse;

/// What is wrong, the spec, its faults.
type Case = (&'static str, &'static str, &'static [&'static str]);

#[test]
fn every_wrong_spec_is_told_exactly() {
    for (what, source, expected) in CASES {
        let faults = parse("t.yaml", source).expect_err(what);
        let told: Vec<String> =
            faults.iter().map(|fault| fault.to_string().replace("\n  hint: ", " | ")).collect();
        assert_eq!(told, *expected, "{what}");
    }
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    ("empty", "", &[
        "t.yaml: the spec is empty | begin with: version: 1",
    ]),
    ("a list", "- a\n", &[
        "t.yaml:1:1: the spec must be a mapping, not a list | keys here: version, name, task, task_file, params, inputs, instructions, workspace, isolate, model, policy, limits, expect, require_files, keep, max_changed_files, max_changed_lines, verify, hooks, agents, environment, artifacts",
    ]),
    ("no version", "task: x\n", &[
        r#"t.yaml:1:1: "version" is missing | begin the file with: version: 1"#,
    ]),
    ("version 2", "version: 2\ntask: x\n", &[
        r#"t.yaml:1:10: "version" must be 1, not the number 2 | this program reads version 1 of the format"#,
    ]),
    ("version text", "version: \"1\"\n", &[
        r#"t.yaml:1:10: "version" must be 1, not the text "1" | this program reads version 1 of the format"#,
    ]),
    ("not yaml", "version: 1\ntask: \"x\n", &[
        "t.yaml:2:7: not valid YAML: unclosed quote",
    ]),
    ("unknown key", "version: 1\npolcy: p.yaml\n", &[
        r#"t.yaml:2:1: unknown key "polcy" | did you mean "policy"?"#,
    ]),
    ("unknown key far", "version: 1\nzzzzzz: 1\n", &[
        r#"t.yaml:2:1: unknown key "zzzzzz" | keys here: version, name, task, task_file, params, inputs, instructions, workspace, isolate, model, policy, limits, expect, require_files, keep, max_changed_files, max_changed_lines, verify, hooks, agents, environment, artifacts"#,
    ]),
    ("duplicate", "version: 1\nname: a\nname: b\n", &[
        r#"t.yaml:3:1: duplicate key "name" | it stands in line 2 already; keep one of them"#,
    ]),
    ("task and task_file", "version: 1\ntask: x\ntask_file: t.md\n", &[
        r#"t.yaml:3:1: "task" and "task_file" stand side by side | keep one of them"#,
    ]),
    ("empty task", "version: 1\ntask: \"  \"\n", &[
        r#"t.yaml:2:7: "task" is empty | say what is to be done"#,
    ]),
    ("task number", "version: 1\ntask: 7\n", &[
        r#"t.yaml:2:7: "task" must be a text, not the number 7"#,
    ]),
    ("name", "version: 1\nname: \"a b\"\n", &[
        r#"t.yaml:2:7: "name" must be 1 to 100 letters, digits, ".", "_" or "-", the first a letter or digit, not "a b""#,
    ]),
    ("undeclared", "version: 1\ntask: |\n  Fix\n  the {{ crat }} now\nparams:\n  crate: { type: string }\n", &[
        r#"t.yaml:4:7: the parameter "crat" is not declared | did you mean "crate"?"#,
        r#"t.yaml:6:3: the task never names the parameter "crate" | write {{ crate }} where it belongs, or take it out"#,
    ]),
    ("undeclared alone", "version: 1\ntask: Fix {{ thing }}\n", &[
        r#"t.yaml:2:11: the parameter "thing" is not declared | declare it under params, or write {{{{ thing }} for the literal text"#,
    ]),
    ("broken placeholder", "version: 1\ntask: |\n\n  Fix ${{ github.event.title }}\n", &[
        r#"t.yaml:4:8: "{{ github.event.title }}" is no placeholder | write {{ name }} for a parameter, {{{{ for a literal {{"#,
    ]),
    ("folded", "version: 1\ntask: >\n  Fix\n  {{ a b }}\n", &[
        r#"t.yaml:3:3: "{{ a b }}" is no placeholder | write {{ name }} for a parameter, {{{{ for a literal {{"#,
    ]),
    ("param type", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: strin }\n", &[
        r#"t.yaml:4:14: "params.a.type" must be one of string, number, bool, choice, path, file, not the text "strin" | did you mean "string"?"#,
    ]),
    ("param no type", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { default: 1 }\n", &[
        r#"t.yaml:4:3: "params.a.type" is missing | one of string, number, bool, choice, path, file"#,
    ]),
    ("param plain", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: string\n", &[
        r#"t.yaml:4:6: "params.a" must be a mapping, not the text "string" | keys here: type, required, default, choices, about"#,
    ]),
    ("param name", "version: 1\nparams:\n  a-b: { type: string }\n", &[
        r#"t.yaml:3:3: "a-b" is no name for a parameter | use letters, digits and "_", the first no digit"#,
    ]),
    ("param required default", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: string, required: true, default: x }\n", &[
        r#"t.yaml:4:38: "params.a" is required and has a default | keep one of them"#,
    ]),
    ("param optional no default", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: string, required: false }\n", &[
        r#"t.yaml:4:3: "params.a" is not required and has no default | give it a default, an empty text for instance"#,
    ]),
    ("choice without", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: choice }\n", &[
        r#"t.yaml:4:3: "params.a" is a choice without choices | write choices: [one, another]"#,
    ]),
    ("choices on string", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: string, choices: [a] }\n", &[
        r#"t.yaml:4:22: "params.a.choices" belongs to the type choice alone | write type: choice, or take the choices out"#,
    ]),
    ("default not in choices", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: choice, choices: [x, y], default: z }\n", &[
        r#"t.yaml:4:48: "params.a.default" must be one of x, y, not "z""#,
    ]),
    ("default number", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: number, default: many }\n", &[
        r#"t.yaml:4:31: "params.a.default" must be a number, not "many""#,
    ]),
    ("default path", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: path, default: ../x }\n", &[
        r#"t.yaml:4:29: "params.a.default" must stay inside the workspace, without "..": "../x""#,
    ]),
    ("bool yes", "version: 1\ntask: \"{{ a }}\"\nparams:\n  a: { type: string, required: yes }\n", &[
        r#"t.yaml:4:32: "params.a.required" must be true or false, not "yes" | write true"#,
    ]),
    ("input two sources", "version: 1\ninputs:\n  title: { env: A, text: b }\n", &[
        r#"t.yaml:3:3: "inputs.title" must name exactly one source, not 2 | write one of env, file, text"#,
    ]),
    ("input no source", "version: 1\ninputs:\n  title: {}\n", &[
        r#"t.yaml:3:3: "inputs.title" must name exactly one source, not 0 | write one of env, file, text"#,
    ]),
    ("input env", "version: 1\ninputs:\n  title: { env: \"PR TITLE\" }\n", &[
        r#"t.yaml:3:17: "inputs.title.env" must be the name of an environment variable | letters, digits and "_": the name of the variable, not its value"#,
    ]),
    ("input name", "version: 1\ninputs:\n  \"a b\": { text: x }\n", &[
        r#"t.yaml:3:3: "a b" is no name for an input | use letters, digits and "_", the first no digit"#,
    ]),
    ("workspace tilde", "version: 1\nworkspace: ~/x\n", &[
        r#"t.yaml:2:12: "workspace" must be a path without "~", which is not expanded here: "~/x""#,
    ]),
    ("workspace empty", "version: 1\nworkspace: \"\"\n", &[
        r#"t.yaml:2:12: "workspace" must be a path, not an empty text"#,
    ]),
    ("isolate", "version: 1\nisolate: cpy\n", &[
        r#"t.yaml:2:10: "isolate" must be one of none, copy, not the text "cpy" | did you mean "copy"?"#,
    ]),
    ("model text", "version: 1\nmodel: openai/gpt-5.5\n", &[
        r#"t.yaml:2:8: "model" must be a mapping, not the text "openai/gpt-5.5" | keys here: use, base_url, key, effort, vision, window, max_output_tokens, server_state, ca_file, timeouts, retries, prices"#,
    ]),
    ("model use", "version: 1\nmodel: { use: gpt-5.5 }\n", &[
        r#"t.yaml:2:15: "model.use" must be PROVIDER/NAME, not "gpt-5.5" | openai/gpt-5.5, for instance"#,
    ]),
    ("base_url", "version: 1\nmodel: { base_url: localhost:8080 }\n", &[
        r#"t.yaml:2:20: "model.base_url" must begin with https:// or http:// | https://host/v1, for instance; the key has a place of its own: model.key"#,
    ]),
    ("base_url password", "version: 1\nmodel: { base_url: \"https://u:hunter2@h/v1\" }\n", &[
        r#"t.yaml:2:20: "model.base_url" must not hold a user name or password | https://host/v1, for instance; the key has a place of its own: model.key"#,
    ]),
    ("key itself", "version: 1\nmodel: { key: sk-hunter2 }\n", &[
        r#"t.yaml:2:15: "model.key" must say where the key is; the key itself has no place in a spec | write key: { env: NAME }, { file: PATH } or { fd: NUMBER }"#,
    ]),
    ("key env value", "version: 1\nmodel: { key: { env: sk-hunter2 } }\n", &[
        r#"t.yaml:2:22: "model.key.env" must be the name of an environment variable | letters, digits and "_": the name of the variable, not its value"#,
    ]),
    ("key two", "version: 1\nmodel: { key: { env: A, file: b } }\n", &[
        r#"t.yaml:2:15: "model.key" must name exactly one source, not 2 | write one of env, file, fd"#,
    ]),
    ("key fd", "version: 1\nmodel: { key: { fd: 1 } }\n", &[
        r#"t.yaml:2:21: "model.key.fd" must be a whole number of at least 3, not the number 1"#,
    ]),
    ("vision", "version: 1\nmodel: { vision: true }\n", &[
        r#"t.yaml:2:18: "model.vision: true" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
    ]),
    ("window", "version: 1\nmodel: { window: 12 }\n", &[
        r#"t.yaml:2:18: "model.window" must be a whole number of at least 1024, not the number 12"#,
    ]),
    ("timeout unit", "version: 1\nmodel: { timeouts: { idle: 30 } }\n", &[
        r#"t.yaml:2:28: "model.timeouts.idle" must be a duration with its unit, not the number 30 | write a number and a unit: 500ms, 10s, 5m, 2h"#,
    ]),
    ("timeout bad unit", "version: 1\nmodel: { timeouts: { connect: 30d } }\n", &[
        r#"t.yaml:2:31: "model.timeouts.connect": "30d" has no known unit | write a number and a unit: 500ms, 10s, 5m, 2h"#,
    ]),
    ("retries", "version: 1\nmodel: { retries: { attempts: -1 } }\n", &[
        r#"t.yaml:2:31: "model.retries.attempts" must be a whole number of at least 1, not the number -1"#,
    ]),
    ("prices", "version: 1\nmodel: { prices: { input: 1 } }\n", &[
        r#"t.yaml:2:18: "model.prices.output" is missing | a price per million tokens"#,
    ]),
    ("price negative", "version: 1\nmodel: { prices: { input: -1, output: 2 } }\n", &[
        r#"t.yaml:2:27: "model.prices.input" must be a number of at least 0, not the number -1"#,
    ]),
    ("steps zero", "version: 1\nlimits: { steps: 0 }\n", &[
        r#"t.yaml:2:18: "limits.steps" must be a whole number of at least 1, not the number 0"#,
    ]),
    ("tokens text", "version: 1\nlimits: { tokens: 2M }\n", &[
        r#"t.yaml:2:19: "limits.tokens" must be a whole number of at least 1, not the text "2M""#,
    ]),
    ("cost zero", "version: 1\nlimits: { cost: 0 }\n", &[
        r#"t.yaml:2:17: "limits.cost" must be more than 0 | take it out for no cost limit"#,
    ]),
    ("time", "version: 1\nlimits: { time: forever }\n", &[
        r#"t.yaml:2:17: "limits.time": "forever" has no known unit | write a number and a unit: 500ms, 10s, 5m, 2h"#,
    ]),
    ("expect", "version: 1\nexpect: change\n", &[
        r#"t.yaml:2:9: "expect" must be one of changes, none, any, not the text "change" | did you mean "changes"?"#,
    ]),
    ("require glob", "version: 1\nrequire_files: [\"dist/*.gz\"]\n", &[
        r#"t.yaml:2:17: "require_files[0]" must name one file, not a pattern: "dist/*.gz""#,
    ]),
    ("require outside", "version: 1\nrequire_files: [a, ../b]\n", &[
        r#"t.yaml:2:20: "require_files[1]" must stay inside the workspace, without "..": "../b""#,
    ]),
    ("require text", "version: 1\nrequire_files: CHANGELOG.md\n", &[
        r#"t.yaml:2:16: "require_files" must be a list, not the text "CHANGELOG.md""#,
    ]),
    ("keep glob", "version: 1\nkeep: [\"tests/{a\"]\n", &[
        r#"t.yaml:2:8: "keep[0]" is no valid glob: "tests/{a": unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)"#,
    ]),
    ("max files", "version: 1\nmax_changed_files: -1\n", &[
        r#"t.yaml:2:20: "max_changed_files" must be a whole number of at least 0, not the number -1"#,
    ]),
    ("max excludes", "version: 1\nexpect: changes\nmax_changed_files: 0\n", &[
        r#"t.yaml:3:20: "expect: changes" and "max_changed_files: 0" exclude each other | no run could pass; change one of them"#,
    ]),
    ("attempts", "version: 1\nverify: { attempts: three }\n", &[
        r#"t.yaml:2:21: "verify.attempts" must be a whole number of at least 0, not the text "three""#,
    ]),
    ("check empty", "version: 1\nverify:\n  checks:\n    - \"\"\n", &[
        r#"t.yaml:4:7: "verify.checks[0]" must be a command, not an empty text"#,
    ]),
    ("check no run", "version: 1\nverify:\n  checks:\n    - { name: tests }\n", &[
        r#"t.yaml:4:7: "verify.checks[0].run" is missing | name the command of this check"#,
    ]),
    ("check twice", "version: 1\nverify:\n  checks:\n    - make test\n    - { name: make test, run: make }\n", &[
        r#"t.yaml:5:7: two checks are called "make test" | the first stands in line 4"#,
    ]),
    ("check timeout", "version: 1\nverify:\n  checks:\n    - { run: make, timeout: 0s }\n", &[
        r#"t.yaml:4:29: "verify.checks[0].timeout": "0s" is out of range (1ms to 720h) | write a number and a unit: 500ms, 10s, 5m, 2h"#,
    ]),
    ("check template", "version: 1\ntask: \"{{ crate }}\"\nparams: { crate: { type: string } }\nverify: { checks: [\"cargo test -p {{ crate }}\"] }\n", &[
        "t.yaml:4:20: {{ crate }} stands in a check, where parameters are not filled in | only the task is a template; write the value out",
    ]),
    ("verify list", "version: 1\nverify: [make]\n", &[
        r#"t.yaml:2:9: "verify" must be a mapping, not a list | keys here: attempts, baseline, clean_checkout, checks"#,
    ]),
    ("later keys", "version: 1\ncontext: [a]\noutput_schema: s.json\nmcp: { servers: {} }\nhooks: { before_compact: [x] }\nagents: { enabled: true }\nverify: { baseline: true, setup: [a], clean_checkout: true }\n", &[
        r#"t.yaml:2:1: "context" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:3:1: "output_schema" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:4:1: "mcp" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:5:10: "hooks.before_compact" is not supported yet | take it out: this version compacts only by `turnkey rollout compact`, where no run is at work"#,
        r#"t.yaml:6:20: "agents.enabled: true" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:7:21: "verify.baseline: true" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:7:27: "verify.setup" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
        r#"t.yaml:7:55: "verify.clean_checkout: true" is not supported yet | take it out: this version refuses what it would otherwise ignore"#,
    ]),
    ("hooks", "version: 1\nhooks:\n  before_tol: [x]\n  stop: ./a\n  user_prompt:\n    - { run: ./a, tools: [x] }\n    - { timeout: 5s }\n    - { run: ./a, required: false }\n    - \"\"\n    - { run: ./a, timeout: 5 }\n  before_tool:\n    - { run: ./a, tools: [] }\n    - { run: ./a, tools: [\"a b\", exec_*] }\n    - 7\n    - { run: ./a, required: no }\n", &[
        r#"t.yaml:3:3: unknown key "hooks.before_tol" | did you mean "before_tool"?"#,
        r#"t.yaml:4:9: "hooks.stop" must be a list, not the text "./a""#,
        r#"t.yaml:6:19: unknown key "hooks.user_prompt[0].tools" | keys here: run, timeout, required"#,
        r#"t.yaml:7:7: "hooks.user_prompt[1].run" is missing | name the command of this hook"#,
        r#"t.yaml:8:29: "hooks.user_prompt[2].required" cannot be false: the hook is asked, and without an answer nothing goes on | take it out; only after_tool and run_end can do without"#,
        r#"t.yaml:9:7: "hooks.user_prompt[3]" must be a command, not an empty text"#,
        r#"t.yaml:10:28: "hooks.user_prompt[4].timeout" must be a duration with its unit, not the number 5 | write a number and a unit: 500ms, 10s, 5m, 2h"#,
        r#"t.yaml:12:26: "hooks.before_tool[0].tools" is empty, so that the hook would never run | take it out for every tool, or name one"#,
        r#"t.yaml:13:27: "hooks.before_tool[1].tools[0]" must be the name of a tool, in which "*" stands for any text, not "a b""#,
        r#"t.yaml:15:29: "hooks.before_tool[3].required" must be true or false, not "no" | write false"#,
    ]),
    ("hook template", "version: 1\ntask: \"{{ crate }}\"\nparams: { crate: { type: string } }\nhooks: { stop: [\"./a {{ crate }}\"] }\n", &[
        "t.yaml:4:17: {{ crate }} stands in a hook, where parameters are not filled in | only the task is a template; write the value out",
    ]),
    ("environment word", "version: 1\nenvironment: container\n", &[
        r#"t.yaml:2:14: "environment: container" names no image | write: environment: { container: { image: NAME } }"#,
    ]),
    ("container", "version: 1\nenvironment: { container: { image: -v, runtime: lxc, tag: 1 } }\n", &[
        r#"t.yaml:2:36: "environment.container.image" must be a name such as registry.example.com/team/tools:1.2, not "-v""#,
        r#"t.yaml:2:49: "environment.container.runtime" must be one of docker, podman, not the text "lxc""#,
        r#"t.yaml:2:54: unknown key "environment.container.tag" | keys here: image, name, runtime"#,
    ]),
    ("container both", "version: 1\nenvironment: { container: { image: a, name: b } }\n", &[
        r#"t.yaml:2:27: "environment.container" needs one of "image" and "name" | write: environment: { container: { image: NAME } }"#,
    ]),
    ("container none", "version: 1\nenvironment: { container: {} }\n", &[
        r#"t.yaml:2:27: "environment.container" needs one of "image" and "name" | write: environment: { container: { image: NAME } }"#,
    ]),
    ("environment other", "version: 1\nenvironment: locale\n", &[
        r#"t.yaml:2:14: "environment" must be "local", not the text "locale" | did you mean "local"?"#,
    ]),
    ("artifacts", "version: 1\nartifacts: [a]\n", &[
        r#"t.yaml:2:12: "artifacts" must be a text, not a list"#,
    ]),
    ("control character", "version: 1\npolicy: \"a\\nb\"\n", &[
        "t.yaml:2:9: \"policy\" holds a control character: \"a\\nb\"",
    ]),
    ("a key that a terminal would obey", "version: 1\n\"\\e[2J\\n::error::x\": 1\n\"a\\eb\": 1\n\"a\\eb\": 2\n", &[
        "t.yaml:4:1: duplicate key \"a\\u{1b}b\" | it stands in line 3 already; keep one of them",
    ]),
    ("an unknown key that a terminal would obey", "version: 1\nlimits: { \"\\e[2J\\n::error::x\": 1 }\n", &[
        "t.yaml:2:11: unknown key \"limits.\\u{1b}[2J\\n::error::x\" | keys here: steps, tool_calls, tokens, cost, time",
    ]),
    ("many at once", "version: 1\nexpect: maybe\nlimits: { steps: many, time: 5 }\nnope: 1\nmodel: { use: x }\n", &[
        r#"t.yaml:2:9: "expect" must be one of changes, none, any, not the text "maybe""#,
        r#"t.yaml:3:18: "limits.steps" must be a whole number of at least 1, not the text "many""#,
        r#"t.yaml:3:30: "limits.time" must be a duration with its unit, not the number 5 | write a number and a unit: 500ms, 10s, 5m, 2h"#,
        r#"t.yaml:4:1: unknown key "nope" | keys here: version, name, task, task_file, params, inputs, instructions, workspace, isolate, model, policy, limits, expect, require_files, keep, max_changed_files, max_changed_lines, verify, hooks, agents, environment, artifacts"#,
        r#"t.yaml:5:15: "model.use" must be PROVIDER/NAME, not "x" | openai/gpt-5.5, for instance"#,
    ]),
];
