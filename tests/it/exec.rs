//! Commands as they really run: launcher, sandbox floor, limits, the end of the tree.

use super::support::{alive, mark};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use turnkey::exec::sandbox::{Layers, NoSandbox, Plan, PlanInput, Sandbox, Walls};
use turnkey::exec::{
    CleanPath, Environment, EnvironmentInput, ExecError, Executor, ExecutorConfig, Finished,
    Launchers, ProcessEnd, RunLimits,
};
use turnkey::policy::{Attributes, ExecPermit};

fn launchers() -> Launchers {
    Launchers::new(PathBuf::from(env!("CARGO_BIN_EXE_turnkey")))
}

struct Place {
    dir: tempfile::TempDir,
    executor: Executor,
}

impl Place {
    /// A work folder, writable, beside a folder that is not; commands confined by the floor.
    fn confined() -> Self {
        let floor = |input| Walls::new(Plan::new(input), Layers::FLOOR, Vec::new(), Vec::new());
        Self::with(|input| Arc::new(floor(input)))
    }

    fn open() -> Self {
        Self::with(|_| Arc::new(NoSandbox::new("test")))
    }

    fn with(make: impl FnOnce(PlanInput) -> Arc<dyn Sandbox>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        for name in ["work", "outside", "scratch/home", "scratch/tmp"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let work = dir.path().join("work");
        let input = PlanInput {
            write: vec![work.clone()],
            read: vec![work],
            scratch: dir.path().join("scratch"),
            ..PlanInput::default()
        };
        let path = CleanPath::new(Some("/usr/local/bin:/usr/bin:/bin"), &|_| false);
        let environment = Environment::new(
            EnvironmentInput { scratch: dir.path().join("scratch"), ..EnvironmentInput::default() },
            &path,
        );
        let executor = Executor::new(ExecutorConfig {
            launchers: launchers(),
            sandbox: make(input),
            environment,
            path,
        });
        Self { dir, executor }
    }

    fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    async fn try_run(&self, script: &str, timeout: Duration) -> Result<Finished, ExecError> {
        let permit = ExecPermit::operator("test", script, self.work(), Attributes::default());
        let limits = RunLimits { timeout, output: 64 * 1024 };
        self.executor.run(permit, limits, &CancellationToken::new()).await
    }

    async fn run(&self, script: &str) -> Finished {
        self.try_run(script, Duration::from_secs(20)).await.unwrap()
    }
}

#[tokio::test]
async fn output_and_status_come_back() {
    let place = Place::confined();
    let done = place.run("echo out; echo err >&2; exit 3").await;
    assert_eq!(done.end, ProcessEnd::Exited(3));
    assert!(done.output.text.contains("out\n") && done.output.text.contains("err\n"));
    assert_eq!(done.stragglers, 0);
}

#[tokio::test]
async fn writes_stay_inside_the_roots() {
    let place = Place::confined();
    let outside = place.dir.path().join("outside/f");
    let script = format!("echo ok > inside; echo no > {}", outside.display());
    let done = place.run(&script).await;
    assert_ne!(done.end, ProcessEnd::Exited(0));
    assert!(place.work().join("inside").exists());
    assert!(!outside.exists(), "{}", done.output.text);
}

#[tokio::test]
async fn reads_outside_the_roots_fail() {
    let place = Place::confined();
    let secret = place.dir.path().join("outside/secret");
    std::fs::write(&secret, "hidden").unwrap();
    let done = place.run(&format!("cat {}; cat /etc/hostname", secret.display())).await;
    assert!(!done.output.text.contains("hidden"), "{}", done.output.text);
}

#[tokio::test]
async fn no_network_and_no_capabilities() {
    let place = Place::confined();
    let done = place
        .run("exec 3<>/dev/tcp/127.0.0.1/9; echo status=$?; grep CapEff /proc/self/status")
        .await;
    assert!(!done.output.text.contains("status=0"), "{}", done.output.text);
    let done = place.run("grep -E 'CapEff|NoNewPrivs' /proc/self/status").await;
    assert!(done.output.text.contains("CapEff:\t0000000000000000"), "{}", done.output.text);
    assert!(done.output.text.contains("NoNewPrivs:\t1"), "{}", done.output.text);
}

#[tokio::test]
async fn the_runner_cannot_be_signalled_or_read() {
    if turnkey::exec::sandbox::landlock_abi() < 6 {
        eprintln!("SKIPPED: this kernel's Landlock cannot scope signals (ABI 6 can)");
        return;
    }
    let place = Place::confined();
    let pid = std::process::id();
    let done = place
        .run(&format!("kill -0 {pid}; echo kill=$?; cat /proc/{pid}/environ; echo read=$?"))
        .await;
    assert!(
        done.output.text.contains("kill=1") && done.output.text.contains("read=1"),
        "{}",
        done.output.text
    );
}

#[tokio::test]
async fn a_program_that_is_not_there_is_a_typed_error() {
    let place = Place::open();
    let gone = place.dir.path().join("gone");
    let permit = ExecPermit::operator("test", "true", gone, Attributes::default());
    let limits = RunLimits { timeout: Duration::from_secs(5), output: 1024 };
    let error = place.executor.run(permit, limits, &CancellationToken::new()).await.unwrap_err();
    assert!(matches!(error, ExecError::Start { .. }), "{error}");
}

#[tokio::test]
async fn d02_a_script_too_long_for_one_word_is_a_typed_error() {
    let place = Place::open();
    let script = format!(": {}", "x".repeat(200 * 1024));
    let error = place.try_run(&script, Duration::from_secs(5)).await.unwrap_err();
    assert!(error.to_string().contains("131072"), "{error}");
}

#[tokio::test]
async fn d69_a_timeout_ends_the_whole_tree_and_closes_the_readers() {
    let (loops, mark) = (mark("1."), mark("300."));
    let place = Place::confined();
    let start = Instant::now();
    let script = format!("(while :; do echo c; sleep {loops}; done) & sleep {mark}");
    let done = place.try_run(&script, Duration::from_secs(2)).await.unwrap();
    assert_eq!(done.end, ProcessEnd::TimedOut);
    assert!(start.elapsed() < Duration::from_secs(4), "{:?}", start.elapsed());
    assert!(done.output.text.contains('c'));
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
    assert_eq!(alive(&format!("sleep {loops}")), Vec::<i32>::new());
}

#[tokio::test]
async fn d71_a_grandchild_that_ignores_sigterm_is_killed_too() {
    let mark = mark("0.1");
    let place = Place::open();
    let script = format!(
        "trap 'exit 0' TERM; bash -c 'trap \"\" TERM; while :; do sleep {mark}; done' & wait"
    );
    let done = place.try_run(&script, Duration::from_millis(500)).await.unwrap();
    assert_eq!(done.end, ProcessEnd::TimedOut);
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[tokio::test]
async fn what_a_command_leaves_behind_is_ended_and_counted() {
    let mark = mark("300.");
    let place = Place::confined();
    let start = Instant::now();
    let script = format!(
        "setsid sleep {mark} & (sleep {mark} &); nohup sleep {mark} >/dev/null 2>&1 & true"
    );
    let done = place.run(&script).await;
    assert_eq!(done.end, ProcessEnd::Exited(0));
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(done.stragglers >= 1, "{done:?}");
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[tokio::test]
async fn a_cancel_ends_the_tree_within_the_grace() {
    let mark = mark("300.");
    let place = Place::confined();
    let cancel = CancellationToken::new();
    let later = cancel.clone();
    let stays = format!("sleep {mark}");
    let permit = ExecPermit::operator("t", &stays, place.work(), Attributes::default());
    let cancelled = tokio::spawn(async move {
        while alive(&stays).is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        later.cancel();
        Instant::now()
    });
    let limits = RunLimits { timeout: Duration::from_secs(60), output: 1024 };
    let done = place.executor.run(permit, limits, &cancel).await.unwrap();
    assert_eq!(done.end, ProcessEnd::Cancelled);
    assert!(cancelled.await.unwrap().elapsed() < Duration::from_secs(3));
    assert_eq!(alive(&format!("sleep {mark}")), Vec::<i32>::new());
}

#[tokio::test]
async fn d76_output_that_is_not_text_is_harmless() {
    let place = Place::confined();
    let done = place.run(r"printf '\377\376\200ok\000'; head -c 1000000 /dev/urandom").await;
    assert_eq!(done.end, ProcessEnd::Exited(0));
    assert_eq!(done.output.total, 1_000_006);
    assert!(done.output.text.contains("ok"));
}

#[tokio::test]
async fn children_see_no_descriptor_terminal_or_input_of_ours() {
    let place = Place::confined();
    let done =
        place.run("ls /proc/self/fd | tr '\\n' ' '; cat; (: > /dev/tty) 2>&1; echo end").await;
    assert!(done.output.text.starts_with("0 1 2 3"), "{}", done.output.text);
    assert!(!done.output.text.starts_with("0 1 2 3 4"), "{}", done.output.text);
    assert!(done.output.text.contains("end"));
}

#[tokio::test]
async fn the_environment_is_an_allowlist() {
    let place = Place::confined();
    let done = place.run("env | cut -d= -f1 | sort | tr '\\n' ' '").await;
    assert!(!done.output.text.contains("CARGO"), "{}", done.output.text);
    assert!(done.output.text.contains("GIT_TERMINAL_PROMPT"), "{}", done.output.text);
}
