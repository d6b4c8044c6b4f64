//! Resolving, reading, listing.

use super::*;

#[test]
fn paths_are_resolved_as_the_system_takes_them() {
    let scene = Scene::plain();
    scene.write("sub/deep/file", "x");
    scene.write("other/file", "x");
    scene.link("sub/deep", "into");
    scene.link("/nonexistent/there", "dangling");
    scene.link("loop", "loop");
    scene.link("../beside", "sub/up");
    let workspace = scene.open();
    let root = workspace.root().to_owned();
    let parent = root.parent().expect("a parent").to_owned();
    let cases = [
        (".", root.clone()),
        ("sub/deep/file", root.join("sub/deep/file")),
        ("into/file", root.join("sub/deep/file")),
        // A link before `..` counts: the folder above its target is meant.
        ("into/../deep/file", root.join("sub/deep/file")),
        ("sub//deep/./file", root.join("sub/deep/file")),
        ("new/../other/file", root.join("other/file")),
        ("not/there/yet", root.join("not/there/yet")),
        ("dangling", PathBuf::from("/nonexistent/there")),
        ("dangling/x", PathBuf::from("/nonexistent/there/x")),
        ("..", parent.clone()),
        ("../../../../../../../../etc", PathBuf::from("/etc")),
        ("sub/up", root.join("beside")),
        ("/", PathBuf::from("/")),
    ];
    for (text, want) in cases {
        assert_eq!(workspace.resolve(&root, text), Ok(want), "{text}");
    }
    assert_eq!(workspace.resolve(Path::new("sub"), "deep"), Ok(root.join("sub/deep")));
    assert_eq!(workspace.resolve_entry(&root, "dangling"), Ok(root.join("dangling")));
    assert_eq!(workspace.resolve_entry(&root, "into/x"), Ok(root.join("sub/deep/x")));
    for bad in ["", "a\0b", "loop", "loop/x", "other/file/x/y", &"a/".repeat(3000)] {
        assert!(workspace.resolve(&root, bad).is_err(), "{bad:?}");
    }
}

fn read(workspace: &Workspace, path: &Path, limit: u64) -> Result<FileContent, WorkspaceError> {
    workspace.read(&ReadPermit::for_test(path), limit)
}

#[test]
fn reading_is_bounded_and_never_waits() {
    let scene = Scene::plain();
    scene.write("file", "0123456789");
    scene.link("file", "link");
    std::fs::create_dir(scene.path("folder")).expect("folder");
    mkfifo(&scene.path("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).expect("binds");
    let workspace = scene.open();
    let whole = read(&workspace, &scene.path("file"), 10).expect("reads");
    assert_eq!(
        (whole.bytes.as_slice(), whole.cut, whole.size),
        (b"0123456789".as_slice(), false, 10)
    );
    let cut = read(&workspace, &scene.path("file"), 4).expect("reads");
    assert_eq!((cut.bytes.as_slice(), cut.cut, cut.size), (b"0123".as_slice(), true, 10));
    assert_eq!(read(&workspace, &scene.path("file"), 0).expect("reads").bytes, b"");
    for (name, kind) in [
        ("folder", "a folder"),
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("link", "a symbolic link"),
    ] {
        let error = read(&workspace, &scene.path(name), 10).expect_err("refused");
        assert!(error.to_string().contains(kind), "{name}: {error}");
    }
    let error = read(&workspace, Path::new("/dev/zero"), 10).expect_err("refused");
    assert!(error.to_string().contains("a device"), "{error}");
    let error = read(&workspace, &scene.path("none"), 10).expect_err("refused");
    assert!(matches!(error, WorkspaceError::NotFound { .. }), "{error}");
    assert!(read(&workspace, Path::new("/proc/version"), 1 << 20).expect("reads").bytes.len() > 5);
}

#[test]
fn a_link_put_in_place_after_the_verdict_is_not_followed() {
    let scene = Scene::plain();
    scene.write("sub/file", "mine");
    let secret = scene.beside("secret");
    std::fs::create_dir(&secret).expect("folder");
    std::fs::write(secret.join("file"), "secret").expect("writes");
    let workspace = scene.open();
    let path = workspace.resolve(workspace.root(), "sub/file").expect("resolves");
    std::fs::remove_dir_all(scene.path("sub")).expect("removes");
    scene.link(&secret, "sub");
    let error = read(&workspace, &path, 100).expect_err("refused");
    assert!(matches!(error, WorkspaceError::Relinked { .. }), "{error}");
    let error =
        workspace.list(&ReadPermit::for_test(scene.path("sub")), 3, 100).expect_err("nor listed");
    assert!(!error.to_string().is_empty());
    // Outside the workspace the same holds.
    let elsewhere = scene.beside("elsewhere");
    std::os::unix::fs::symlink(&secret, &elsewhere).expect("links");
    read(&workspace, &elsewhere.join("file"), 100).expect_err("refused");
    assert_eq!(read(&workspace, &secret.join("file"), 100).expect("reads").bytes, b"secret");
}

#[test]
fn both_ways_in_refuse_the_same() {
    let scene = Scene::plain();
    scene.write("a/b/file", "x");
    scene.link("a", "link");
    scene.link("b/file", "a/end");
    let one = Root::open(&scene.root).expect("opens");
    let two = Root::open(&scene.root).expect("opens").step_by_step();
    for root in [&one, &two] {
        assert!(root.open_file(b"a/b/file").is_ok());
        assert!(root.open_folder(b"a/b").is_ok());
        assert!(root.open_folder(b"").is_ok());
        for bad in ["link/b/file", "a/end", "a/../a/b/file", "./a", "", "/etc/passwd", "..", "a//b"]
        {
            assert!(root.open_file(bad.as_bytes()).is_err(), "{bad}");
        }
        assert!(root.open_folder(b"link").is_err());
        assert!(root.stat(b"link/b").is_err() || root.stat(b"link/b").is_ok_and(|s| s.is_none()));
    }
}

#[test]
fn listings_are_sorted_bounded_and_leave_out_what_is_ignored() {
    let scene = Scene::git();
    scene.write(".gitignore", "target/\n*.log\n");
    scene.write("target/x", "x");
    scene.write("a.log", "x");
    scene.write("src/main.rs", "fn main() {}");
    scene.write("src/deep/er/x", "x");
    scene.write("src/.gitignore", "!keep.log\n");
    scene.write("src/keep.log", "x");
    scene.write("run.sh", "x");
    scene.chmod("run.sh", 0o755);
    scene.link("run.sh", "link");
    let workspace = scene.open();
    let list = |path: &str, depth, limit| {
        workspace.list(&ReadPermit::for_test(scene.path(path)), depth, limit).expect("lists")
    };
    let lines = |listing: &Listing| listing.lines().collect::<Vec<_>>();
    let all = list("", 9, 100);
    assert_eq!(
        lines(&all),
        [
            ".gitignore",
            "link@",
            "run.sh*",
            "src/",
            "src/.gitignore",
            "src/deep/",
            "src/deep/er/",
            "src/deep/er/x",
            "src/keep.log",
            "src/main.rs"
        ]
    );
    assert_eq!((all.ignored, all.cut), (2, false));
    assert_eq!(lines(&list("", 1, 100)), [".gitignore", "link@", "run.sh*", "src/"]);
    let cut = list("", 9, 5);
    assert!(cut.cut);
    assert_eq!(lines(&cut), [".gitignore", "link@", "run.sh*", "src/", "src/.gitignore"]);
    assert_eq!(lines(&list("src", 1, 100)), [".gitignore", "deep/", "keep.log", "main.rs"]);
    let error = workspace
        .list(&ReadPermit::for_test(scene.path("run.sh")), 1, 9)
        .expect_err("not a folder");
    assert!(error.to_string().contains("a regular file"), "{error}");
    assert!(workspace.list(&ReadPermit::for_test("/etc"), 1, 5).expect("lists").cut);
}

#[test]
fn the_outline_walks_nothing_and_knows_what_changed() {
    let scene = Scene::plain();
    scene.write("a/b/c/d", "x");
    scene.write("top", "x");
    let mut workspace = scene.open();
    assert_eq!(workspace.outline().expect("outlines").tree.lines().count(), 3);
    assert!(!workspace.is_captured());
    workspace.capture_start().expect("captures");
    let committed = edit(&workspace, "top", Some("y")).expect("commits");
    workspace.note_patch("1", &committed).expect("notes");
    scene.write("new", "x");
    workspace.after_command(&CallRef::command("2")).expect("looks");
    let changed = workspace.outline().expect("outlines").changed;
    let changed: Vec<_> = changed.iter().map(|one| (shown(&one.path), one.kind)).collect();
    let want = [("new", ChangeKind::Added), ("top", ChangeKind::Modified)];
    assert_eq!(changed, want.map(|(path, kind)| (path.to_owned(), kind)));
    // Put back, it counts as changed no longer.
    scene.write("top", "x");
    scene.remove("new");
    workspace.after_command(&CallRef::command("3")).expect("looks");
    assert_eq!(workspace.outline().expect("outlines").changed, []);
}

#[test]
fn the_store_may_not_lie_in_the_workspace() {
    let scene = Scene::plain();
    std::fs::create_dir(scene.path("store")).expect("folder");
    let options = Options { store: scene.path("store"), ..scene.options() };
    let error = Workspace::open(&scene.root, options).expect_err("refused");
    assert!(matches!(error, WorkspaceError::StoreInside { .. }), "{error}");
    let error = Workspace::open(&scene.path("none"), scene.options()).expect_err("refused");
    assert!(error.hint().is_some());
}

#[test]
fn a_workspace_goes_from_thread_to_thread() {
    fn goes<T: Send + Sync>() {}
    goes::<Workspace>();
    goes::<TurnChanges>();
    goes::<Committed>();
}

#[test]
fn what_may_have_been_meant_is_named() {
    let scene = Scene::plain();
    scene.write("src/Main.rs", "x");
    scene.write("src/main.c", "x");
    scene.write("lib/other.rs", "x");
    let workspace = scene.captured();
    let files = workspace.files();
    assert_eq!(files.alike("src/main.rs"), ["src/Main.rs", "src/main.c"]);
    assert_eq!(files.alike("src/other.rs"), ["lib/other.rs"]);
    assert_eq!(files.alike("nothing/like/it"), Vec::<String>::new());
}

pub(super) fn mkfifo(path: &Path) {
    let ok = Command::new("mkfifo").arg(path).status().expect("mkfifo runs").success();
    assert!(ok, "mkfifo");
}
