//! The harness: a clean place for one run of the real binary, and what came of it.

pub mod model_server;
pub mod recorded;

use serde_json::Value;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// A folder with a home of its own, removed at the end.
pub struct Sandboxed {
    dir: tempfile::TempDir,
}

impl Sandboxed {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// The same outside of /tmp, where there is such a folder: commands may see a /tmp of their own.
    pub fn outside_tmp() -> Self {
        let dir = tempfile::tempdir_in("/var/tmp").or_else(|_| tempfile::tempdir()).unwrap();
        fs::create_dir(dir.path().join("home")).unwrap();
        Self { dir }
    }

    /// A place with an empty workspace `ws` and this policy.
    pub fn with_policy(policy: &str) -> Self {
        let place = Self::new();
        fs::create_dir(place.path("ws")).unwrap();
        place.write("policy.yaml", policy);
        place
    }

    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().canonicalize().unwrap().join(inside)
    }

    pub fn write(&self, inside: &str, text: impl AsRef<[u8]>) {
        let path = self.path(inside);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A program, written by another process: see [`copied_binary`].
    pub fn program(&self, inside: &str, text: &str) {
        self.write(&format!("{inside}.text"), text);
        let (from, to) = (self.path(&format!("{inside}.text")), self.path(inside));
        let mut install = Command::new("install");
        install.args(["-m", "755"]).args([&from, &to]);
        assert!(install.status().unwrap().success(), "{}", to.display());
        fs::remove_file(from).unwrap();
    }

    pub fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.path(inside)).unwrap_or_else(|error| panic!("{inside}: {error}"))
    }

    pub fn exists(&self, inside: &str) -> bool {
        fs::symlink_metadata(self.path(inside)).is_ok()
    }

    /// Copies a folder of the source tree.
    pub fn copy(&self, from: &Path, to: &str) {
        copy_folder(from, &self.path(to));
    }

    /// Makes a folder a repository with everything committed.
    pub fn git_init(&self, folder: &Path) {
        self.git(folder, &["init", "-q", "-b", "main"]);
        self.git(folder, &["add", "-A"]);
        self.git(folder, &["commit", "-q", "--allow-empty", "-m", "start"]);
    }

    pub fn git(&self, folder: &Path, args: &[&str]) -> String {
        let done = self.try_git(folder, args);
        assert!(done.0, "git {args:?}: {}", done.1);
        done.1
    }

    /// Whether git succeeded, and what it printed.
    pub fn try_git(&self, folder: &Path, args: &[&str]) -> (bool, String) {
        let done = Command::new("git")
            .current_dir(folder)
            .args(["-c", "user.name=t", "-c", "user.email=t@example.com"])
            .args(["-c", "core.autocrlf=false", "-c", "protocol.file.allow=always"])
            .args(args)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("HOME", self.path("home"))
            .output()
            .unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
        (done.status.success(), text)
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The binary that cargo built for this test, or the one that is named instead.
pub fn binary() -> PathBuf {
    std::env::var_os("TURNKEY_TEST_BINARY")
        .map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_turnkey")), PathBuf::from)
}

/// Copies the binary, by another process: while this one has a file open for writing, a child that
/// another thread forks has it open too for a moment, and what is open for writing cannot be run.
pub fn copied_binary(to: &Path) {
    let done = Command::new("cp").arg(binary()).arg(to).status();
    assert!(done.unwrap().success(), "{}", to.display());
}

/// One run about to start.
pub struct Run<'a> {
    place: &'a Sandboxed,
    command: Command,
    stdin: Option<Vec<u8>>,
}

impl<'a> Run<'a> {
    pub fn new(place: &'a Sandboxed, args: &[&str]) -> Self {
        let mut command = Command::new(binary());
        command
            .current_dir(place.path(""))
            .args(args)
            .env_clear()
            .env("HOME", place.path("home"))
            .env("PATH", std::env::var("PATH").unwrap_or_default())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { place, command, stdin: None }
    }

    /// `exec` on the workspace `ws` with the policy `policy.yaml`, artifacts in `out`.
    pub fn exec(place: &'a Sandboxed, args: &[&str]) -> Self {
        let mut all = vec!["exec", "-C", "ws", "--artifacts", "out"];
        if place.exists("policy.yaml") {
            all.extend(["--policy", "policy.yaml"]);
        }
        all.extend(args);
        Self::new(place, &all)
    }

    pub fn env(mut self, key: &str, value: &str) -> Self {
        self.command.env(key, value);
        self
    }

    pub fn stdin(mut self, text: &str) -> Self {
        self.stdin = Some(text.as_bytes().to_vec());
        self.command.stdin(Stdio::piped());
        self
    }

    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    pub fn start(mut self) -> Running<'a> {
        let mut child = self.command.spawn().unwrap();
        if let Some(text) = self.stdin {
            use std::io::Write;
            // A run that does not read its input closes it; that is the run's right.
            let _ = child.stdin.take().unwrap().write_all(&text);
        }
        Running { place: self.place, child, started: Instant::now() }
    }

    pub fn finish(self) -> Done<'a> {
        self.start().wait(Duration::from_secs(60))
    }
}

/// A run at work.
pub struct Running<'a> {
    place: &'a Sandboxed,
    pub child: Child,
    pub started: Instant,
}

impl<'a> Running<'a> {
    pub fn signal(&self, name: &str) {
        let signal = match name {
            "TERM" => libc::SIGTERM,
            "INT" => libc::SIGINT,
            "HUP" => libc::SIGHUP,
            "KILL" => libc::SIGKILL,
            other => panic!("no test sends {other}"),
        };
        // SAFETY: no pointers; the child is not reaped yet, so that the number is its own.
        assert_eq!(unsafe { libc::kill(self.child.id().cast_signed(), signal) }, 0);
    }

    /// Waits for the end; kills the run and fails where it takes longer than `limit`.
    pub fn wait(mut self, limit: Duration) -> Done<'a> {
        let stdout = self.child.stdout.take().map(drain);
        let stderr = self.child.stderr.take().map(drain);
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                let text = stderr.map(|thread| thread.join().unwrap()).unwrap_or_default();
                panic!("the run did not end within {limit:?}; stderr:\n{text}");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let text = |thread: Option<std::thread::JoinHandle<String>>| {
            thread.map(|thread| thread.join().unwrap()).unwrap_or_default()
        };
        Done {
            place: self.place,
            status: status.code().unwrap_or(-1),
            took: self.started.elapsed(),
            stdout: text(stdout),
            stderr: text(stderr),
        }
    }
}

fn drain(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// A run that is over.
pub struct Done<'a> {
    place: &'a Sandboxed,
    pub status: i32,
    pub took: Duration,
    pub stdout: String,
    pub stderr: String,
}

impl Done<'_> {
    pub fn result(&self) -> Value {
        serde_json::from_str(&self.place.read("out/result.json")).unwrap()
    }

    pub fn state(&self) -> String {
        self.result()["state"].as_str().unwrap_or_default().to_owned()
    }

    pub fn reason(&self) -> String {
        self.result()["reason"].as_str().unwrap_or_default().to_owned()
    }

    /// Fails with everything that was printed unless the run ended like this.
    #[track_caller]
    pub fn assert(&self, status: i32, state: &str, reason: &str) {
        let shown = format!("--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        assert_eq!(self.status, status, "{shown}");
        assert_eq!((self.state().as_str(), self.reason().as_str()), (state, reason), "{shown}");
    }

    /// The records of the published rollout; every line must parse, in order, chained.
    pub fn rollout(&self) -> Vec<Value> {
        let path = self.place.path("out/rollout.jsonl");
        let report = turnkey::rollout::verify(&path);
        assert!(report.is_ok(), "{report:?}");
        let text = fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Outputs of the tool results, in order.
    pub fn outputs(&self) -> Vec<String> {
        self.rollout()
            .iter()
            .filter(|record| record["type"] == "item" && record["item"]["kind"] == "tool_result")
            .map(|record| record["item"]["output"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What the model was told of the tree: the Step before which, and the sections.
    pub fn world_states(&self) -> Vec<(u64, Value)> {
        self.rollout()
            .iter()
            .filter(|record| record["type"] == "world_state")
            .map(|record| (record["step"].as_u64().unwrap(), record["sections"].clone()))
            .collect()
    }

    /// Kinds of the tool results, in order.
    pub fn kinds(&self) -> Vec<String> {
        self.rollout()
            .iter()
            .filter(|record| record["type"] == "item" && record["item"]["kind"] == "tool_result")
            .map(|record| record["item"]["result"].as_str().unwrap().to_owned())
            .collect()
    }

    /// With `--json`: every line of stdout is one JSON object.
    pub fn assert_events_parse(&self) {
        for line in self.stdout.lines() {
            let value: Value = serde_json::from_str(line)
                .unwrap_or_else(|error| panic!("not JSON ({error}): {line}"));
            assert!(value.is_object(), "{line}");
        }
    }

    pub fn event_types(&self) -> Vec<String> {
        self.stdout
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .map(|value| value["type"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// What the artifacts say of the end must be one thing.
    pub fn assert_artifacts_agree(&self) {
        let result = self.result();
        let records = self.rollout();
        let last = records.last().unwrap();
        assert_eq!(last["type"], "run_finished");
        assert_eq!(last["state"], result["state"]);
        assert_eq!(last["exit_status"], result["exit_status"]);
        assert_eq!(result["exit_status"], self.status);
        let ends = records.iter().filter(|record| {
            let kind = record["type"].as_str().unwrap_or_default();
            matches!(kind, "turn_completed" | "turn_aborted" | "turn_failed")
        });
        assert_eq!(ends.count(), 1, "exactly one terminal record");
        for name in ["last-message.md", "summary.md", "result.json"] {
            assert!(self.place.exists(&format!("out/{name}")), "{name}");
        }
    }
}

/// Puts a filter on a run that answers these system calls with EPERM, as a container's own does.
#[cfg(target_os = "linux")]
pub fn without(run: &mut Run<'_>, calls: &[i64]) {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    use std::os::unix::process::CommandExt;
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter: seccompiler::BpfProgram =
        SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap().try_into().unwrap();
    // SAFETY: only system calls between fork and exec.
    unsafe {
        run.command()
            .pre_exec(move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other));
    }
}

/// A place whose commands run one script that lies beside the workspace, in `scripts`, and git.
pub fn with_scripts() -> Sandboxed {
    let place = Sandboxed::with_policy("");
    fs::create_dir(place.path("scripts")).unwrap();
    let scripts = place.path("scripts").display().to_string();
    let policy = format!(
        "version: 1\n\
         exec: {{ allow: [\"true\", \"sh {scripts}/change.sh\", \"git ...\"] }}\n\
         files: {{ read: [\"**\", \"{scripts}/**\"], write: [\"**\"] }}\n"
    );
    place.write("policy.yaml", policy);
    place
}

/// The call that runs this script there.
pub fn shell(place: &Sandboxed, text: &str) -> String {
    place.write("scripts/change.sh", text);
    command(&format!("sh {}", place.path("scripts/change.sh").display()))
}

/// Seconds to sleep for that no other process on this machine sleeps for, by which a test finds its own:
/// these digits, and more. All are of one length, so that none holds another.
pub fn mark(seconds: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{seconds}{:07}{next:04}", std::process::id())
}

/// Living processes whose command line holds `mark`.
pub fn alive(mark: &str) -> Vec<i32> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark) && pid != std::process::id().cast_signed() {
            found.push(pid);
        }
    }
    found
}

/// Processes that were started in this place: its runs, and their launchers and commands.
pub fn at_work_in(place: &Sandboxed) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let inside = entries.filter(|entry| {
        let cwd = fs::read_link(entry.path().join("cwd"));
        cwd.is_ok_and(|cwd| cwd.starts_with(place.path("")))
    });
    inside.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Waits until `holds`, or fails.
#[track_caller]
pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "{what} never came true");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A scripted model that makes these calls one by one and then says `done`.
pub fn script(calls: &[&str]) -> String {
    let mut text = String::from("version: 1\nsteps:\n");
    for call in calls {
        text.push_str(&format!("  - calls: [{call}]\n"));
    }
    text.push_str("  - text: done\n");
    text
}

/// One `exec_command` call for [`script`].
pub fn command(cmd: &str) -> String {
    format!("{{ tool: exec_command, args: {{ cmd: {} }} }}", serde_json::json!(cmd))
}

/// One `apply_patch` call for [`script`].
pub fn patch(text: &str) -> String {
    format!("{{ tool: apply_patch, input: {} }}", serde_json::json!(text))
}

/// Lets a run find no Landlock, as in a container whose filter forbids it.
pub fn without_landlock(run: &mut Run<'_>) {
    use std::os::unix::process::CommandExt;
    let filter = no_landlock();
    // SAFETY: only system calls between fork and exec.
    unsafe {
        run.command()
            .pre_exec(move || seccompiler::apply_filter(&filter).map_err(std::io::Error::other));
    }
}

fn no_landlock() -> seccompiler::BpfProgram {
    use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
    let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into_iter().collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch).unwrap();
    filter.try_into().unwrap()
}
