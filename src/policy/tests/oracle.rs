//! Bash itself as the oracle: whatever command bash runs, with whatever words, was judged before.
//!
//! Random scripts from a hostile alphabet go through the same reading as in a Turn. Those that it
//! accepts run in bash with no program to be found, and a handler that records each command it was
//! asked for. Every record must be among the judged commands.

use crate::policy::shell::{Access, Judge, Refusal, Simple, lex, walk};
use crate::policy::value::{UnknownKind, Value};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Pieces that scripts are made of; no `/`, so that nothing outside the folder is touched.
const ALPHABET: &[&str] = &[
    "a",
    "b",
    "ab",
    "cmd",
    "x",
    " ",
    " ",
    " ",
    " ",
    "\t",
    "\n",
    "\n",
    ";",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "'",
    "'",
    "\"",
    "\"",
    "\\",
    "\\\n",
    "$",
    "$x",
    "${x}",
    "\"$x\"",
    "$?",
    "$'",
    "$\"",
    "`",
    "$(",
    "$(a)",
    "(",
    ")",
    "(",
    ")",
    "{",
    "}",
    "{ ",
    "; }",
    "<",
    ">",
    ">>",
    "<<",
    "<<<",
    "<<E\n",
    "\nE\n",
    "<<'E'\n",
    "<<-E\n",
    "E",
    "\tE\n",
    ">o",
    "2>&1",
    "&>o",
    ">&2",
    "<o",
    "#",
    " #",
    "!",
    "! ",
    "*",
    "?",
    "[",
    "]",
    "[a]",
    "~",
    "{a,b}",
    "{}",
    "{1..3}",
    "=",
    "x=1",
    "x=a ",
    "x='a b'",
    "y=$x",
    "x+=b",
    "-o",
    "--",
    ":",
    "true",
    "false",
    "if ",
    "; then ",
    "; fi",
    "; else ",
    "for x in a b; do ",
    "for x in ",
    "; do ",
    "; done",
    "while false; do ",
    "case x in ",
    "x) ",
    ";; ",
    ";;",
    "esac",
    "[[ ",
    " ]]",
    "-n ",
    "==",
    "time ",
    "%",
    "%1",
    "+",
    ",",
    ".",
    ":",
    "@",
    "é",
    "\u{a0}",
    "\u{3000}",
    "a\\'b",
    "a'b'c",
    "\"a b\"",
    "''",
    "\"\"",
    "$((1+2))",
    "$((x))",
    "$((",
    "))",
    "${#x}",
    "${x%b}",
    "${x:-a}",
    "$1",
    "$@",
    "read x ",
    "export x",
    "set -e\n",
    "exit",
    "break",
    "echo ",
    "printf x ",
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 11).unwrap_or(0) % limit
    }

    fn script(&mut self) -> String {
        let length = 1 + self.below(14);
        (0..length).map(|_| ALPHABET[self.below(ALPHABET.len())]).collect()
    }
}

#[derive(Default)]
struct Recorder {
    commands: Vec<Vec<Value>>,
    writes: Vec<String>,
    refused: bool,
}

impl Judge for Recorder {
    fn command(&mut self, simple: &Simple<'_>) {
        // A command word that is not known is refused by the judge, as are these builtins.
        let word = simple.argv.first().and_then(Value::as_known);
        self.refused |=
            word.is_none_or(|word| matches!(word, "eval" | "." | "trap" | "exec" | "command"));
        self.refused |= simple.assignments.iter().any(|(name, _)| name != "x" && name != "y");
        // The word `time` is seen through.
        let is_time = |value: &&Value| value.as_known() == Some("time");
        let skip = simple.argv.iter().take_while(is_time).count();
        self.commands.push(simple.argv[skip..].to_vec());
    }

    fn redirection(&mut self, access: Access, target: &Value, _: Option<&Path>) {
        match target.as_known() {
            None => self.refused = true,
            Some(name) if access == Access::Write => self.writes.push(name.to_owned()),
            Some(_) => {}
        }
    }

    fn assignment(&mut self, _: &str) {}

    fn refuse(&mut self, _: Refusal) {
        self.refused = true;
    }

    fn resolve(&self, cwd: &Path, text: &str) -> Option<PathBuf> {
        Some(cwd.join(text))
    }
}

/// The commands as judged; nothing when any part was refused.
fn judged(script: &str, cwd: &Path) -> Option<Recorder> {
    let lexed = lex(script).ok()?;
    let mut recorder = Recorder::default();
    walk(&lexed, cwd, &mut recorder);
    (!recorder.refused).then_some(recorder)
}

/// The commands that bash asked for.
fn ran(script: &str, folder: &Path) -> Vec<Vec<String>> {
    let logs = tempfile::tempdir().unwrap();
    let log = logs.path().join("log");
    let prelude = "command_not_found_handle() { printf '%s\\0' \"$#\" \"$@\" >> \"$ORACLE_LOG.$BASHPID\"; return 1; }\n";
    let mut child = Command::new("/bin/bash")
        .args([
            "--noprofile",
            "--norc",
            "-c",
            "eval \"$ORACLE_PRELUDE\"; unset ORACLE_PRELUDE; eval \"$ORACLE_SCRIPT\"",
        ])
        .current_dir(folder)
        .env_clear()
        .env("PATH", "nowhere")
        .env("HOME", folder)
        .env("LANG", "C.UTF-8")
        .env("ORACLE_LOG", &log)
        .env("ORACLE_PRELUDE", prelude)
        .env("ORACLE_SCRIPT", script)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    for _ in 0..400 {
        if child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    // What runs in the background may still be writing.
    if script.contains('&') {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let mut commands = Vec::new();
    for entry in std::fs::read_dir(logs.path()).unwrap().flatten() {
        let bytes = std::fs::read(entry.path()).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut fields = text.split('\0');
        while let Some(count) = fields.next().and_then(|field| field.parse::<usize>().ok()) {
            commands.push(fields.by_ref().take(count).map(str::to_owned).collect());
        }
    }
    commands
}

fn is_judged(argv: &[String], judged: &[Value]) -> bool {
    match judged.split_first() {
        None => argv.is_empty(),
        Some((Value::Known(word), rest)) => {
            argv.first() == Some(word) && is_judged(&argv[1..], rest)
        }
        Some((Value::Unknown(unknown), rest)) => {
            let fits = |word: &String| word.starts_with(&unknown.prefix);
            match unknown.kind {
                UnknownKind::One => argv.first().is_some_and(fits) && is_judged(&argv[1..], rest),
                UnknownKind::Number => {
                    argv.first().is_some_and(|word| {
                        word.strip_prefix(&unknown.prefix)
                            .is_some_and(|tail| tail.bytes().all(|byte| byte.is_ascii_digit()))
                    }) && is_judged(&argv[1..], rest)
                }
                UnknownKind::Glob => (1..=argv.len())
                    .any(|count| argv[..count].iter().all(fits) && is_judged(&argv[count..], rest)),
                UnknownKind::Split => (0..=argv.len()).any(|count| is_judged(&argv[count..], rest)),
            }
        }
    }
}

/// A test has something to say to whoever runs it.
fn say(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn fuzz(seed: u64, wanted: usize) -> (usize, usize) {
    if !Path::new("/bin/bash").exists() {
        say("SKIPPED: there is no /bin/bash to ask");
        return (0, 0);
    }
    let mut random = Random(seed);
    let (mut accepted, mut compared) = (0, 0);
    let mut wrong = Vec::new();
    while accepted < wanted {
        let script = random.script();
        // One for each: what runs in the background may write when the next one runs.
        let folder = tempfile::tempdir().unwrap();
        let Some(judged) = judged(&script, folder.path()) else { continue };
        if judged.commands.is_empty() {
            continue;
        }
        accepted += 1;
        for argv in ran(&script, folder.path()) {
            compared += 1;
            // Seen through on both sides.
            let skip = argv.iter().take_while(|word| *word == "time").count();
            let argv = argv.get(skip..).unwrap_or_default().to_vec();
            if !judged.commands.iter().any(|known| is_judged(&argv, known)) {
                wrong.push(format!(
                    "{script:?}\n   bash ran {argv:?}\n   judged were {:?}",
                    judged.commands
                ));
            }
        }
        // Every file that came to be was judged as one that is written.
        for entry in std::fs::read_dir(folder.path()).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if !judged.writes.contains(&name) {
                wrong.push(format!(
                    "{script:?}\n   bash wrote {name:?}\n   judged were {:?}",
                    judged.writes
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    (accepted, compared)
}

#[test]
fn what_bash_runs_was_judged() {
    let (accepted, compared) = fuzz(0x5eed_1234_abcd_0001, 600);
    assert!(accepted == 0 || compared > accepted / 4, "{compared} of {accepted}");
}

/// The long one, by hand: `ORACLE_SEED=… cargo test --lib oracle -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn what_bash_runs_was_judged_for_long() {
    let seed = option_env!("ORACLE_SEED").and_then(|seed| seed.parse().ok());
    let (accepted, compared) = fuzz(seed.unwrap_or(0x1357_9bdf_2468_ace0), 10_000);
    say(&format!("{accepted} scripts accepted, {compared} commands compared"));
}
