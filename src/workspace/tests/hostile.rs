//! Trees that were made to be difficult.

use super::*;

#[test]
fn names_of_every_kind() {
    let names: [&[u8]; 10] = [
        b"new\nline",
        b"tab\tquote\"back\\slash'",
        b"\xff\xfe not utf-8",
        "gr\u{fc}n \u{9634}\u{5f71}".as_bytes(),
        "e\u{301} NFD".as_bytes(),
        "\u{e9} NFC".as_bytes(),
        b" leading and trailing ",
        b"-dash",
        b"$(touch CANARY)",
        b"\x1b[31mred",
    ];
    for scene in [Scene::git(), Scene::plain()] {
        for name in names {
            std::fs::write(scene.root.join(byte_path(name)), name).expect("writes");
        }
        if scene.path(".git").exists() {
            scene.commit_all();
        }
        let mut workspace = scene.captured();
        for name in names {
            std::fs::write(scene.root.join(byte_path(name)), [name, b"!"].concat())
                .expect("writes");
            let folder = [name, b" folder"].concat();
            std::fs::create_dir(scene.root.join(byte_path(&folder))).expect("folder");
            let inner = scene.root.join(byte_path(&folder)).join(byte_path(name));
            std::fs::write(inner, "new").expect("writes");
        }
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.exact);
        assert_eq!(changes.files.len(), 20);
        for name in names {
            let file = changes.files.iter().find(|file| file.path == name).expect("in the diff");
            assert_eq!(content(&file.before), name);
        }
        if scene.path(".git").exists() {
            super::capture::round_trip(&scene, &changes);
        }
        let outline = workspace.outline().expect("outlines");
        assert!(outline.tree.lines().all(|line| !line.chars().any(char::is_control)));
    }
}

#[test]
fn pipes_sockets_and_links_to_nowhere_are_never_opened() {
    let scene = Scene::plain();
    super::doors::mkfifo(&scene.path("pipe"));
    let _socket = std::os::unix::net::UnixListener::bind(scene.path("socket")).expect("binds");
    scene.link("/nonexistent", "dangling");
    scene.link("link-loop", "link-loop");
    scene.link("..", "up");
    scene.link("/", "everything");
    scene.write("file", "x\n");
    let mut workspace = scene.captured();
    scene.remove("file");
    super::doors::mkfifo(&scene.path("file"));
    scene.remove("dangling");
    scene.write("dangling", "x\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M dangling", "D file"]);
    assert!(changes.exact);
    assert_eq!(changes.not_expressible.len(), 1);
}

#[test]
fn rule_files_that_are_no_files() {
    let scene = Scene::git();
    scene.write("sub/file", "x\n");
    scene.commit_all();
    super::doors::mkfifo(&scene.path(".gitignore"));
    super::doors::mkfifo(&scene.path("sub/.gitattributes"));
    std::fs::create_dir(scene.path("sub/.gitignore")).expect("folder");
    let outside = scene.beside("rules");
    std::fs::write(&outside, "*\n").expect("writes");
    scene.write("linked/file", "x\n");
    scene.link(&outside, "linked/.gitignore");
    let mut workspace = scene.captured();
    scene.write("linked/file", "y\n");
    scene.write("sub/file", "y\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M linked/file", "M sub/file"]);
    assert!(workspace.outline().is_ok());
}

#[test]
fn files_that_come_and_go_during_the_walk() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let scene = Scene::plain();
    for n in 0..200 {
        scene.write(&format!("steady/{}/{n}", n % 20), "x\n");
    }
    let stop = Arc::new(AtomicBool::new(false));
    let (root, flag) = (scene.root.clone(), stop.clone());
    let storm = std::thread::spawn(move || {
        let mut n = 0;
        while !flag.load(Ordering::Relaxed) {
            n += 1;
            let folder = root.join(format!("storm-{}", n % 10));
            let _ = std::fs::create_dir(&folder);
            let _ = std::fs::write(folder.join("file"), "x");
            let _ = std::fs::remove_dir_all(&folder);
            let _ = std::os::unix::fs::symlink("/", &folder);
            let _ = std::fs::remove_file(&folder);
        }
    });
    for _ in 0..20 {
        let mut workspace = scene.captured();
        workspace.after_command(&CallRef::command("1")).expect("looks");
        let changes = workspace.turn_changes().expect("compares");
        assert!(changes.files.iter().all(|file| file.path.starts_with(b"storm-")));
        let outside =
            |file: &FileChange| file.path.iter().filter(|byte| **byte == b'/').count() > 1;
        assert!(!changes.files.iter().any(outside), "no link was followed");
    }
    stop.store(true, Ordering::Relaxed);
    storm.join().expect("ends");
}

#[test]
fn folders_that_cannot_be_looked_into_are_told() {
    let scene = Scene::plain();
    scene.write("open/file", "x\n");
    scene.write("closed/file", "x\n");
    scene.write("later/file", "x\n");
    // A runner that is root sees everything; nesting too deep is unseen for everyone.
    let deep = "d/".repeat(600);
    let mut here = std::fs::File::open(&scene.root).expect("opens");
    for name in deep.split_terminator('/') {
        rustix::fs::mkdirat(&here, name, rustix::fs::Mode::from_raw_mode(0o755)).expect("mkdir");
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let next = rustix::fs::openat(&here, name, flags, rustix::fs::Mode::empty());
        here = std::fs::File::from(next.expect("opens"));
    }
    let mut workspace = scene.captured();
    scene.write("open/file", "y\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M open/file"]);
    assert_eq!(changes.unseen.len(), 1);
    assert!(changes.exact, "it was unseen before and shows no change: {:?}", changes.reasons);

    if rustix::process::geteuid().is_root() {
        return;
    }
    scene.chmod("closed", 0);
    let mut workspace = scene.captured();
    scene.chmod("later", 0);
    let changes = workspace.turn_changes().expect("compares");
    assert!(!changes.exact);
    assert!(changes.reasons.iter().any(|why| why.starts_with("later")), "{:?}", changes.reasons);
    assert!(!changes.reasons.iter().any(|why| why.starts_with("closed")));
    scene.chmod("closed", 0o755);
    scene.chmod("later", 0o755);
}

#[test]
fn ten_megabytes_are_kept_and_given_back() {
    let scene = Scene::plain();
    let big: Vec<u8> =
        (0..10_u32 << 20).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    scene.write("big", &big);
    let mut workspace = scene.captured();
    scene.remove("big");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["D big"]);
    assert!(content(&changes.files[0].before) == big);
}

#[test]
fn d107_a_large_tree_is_looked_at_quickly() {
    let scene = Scene::git();
    scene.write(".gitignore", "ignored/\n");
    for folder in 0..100 {
        for file in 0..30 {
            scene.write(&format!("src/{folder}/{file}.txt"), format!("{folder} {file}\n"));
            scene.write(&format!("ignored/{folder}/{file}.o"), "x");
        }
    }
    scene.commit_all();
    std::thread::sleep(std::time::Duration::from_millis(50));
    let start = std::time::Instant::now();
    let mut workspace = scene.open();
    let opened = start.elapsed();
    workspace.capture_start().expect("captures");
    let walked = start.elapsed() - opened;
    let most = (walked / 2).max(std::time::Duration::from_millis(100));
    assert!(opened < most, "opening walks nothing: {opened:?}, where a walk takes {walked:?}");
    scene.write("src/7/7.txt", "changed\n");
    scene.write("src/7/new", "new\n");
    let changes = workspace.turn_changes().expect("compares");
    assert_eq!(short(&changes.files), ["M src/7/7.txt", "A src/7/new"]);
    // Far above what it takes; an unignored or quadratic walk would be far above this.
    assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
}

#[test]
fn a_file_of_enormous_size_costs_nothing() {
    let scene = Scene::git();
    scene.write("file", "x\n");
    scene.commit_all();
    let mut workspace = scene.captured();
    let began = std::time::Instant::now();
    for name in ["file", "new"] {
        let file = std::fs::File::create(scene.path(name)).expect("opens");
        file.set_len(1 << 40).expect("a terabyte of nothing");
    }
    workspace.after_command(&CallRef::command("1")).expect("looks");
    let changes = workspace.turn_changes().expect("compares");
    assert!(!changes.exact);
    assert_eq!(changes.reasons.len(), 2, "{:?}", changes.reasons);
    assert!(workspace.files().read("new").expect_err("refused").contains("larger"));
    // At the start it is not kept, and only that.
    let other = scene.captured();
    assert_eq!(other.not_kept().len(), 2);
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
}
