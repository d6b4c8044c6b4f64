//! The corpus: scripts that must be denied and scripts that must be allowed, judged with the real
//! file system behind the facts, and then run for real with the policy in front.
//!
//! A denied script never runs, so its canary can't be there; the other test runs the hostile ones
//! bare, to prove that they would have left one. Allowed ones run with stubs for the build tools.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use turnkey::policy::{Command, CommandRequest, Facts, Ground, Judged, Policy, PolicyFile};

/// One entry of the corpus.
struct Case {
    script: String,
    policy: String,
    part: String,
    live: bool,
    exit: i32,
}

fn data(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus").join(name);
    let text = fs::read_to_string(path).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn cases(name: &str) -> Vec<Case> {
    let list = data(name);
    let text =
        |case: &serde_json::Value, key: &str| case[key].as_str().unwrap_or_default().to_owned();
    list.as_array()
        .unwrap()
        .iter()
        .map(|case| Case {
            script: text(case, "script"),
            policy: text(case, "policy"),
            part: text(case, "part"),
            live: case["live"].as_bool().unwrap_or(false),
            exit: case["exit"].as_i64().unwrap_or(0) as i32,
        })
        .collect()
}

/// A small project in a git repository, and a PATH of stubs, `/usr/bin` and `/bin`.
struct World {
    root: tempfile::TempDir,
    workspace: PathBuf,
    path: Vec<PathBuf>,
}

/// Programs that the everyday scripts call and that are slow, big or absent here.
const STUBS: &[&str] = &[
    "cargo", "npm", "npx", "node", "pytest", "python", "python3", "ruff", "mypy", "go", "gofmt",
    "mvn", "gradle", "make", "rg", "fd", "tree", "yarn", "pnpm", "rustc", "ruby", "php", "ssh",
    "curl", "wget", "vim", "man", "less", "docker", "sudo", "busybox", "parallel",
];

impl World {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let base = root.path().canonicalize().unwrap();
        let workspace = base.join("ws");
        let stubs = base.join("stubs");
        fs::create_dir_all(&stubs).unwrap();
        for name in STUBS {
            executable(&stubs.join(name), "#!/bin/sh\nexit 0\n");
        }
        let world = Self { root, workspace, path: vec![stubs, "/usr/bin".into(), "/bin".into()] };
        world.reset();
        world
    }

    /// A fresh workspace.
    fn reset(&self) {
        let ws = &self.workspace;
        let _ = fs::remove_dir_all(ws);
        for folder in ["src/protected", "tests", "docs", "secrets", "target", "other"] {
            fs::create_dir_all(ws.join(folder)).unwrap();
        }
        let files = [
            ("README.md", "# Sample\n"),
            ("Cargo.toml", "[package]\nname = \"a\"\n"),
            ("package.json", "{\"name\": \"a\", \"scripts\": {}}\n"),
            (".env", "KEY=secret\n"),
            ("secrets/key", "secret\n"),
            ("src/a.rs", "fn a() {}\nfn b() {}\n}\n"),
            ("src/b.rs", "fn b() {}\n"),
            ("src/list", "CANARY\n"),
            ("src/evil.sh", "touch CANARY\n"),
            ("src/protected/a", "x\n"),
            ("tests/t.sh", "true\n"),
            (".gitignore", "target\n"),
        ];
        for (name, text) in files {
            fs::write(ws.join(name), text).unwrap();
        }
        for name in ["tool", "git", "mytouch", "ls", "src/tool.sh", "gradlew", "mvnw"] {
            executable(&ws.join(name), "#!/bin/sh\ntouch CANARY\n");
        }
        let _ = std::os::unix::fs::symlink("/etc", ws.join("link-to-etc"));
        let _ = std::os::unix::fs::symlink("secrets/key", ws.join("link-to-secret"));
        for words in [
            vec!["init", "-q", "-b", "main"],
            vec!["config", "user.name", "n"],
            vec!["config", "user.email", "a@example.com"],
            vec!["add", "-A"],
            vec!["commit", "-q", "-m", "start"],
        ] {
            let done = Process::new("git").args(&words).current_dir(ws).status().unwrap();
            assert!(done.success(), "{words:?}");
        }
        fs::write(ws.join("src/a.rs"), "fn a() {}\nfn b() { changed }\n}\n").unwrap();
    }

    fn policy(&self, texts: &serde_json::Value, name: &str) -> Policy {
        let text = texts[name].as_str().unwrap_or_else(|| panic!("no policy {name}"));
        let none = |_: &str| Err("no files".to_owned());
        let file = PolicyFile::parse(name, text, &none).unwrap_or_else(|faults| {
            panic!("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
        });
        file.compile(&Ground {
            workspace: self.workspace.clone(),
            home: Some(self.root.path().join("home")),
            protected: Vec::new(),
            untrusted: false,
            git_dirs: vec![self.workspace.join(".git")],
        })
        .unwrap()
    }

    fn judge(&self, policy: &Policy, script: &str) -> Judged<turnkey::policy::ExecPermit> {
        policy.judge_command(&CommandRequest::script(script, &self.workspace), self)
    }

    /// The environment of a child: little, and a PATH that nothing can be written to.
    fn clean(&self, process: &mut Process) {
        let path: Vec<&str> = self.path.iter().filter_map(|path| path.to_str()).collect();
        process
            .current_dir(&self.workspace)
            .env_clear()
            .env("PATH", path.join(":"))
            .env("HOME", self.root.path().join("home"))
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
    }

    fn canary(&self) -> bool {
        self.workspace.join("CANARY").exists() || self.workspace.join("src/CANARY").exists()
    }
}

/// Written by another process: what this one has open for writing, a child that another thread forks has
/// open too for a moment, and it cannot be run then.
fn executable(path: &Path, text: &str) {
    let mut write = Process::new("sh");
    write.args(["-c", "printf %s \"$1\" > \"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    assert!(write.status().unwrap().success(), "{}", path.display());
}

impl Facts for World {
    fn resolve(&self, cwd: &Path, text: &str) -> Result<PathBuf, String> {
        let mut whole = cwd.join(text);
        let mut missing = Vec::new();
        loop {
            if let Ok(real) = whole.canonicalize() {
                let mut path = real;
                for part in missing.iter().rev() {
                    match part {
                        std::path::Component::ParentDir => {
                            path.pop();
                        }
                        std::path::Component::Normal(name) => path.push(name),
                        _ => {}
                    }
                }
                return Ok(path);
            }
            let last = whole.components().next_back().map(|part| match part {
                std::path::Component::Normal(name) => {
                    std::path::Component::Normal(Box::leak(name.to_owned().into_boxed_os_str()))
                }
                _ => std::path::Component::ParentDir,
            });
            match last {
                Some(part) => missing.push(part),
                None => return Err("no root".into()),
            }
            if !whole.pop() {
                return Err("no root".into());
            }
        }
    }

    fn program(&self, name: &str) -> Option<PathBuf> {
        if name.contains('/') || name.is_empty() {
            return None;
        }
        self.path.iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }

    fn is_writable_place(&self, path: &Path) -> bool {
        path.starts_with(&self.workspace)
    }

    fn git_config(&self, _cwd: &Path) -> Option<String> {
        fs::read_to_string(self.workspace.join(".git/config")).ok()
    }
}

/// Runs what the Permit says, as the runtime would.
fn run(world: &World, permit: &turnkey::policy::ExecPermit) -> Option<i32> {
    let mut process = match permit.command() {
        Command::Argv { program, argv } => {
            use std::os::unix::process::CommandExt;
            let mut process = Process::new(program);
            process.arg0(&argv[0]).args(&argv[1..]);
            process
        }
        Command::Script(text) => {
            let mut process = Process::new("/bin/bash");
            process.args(["--noprofile", "--norc", "-c", text]);
            process
        }
    };
    world.clean(&mut process);
    process.envs(permit.attributes().env.iter().map(|(name, value)| (name, value)));
    process.current_dir(permit.cwd());
    process.status().unwrap().code()
}

fn policies(world: &World) -> BTreeMap<String, Policy> {
    let texts = data("policies.yaml");
    let names: Vec<String> = texts.as_object().unwrap().keys().cloned().collect();
    names.into_iter().map(|name| (name.clone(), world.policy(&texts, &name))).collect()
}

#[test]
fn hostile_scripts_are_denied_and_leave_no_canary() {
    let world = World::new();
    let policies = policies(&world);
    let cases = cases("denied.yaml");
    assert!(cases.len() >= 300);
    let mut wrong = Vec::new();
    for case in &cases {
        let judged = world.judge(&policies[&case.policy], &case.script);
        if let Some(permit) = &judged.permit {
            run(&world, permit);
            let canary = if world.canary() { " AND LEFT A CANARY" } else { "" };
            wrong.push(format!("allowed{canary}: {:?}", case.script));
            world.reset();
        } else if !judged.verdict.reason.contains(&case.part) {
            wrong.push(format!(
                "{:?}\n   said {:?}\n   not {:?}",
                case.script, judged.verdict.reason, case.part
            ));
        }
        assert!(!world.canary() || !wrong.is_empty(), "{:?}", case.script);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn hostile_scripts_are_hostile() {
    let world = World::new();
    let mut tame = Vec::new();
    let cases: Vec<Case> = cases("denied.yaml").into_iter().filter(|case| case.live).collect();
    assert!(cases.len() >= 200);
    for case in &cases {
        let mut process = Process::new("/bin/bash");
        process.args(["--noprofile", "--norc", "-c", &case.script]);
        world.clean(&mut process);
        process.env("X", "").status().unwrap();
        // Some run beside the shell.
        for _ in 0..2000 {
            if world.canary() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        if !world.canary() {
            tame.push(format!("{:?}", case.script));
        }
        let _ = fs::remove_file(world.workspace.join("CANARY"));
        let _ = fs::remove_file(world.workspace.join("src/CANARY"));
        if !world.workspace.join("src/a.rs").exists() {
            world.reset();
        }
    }
    assert!(
        tame.is_empty(),
        "no canary from {} of {}:\n{}",
        tame.len(),
        cases.len(),
        tame.join("\n")
    );
}

/// D62 for real: a repository whose configuration names a program wherever git would take one.
#[test]
fn d62_a_hostile_configuration_runs_nothing() {
    let world = World::new();
    let hostile = |world: &World| {
        let evil = world.workspace.join("tool").display().to_string();
        let config = world.workspace.join(".git/config");
        let mut text = fs::read_to_string(&config).unwrap();
        text.push_str(&format!(
            "[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n\teditor = {evil}\n\tsshCommand = {evil}\n\
             \thooksPath = other\n\taskPass = {evil}\n\talternateRefsCommand = {evil}\n\
             [pager]\n\tstatus = {evil}\n\tlog = {evil}\n\
             [filter \"ev\"]\n\tclean = {evil}\n\tsmudge = {evil}\n\tprocess = {evil}\n\trequired = true\n\
             [diff \"ev\"]\n\ttextconv = {evil}\n\tcachetextconv = true\n\
             [merge \"ev\"]\n\tdriver = {evil}\n\
             [alias]\n\tstatus = !{evil}\n\tst = !{evil}\n\
             [log]\n\tshowSignature = true\n[gpg]\n\tprogram = {evil}\n[commit]\n\tgpgSign = true\n\
             [credential]\n\thelper = {evil}\n[interactive]\n\tdiffFilter = {evil}\n[trailer \"x\"]\n\tcommand = {evil}\n"
        ));
        fs::write(&config, text).unwrap();
        fs::write(world.workspace.join(".gitattributes"), "* filter=ev diff=ev merge=ev\n")
            .unwrap();
        for hook in [
            "pre-commit",
            "post-commit",
            "commit-msg",
            "prepare-commit-msg",
            "post-checkout",
            "post-index-change",
        ] {
            executable(&world.workspace.join("other").join(hook), "#!/bin/sh\ntouch CANARY\n");
            executable(&world.workspace.join(".git/hooks").join(hook), "#!/bin/sh\ntouch CANARY\n");
        }
    };
    hostile(&world);
    // Bare, it runs: otherwise this test would prove nothing.
    for bare in [vec!["status"], vec!["diff"], vec!["log", "-p", "-1"]] {
        let mut process = Process::new("git");
        process.args(&bare);
        world.clean(&mut process);
        process.status().unwrap();
        assert!(world.canary(), "bare git {bare:?} ran nothing");
        fs::remove_file(world.workspace.join("CANARY")).unwrap();
    }
    let policies = policies(&world);
    let scripts: Vec<Case> =
        cases("allowed.yaml").into_iter().filter(|case| case.script.contains("git ")).collect();
    assert!(scripts.len() > 40);
    let mut wrong = Vec::new();
    for case in &scripts {
        let judged = world.judge(&policies[&case.policy], &case.script);
        let Some(permit) = &judged.permit else {
            wrong.push(format!("denied: {:?}: {}", case.script, judged.verdict.reason));
            continue;
        };
        let code = run(&world, permit);
        if world.canary() {
            wrong.push(format!("CANARY from {:?}", case.script));
            fs::remove_file(world.workspace.join("CANARY")).unwrap();
        }
        if code != Some(case.exit) {
            wrong.push(format!("{:?} ended with {code:?}", case.script));
        }
    }
    // What can't be overridden is denied until it is spared.
    world.reset();
    let config = world.workspace.join(".git/config");
    let text = fs::read_to_string(&config).unwrap();
    for more in [
        "[diff]\n\texternal = ./tool\n",
        "[diff \"x\"]\n\tcommand = ./tool\n",
        "[include]\n\tpath = x\n",
    ] {
        fs::write(&config, format!("{text}{more}")).unwrap();
        fs::write(world.workspace.join(".gitattributes"), "* diff=x\n").unwrap();
        for script in [
            "git diff",
            "git diff HEAD",
            "git diff --stat -p",
            "git diff --stat -U3",
            "git diff --quiet",
        ] {
            if world.judge(&policies["everyday"], script).permit.is_some() {
                wrong.push(format!("{script} with {more:?} was allowed"));
            }
        }
        for script in [
            "git diff --no-ext-diff",
            "git diff --stat",
            "git diff --name-only",
            "git log -p",
            "git show",
            "git diff-files -p",
            "git diff-index -p HEAD",
            "git stash list -p",
            "git status -vv",
            "git log -p -m --cc",
            "git range-diff HEAD HEAD HEAD",
            "git blame src/a.rs",
            "git diff-tree -p HEAD",
        ] {
            match &world.judge(&policies["everyday"], script).permit {
                None => wrong.push(format!("{script} with {more:?} was denied")),
                Some(permit) => {
                    run(&world, permit);
                    if world.canary() {
                        wrong.push(format!("CANARY from {script} with {more:?}"));
                        fs::remove_file(world.workspace.join("CANARY")).unwrap();
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn everyday_scripts_are_allowed_and_run() {
    let world = World::new();
    let policies = policies(&world);
    let cases = cases("allowed.yaml");
    assert!(cases.len() >= 100);
    let mut wrong = Vec::new();
    for case in &cases {
        let judged = world.judge(&policies[&case.policy], &case.script);
        match &judged.permit {
            None => wrong.push(format!("denied: {:?}\n   {}", case.script, judged.verdict.reason)),
            Some(permit) => {
                let code = run(&world, permit);
                if code != Some(case.exit) {
                    wrong.push(format!("{:?} ended with {code:?}", case.script));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}
