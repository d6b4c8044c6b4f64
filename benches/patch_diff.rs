//! What patches and diffs cost, without any disk: reading, planning, writing the diff.
//!
//! `cargo bench --bench patch_diff`. The cases are those that hurt elsewhere: many small patches,
//! one very large file, files that make a diff engine search for ever. Where git can do the same it
//! runs beside, on the same contents.

use std::collections::HashMap;
use std::process::Command;
use std::time::{Duration, Instant};

use turnkey::diff::{DiffOptions, FileChange, Mode, TreeEntry, apply, write_diff};
use turnkey::patch::{FileState, Files, Parser, edit, parse, plan};

fn main() {
    divan::main();
}

struct Memory(HashMap<String, FileState>);

impl Files for Memory {
    fn read(&self, path: &str) -> Result<Option<FileState>, String> {
        let folder = !path.contains('.');
        Ok(self.0.get(path).cloned().or_else(|| folder.then_some(FileState::Directory)))
    }
}

/// A file of `lines` different lines.
fn source(lines: usize) -> Vec<u8> {
    let mut text = String::new();
    for line in 0..lines {
        text.push_str(&format!("    let value_{line} = compute({line}, \"some text\");\n"));
    }
    text.into_bytes()
}

fn repository(files: usize) -> Memory {
    let bytes: std::sync::Arc<[u8]> = source(200).into();
    let file = |number| {
        let state = FileState::Regular { bytes: bytes.clone(), mode: 0o644 };
        (format!("src/module{}/file{number}.rs", number % 40), state)
    };
    Memory((0..files).map(file).collect())
}

fn update(path: &str, line: usize) -> String {
    format!(
        "*** Update File: {path}\n@@\n     let value_{before} = compute({before}, \"some text\");\n\
         -    let value_{line} = compute({line}, \"some text\");\n+    let value_{line} = 0;\n",
        before = line - 1
    )
}

fn whole(body: &str) -> String {
    format!("*** Begin Patch\n{body}*** End Patch\n")
}

#[divan::bench]
fn hundred_one_file_patches(bencher: divan::Bencher) {
    let files = repository(2000);
    let patches: Vec<String> = (0..100)
        .map(|n| whole(&update(&format!("src/module{}/file{n}.rs", n % 40), 100)))
        .collect();
    bencher.bench_local(|| {
        for patch in &patches {
            plan(&parse(patch).unwrap(), &files).unwrap();
        }
    });
}

#[divan::bench]
fn one_patch_of_a_thousand_files(bencher: divan::Bencher) {
    let files = repository(2000);
    let body: String =
        (0..1000).map(|n| update(&format!("src/module{}/file{n}.rs", n % 40), 100)).collect();
    let patch = whole(&body);
    bencher.bench_local(|| plan(&parse(&patch).unwrap(), &files).unwrap());
}

fn large_file() -> Memory {
    let bytes = source(200_000);
    assert!(bytes.len() > 10_000_000);
    let state = FileState::Regular { bytes: bytes.into(), mode: 0o644 };
    Memory(HashMap::from([("large.rs".to_owned(), state)]))
}

#[divan::bench]
fn ten_megabyte_file_one_chunk(bencher: divan::Bencher) {
    let files = large_file();
    let patch = whole(&update("large.rs", 150_000));
    bencher.bench_local(|| plan(&parse(&patch).unwrap(), &files).unwrap());
}

#[divan::bench]
fn ten_megabyte_file_thousand_chunks(bencher: divan::Bencher) {
    let files = large_file();
    let mut body = String::from("*** Update File: large.rs\n");
    for chunk in 1..=1000 {
        let update = update("large.rs", chunk * 150);
        body.push_str(update.split_once('\n').unwrap().1);
    }
    let patch = whole(&body);
    bencher.bench_local(|| plan(&parse(&patch).unwrap(), &files).unwrap());
}

#[divan::bench]
fn ten_megabyte_file_edit(bencher: divan::Bencher) {
    let files = large_file();
    bencher.bench_local(|| edit("large.rs", "value_150000 ", "value ", &files).unwrap());
}

#[divan::bench]
fn push_parser_on_a_megabyte_of_arguments(bencher: divan::Bencher) {
    let body: String =
        (0..20_000).map(|line| format!("+some line of code {line} and more\n")).collect();
    let text = whole(&format!("*** Add File: a.rs\n{body}"));
    let arguments = serde_json::json!({ "input": text }).to_string();
    let pieces: Vec<&str> =
        arguments.as_bytes().chunks(40).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    bencher.bench_local(|| {
        let mut parser = Parser::new();
        pieces.iter().for_each(|piece| drop(parser.feed(piece)));
        parser.finish().unwrap()
    });
}

/// Two versions of a file of about one megabyte.
fn versions(name: &str) -> (Vec<u8>, Vec<u8>) {
    let lines = |line: &dyn Fn(usize) -> String, count: usize| -> Vec<u8> {
        (0..count).flat_map(|at| line(at).into_bytes()).collect()
    };
    match name {
        "one percent edited" => (
            source(20_000),
            lines(
                &|at| {
                    if at % 100 == 0 {
                        format!("edited {at}\n")
                    } else {
                        format!("    let value_{at} = compute({at}, \"some text\");\n")
                    }
                },
                20_000,
            ),
        ),
        "all different" => (
            source(20_000),
            lines(&|at| format!("another line {at} altogether, of about this length\n"), 20_000),
        ),
        "reversed" => (
            source(20_000),
            lines(
                &|at| format!("    let value_{0} = compute({0}, \"some text\");\n", 19_999 - at),
                20_000,
            ),
        ),
        // Few different lines in two different orders: the worst for every engine.
        _ => (
            lines(&|at| format!("{}\n", (at * at / 7) % 5), 500_000),
            lines(&|at| format!("{}\n", (at * 31 / 3) % 5), 500_000),
        ),
    }
}

const PAIRS: [&str; 4] = ["one percent edited", "all different", "reversed", "pathological"];

fn entry(content: Vec<u8>) -> Option<TreeEntry> {
    Some(TreeEntry { mode: Mode::Regular, content: content.into() })
}

#[divan::bench(args = PAIRS, sample_count = 10)]
fn diff_of_a_megabyte_with_deadline(bencher: divan::Bencher, name: &str) {
    let (before, after) = versions(name);
    let change = FileChange { path: b"file".to_vec(), before: entry(before), after: entry(after) };
    bencher.bench_local(|| {
        let deadline = Some(Instant::now() + Duration::from_secs(2));
        write_diff(vec![change.clone()], &DiffOptions { deadline, ..DiffOptions::default() })
    });
}

#[divan::bench(args = PAIRS, sample_count = 3)]
fn git_diff_of_the_same_megabyte(bencher: divan::Bencher, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (before, after) = versions(name);
    std::fs::write(folder.path().join("before"), before).unwrap();
    std::fs::write(folder.path().join("after"), after).unwrap();
    bencher.bench_local(|| {
        Command::new("git")
            .args(["diff", "--no-index", "before", "after"])
            .current_dir(folder.path())
            .output()
            .unwrap()
    });
}

fn thousand_changes() -> Vec<FileChange> {
    let before: std::sync::Arc<[u8]> = source(200).into();
    let change = |number: usize| {
        let mut after = before.to_vec();
        after.splice(3000..3001, *b"edit");
        FileChange {
            path: format!("src/file{number}.rs").into_bytes(),
            before: Some(TreeEntry { mode: Mode::Regular, content: before.clone() }),
            after: entry(after),
        }
    };
    (0..1000).map(change).collect()
}

#[divan::bench]
fn diff_of_a_thousand_files(bencher: divan::Bencher) {
    let changes = thousand_changes();
    bencher.bench_local(|| write_diff(changes.clone(), &DiffOptions::default()));
}

#[divan::bench]
fn proof_of_a_thousand_files(bencher: divan::Bencher) {
    let changes = thousand_changes();
    let diff = write_diff(changes.clone(), &DiffOptions::default());
    let start: HashMap<Vec<u8>, TreeEntry> =
        changes.into_iter().filter_map(|change| Some((change.path, change.before?))).collect();
    bencher.bench_local(|| apply(&diff.bytes, &|path| start.get(path).cloned()).unwrap());
}
