//! What the sandbox adds to a command, against the same command spawned plainly.
//!
//! Aim: at most 1.5 ms more than a plain spawn; memory of the runner flat over many commands. The plain
//! names run one command after the other without a pause, so that the launcher for the next one gets ready
//! while the cores are busy; `…_in_a_turn` leaves the pause that a model makes. Run with
//! `cargo bench --bench sandbox`.

use divan::Bencher;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use turnkey::exec::sandbox::{Layers, NoSandbox, Plan, PlanInput, Sandbox, Walls};
use turnkey::exec::{
    CleanPath, Environment, EnvironmentInput, Executor, ExecutorConfig, Launchers, ProcessEnd,
    RunLimits,
};
use turnkey::policy::{Attributes, ExecPermit, Network};

fn main() {
    memory();
    divan::main();
}

/// A place to run commands in, under a set of layers; `None` is the launcher without a sandbox.
struct Place {
    dir: tempfile::TempDir,
    executor: Executor,
    runtime: Runtime,
}

impl Place {
    fn new(layers: Option<Layers>) -> Self {
        // Not below /tmp, as a workspace of a job is not.
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::tempdir_in(base).unwrap();
        for name in ["work", "scratch/home", "scratch/tmp"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let scratch = dir.path().join("scratch");
        let path = CleanPath::new(Some("/usr/local/bin:/usr/bin:/bin"), &|_| false);
        let input = PlanInput {
            write: vec![dir.path().join("work")],
            read: vec![dir.path().join("work")],
            scratch: scratch.clone(),
            programs: path.folders().to_vec(),
            ..PlanInput::default()
        };
        let sandbox: Arc<dyn Sandbox> = match layers {
            Some(layers) => Arc::new(Walls::new(Plan::new(input), layers, Vec::new(), Vec::new())),
            None => Arc::new(NoSandbox::new("bench")),
        };
        let environment =
            Environment::new(EnvironmentInput { scratch, ..EnvironmentInput::default() }, &path);
        let launchers = Launchers::new(PathBuf::from(env!("CARGO_BIN_EXE_turnkey")));
        let config = ExecutorConfig { launchers, sandbox, environment, path };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { dir, executor: Executor::new(config), runtime }
    }

    fn run(&self, network: Network) {
        let attributes = Attributes { network, ..Attributes::default() };
        let permit = ExecPermit::operator("bench", ":", self.dir.path().join("work"), attributes);
        let limits = RunLimits { timeout: Duration::from_secs(20), output: 64 * 1024 };
        let cancel = CancellationToken::new();
        let done = self.runtime.block_on(self.executor.run(permit, limits, &cancel)).unwrap();
        assert_eq!(done.end, ProcessEnd::Exited(0), "{}", done.output.text);
    }
}

/// The same command, spawned as a program without any of this would.
#[divan::bench(sample_count = 200)]
fn plain_spawn(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    bencher.bench_local(|| plain(&runtime));
}

fn plain(runtime: &Runtime) {
    let spawn = async {
        let mut command = tokio::process::Command::new("/bin/bash");
        command.args(["--noprofile", "--norc", "-c", ":"]).env_clear().output().await
    };
    assert!(runtime.block_on(spawn).unwrap().status.success());
}

#[divan::bench(sample_count = 200)]
fn launcher_alone(bencher: Bencher<'_, '_>) {
    let place = Place::new(None);
    bencher.bench_local(|| place.run(Network::None));
}

#[divan::bench(sample_count = 200)]
fn floor(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::FLOOR));
    bencher.bench_local(|| place.run(Network::None));
}

#[divan::bench(sample_count = 200)]
fn namespaces(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::ALL));
    bencher.bench_local(|| place.run(Network::None));
}

#[divan::bench(sample_count = 100)]
fn namespaces_with_a_network_of_their_own(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::ALL));
    bencher.bench_local(|| place.run(Network::Loopback));
}

/// What a model takes for its answer, at the very least.
fn pause(runtime: &Runtime) {
    runtime.block_on(async { tokio::time::sleep(Duration::from_millis(10)).await });
}

#[divan::bench(sample_count = 100)]
fn plain_spawn_in_a_turn(bencher: Bencher<'_, '_>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    bencher.with_inputs(|| pause(&runtime)).bench_local_refs(|()| plain(&runtime));
}

#[divan::bench(sample_count = 100)]
fn floor_in_a_turn(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::FLOOR));
    let pause = || pause(&place.runtime);
    bencher.with_inputs(pause).bench_local_refs(|()| place.run(Network::None));
}

#[divan::bench(sample_count = 100)]
fn namespaces_in_a_turn(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::ALL));
    let pause = || pause(&place.runtime);
    bencher.with_inputs(pause).bench_local_refs(|()| place.run(Network::None));
}

#[divan::bench(sample_count = 100)]
fn namespaces_with_a_network_of_their_own_in_a_turn(bencher: Bencher<'_, '_>) {
    let place = Place::new(Some(Layers::ALL));
    let pause = || pause(&place.runtime);
    bencher.with_inputs(pause).bench_local_refs(|()| place.run(Network::Loopback));
}

/// Memory of this process before and after many commands.
fn memory() {
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.map(|text| text.trim().to_owned()).unwrap_or_default()
    };
    let place = Place::new(Some(Layers::FLOOR));
    (0..50).for_each(|_| place.run(Network::None));
    let before = resident();
    (0..500).for_each(|_| place.run(Network::None));
    println!("memory after 50 commands {before}, after 550 {}", resident());
}
