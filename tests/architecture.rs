//! The house has rooms in reading order; a room imports only rooms above it, and only those it needs.
//! This table is the one in ARCHITECTURE.md. Any other edge fails here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Room → the rooms it may import. The order of the table is the order of `src/lib.rs`.
const ROOMS: &[(&str, &[&str])] = &[
    // Words
    ("clock", &[]),
    ("protocol", &[]),
    // Rules: pure decisions, no I/O
    ("spec", &[]),
    ("policy", &["protocol", "spec"]),
    ("patch", &[]),
    ("diff", &[]),
    // Doors: one outside thing each
    ("model", &["clock", "protocol", "spec"]),
    ("exec", &["clock", "policy"]),
    ("workspace", &["clock", "policy", "patch", "diff"]),
    ("rollout", &["clock", "protocol"]),
    ("hooks", &["clock", "protocol", "spec", "policy", "exec", "rollout"]),
    // Mind and hands
    ("context", &["protocol"]),
    (
        "tools",
        &[
            "clock",
            "protocol",
            "policy",
            "patch",
            "exec",
            "workspace",
            "rollout",
            "hooks",
            "context",
        ],
    ),
    ("verify", &["clock", "protocol", "diff", "exec", "workspace", "rollout", "context", "tools"]),
    // Runtime
    (
        "session",
        &[
            "clock", "protocol", "spec", "policy", "model", "rollout", "hooks", "context", "tools",
            "verify",
        ],
    ),
    (
        "job",
        &[
            "clock",
            "protocol",
            "spec",
            "policy",
            "diff",
            "model",
            "exec",
            "workspace",
            "rollout",
            "hooks",
            "context",
            "tools",
            "verify",
            "session",
        ],
    ),
    // Faces
    ("report", &["clock", "protocol", "rollout"]),
    ("cli", &["spec"]),
    (
        "app",
        &[
            "clock", "protocol", "spec", "policy", "model", "rollout", "tools", "session", "job",
            "report", "cli",
        ],
    ),
];

/// Rooms that decide and touch nothing.
const PURE: &[&str] = &["protocol", "spec", "policy", "patch", "diff"];

fn sources() -> Vec<(String, PathBuf, String)> {
    fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    walk(&src, &mut found);
    found
        .into_iter()
        .map(|path| {
            let inside = path.strip_prefix(&src).unwrap();
            let first = inside.components().next().unwrap().as_os_str().to_string_lossy();
            let room = first.trim_end_matches(".rs").to_owned();
            let text = fs::read_to_string(&path).unwrap();
            (room, inside.to_owned(), text)
        })
        .collect()
}

/// The code of a file: without comments, and without its tests.
fn code(text: &str) -> String {
    let mut kept = String::new();
    for line in text.lines() {
        if line.trim_start().starts_with("#[cfg(test)]") && !kept.is_empty() {
            // Tests stand at the end of a file, or in a module file of their own.
            if text.contains("mod tests {") {
                break;
            }
            continue;
        }
        kept.push_str(line.split("//").next().unwrap_or_default());
        kept.push('\n');
    }
    kept
}

/// Files that hold nothing but tests.
fn is_test_file(path: &Path) -> bool {
    path.components().any(|part| {
        let name = part.as_os_str().to_string_lossy();
        name == "tests" || name == "tests.rs" || name.ends_with("_tests.rs")
    })
}

/// Every room that `code` names by `crate::`, also inside braces (`use crate::{a, b::c}`).
fn edges(code: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let word = |text: &str| -> String {
        text.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    for (at, _) in code.match_indices("crate::") {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_' || c == '$') {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        match rest.strip_prefix('{') {
            None => {
                found.insert(word(rest));
            }
            Some(list) => {
                let mut depth = 0;
                let mut expect = true;
                for (i, c) in list.char_indices() {
                    match c {
                        '{' => depth += 1,
                        '}' if depth == 0 => break,
                        '}' => depth -= 1,
                        ',' if depth == 0 => expect = true,
                        c if expect && depth == 0 && (c.is_ascii_alphabetic() || c == '_') => {
                            found.insert(word(&list[i..]));
                            expect = false;
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    found
}

#[test]
fn rooms_import_only_what_the_table_says() {
    let table: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut wrong = Vec::new();
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for (room, path, text) in sources() {
        if room == "lib" || room == "main" || is_test_file(&path) {
            continue;
        }
        let Some(allowed) = table.get(room.as_str()) else {
            wrong.push(format!("{}: the room {room} is not in the table", path.display()));
            continue;
        };
        for target in edges(&code(&text)) {
            if target == room {
                continue;
            }
            if allowed.contains(&target.as_str()) {
                used.insert((room.clone(), target));
            } else {
                wrong.push(format!("{}: {room} must not import {target}", path.display()));
            }
        }
    }
    for (room, allowed) in ROOMS {
        for target in *allowed {
            if !used.contains(&((*room).to_owned(), (*target).to_owned())) {
                wrong
                    .push(format!("the table lets {room} import {target}, which it does not need"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn imports_only_go_up() {
    let place = |name: &str| ROOMS.iter().position(|(room, _)| *room == name).unwrap();
    for (room, allowed) in ROOMS {
        for target in *allowed {
            assert!(place(target) < place(room), "{room} imports {target}, which stands below it");
        }
    }
}

#[test]
fn lib_lists_the_rooms_in_order() {
    let lib = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let listed: Vec<&str> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod "))
        .map(|rest| rest.trim_end_matches(';'))
        .collect();
    let rooms: Vec<&str> = ROOMS.iter().map(|(room, _)| *room).collect();
    assert_eq!(listed, rooms);
}

/// What may be named only in one place, and where that is.
const ONE_PLACE: &[(&str, &[&str])] = &[
    ("std::env::var", &["app/env.rs"]),
    ("env::var(", &["app/env.rs"]),
    ("env::vars", &["app/env.rs"]),
    ("Instant::now()", &["clock.rs"]),
    // A child that this room does not know would be taken for a stray one and ended.
    ("process::Command::new", &["exec/"]),
    ("SystemTime::now()", &["clock.rs"]),
    ("println!", &[]),
    ("eprintln!", &[]),
    ("print!(", &[]),
    ("process::exit", &["app/signals.rs"]),
    ("io::stdout()", &["report/"]),
    ("io::stderr()", &["report/", "app/"]),
];

#[test]
fn env_clock_printing_and_exit_have_one_place_each() {
    let mut wrong = Vec::new();
    for (_, path, text) in sources() {
        if is_test_file(&path) {
            continue;
        }
        let code = code(&text);
        let name = path.to_string_lossy();
        for (word, places) in ONE_PLACE {
            if code.contains(word) && !places.iter().any(|place| name.starts_with(place)) {
                wrong.push(format!("{name}: {word} belongs in {places:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pure_rooms_do_no_io() {
    const OUTSIDE: &[&str] =
        &["std::fs", "std::net", "std::process", "tokio::", "std::io::std", "File::open", "libc::"];
    let mut wrong = Vec::new();
    for (room, path, text) in sources() {
        if !PURE.contains(&room.as_str()) || is_test_file(&path) {
            continue;
        }
        let code = code(&text);
        for word in OUTSIDE {
            if code.contains(word) {
                wrong.push(format!("{}: {word} in a pure room", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_stands_in_architecture_md() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("ARCHITECTURE.md")).unwrap();
    for (room, allowed) in ROOMS {
        let list = if allowed.is_empty() { "–".to_owned() } else { allowed.join(", ") };
        let row = format!("| `{room}` | {list} |");
        assert!(text.contains(&row), "ARCHITECTURE.md lacks the row: {row}");
    }
}

/// One place makes Permits for commands of the operator, and only checks and hooks are such commands;
/// everything else that runs was judged.
#[test]
fn operator_permits_are_made_in_one_place_for_checks_and_hooks() {
    for (room, path, text) in sources() {
        let code = code(&text);
        if room != "policy" && code.contains("ExecPermit::operator(") {
            assert_eq!(path, Path::new("exec/operator.rs"));
        }
        if room != "exec" && code.contains("OperatorCommand {") {
            assert!(["verify", "hooks"].contains(&room.as_str()), "{}", path.display());
        }
    }
}
