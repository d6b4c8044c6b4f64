//! The `container` environment with an engine that is a script: what it is asked, and what happens when
//! it is not there, has no image, or must be told to take something away. A real engine is asked by
//! `.ci/full environment`.

use super::support::{Run, Sandboxed, alive, command, eventually, mark, script};
use serde_json::json;
use std::time::Duration;

const POLICY: &str = r#"version: 1
exec:
  allow:
    - "printf ..."
    - "sleep *"
    - "only-inside *"
    - { cmd: "fetch", network: open }
files: { read: ["**"], write: ["src/**"] }
env: { pass: [BUILD_TOKEN] }
command_limits: { timeout: 30s, processes: 99, memory: 1GiB }
"#;

/// An engine's client: writes down what it is asked and runs commands on this machine.
const ENGINE: &str = r##"#!/bin/bash
printf '%s\n' "$*" >>"@DIR@/asked"
case $1 in
version) [[ ! -e @DIR@/down ]] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; } ;;
image) [[ ! -e @DIR@/no-image ]] || { echo "No such image" >&2; exit 1; }; echo sha256:feed ;;
container) [[ ! -e @DIR@/no-name ]] || { echo "No such container" >&2; exit 1; }; echo true ;;
pull) echo "manifest unknown: not found" >&2; exit 1 ;;
run | exec)
    printf '%s' "$BUILD_TOKEN" >"@DIR@/token"
    while shift; do
        case $1 in
        --name | --label | --pull | --log-driver | --tmpfs | --cap-drop | --security-opt | --network | --userns | --pids-limit | --memory | --mount | --entrypoint | --user | --env) shift ;;
        --workdir) cd "$2" || exit 125; shift ;;
        --*) ;;
        *) break ;;
        esac
    done
    shift
    if [[ "$*" == *run-folder* ]]; then
        [[ ! -e @DIR@/broken ]] || { echo "no such file or directory: sh" >&2; exit 127; }
        printf '%s\n' workspace bash net:lo nnp:1
        [[ -e @DIR@/loose ]] && printf '%s\n' net:more caps:some || echo caps:0
        cat "$6"; exit 0
    fi
    exec "$@"
    ;;
esac
"##;

struct Fake {
    place: Sandboxed,
}

impl Fake {
    fn new(environment: &str, calls: &[&str]) -> Self {
        let place = Sandboxed::with_policy(POLICY);
        place.write("ws/src/a.txt", "a\n");
        place.write("model.yaml", script(calls));
        let dir = place.path("bin");
        place.program("bin/docker", &ENGINE.replace("@DIR@", &dir.display().to_string()));
        place.write(
            "spec.yaml",
            format!(
                "version: 1\ntask: t\nworkspace: ws\npolicy: policy.yaml\nartifacts: out\n\
                 model: {{ use: scripted/model.yaml }}\nenvironment: {environment}\n"
            ),
        );
        Self { place }
    }

    fn run(&self, args: &[&str]) -> Run<'_> {
        let all: Vec<&str> = ["exec", "--spec", "spec.yaml"].iter().chain(args).copied().collect();
        let path = std::env::var("PATH").unwrap_or_default();
        Run::new(&self.place, &all)
            .env("PATH", &format!("{}:{path}", self.place.path("bin").display()))
            .env("BUILD_TOKEN", "tok-5-of-the-build")
            .env("DOCKER_HOST", "unix:///nowhere")
    }

    fn asked(&self) -> String {
        self.place.read("bin/asked")
    }
}

const IMAGE: &str = "{ container: { image: \"team/tools:1\" } }";

#[test]
fn each_command_gets_a_container_of_its_own_with_what_the_policy_grants() {
    let fake = Fake::new(
        IMAGE,
        &[&command("printf hello > src/made.txt"), &command("only-inside x"), &command("fetch")],
    );
    let done = fake.run(&[]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds()[0], "ok", "{:?}", done.outputs());
    assert_eq!(fake.place.read("ws/src/made.txt"), "hello");
    let asked = fake.asked();
    let run = asked.lines().find(|line| line.contains("printf hello")).unwrap();
    let ws = fake.place.path("ws").display().to_string();
    for part in [
        "run --rm --name turnkey-",
        "--pull never",
        "--cap-drop ALL --security-opt no-new-privileges",
        "--network none",
        "--pids-limit 99 --memory 1073741824",
        &format!("--mount type=bind,source={ws},target={ws},readonly"),
        &format!("--mount type=bind,source={ws}/src,target={ws}/src "),
        &format!("--workdir {ws}"),
        "--env BUILD_TOKEN ",
        "--env GIT_TERMINAL_PROMPT ",
        "sha256:feed bash --noprofile --norc -c printf hello > src/made.txt",
    ] {
        assert!(run.contains(part), "{part:?} is not in {run}");
    }
    assert!(!asked.contains("tok-5-of-the-build"), "no secret in words that others can read");
    assert!(!run.contains("state/turnkey/runs"), "the run folder is not mounted: {run}");
    assert!(!run.contains("DOCKER_HOST"), "the client's own variables stay outside: {run}");
    assert_eq!(fake.place.read("bin/token"), "tok-5-of-the-build");
    assert_eq!(done.kinds(), ["ok", "failed", "failed"], "{:?}", done.outputs());
    let fetch = asked.lines().find(|line| line.ends_with(" fetch")).unwrap();
    assert!(asked.contains("sha256:feed only-inside x"), "looked up inside: {asked}");
    assert!(!fetch.contains("--network"), "this rule grants the network: {fetch}");
    let result = done.result();
    assert_eq!(result["changed_files"][0]["path"], "src/made.txt");
    let grades = result["sandbox"].to_string();
    assert!(grades.contains("docker: only what is mounted"), "{grades}");
    assert!(!grades.contains("not_held"), "{grades}");
    assert!(asked.lines().last().unwrap().starts_with("ps --all"), "{asked}");
    let environment = &result["sources"]["environment"];
    assert_eq!(environment, "spec line 7");
}

#[test]
fn checks_run_in_the_container_too() {
    let fake = Fake::new(IMAGE, &[]);
    let done = fake.run(&["--verify", "test -e src/a.txt"]).finish();
    done.assert(0, "completed", "completed");
    assert!(fake.asked().contains("-c test -e src/a.txt"), "{}", fake.asked());
}

#[test]
fn a_client_that_is_killed_has_its_container_taken_away() {
    let mark = mark("300.");
    let call = json!({"cmd": format!("sleep {mark}"), "timeout_ms": 500});
    let fake = Fake::new(IMAGE, &[&format!("{{ tool: exec_command, args: {call} }}")]);
    let done = fake.run(&[]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["timed_out"]);
    let asked = fake.asked();
    let name = asked
        .lines()
        .find(|line| line.contains(&format!("sleep {mark}")))
        .and_then(|line| line.split_whitespace().skip_while(|word| *word != "--name").nth(1))
        .unwrap();
    assert!(asked.contains(&format!("rm --force {name}")), "{asked}");
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[test]
fn a_killed_runner_leaves_no_container() {
    let mark = mark("300.");
    let fake = Fake::new(IMAGE, &[&command(&format!("sleep {mark}"))]);
    let running = fake.run(&[]).start();
    eventually("the command runs", || !alive(&format!("sleep {mark}")).is_empty());
    running.signal("KILL");
    running.wait(Duration::from_secs(5));
    eventually("the engine is told", || fake.asked().contains("rm --force turnkey-"));
    eventually("the client is gone", || alive(&format!("sleep {mark}")).is_empty());
}

#[test]
fn a_named_container_is_executed_in_and_swept() {
    let fake = Fake::new("{ container: { name: builder } }", &[&command("printf hi")]);
    let strict = fake.run(&[]).finish();
    strict.assert(20, "unavailable", "container.not_held");
    assert!(strict.stderr.contains("the container's own mounts"), "{}", strict.stderr);
    let done = fake.run(&["--sandbox", "best-effort"]).finish();
    done.assert(0, "completed", "completed");
    assert_eq!(done.kinds(), ["ok"], "{:?}", done.outputs());
    assert!(done.stderr.contains("holds less than the policy asks for"), "{}", done.stderr);
    let asked = fake.asked();
    assert!(asked.contains("exec --env TURNKEY_COMMAND=turnkey-"), "{asked}");
    assert!(asked.contains(" sh TURNKEY_COMMAND=turnkey-"), "swept afterwards: {asked}");
}

#[test]
fn whatever_is_missing_is_unavailable_before_any_request_and_says_what_to_do() {
    let cases = [
        ("down", IMAGE, "container.engine", "Cannot connect to the Docker daemon"),
        ("no-image", IMAGE, "container.image", "manifest unknown"),
        ("broken", IMAGE, "container.start", "the image needs sh"),
        ("loose", IMAGE, "container.not_held", "it has a network"),
        ("no-name", "{ container: { name: builder } }", "container.name", "No such container"),
        ("-", "{ container: { image: i, runtime: podman } }", "container.engine", "no podman"),
    ];
    for (flag, environment, reason, says) in cases {
        let fake = Fake::new(environment, &[&command("printf hi")]);
        fake.place.write(&format!("bin/{flag}"), "");
        let done = fake.run(&[]).finish();
        done.assert(20, "unavailable", reason);
        assert!(done.stderr.contains(says), "{flag}: {}", done.stderr);
        assert!(done.stderr.contains("hint:"), "{flag}: {}", done.stderr);
        assert_eq!(done.result()["steps"], 0);
    }
}
