//! What programs can do besides what their name says: options that run, write or reconfigure.
//!
//! Tables and small readers, one per program; a rule that wants a hazard must spell it out, word
//! for word, in its own place. Whatever a table does not know is a hazard too.

mod awk;
mod find;
pub mod git;
pub mod names;
mod readers;
mod risks;
mod sed;
mod table;
mod writers;

use super::value::Value;

/// What a program does with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    /// Written, and what was there is gone, folders with all they hold.
    Replace,
    /// Only spoken of, as a path in a revision is: what may never be read is refused.
    Mentioned,
}

/// One file that a command reads or writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileUse {
    pub access: Access,
    pub value: Value,
}

/// One thing in a command that only a rule which spells it out may allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hazard {
    /// Which word.
    pub index: usize,
    pub why: String,
    /// The whole command must be spelled out, not the one word.
    pub whole: bool,
}

/// What the tables say of a call.
#[derive(Debug, Clone, Default)]
pub struct Examined {
    pub hazards: Vec<Hazard>,
    pub files: Vec<FileUse>,
    /// No word can make the program do anything else than its name says, so words that are not
    /// known may stand where options do.
    pub harmless: bool,
    /// `git diff` that would hand files to a program that the configuration names.
    pub may_run_external_diff: bool,
    /// The program uses no network and runs no other program, so it takes nothing from the others.
    pub inert: bool,
    /// The tables know the program, and have looked at words that may become options.
    pub known: bool,
}

impl Examined {
    pub fn hazard(&mut self, index: usize, why: impl Into<String>) {
        self.hazards.push(Hazard { index, why: why.into(), whole: false });
    }

    fn whole(&mut self, why: impl Into<String>) {
        self.hazards.push(Hazard { index: 0, why: why.into(), whole: true });
    }
}

/// Looks a call up by the program's names: as written first, then what it leads to.
pub fn examine(base: &str, target: Option<&str>, argv: &[Value]) -> Examined {
    by_name(base, argv)
        .or_else(|| target.filter(|target| *target != base).and_then(|name| by_name(name, argv)))
        .unwrap_or_default()
}

fn by_name(name: &str, argv: &[Value]) -> Option<Examined> {
    let mut examined = match name {
        "git" => git::examine(argv),
        "find" => inert(find::examine(argv)),
        "sed" | "gsed" => inert(sed::examine(argv)),
        "awk" | "gawk" | "mawk" | "nawk" | "original-awk" => inert(awk::examine(argv)),
        "bash" | "sh" | "dash" | "ash" | "zsh" | "ksh" | "mksh" | "fish" | "csh" | "tcsh" => {
            shell(name, argv)
        }
        "test" | "[" => inert(test_command(argv)),
        "jq" => jq(argv)?,
        _ => by_table(name, argv)?,
    };
    examined.known = true;
    Some(examined)
}

fn inert(examined: Examined) -> Examined {
    Examined { inert: true, ..examined }
}

fn by_table(name: &str, argv: &[Value]) -> Option<Examined> {
    let spec = readers::READERS
        .iter()
        .chain(readers::TEXTS)
        .chain(writers::WRITERS)
        .find(|spec| spec.names.contains(&name));
    if let Some(spec) = spec {
        return Some(inert(table::examine(spec, argv)));
    }
    if let Some((_, why)) = writers::SPELL_OUT.iter().find(|(known, _)| *known == name) {
        let mut examined = Examined::default();
        examined.whole(format!("{name} {why}"));
        return Some(examined);
    }
    risks::examine(name, argv)
}

/// `jq` reads modules that its filter names.
fn jq(argv: &[Value]) -> Option<Examined> {
    let mut examined = by_table("jq", argv)?;
    for (index, value) in argv.iter().enumerate().skip(1) {
        let text = value.as_known().unwrap_or_default();
        if text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|w| matches!(w, "import" | "include"))
        {
            examined.hazard(index, "a jq filter that loads modules");
        }
    }
    Some(examined)
}

/// A shell that runs a file or its input; `-c` with a script was seen through before.
fn shell(name: &str, argv: &[Value]) -> Examined {
    let mut examined = Examined::default();
    for (index, value) in argv.iter().enumerate().skip(1) {
        let word = value.as_known().unwrap_or_default();
        if matches!(word, "--version" | "--help") && argv.len() == 2 {
            return examined;
        }
        let is_option = word.starts_with(['-', '+']);
        examined.hazard(index, format!("{name} runs what {} says", value.display()));
        if !is_option {
            // What follows are the script's own arguments.
            return examined;
        }
    }
    examined.whole(format!("{name} without a file runs what it reads"));
    examined
}

/// `test` and `[`: `-v` and `-R` make bash evaluate the name they are given, subscript included.
fn test_command(argv: &[Value]) -> Examined {
    let mut examined = Examined { harmless: true, ..Examined::default() };
    for (index, value) in argv.iter().enumerate().skip(1) {
        match value.as_known() {
            Some("-v" | "-R") => {
                examined.hazard(index, "this test makes bash evaluate its operand");
            }
            Some(_) => {}
            None if value.is_many() => {
                examined.hazard(index, "the words of a test must be known or quoted");
            }
            // An unknown word may be such an operator; then what follows must hold no subscript.
            None => match argv.get(index + 1) {
                Some(Value::Known(next)) if !next.contains('[') => {}
                None => {}
                _ => examined.hazard(index, "two unknown words side by side in a test"),
            },
        }
    }
    examined
}
