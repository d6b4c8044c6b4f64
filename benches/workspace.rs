//! What the door to the files costs: the start, a look after a command, the final comparison, and
//! patches, beside what git takes on the same tree in the same run.
//!
//! `cargo bench --bench workspace`. The trees of 100,000 files are made once, below the target
//! folder, which takes some seconds; later runs find them there.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

use divan::Bencher;
use turnkey::diff::{DiffOptions, write_diff};
use turnkey::patch::{Change, FileState, Files, NewFile, Plan};
use turnkey::policy::WritePermit;
use turnkey::workspace::{CallRef, Limits, Options, Workspace};

const FILES: usize = 100_000;
const FOLDERS: usize = 1_000;

fn main() {
    divan::main();
}

struct Tree {
    base: PathBuf,
    clean: PathBuf,
    changed: PathBuf,
    small: PathBuf,
}

static TREE: OnceLock<Tree> = OnceLock::new();

/// A clean repository, one with 1,000 files changed after its start, and a small one.
fn tree() -> &'static Tree {
    TREE.get_or_init(|| {
        let base = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("workspace-bench");
        let tree = Tree {
            clean: base.join("clean"),
            changed: base.join("changed"),
            small: base.join("small"),
            base,
        };
        make(&tree.clean, FILES, FOLDERS);
        make(&tree.changed, FILES, FOLDERS);
        make(&tree.small, 2_000, 100);
        tree
    })
}

fn make(root: &Path, files: usize, folders: usize) {
    if root.join(".git/made").exists() {
        return;
    }
    let _ = std::fs::remove_dir_all(root);
    for folder in 0..folders {
        let path = root.join(format!("area{}/folder{folder}", folder % 10));
        std::fs::create_dir_all(&path).expect("a folder");
        for file in 0..files / folders {
            let text = format!("fn number_{folder}_{file}() {{\n    work();\n}}\n");
            std::fs::write(path.join(format!("file{file}.rs")), text).expect("a file");
        }
    }
    std::fs::write(root.join(".gitignore"), "target/\n*.log\n").expect("rules");
    git(root, &["init", "-q"]);
    git(root, &["add", "-A"]);
    git(root, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "all"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    git(root, &["status", "--porcelain"]);
    std::fs::write(root.join(".git/made"), "").expect("a mark");
}

fn git(root: &Path, words: &[&str]) {
    let status = Command::new("git")
        .current_dir(root)
        .args(words)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("git runs").success(), "git {words:?}");
}

fn open(root: &Path) -> Workspace {
    let store = tree().base.join("store");
    std::fs::create_dir_all(&store).expect("the store");
    let options = Options { exclude: Vec::new(), store, limits: Limits::default() };
    Workspace::open(root, options).expect("opens")
}

fn captured(root: &Path) -> Workspace {
    let mut workspace = open(root);
    workspace.capture_start().expect("captures");
    workspace
}

fn touch_1000(root: &Path, round: usize) {
    for folder in 0..1_000 {
        let path = root.join(format!("area{}/folder{folder}/file7.rs", folder % 10));
        std::fs::write(path, format!("fn changed_{round}() {{}}\n")).expect("a file");
    }
}

#[divan::bench(sample_count = 10)]
fn open_100k(bencher: Bencher) {
    let root = &tree().clean;
    bencher.bench_local(|| open(root));
}

#[divan::bench(sample_count = 10)]
fn capture_start_100k(bencher: Bencher) {
    let root = &tree().clean;
    bencher.with_inputs(|| open(root)).bench_local_values(|mut workspace| {
        workspace.capture_start().expect("captures");
        workspace
    });
}

/// With `* text=auto` git may have changed any file on checkout, so all of them are hashed.
#[divan::bench(sample_count = 5)]
fn capture_start_100k_all_hashed(bencher: Bencher) {
    let root = &tree().clean;
    let attributes = root.join(".git/info/attributes");
    std::fs::write(&attributes, "* text=auto\n").expect("writes");
    bencher.with_inputs(|| open(root)).bench_local_values(|mut workspace| {
        workspace.capture_start().expect("captures");
        workspace
    });
    std::fs::remove_file(attributes).expect("removes");
}

#[divan::bench(sample_count = 10)]
fn look_after_a_command_100k(bencher: Bencher) {
    let mut workspace = captured(&tree().clean);
    bencher.bench_local(|| workspace.after_command(&CallRef::command("call")).expect("looks"));
}

#[divan::bench(sample_count = 10)]
fn turn_changes_100k_clean(bencher: Bencher) {
    let mut workspace = captured(&tree().clean);
    bencher.bench_local(|| workspace.turn_changes().expect("compares"));
}

#[divan::bench(sample_count = 10)]
fn turn_changes_100k_1000_changed(bencher: Bencher) {
    let root = &tree().changed;
    git(root, &["checkout", "-q", "."]);
    let mut workspace = captured(root);
    touch_1000(root, 1);
    bencher.bench_local(|| {
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact && changes.files.len() == 1_000);
    });
}

/// What the end of a Turn costs: the comparison, and the diff written out.
#[divan::bench(sample_count = 10)]
fn final_diff_100k_1000_changed(bencher: Bencher) {
    let root = &tree().changed;
    git(root, &["checkout", "-q", "."]);
    let mut workspace = captured(root);
    touch_1000(root, 3);
    bencher.bench_local(|| {
        let changes = workspace.turn_changes().expect("compares");
        let diff = write_diff(changes.files, &DiffOptions::default());
        assert_eq!(diff.files.len(), 1_000);
        diff
    });
}

#[divan::bench(sample_count = 10)]
fn git_diff_100k_clean(bencher: Bencher) {
    let root = &tree().clean;
    bencher.bench_local(|| git(root, &["diff"]));
}

/// What `--isolate copy` costs before the first request. The copies go at the end: ext4 takes its time
/// to make files where many were removed within the last seconds.
#[divan::bench(sample_count = 10)]
fn copy_of_2000_files(bencher: Bencher) {
    let workspace = open(&tree().small);
    let made = std::cell::RefCell::new(Vec::new());
    bencher.with_inputs(|| tempfile::tempdir().expect("a folder")).bench_local_values(|to| {
        workspace.copy_to(to.path(), &Default::default()).expect("copies");
        made.borrow_mut().push(to);
    });
}

#[divan::bench(sample_count = 10)]
fn git_status_100k(bencher: Bencher) {
    let root = &tree().clean;
    bencher.bench_local(|| git(root, &["status", "--porcelain"]));
}

#[divan::bench(sample_count = 10)]
fn git_diff_100k_1000_changed(bencher: Bencher) {
    let root = &tree().changed;
    touch_1000(root, 2);
    bencher.bench_local(|| git(root, &["diff"]));
}

/// Plan from the disk and commit one file.
fn replace(workspace: &Workspace, path: &str, bytes: Arc<[u8]>) {
    let before = workspace.files().read(path).expect("reads");
    let Some(FileState::Regular { mode, .. }) = before else { panic!("{path} is a file") };
    let change = Change {
        path: path.to_owned(),
        moved_from: None,
        before,
        after: Some(NewFile::regular(bytes, mode)),
        added: 0,
        removed: 0,
        note: String::new(),
    };
    let permit = WritePermit::operator(vec![workspace.root().join(path)]);
    let plan = Plan { changes: vec![change], ..Plan::default() };
    workspace.commit(&permit, &plan).expect("commits");
}

#[divan::bench(sample_count = 10)]
fn patch_100_files_one_by_one_of_2000(bencher: Bencher) {
    let workspace = open(&tree().small);
    let mut round = 0;
    bencher.bench_local(|| {
        round += 1;
        for folder in 0..100 {
            let path = format!("area{}/folder{folder}/file3.rs", folder % 10);
            replace(&workspace, &path, Arc::from(format!("round {round}\n").as_bytes()));
        }
    });
}

#[divan::bench(sample_count = 10)]
fn patch_a_file_of_10_mb(bencher: Bencher) {
    let workspace = open(&tree().small);
    let mut content = "0123456789abcde\n".repeat(10 << 16).into_bytes();
    std::fs::write(workspace.root().join("big"), &content).expect("writes");
    bencher.bench_local(|| {
        content.rotate_left(1);
        replace(&workspace, "big", Arc::from(content.as_slice()));
    });
}
