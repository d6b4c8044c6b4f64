//! `find`: starting points first, then an expression. Tests and printing are fine, actions are not.

use super::{Access, Examined, FileUse};
use crate::policy::value::Value;

/// Tests and options without an argument.
const PLAIN: &[&str] = &[
    "!",
    "(",
    ")",
    ",",
    "-not",
    "-a",
    "-and",
    "-o",
    "-or",
    "-true",
    "-false",
    "-print",
    "-print0",
    "-ls",
    "-prune",
    "-quit",
    "-empty",
    "-readable",
    "-writable",
    "-executable",
    "-depth",
    "-d",
    "-xdev",
    "-mount",
    "-noleaf",
    "-daystart",
    "-follow",
    "-nouser",
    "-nogroup",
    "-warn",
    "-nowarn",
    "-ignore_readdir_race",
    "-noignore_readdir_race",
    "-help",
    "--help",
    "-version",
    "--version",
    "-x",
    "-X",
    "-s",
    "-E",
];

/// Tests with one argument of no consequence.
const WITH_VALUE: &[&str] = &[
    "-name",
    "-iname",
    "-path",
    "-ipath",
    "-wholename",
    "-iwholename",
    "-lname",
    "-ilname",
    "-regex",
    "-iregex",
    "-regextype",
    "-type",
    "-xtype",
    "-size",
    "-mtime",
    "-atime",
    "-ctime",
    "-mmin",
    "-amin",
    "-cmin",
    "-maxdepth",
    "-mindepth",
    "-perm",
    "-user",
    "-group",
    "-uid",
    "-gid",
    "-links",
    "-inum",
    "-fstype",
    "-used",
    "-printf",
    "-newermt",
    "-newerat",
    "-newerct",
    "-newermt",
    "-context",
];

/// Tests whose argument is a file that is looked at.
const WITH_FILE: &[&str] = &["-newer", "-anewer", "-cnewer", "-samefile", "-newermm", "-newerma"];

pub fn examine(argv: &[Value]) -> Examined {
    let mut out = Examined::default();
    let mut index = 1;
    let mut in_expression = false;
    while let Some(value) = argv.get(index) {
        let Some(word) = value.as_known() else {
            // In front it is a starting point, if it can't be taken for an expression.
            if !in_expression && !value.may_be_unknown_option() {
                out.files.push(FileUse { access: Access::Read, value: value.clone() });
            } else {
                out.hazard(index, format!("{} could become an action of find", value.display()));
            }
            index += 1;
            continue;
        };
        if !in_expression {
            match word {
                "-H" | "-L" | "-P" | "--" => {}
                _ if word.starts_with("-O") || word == "-D" => {
                    out.hazard(index, format!("{word} is no option that is known to be harmless"));
                }
                "!" | "(" | ")" => in_expression = true,
                _ if word.starts_with('-') => in_expression = true,
                _ => out.files.push(FileUse { access: Access::Read, value: value.clone() }),
            }
            if !in_expression {
                index += 1;
                continue;
            }
        }
        if PLAIN.contains(&word) {
            index += 1;
        } else if WITH_VALUE.contains(&word) {
            // Whatever the argument is, find takes it as text.
            match argv.get(index + 1) {
                Some(next) if next.is_many() => {
                    out.hazard(index + 1, "quote the argument, or it may become an action of find");
                }
                _ => {}
            }
            index += 2;
        } else if WITH_FILE.contains(&word) {
            if let Some(next) = argv.get(index + 1) {
                out.files.push(FileUse { access: Access::Read, value: next.clone() });
            }
            index += 2;
        } else {
            out.hazard(index, why(word));
            index += 1;
        }
    }
    out
}

fn why(word: &str) -> String {
    match word {
        "-exec" | "-execdir" | "-ok" | "-okdir" => {
            format!("find {word} runs a program; list with find and act in a second step")
        }
        "-delete" => "find -delete removes files".into(),
        "-fprint" | "-fprint0" | "-fprintf" | "-fls" => format!("find {word} writes a file"),
        "-files0-from" => "find -files0-from takes its starting points from a file".into(),
        _ => format!("{word} is no test of find that is known to be harmless"),
    }
}
