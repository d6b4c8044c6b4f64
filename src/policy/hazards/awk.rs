//! `awk` is a language that runs commands and writes files. Only programs that surely do neither are
//! let through: no `system`, no pipe, no `getline`, no redirection.

use super::{Access, Examined, FileUse};
use crate::policy::value::Value;

pub fn examine(argv: &[Value]) -> Examined {
    let mut out = Examined::default();
    let mut index = 1;
    while let Some(word) = argv.get(index).and_then(Value::as_known) {
        match word {
            "--" => {
                index += 1;
                break;
            }
            "-F" | "-v" => index += 2,
            _ if word.starts_with("-F") || word.starts_with("-v") => index += 1,
            _ if word.starts_with('-') && word.len() > 1 => {
                out.hazard(index, format!("awk {word} is no option that is known to be harmless"));
                index += 1;
            }
            _ => break,
        }
    }
    // The value of -F or -v may have been unknown: then what follows can't be told apart.
    if argv.get(1..index.min(argv.len())).unwrap_or_default().iter().any(Value::is_many) {
        out.hazard(index.saturating_sub(1), "the options of awk must be known or quoted");
    }
    match argv.get(index) {
        None => {}
        Some(Value::Known(program)) => {
            if let Some(why) = refuse(program) {
                out.hazard(index, format!("this awk program {why}"));
            }
        }
        Some(Value::Unknown(unknown)) => {
            out.hazard(
                index,
                format!("the awk program {} can't be known before running", unknown.text),
            );
        }
    }
    for (offset, value) in argv.iter().enumerate().skip(index + 1) {
        match value {
            // `name=value` sets a variable and names no file.
            Value::Known(word) if word.contains('=') && !word.starts_with(['/', '.']) => {}
            Value::Known(_) => {
                out.files.push(FileUse { access: Access::Read, value: value.clone() });
            }
            Value::Unknown(_) if value.may_be_unknown_option() => {
                out.hazard(offset, format!("{} could become an option of awk", value.display()));
            }
            Value::Unknown(_) => {
                out.files.push(FileUse { access: Access::Read, value: value.clone() });
            }
        }
    }
    out
}

/// What the program might do, told by its text alone.
fn refuse(program: &str) -> Option<&'static str> {
    if ["system", "getline", "close", "fflush", "ENVIRON", "PROCINFO", "ARGV", "ARGC"]
        .iter()
        .any(|word| program.contains(word))
    {
        return Some("may run commands or reach outside its input");
    }
    if program.contains('@') {
        return Some("may load code or call by name");
    }
    if program.replace("||", "").contains('|') {
        return Some("has a pipe in it, which runs commands");
    }
    // Only before the first brace a `>` surely compares; strings and patterns can hold any sign.
    let action = program.find('{').and_then(|start| program.get(start..)).unwrap_or_default();
    if action.replace(">=", "").contains('>') {
        return Some("has a `>` in its action, which writes files; filter with a pattern");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::refuse;

    #[test]
    fn small_programs_pass_and_others_do_not() {
        for program in [
            "{print $1}",
            "NR>=10 && NR<=20",
            "NR>5",
            "{s+=$1} END{print s}",
            "/a|b/ || /c/{print}",
            "{ if ($1 >= 3) print }",
            "!seen[$0]++",
            "BEGIN{OFS=\"\\t\"} {print $1,$2}",
        ] {
            // A pipe inside a pattern is refused too: the text alone can't tell.
            assert_eq!(refuse(program).is_none(), !program.contains("a|b"), "{program}");
        }
        for program in [
            "BEGIN{system(\"touch CANARY\")}",
            "{print > \"CANARY\"}",
            "{print | \"sh\"}",
            "{\"id\" | getline x}",
            "@load \"x\"",
            "BEGIN{printf \"x\" >> \"CANARY\"}",
            "BEGIN{f=\"system\"; @f(\"id\")}",
            "function f(){print>\"x\"}",
            "BEGIN { print ENVIRON[\"X\"] }",
            "{s=\"}\"; print > \"CANARY\"}",
            "BEGIN{ARGV[1]=\"/etc/passwd\"; ARGC=2} {print}",
            "/}/{print >>\"x\"}",
        ] {
            assert!(refuse(program).is_some(), "{program}");
        }
    }
}
