//! Programs that run another program: seen through, or denied.
//!
//! A wrapper that is peeled needs no rule of its own; what it runs does. Options that would change
//! which program that is, where it runs, or what it is protected by, are refused.

use crate::policy::value::{Unknown, UnknownKind, Value};

/// What a command word turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub enum Peeled {
    /// No wrapper, or one that runs nothing here.
    Itself,
    /// These words run, with these variables set.
    Runs {
        argv: Vec<Value>,
        assignments: Vec<(String, Value)>,
        repeats: bool,
    },
    /// This script runs in another shell.
    Script {
        text: String,
        posix: bool,
    },
    /// It only looks a name up.
    Looks,
    Refused(String),
}

/// Looks through one layer.
pub fn peel(name: &str, argv: &[Value]) -> Peeled {
    let words = argv.get(1..).unwrap_or_default();
    match name {
        "env" => env(words),
        "command" => command(words),
        "exec" => exec(words),
        "nohup" => plain(words, &[], &[]),
        "time" => plain(words, &["-p", "-v", "--portability", "--verbose"], &[]),
        "nice" => plain(words, &[], &["-n", "--adjustment"]),
        "stdbuf" => plain(words, &[], &["-i", "-o", "-e", "--input", "--output", "--error"]),
        "timeout" | "gtimeout" => timeout(words),
        "xargs" | "gxargs" => xargs(words),
        "bash" => shell(words, false),
        "sh" | "dash" | "ash" => shell(words, true),
        _ => Peeled::Itself,
    }
}

fn refused(why: impl Into<String>) -> Peeled {
    Peeled::Refused(why.into())
}

fn runs(argv: &[Value]) -> Peeled {
    Peeled::Runs { argv: argv.to_vec(), assignments: Vec::new(), repeats: false }
}

/// Steps over options: flags alone, and options with a value, glued on or next. Gives the place of
/// the first word that is no option.
fn options(words: &[Value], flags: &[&str], values: &[&str]) -> Result<usize, String> {
    let mut index = 0;
    while let Some(value) = words.get(index) {
        let Some(word) = value.as_known() else {
            return Err(format!("{} could become an option", value.display()));
        };
        if word == "--" {
            return Ok(index + 1);
        }
        if !word.starts_with('-') || word == "-" {
            return Ok(index);
        }
        let name = word.split('=').next().unwrap_or(word);
        if flags.contains(&word) {
            index += 1;
        } else if values.contains(&word) {
            if !matches!(words.get(index + 1), Some(Value::Known(_))) {
                return Err(format!("the value of {word} must be known"));
            }
            index += 2;
        } else if (values.contains(&name) && name.starts_with("--"))
            || values.iter().any(|known| known.len() == 2 && word.starts_with(known))
        {
            index += 1;
        } else {
            return Err(format!("{word} is no option that can be seen through"));
        }
    }
    Ok(index)
}

fn plain(words: &[Value], flags: &[&str], values: &[&str]) -> Peeled {
    // `nice -5 make`: the old way to give a number.
    let old_number = |value: &Value| {
        value.as_known().is_some_and(|word| {
            word.len() > 1
                && word.starts_with('-')
                && word.bytes().skip(1).all(|b| b.is_ascii_digit())
        })
    };
    let skip = usize::from(values.contains(&"-n") && words.first().is_some_and(old_number));
    let words = words.get(skip..).unwrap_or_default();
    match options(words, flags, values) {
        Ok(index) if index < words.len() => runs(words.get(index..).unwrap_or_default()),
        Ok(_) => Peeled::Itself,
        Err(why) => refused(why),
    }
}

/// `env`: assignments, then a command. Taking variables away would take git's protection away.
fn env(words: &[Value]) -> Peeled {
    let mut assignments = Vec::new();
    for (index, value) in words.iter().enumerate() {
        let text = match value {
            Value::Known(text) => text.as_str(),
            Value::Unknown(unknown) => unknown.prefix.as_str(),
        };
        if let Some((name, rest)) = text.split_once('=')
            && !name.is_empty()
            && !text.starts_with('-')
        {
            let held = match value {
                Value::Known(_) => Value::known(rest),
                Value::Unknown(unknown) => {
                    Value::Unknown(Unknown { prefix: rest.to_owned(), ..unknown.clone() })
                }
            };
            assignments.push((name.to_owned(), held));
            continue;
        }
        return match value.as_known() {
            None => refused(format!("{} could become an option of env", value.display())),
            Some("--") => match words.get(index + 1..) {
                Some([]) | None => Peeled::Itself,
                Some(argv) => Peeled::Runs { argv: argv.to_vec(), assignments, repeats: false },
            },
            Some(option) if option.starts_with('-') => {
                if matches!(option, "-0" | "--null") && words.len() == index + 1 {
                    Peeled::Itself
                } else {
                    refused(format!("env {option} changes more than a variable"))
                }
            }
            Some(_) => Peeled::Runs {
                argv: words.get(index..).unwrap_or_default().to_vec(),
                assignments,
                repeats: false,
            },
        };
    }
    Peeled::Itself
}

fn command(words: &[Value]) -> Peeled {
    match words.first().map(Value::as_known) {
        None => Peeled::Itself,
        Some(Some("-v" | "-V")) => Peeled::Looks,
        Some(Some(option)) if option.starts_with('-') => {
            refused(format!("command {option} chooses programs in another way"))
        }
        Some(Some(_)) => runs(words),
        Some(None) => refused("the command word can't be known before running"),
    }
}

fn exec(words: &[Value]) -> Peeled {
    match words.first().map(Value::as_known) {
        None => refused("exec alone redirects the rest of the script; redirect each command"),
        Some(Some(option)) if option.starts_with('-') => {
            refused(format!("exec {option} hides which program runs"))
        }
        Some(Some(_)) => runs(words),
        Some(None) => refused("the command word can't be known before running"),
    }
}

fn timeout(words: &[Value]) -> Peeled {
    let flags = ["--preserve-status", "--foreground", "-v", "--verbose", "-p", "-f"];
    let index = match options(words, &flags, &["-k", "-s", "--kill-after", "--signal"]) {
        Ok(index) => index,
        Err(why) => return refused(why),
    };
    let is_duration = |value: &Value| match value {
        Value::Known(text) => {
            let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
            !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        }
        Value::Unknown(unknown) => unknown.kind == UnknownKind::Number && unknown.prefix.is_empty(),
    };
    match (words.get(index), words.get(index + 1..)) {
        (Some(value), Some(argv)) if is_duration(value) && !argv.is_empty() => runs(argv),
        _ => refused("write `timeout SECONDS COMMAND`"),
    }
}

/// `xargs`: the command gets words that nobody knows yet.
fn xargs(words: &[Value]) -> Peeled {
    let flags = ["-0", "--null", "-r", "--no-run-if-empty", "-t", "--verbose", "-x", "--exit"];
    let values = [
        "-n",
        "-P",
        "-L",
        "-d",
        "-s",
        "-E",
        "-I",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--max-chars",
        "--replace",
    ];
    let index = match options(words, &flags, &values) {
        Ok(index) => index,
        Err(why) => return refused(format!("xargs: {why}")),
    };
    let (given, argv) = words.split_at(index.min(words.len()));
    let Some(first) = argv.first() else {
        // Without a command it echoes.
        return runs(&[Value::known("echo"), from_input(UnknownKind::Split, "", "…")]);
    };
    match replaced(given) {
        Some(mark) if mark.is_empty() => refused("xargs -I needs a mark"),
        Some(mark) => {
            if first.display().contains(&mark) {
                return refused("xargs would take the command word from its input");
            }
            let argv = argv
                .iter()
                .map(|value| match value {
                    Value::Known(text) => match text.split_once(mark.as_str()) {
                        Some((prefix, _)) => from_input(UnknownKind::One, prefix, text),
                        None => value.clone(),
                    },
                    // The mark may be in there as well.
                    Value::Unknown(unknown) => {
                        Value::Unknown(Unknown { kind: UnknownKind::Split, ..unknown.clone() })
                    }
                })
                .collect();
            Peeled::Runs { argv, assignments: Vec::new(), repeats: true }
        }
        None => {
            let mut argv = argv.to_vec();
            argv.push(from_input(UnknownKind::Split, "", "…"));
            Peeled::Runs { argv, assignments: Vec::new(), repeats: true }
        }
    }
}

fn from_input(kind: UnknownKind, prefix: &str, text: &str) -> Value {
    Value::Unknown(Unknown { text: text.to_owned(), prefix: prefix.to_owned(), kind, glob: None })
}

/// The mark of `-I MARK`, `-IMARK`, `--replace=MARK`.
fn replaced(options: &[Value]) -> Option<String> {
    let mut words = options.iter().filter_map(Value::as_known);
    while let Some(word) = words.next() {
        if word == "-I" || word == "--replace" {
            return Some(words.next().unwrap_or_default().to_owned());
        }
        if let Some(mark) = word.strip_prefix("--replace=").or_else(|| word.strip_prefix("-I")) {
            return Some(mark.to_owned());
        }
        if ["-n", "-P", "-L", "-d", "-s", "-E"].contains(&word) {
            words.next();
        }
    }
    None
}

/// `bash -c SCRIPT`: the script is judged like any other.
fn shell(words: &[Value], posix: bool) -> Peeled {
    let mut index = 0;
    let mut takes_script = false;
    while let Some(word) = words.get(index).and_then(Value::as_known) {
        let Some(letters) = word.strip_prefix('-') else { break };
        if word == "--" {
            index += 1;
            break;
        }
        if matches!(word, "--noprofile" | "--norc" | "--posix") {
            index += 1;
            continue;
        }
        if letters.is_empty() || !letters.chars().all(|c| "ceuxo".contains(c)) {
            if word == "--version" || word == "--help" {
                return Peeled::Itself;
            }
            let hint = if letters.contains('l') || word == "--login" {
                "; leave the login option out"
            } else {
                ""
            };
            return refused(format!(
                "{word} makes the shell read or run more than the script{hint}"
            ));
        }
        takes_script |= letters.contains('c');
        index += 1;
        if letters.contains('o') {
            if words.get(index).and_then(Value::as_known) != Some("pipefail") {
                return refused("this shell option can't be judged");
            }
            index += 1;
        }
    }
    if !takes_script {
        // A script file or standard input: a program like others, with hazards of its own.
        return Peeled::Itself;
    }
    match words.get(index) {
        Some(Value::Known(text)) => Peeled::Script { text: text.clone(), posix },
        Some(Value::Unknown(unknown)) => {
            refused(format!("the script {} can't be known before running", unknown.text))
        }
        None => refused("the shell has no script"),
    }
}
