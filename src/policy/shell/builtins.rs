//! What the commands that are part of bash do to the shell itself.
//!
//! Only builtins that are on this list may be used in a script: the others evaluate text, load code
//! or change what later words mean.

use super::state::{Folder, State};
use crate::policy::value::Value;
use std::path::{Path, PathBuf};

/// The effect of one command on the state of the shell.
pub enum Effect {
    None,
    /// Always succeeds.
    Ok,
    /// Always fails.
    Fails,
    /// A changed folder when it succeeds.
    Moves(State),
    /// These variables get values that are not known.
    Sets(Vec<String>),
    /// This variable gets this value.
    Assigns(String, Value),
    /// `break` and `continue`; outside a loop they do nothing.
    LeavesLoop,
    /// Nothing behind it runs.
    Ends,
}

type Resolve<'a> = &'a dyn Fn(&Path, &str) -> Option<PathBuf>;

pub fn effect(argv: &[Value], state: &State, resolve: Resolve<'_>) -> Effect {
    let Some((name, words)) = argv.split_first() else { return Effect::None };
    match name.as_known().unwrap_or_default() {
        ":" | "true" => Effect::Ok,
        "false" => Effect::Fails,
        "exit" | "exec" => Effect::Ends,
        "break" | "continue" => Effect::LeavesLoop,
        "cd" => moved(words, state, resolve),
        "read" => Effect::Sets(names(words)),
        "export" => exported(words),
        "unset" => Effect::Sets(names(words)),
        _ => Effect::None,
    }
}

/// Words that could be names; whether they are allowed is judged with the command.
fn names(words: &[Value]) -> Vec<String> {
    words
        .iter()
        .filter_map(Value::as_known)
        .filter(|word| !word.starts_with('-'))
        .map(str::to_owned)
        .collect()
}

fn exported(words: &[Value]) -> Effect {
    if let [Value::Known(word)] = words
        && let Some((name, value)) = word.split_once('=')
    {
        return Effect::Assigns(name.to_owned(), Value::known(value));
    }
    let all = words.iter().map(|word| match word {
        Value::Known(text) => text.as_str(),
        Value::Unknown(unknown) => unknown.prefix.as_str(),
    });
    Effect::Sets(
        all.map(|text| text.split('=').next().unwrap_or_default().to_owned())
            .filter(|name| !name.is_empty() && !name.starts_with('-'))
            .collect(),
    )
}

/// `cd FOLDER`: the new folder, or one that can't be known.
fn moved(words: &[Value], state: &State, resolve: Resolve<'_>) -> Effect {
    let operands: Vec<&Value> = match words {
        [Value::Known(dashes), rest @ ..] if dashes == "--" => rest.iter().collect(),
        _ => words.iter().collect(),
    };
    let mut after = state.clone();
    after.previous = match state.folders.as_slice() {
        [one] => Some(one.clone()),
        _ => None,
    };
    after.folders = match operands.as_slice() {
        [Value::Known(back)] if back == "-" => state.previous.iter().cloned().collect(),
        [Value::Known(target)] if !target.is_empty() => {
            let moved: Option<Vec<Vec<Folder>>> =
                state.folders.iter().map(|from| step(from, target, resolve)).collect();
            moved.unwrap_or_default().into_iter().flatten().collect()
        }
        // Home, an unknown folder, or a wrong call.
        _ => Vec::new(),
    };
    let folders = std::mem::take(&mut after.folders);
    if let Some(first) = folders.first() {
        after.folders.push(first.clone());
        after.may_be_in(&folders);
    }
    Effect::Moves(after)
}

/// Where bash goes: by the name of the folder it is in, and if there is no such place, by the folder
/// itself. Both are told when they differ.
fn step(from: &Folder, target: &str, resolve: Resolve<'_>) -> Option<Vec<Folder>> {
    let logical = by_name(&from.logical, target);
    let physical = resolve(Path::new("/"), logical.to_str()?)?;
    let direct = resolve(&from.physical, target)?;
    let mut folders = vec![Folder { logical, physical: physical.clone() }];
    if direct != physical {
        folders.push(Folder { logical: direct.clone(), physical: direct });
    }
    Some(folders)
}

/// `..` takes a name away, whatever it is a link to.
fn by_name(from: &Path, target: &str) -> PathBuf {
    let mut path = if target.starts_with('/') { PathBuf::from("/") } else { from.to_path_buf() };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            name => path.push(name),
        }
    }
    path
}

/// What a script may do with a builtin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Builtin {
    /// Part of the shell's grammar: needs no rule, touches nothing but the shell.
    Grammar,
    /// A builtin with a program of the same name: needs a rule like any program.
    AsProgram,
    /// Refused whatever a rule says.
    Refused(&'static str),
}

/// The builtins of bash; anything else is a program.
pub fn builtin(name: &str) -> Option<Builtin> {
    use Builtin::{AsProgram, Grammar, Refused};
    Some(match name {
        ":" | "cd" | "exit" | "break" | "continue" | "set" | "shift" | "wait" | "read"
        | "export" | "unset" | "return" => Grammar,
        "echo" | "printf" | "test" | "[" | "true" | "false" | "pwd" | "kill" | "type" => AsProgram,
        "eval" | "source" | "." => Refused("it runs text that can't be seen here"),
        "trap" => Refused("it runs text later, out of sight"),
        "alias" | "unalias" | "hash" | "enable" | "builtin" | "shopt" => {
            Refused("it changes what later words mean")
        }
        "declare" | "typeset" | "local" | "readonly" | "let" | "mapfile" | "readarray"
        | "getopts" => {
            Refused("it sets variables in ways that can't be followed; write NAME=value")
        }
        "bind" | "complete" | "compgen" | "compopt" | "fc" | "history" => {
            Refused("it is for interactive shells")
        }
        "pushd" | "popd" | "dirs" => Refused("the folder can't be followed; use `cd`"),
        "jobs" | "fg" | "bg" | "disown" | "suspend" | "logout" => {
            Refused("there is no job control here")
        }
        "ulimit" | "umask" => Refused("limits are set by the policy"),
        "caller" | "times" | "help" => Refused("it is of no use here"),
        _ => return None,
    })
}

/// Whether a builtin of the grammar is used in a way that can be followed; else why not.
pub fn check_grammar(
    name: &str,
    words: &[Value],
    may_assign: &dyn Fn(&str, bool) -> bool,
) -> Result<(), String> {
    match name {
        "cd" => check_cd(words),
        "exit" | "return" | "break" | "continue" | "shift" => check_number(words),
        "set" => check_set(words),
        "wait" => words.iter().try_for_each(|word| match word {
            Value::Unknown(unknown)
                if unknown.kind == crate::policy::value::UnknownKind::Number =>
            {
                Ok(())
            }
            _ => Err("only `wait` and `wait $!` can be judged".to_owned()),
        }),
        "read" => check_read(words, may_assign),
        "export" => check_export(words, may_assign),
        "unset" => words.iter().try_for_each(|word| match word.as_known() {
            Some("-v") => Ok(()),
            Some(name) if is_name(name) && may_assign(name, false) => Ok(()),
            _ => Err(format!("`unset {}` can't be judged", word.display())),
        }),
        _ => Ok(()),
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn check_cd(words: &[Value]) -> Result<(), String> {
    match words {
        [Value::Known(word)] if !word.starts_with('-') || word == "-" => Ok(()),
        [Value::Known(dashes), Value::Known(_)] if dashes == "--" => Ok(()),
        [] => Err("`cd` alone goes to a home that is not known here; name the folder".into()),
        [Value::Unknown(_)] => Err("the folder can't be known before running".into()),
        _ => Err("only `cd FOLDER` can be followed".into()),
    }
}

fn check_number(words: &[Value]) -> Result<(), String> {
    let good = match words {
        [] => true,
        [Value::Known(word)] => word.len() <= 3 && word.bytes().all(|byte| byte.is_ascii_digit()),
        [Value::Unknown(unknown)] => {
            unknown.kind == crate::policy::value::UnknownKind::Number && unknown.prefix.is_empty()
        }
        _ => false,
    };
    if good { Ok(()) } else { Err("only a number can stand here".into()) }
}

/// Options that only make the shell stricter or chattier. `-a` exports, `-f`, `-k`, `-B` and
/// others change what later words mean.
fn check_set(words: &[Value]) -> Result<(), String> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.as_known() else {
            return Err("an option of `set` that can't be known".into());
        };
        let letters = text.strip_prefix(['-', '+']).unwrap_or_default();
        if letters.is_empty() || !letters.chars().all(|c| "euxovn".contains(c)) {
            return Err(format!("`set {text}` can change what later words mean"));
        }
        if letters.contains('o') {
            match words.next().and_then(Value::as_known) {
                Some("pipefail" | "errexit" | "nounset" | "xtrace" | "verbose") => {}
                _ => return Err("this option of `set` can change what later words mean".into()),
            }
        }
    }
    Ok(())
}

fn check_read(words: &[Value], may_assign: &dyn Fn(&str, bool) -> bool) -> Result<(), String> {
    let mut names = 0;
    for word in words {
        match word.as_known() {
            Some("-r" | "-s" | "-rs") if names == 0 => {}
            Some(name) if is_name(name) => {
                if !may_assign(name, false) {
                    return Err(format!("`{name}` can't be set"));
                }
                names += 1;
            }
            _ => return Err("only `read -r NAME …` can be judged".into()),
        }
    }
    if names == 0 { Err("`read` needs a name".into()) } else { Ok(()) }
}

fn check_export(words: &[Value], may_assign: &dyn Fn(&str, bool) -> bool) -> Result<(), String> {
    if words.is_empty() {
        return Err("`export` alone lists the environment".into());
    }
    for word in words {
        let text = match word {
            Value::Known(text) => text.as_str(),
            Value::Unknown(unknown) if unknown.is_one_word() => unknown.prefix.as_str(),
            Value::Unknown(_) => return Err("the name can't be known before running".into()),
        };
        let (name, has_value) = match text.split_once('=') {
            Some((name, _)) => (name, true),
            None => (text, false),
        };
        if !is_name(name) || (!has_value && word.as_known().is_none()) {
            return Err(format!("`export {}` can't be judged", word.display()));
        }
        if !may_assign(name, true) {
            return Err(format!("`{name}` is no variable that the policy passes to commands"));
        }
    }
    Ok(())
}
