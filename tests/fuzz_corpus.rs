//! The fuzz targets of `fuzz/` on their committed corpora and on mutations of them, without a fuzzer.
//!
//! `TURNKEY_FUZZ_CASES` and `TURNKEY_FUZZ_SEED` set how many mutations a target gets and where they
//! begin. A failure prints target, seed and the input; put the input into the corpus.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

#[path = "../fuzz/targets/diff.rs"]
mod diff;
#[path = "../fuzz/targets/patch.rs"]
mod patch;
#[path = "../fuzz/targets/policy.rs"]
mod policy;
#[path = "../fuzz/targets/rollout.rs"]
mod rollout;
#[path = "../fuzz/targets/shell.rs"]
mod shell;
#[path = "../fuzz/targets/spec.rs"]
mod spec;
#[path = "../fuzz/targets/sse.rs"]
mod sse;

/// No input of a few kilobytes may take longer, on a machine however busy.
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_BYTES: usize = 8 * 1024;

/// Bytes that some reader has an opinion on.
const TELLING: &[u8] = b"\n\r\0'\"\\$`*-+ @{}[]:|&;<>#\xff\xc3";

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap_or(0)
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One small change: bytes flipped, cut, doubled, or taken from another input.
fn mutate(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + random.below(24)).min(bytes.len());
    match random.below(6) {
        0 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        1 if at < bytes.len() => bytes[at] = TELLING[random.below(TELLING.len())],
        2 => drop(bytes.drain(at..end)),
        3 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        4 => {
            let other = &others[random.below(others.len())];
            let from = random.below(other.len() + 1);
            let to = (from + random.below(64)).min(other.len());
            bytes.splice(at..at, other[from..to].to_vec());
        }
        _ => bytes.truncate(at),
    }
    bytes.truncate(MAX_BYTES);
}

fn hammer(name: &str, target: fn(&[u8]), default_cases: u64) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let mut paths: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let corpus: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    assert!(!corpus.is_empty(), "{name} has no corpus");
    let seed = number("TURNKEY_FUZZ_SEED", 20_261_130);
    let cases = number("TURNKEY_FUZZ_CASES", default_cases);
    println!("{name}: {} inputs, {cases} mutations, seed {seed}", corpus.len());
    let mut random = Random(seed | 1);
    for case in 0..corpus.len() as u64 + cases {
        let mut input = match corpus.get(usize::try_from(case).unwrap_or(usize::MAX)) {
            Some(input) => input.clone(),
            None => {
                let mut input = corpus[random.below(corpus.len())].clone();
                for _ in 0..=random.below(6) {
                    mutate(&mut input, &corpus, &mut random);
                }
                input
            }
        };
        input.truncate(MAX_BYTES);
        let began = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
        let shown = input.escape_ascii();
        assert!(outcome.is_ok(), "{name}, seed {seed}, case {case}: \"{shown}\"");
        assert!(
            began.elapsed() < PATIENCE,
            "{name}, seed {seed}, case {case} is slow: \"{shown}\""
        );
    }
}

#[test]
fn patch_target() {
    hammer("patch", patch::run, 4_000);
}

#[test]
fn diff_target() {
    hammer("diff", diff::run, 4_000);
}

#[test]
fn sse_target() {
    hammer("sse", sse::run, 4_000);
}

#[test]
fn policy_target() {
    hammer("policy", policy::run, 1_000);
}

#[test]
fn shell_target() {
    hammer("shell", shell::run, 1_500);
}

#[test]
fn spec_target() {
    hammer("spec", spec::run, 2_000);
}

#[test]
fn rollout_target() {
    hammer("rollout", rollout::run, 4_000);
}
