//! A launcher gets ready for the next command while others run: what they change meanwhile must not find
//! a way through it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use turnkey::exec::sandbox::{Layers, Plan, PlanInput, Sandbox, Walls};
use turnkey::exec::{
    CleanPath, Environment, EnvironmentInput, ExecError, Executor, ExecutorConfig, Finished,
    Launchers, ProcessEnd, RunLimits,
};
use turnkey::policy::{Attributes, ExecPermit, Network};

pub const LIMITS: RunLimits = RunLimits { timeout: Duration::from_secs(20), output: 64 * 1024 };

pub struct Place {
    dir: tempfile::TempDir,
    layers: Layers,
    pub executor: Executor,
    pub runtime: tokio::runtime::Runtime,
}

impl Place {
    /// A workspace with a folder `open`, a file `single` that may be written, and `open/kept`, which is
    /// protected, whether or not it is there.
    pub fn new(layers: Layers, in_tmp: bool) -> Self {
        Self::with(layers, in_tmp, |_, _| {})
    }

    /// The same with a plan that was changed, of a workspace.
    pub fn with(layers: Layers, in_tmp: bool, change: fn(&mut PlanInput, &Path)) -> Self {
        let base = if in_tmp { "/tmp" } else { env!("CARGO_TARGET_TMPDIR") };
        let dir = tempfile::tempdir_in(base).unwrap();
        for name in ["work/open", "scratch/home", "scratch/tmp"] {
            std::fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        std::fs::write(dir.path().join("work/single"), "one\n").unwrap();
        let scratch = dir.path().join("scratch");
        let work = dir.path().join("work");
        let path = CleanPath::new(Some("/usr/local/bin:/usr/bin:/bin"), &|_| false);
        let mut input = PlanInput {
            write: vec![work.join("open"), work.join("single")],
            // Each file for itself: what is brought along into a /tmp of the command's own.
            read: if in_tmp { vec![work.join("single")] } else { vec![work.clone()] },
            scratch: scratch.clone(),
            programs: path.folders().to_vec(),
            protected_inside: vec![work.join("open/kept")],
            ..PlanInput::default()
        };
        change(&mut input, &work);
        let sandbox: Arc<dyn Sandbox> =
            Arc::new(Walls::new(Plan::new(input), layers, Vec::new(), Vec::new()));
        let environment =
            Environment::new(EnvironmentInput { scratch, ..EnvironmentInput::default() }, &path);
        let launchers = Launchers::new(PathBuf::from(env!("CARGO_BIN_EXE_turnkey")));
        let config = ExecutorConfig { launchers, sandbox, environment, path };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { dir, layers, executor: Executor::new(config), runtime }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    /// Runs a script and gives its exit code and output; the next launcher is ready when it returns.
    pub fn run(&self, script: &str) -> (i32, String) {
        let done = self.try_run(script).unwrap();
        match done.end {
            ProcessEnd::Exited(code) => (code, done.output.text),
            end => panic!("{end:?}: {}", done.output.text),
        }
    }

    pub fn permit(&self, script: &str) -> ExecPermit {
        let attributes = Attributes { network: Network::None, ..Attributes::default() };
        ExecPermit::operator("test", script, self.work(), attributes)
    }

    pub fn try_run(&self, script: &str) -> Result<Finished, ExecError> {
        let cancel = CancellationToken::new();
        let run = self.executor.run(self.permit(script), LIMITS, &cancel);
        let done = self.runtime.block_on(run);
        // Where one of the processes between was stopped, none gets ready.
        self.ready(Duration::from_secs(2));
        done
    }

    /// Waits until the launcher for the next command has done all that it does before: the starter,
    /// that launcher and the child that waits in it.
    pub fn ready(&self, limit: Duration) -> Option<(i32, i32, i32)> {
        let deadline = Instant::now() + limit;
        let mut seen = Vec::new();
        while Instant::now() < deadline {
            // What gets it ready is a task of this runtime.
            self.rest(20);
            let starter = starters().into_iter().rfind(|pid| is_there(*pid));
            let now = starter.and_then(|starter| match living(starter)[..] {
                [launcher] => Some((starter, launcher, waits(launcher, self.layers.namespaces)?)),
                _ => None,
            });
            seen.retain(|before| now == Some(*before));
            seen.extend(now);
            // Whoever still has something to do does not sleep for so long.
            if seen.len() == 5 {
                return now;
            }
        }
        None
    }

    /// As while a model is asked.
    pub fn rest(&self, milliseconds: u64) {
        let rest = Duration::from_millis(milliseconds);
        self.runtime.block_on(async { tokio::time::sleep(rest).await });
    }

    pub fn holds(&self, script: &str) -> String {
        let (code, text) = self.run(script);
        assert_eq!(code, 0, "{script}: {text}");
        text
    }
}

/// The layer sets of this machine. The floor always; a machine without namespaces says so.
pub fn each_layer_set(check: impl Fn(Layers)) {
    check(Layers::FLOOR);
    if crate::sandbox::has_namespaces() {
        check(Layers::ALL);
    }
}

fn replace(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, path).unwrap();
}

#[test]
fn the_launcher_that_got_ready_is_the_one_that_is_used() {
    let place = Place::new(Layers::FLOOR, false);
    place.holds("true");
    assert!(place.ready(Duration::from_secs(60)).is_some());
    let ready = launchers();
    let used = place.holds("echo $PPID");
    assert!(ready.contains(&used.trim().parse().unwrap()), "{used} is none of {ready:?}");
    // After a change that matters it is another one.
    assert!(place.ready(Duration::from_secs(60)).is_some());
    let ready = launchers();
    replace(&place.work().join("single"), "two\n");
    let used = place.holds("echo $PPID");
    assert!(!ready.contains(&used.trim().parse().unwrap()), "{used} is one of {ready:?}");
}

/// The launchers: children of what this thread started.
fn launchers() -> Vec<i32> {
    starters().into_iter().flat_map(children_of).collect()
}

pub fn starters() -> Vec<i32> {
    children(Path::new("/proc/thread-self/children"))
}

pub fn children_of(pid: i32) -> Vec<i32> {
    children(Path::new(&format!("/proc/{pid}/task/{pid}/children")))
}

/// Everything below a process.
pub fn below(pid: i32) -> Vec<i32> {
    children_of(pid).into_iter().flat_map(|pid| [vec![pid], below(pid)].concat()).collect()
}

/// Whether it lives. A zombie does not: nothing of it runs.
pub fn is_there(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// The children of a process that live.
pub fn living(pid: i32) -> Vec<i32> {
    children_of(pid).into_iter().filter(|pid| is_there(*pid)).collect()
}

/// The child that waits in a launcher, where all of that launcher sleeps: the keeper of the namespaces
/// is between them.
pub fn waits(launcher: i32, namespaces: bool) -> Option<i32> {
    let inside: Vec<i32> = below(launcher).into_iter().filter(|pid| is_there(*pid)).collect();
    let sleeps = |pid: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'))
    };
    let all = inside.len() == 1 + usize::from(namespaces);
    let child = inside.last().copied()?;
    (all && sleeps(&launcher) && inside.iter().all(sleeps)).then_some(child)
}

fn children(list: &Path) -> Vec<i32> {
    let list = std::fs::read_to_string(list).unwrap_or_default();
    list.split_ascii_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_file_or_folder_that_was_replaced_meanwhile_is_the_new_one_for_the_next_command() {
    each_layer_set(|layers| {
        for in_tmp in [false, true] {
            let place = Place::new(layers, in_tmp);
            place.holds("cat single && echo a >>single");
            replace(&place.work().join("single"), "two\n");
            assert_eq!(place.holds("cat single && echo b >>single"), "two\n");
            let text = std::fs::read_to_string(place.work().join("single")).unwrap();
            assert_eq!(text, "two\nb\n", "{layers:?}");
            let (open, old) = (place.work().join("open"), place.dir.path().join("old"));
            std::fs::rename(&open, &old).unwrap();
            std::fs::create_dir(&open).unwrap();
            place.holds("echo c >open/new");
            assert!(open.join("new").exists(), "{layers:?}");
            let (code, text) = place.run("echo d >../old/new");
            assert_ne!(code, 0, "{layers:?}: what was moved away is not writable any more: {text}");
        }
    });
}

#[test]
fn what_is_protected_and_came_meanwhile_is_read_only_for_the_next_command() {
    if !crate::sandbox::has_namespaces() {
        return;
    }
    let place = Place::new(Layers::ALL, false);
    let kept = place.work().join("open/kept");
    place.holds("true");
    std::fs::write(&kept, "mine\n").unwrap();
    let (code, text) = place.run("echo yours >open/kept");
    assert_ne!(code, 0, "{text}");
    // Replaced, and hidden behind a second name of the same file.
    std::fs::rename(&kept, place.work().join("open/moved")).unwrap();
    std::fs::hard_link(place.work().join("open/moved"), &kept).unwrap();
    let (code, text) = place.run("echo yours >open/kept");
    assert_ne!(code, 0, "{text}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), "mine\n");
    // Gone: as a new launcher would have it, nothing is there to be covered.
    std::fs::remove_file(&kept).unwrap();
    place.holds("echo mine >open/kept");
}

pub const NAMESPACES: Layers = Layers { landlock: false, seccomp: false, namespaces: true };

/// The sets with namespaces, as far as this machine has them.
pub fn each_with_namespaces(check: impl Fn(Layers)) {
    if crate::sandbox::has_namespaces() {
        check(Layers::ALL);
        check(NAMESPACES);
    }
}

/// Deletes a file and makes another in its place, which most file systems give the same number.
fn make_again(path: &Path, text: &str) {
    use std::os::unix::fs::MetadataExt;
    let number = || std::fs::metadata(path).unwrap().ino();
    let before = number();
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, text).unwrap();
    println!("{}: {before}, then {}", path.display(), number());
}

#[test]
fn a_file_that_was_deleted_and_made_again_is_the_new_one_even_with_its_old_number() {
    let check = |layers: Layers| {
        let place = Place::with(layers, false, |input, work| {
            input.hidden = vec![work.join("open/secret")];
            std::fs::write(work.join("open/secret"), "key\n").unwrap();
        });
        let (single, secret) = (place.work().join("single"), place.work().join("open/secret"));
        place.holds("true");
        for text in ["two\n", "three\n"] {
            make_again(&single, text);
            assert_eq!(place.holds("cat single && echo more >>single"), text, "{layers:?}");
            assert_eq!(std::fs::read_to_string(&single).unwrap(), format!("{text}more\n"));
            if layers.namespaces {
                make_again(&secret, "another\n");
                // It is refused, or covered where it has the number of the old one.
                if let Ok(done) = place.try_run("cat open/secret") {
                    assert!(!done.output.text.contains("another"), "{layers:?}");
                }
                std::fs::remove_file(&secret).unwrap();
                break;
            }
        }
    };
    check(Layers::FLOOR);
    each_with_namespaces(check);
}

#[test]
fn a_folder_that_was_writable_for_its_many_files_is_not_when_they_became_fewer() {
    each_with_namespaces(|layers| {
        let place = Place::with(layers, false, |input, work| {
            let many = work.join("many");
            std::fs::create_dir(&many).unwrap();
            input.write = (0..65).map(|number| many.join(number.to_string())).collect();
            input.write.iter().for_each(|file| std::fs::write(file, "").unwrap());
        });
        place.holds("echo a >many/3");
        for number in 10..40 {
            std::fs::remove_file(place.work().join(format!("many/{number}"))).unwrap();
        }
        let (code, text) = place.run("echo b >many/new");
        assert!(code != 0 && !place.work().join("many/new").exists(), "{layers:?}: {text}");
        place.holds("echo c >many/3");
    });
}

#[test]
fn what_is_protected_stays_so_when_it_changed_places_with_what_is_not() {
    each_with_namespaces(|layers| {
        let place = Place::new(layers, false);
        let (kept, single) = (place.work().join("open/kept"), place.work().join("single"));
        std::fs::write(&kept, "mine\n").unwrap();
        place.holds("true");
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        let here = rustix::fs::CWD;
        rustix::fs::renameat_with(here, &kept, here, &single, exchange).unwrap();
        let (code, text) = place.run("echo yours >>open/kept");
        assert_ne!(code, 0, "{layers:?}: {text}");
        assert_eq!(std::fs::read_to_string(&kept).unwrap(), "one\n");
        assert_eq!(place.holds("cat single; echo yours >>single"), "mine\n");
    });
}

#[test]
fn what_is_protected_behind_a_folder_that_became_a_link_is_covered_where_it_is_now() {
    each_with_namespaces(|layers| {
        let place = Place::with(layers, false, |input, work| {
            input.protected_inside = vec![work.join("open/deep/kept")];
            std::fs::create_dir_all(work.join("open/deep")).unwrap();
            std::fs::create_dir_all(work.join("open/other")).unwrap();
            std::fs::write(work.join("open/other/kept"), "mine\n").unwrap();
        });
        place.holds("echo yours >>open/other/kept");
        place.holds("rmdir open/deep && ln -s other open/deep");
        let (code, text) = place.run("echo yours >open/deep/kept");
        assert_ne!(code, 0, "{layers:?}: {text}");
    });
}

#[test]
fn what_is_brought_along_into_an_own_tmp_is_not_replaced_by_what_a_command_put_there() {
    each_with_namespaces(|layers| {
        let place = Place::new(layers, true);
        place.holds("true");
        // The way there is each command's own, so that no launcher can come between, and read-only.
        for attack in [
            "chmod 755 ..",
            "mv ../../$(basename $(dirname $PWD)) ../../away",
            "mv ../work ../away",
            "mkdir new",
            "echo evil >new",
            "rm -rf ../../$(basename $(dirname $PWD))",
            "mv single away",
            "rm -f single",
        ] {
            let (code, text) = place.run(attack);
            assert_ne!(code, 0, "{layers:?}: {attack}: {text}");
            assert!(text.contains("Read-only") || text.contains("busy"), "{attack}: {text}");
        }
        assert_eq!(place.holds("cat single && echo more >>single && echo x >open/x"), "one\n");
        let text = std::fs::read_to_string(place.work().join("single")).unwrap();
        assert_eq!(text, "one\nmore\n", "{layers:?}");
        assert!(place.work().join("open/x").exists(), "{layers:?}");
    });
}
