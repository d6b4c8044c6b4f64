//! The forms a repository comes in: index versions, hashes, worktrees, clones, submodules.

use super::repositories::settle;
use super::*;

#[test]
fn every_version_of_the_index() {
    for version in ["2", "3", "4"] {
        let scene = Scene::git();
        for name in ["a", "ab/c", "ab/cd", "b/long/er/name", "z"] {
            scene.write(name, format!("{name}\n"));
        }
        scene.commit_all();
        scene.write("intended", "x\n");
        scene.run_git(&["update-index", "--index-version", version]);
        scene.run_git(&["add", "-N", "intended"]);
        settle(&scene);
        let mut workspace = scene.captured();
        assert_eq!(workspace.copied(), 2, "only the intended one, version {version}");
        scene.write("ab/cd", "2\n");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M ab/cd"], "version {version}");
        assert!(changes.exact, "{:?}", changes.reasons);
    }
}

#[test]
fn a_split_index_is_said_to_be_unknown() {
    let scene = Scene::git();
    scene.write("a", "a\n");
    scene.commit_all();
    scene.run_git(&["update-index", "--split-index"]);
    let mut workspace = scene.captured();
    scene.write("a", "b\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M a"], "its content was copied");
    assert!(!changes.exact && changes.reasons[0].contains("link"), "{:?}", changes.reasons);
    scene.write(".git/index", "garbage");
    let changes = scene.captured().turn_changes().expect("compares");
    assert!(!changes.exact);
}

#[test]
fn repositories_with_the_long_hash() {
    let scene = Scene::plain();
    scene.run_git(&["init", "-q", "--object-format=sha256"]);
    scene.write("a/file", "before\n");
    scene.commit_all();
    settle(&scene);
    for packed in [false, true] {
        if packed {
            scene.run_git(&["repack", "-adfq"]);
        }
        let mut workspace = scene.captured();
        assert_eq!(workspace.copied(), 0);
        scene.write("a/file", "after\n");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(content(&changes.files[0].before), b"before\n");
        let tree = scene.run_git(&["rev-parse", "HEAD^{tree}"]);
        assert_eq!(changes.start_tree.map(|oid| oid.hex()), Some(tree));
        assert_eq!(workspace.start_changes().expect("compares").files, []);
        scene.run_git(&["checkout", "-q", "a/file"]);
    }
}

#[test]
fn converted_files_are_taken_as_they_are_in_the_work_tree() {
    let scene = Scene::git();
    scene.write(".gitattributes", "*.txt text eol=crlf\n*.id ident\n");
    scene.write("a.txt", "one\r\ntwo\r\n");
    scene.write("b.id", "$Id$\n");
    scene.write("c.c", "x\n");
    scene.commit_all();
    for name in ["a.txt", "b.id"] {
        scene.remove(name);
    }
    scene.run_git(&["checkout", "-q", "."]);
    settle(&scene);
    assert!(scene.bytes("b.id").expect("there").len() > 10, "git expanded it");
    let before = scene.bytes("b.id").expect("there");
    let mut workspace = scene.captured();
    scene.write("a.txt", "one\r\n2\r\n");
    scene.write("b.id", "$Id$\n");
    scene.write("c.c", "y\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M a.txt", "M b.id", "M c.c"]);
    assert_eq!(content(&changes.files[0].before), b"one\r\ntwo\r\n");
    assert_eq!(content(&changes.files[1].before), before);
    assert!(changes.exact);

    let scene = Scene::git();
    scene.run_git(&["config", "core.autocrlf", "true"]);
    scene.write("a.txt", "one\r\ntwo\r\n");
    scene.commit_all();
    settle(&scene);
    let mut workspace = scene.captured();
    scene.write("a.txt", "one\r\n2\r\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(content(&changes.files[0].before), b"one\r\ntwo\r\n");
    // A conversion that nothing here tells of is noticed by the size.
    let scene = Scene::git();
    scene.write("a.txt", "one\r\ntwo\r\n");
    // Old enough for git to be certain of it at once.
    let past = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(1_000_000_000_000_000_007);
    let file = std::fs::File::options().write(true).open(scene.path("a.txt")).expect("opens");
    file.set_modified(past).expect("sets");
    scene.run_git(&["-c", "core.autocrlf=true", "add", "-A"]);
    scene.run_git(&["commit", "-q", "-m", "x"]);
    std::thread::sleep(std::time::Duration::from_millis(60));
    scene.write("other", "x");
    scene.run_git(&["-c", "core.autocrlf=true", "add", "other"]);
    let mut workspace = scene.captured();
    scene.write("a.txt", "one\r\n2\r\n");
    let changes = workspace.turn_changes().expect("compares");
    assert!(!changes.exact, "{:?}", short(&changes.files));
}

#[test]
fn submodules_and_clones_inside_are_watched_but_not_entered() {
    let other = Scene::git();
    other.write("lib.c", "x\n");
    other.commit_all();
    let scene = Scene::git();
    scene.write("main.c", "x\n");
    let url = other.root.to_str().expect("utf-8");
    scene.run_git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    scene.commit_all();
    scene.run_git(&["clone", "-q", url, "vendor/clone"]);
    let mut workspace = scene.captured();
    let quiet = workspace.turn_changes().expect("compares");
    assert!(quiet.files.is_empty() && quiet.not_expressible.is_empty(), "{quiet:?}");
    let head = scene.run_git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!(workspace.start_changes().expect("compares").files, []);
    scene.write("sub/lib.c", "changed\n");
    scene.write("sub/new.c", "new\n");
    scene.write("vendor/clone/lib.c", "changed\n");
    scene.write("vendor/clone/.git/hooks/pre-commit", "evil\n");
    scene.write("main.c", "y\n");
    git_in(&scene.path("sub"), &["commit", "-qam", "moved"]);
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M main.c"]);
    let hook = scene.path("vendor/clone/.git/hooks/pre-commit");
    assert_eq!(changes.git_warnings.len(), 1, "{:?}", changes.git_warnings);
    assert_eq!(changes.git_warnings[0].path, hook);
    let said: Vec<_> =
        changes.not_expressible.iter().map(|one| (shown(&one.path), one.what.clone())).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[0], ("sub".into(), "2 files changed inside this nested repository".into()));
    assert_eq!(said[1].0, "vendor/clone");
    assert!(said[2].1.starts_with("nested repository: commit "), "{said:?}");
    let _ = head;
}

#[test]
fn a_sparse_checkout_deletes_nothing() {
    for sparse_index in ["false", "true"] {
        let scene = Scene::git();
        for name in ["in/a", "out/a", "out/deep/b", "top"] {
            scene.write(name, format!("{name}\n"));
        }
        scene.commit_all();
        scene.run_git(&["config", "index.sparse", sparse_index]);
        scene.run_git(&["sparse-checkout", "set", "--cone", "in"]);
        assert!(!scene.path("out").exists());
        let tree = scene.run_git(&["rev-parse", "HEAD^{tree}"]);
        let mut workspace = scene.captured();
        assert_eq!(workspace.start_changes().expect("compares").files, []);
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(changes.files, []);
        assert_eq!(changes.start_tree.map(|oid| oid.hex()), Some(tree), "{sparse_index}");
        scene.write("out/a", "written though left out\n");
        scene.write("out/deep/new", "new\n");
        scene.write("in/a", "changed\n");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M in/a", "M out/a", "A out/deep/new"]);
        assert_eq!(content(&changes.files[1].before), b"out/a\n");
        assert!(changes.exact, "{:?}", changes.reasons);
    }
}

#[test]
fn shallow_partial_and_borrowing_clones() {
    let origin = Scene::git();
    for n in 0..5 {
        origin.write("file", format!("{n}\n"));
        origin.write("other", "x\n");
        origin.commit_all();
    }
    origin.run_git(&["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", origin.root.display());
    for words in [
        vec!["--depth=1"],
        vec!["--filter=blob:none"],
        vec!["--shared"],
        vec!["--bare", "--no-hardlinks"],
    ] {
        let scene = Scene::plain();
        std::fs::remove_dir(&scene.root).expect("removes");
        let bare = words[0] == "--bare";
        let from = if words[0] == "--shared" { origin.root.to_str().expect("utf-8") } else { &url };
        let to = scene.root.to_str().expect("utf-8");
        let all: Vec<&str> =
            ["clone", "-q"].into_iter().chain(words.clone()).chain([from, to]).collect();
        git_in(scene.root.parent().expect("a parent"), &all);
        if bare {
            assert!(scene.open().git().is_none(), "a bare repository is no work tree");
            continue;
        }
        let mut workspace = scene.captured();
        assert_eq!(workspace.start_changes().expect("compares").files, [], "{words:?}");
        scene.write("file", "changed\n");
        let changes = workspace.turn_changes().expect("compares");
        assert_eq!(short(&changes.files), ["M file"], "{words:?}");
        assert!(changes.exact, "{words:?}: {:?}", changes.reasons);
        assert_eq!(content(&changes.files[0].before), b"4\n");
    }
}

#[test]
fn a_workspace_below_the_root_of_its_repository() {
    let scene = Scene::git();
    scene.write(".gitignore", "*.log\n/pkg/one/gen/\n");
    scene.write("pkg/.gitignore", "tmp/\n");
    scene.write("pkg/one/src", "x\n");
    scene.write("pkg/two", "x\n");
    scene.commit_all();
    scene.write("pkg/two", "dirty, but elsewhere\n");
    scene.write("pkg/one/dirty", "x\n");
    let folder = scene.path("pkg/one");
    let mut workspace = Workspace::open(&folder, scene.options()).expect("opens");
    assert_eq!(workspace.git().expect("git").work_root, scene.root);
    workspace.capture_start().expect("captures");
    let start = workspace.start_changes().expect("compares");
    assert_eq!(short(&start.files), ["A pkg/one/dirty"]);
    scene.write("pkg/one/src", "y\n");
    scene.write("pkg/one/new", "y\n");
    for ignored in ["pkg/one/x.log", "pkg/one/gen/x", "pkg/one/tmp/x"] {
        scene.write(ignored, "ignored\n");
    }
    scene.write("pkg/two", "changed elsewhere\n");
    let committed = edit(&workspace, "dirty", Some("patched\n")).expect("commits");
    workspace.note_patch("1", &committed).expect("notes");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M pkg/one/dirty", "A pkg/one/new", "M pkg/one/src"]);
    assert_eq!(changes.attribution[0].calls[0].id, "1");
    let listing = workspace.list(&ReadPermit::for_test(&folder), 5, 50).expect("lists");
    assert_eq!(listing.lines().collect::<Vec<_>>(), ["dirty", "new", "src"]);
}

#[test]
fn a_folder_that_the_repository_around_it_ignores_stands_alone() {
    let scene = Scene::git();
    scene.write(".gitignore", "target/\n");
    scene.write("file", "x\n");
    scene.commit_all();
    scene.write("target/copy/file", "x\n");
    let folder = scene.path("target/copy");
    let mut workspace = Workspace::open(&folder, scene.options()).expect("opens");
    assert!(workspace.git().is_none());
    workspace.capture_start().expect("captures");
    scene.write("target/copy/file", "y\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M file"]);
}
