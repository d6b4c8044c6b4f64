//! Verbs that look when called one way, and change things when called another.

use crate::policy::value::Value;

/// Why the call does more than look; nothing when it only looks.
pub fn only(verb: &str, words: &[Value]) -> Option<String> {
    let rest = words.get(1..).unwrap_or_default();
    let first = rest.first().and_then(Value::as_known);
    let has = |names: &[&str]| {
        rest.iter().filter_map(Value::as_known).any(|word| {
            let name = word.split('=').next().unwrap_or(word);
            names.contains(&name)
        })
    };
    let operands = rest
        .iter()
        .filter(|value| value.as_known().is_none_or(|word| !word.starts_with('-')))
        .count();
    let looks = match verb {
        "branch" => {
            operands == 0
                || has(&[
                    "--list",
                    "-l",
                    "--contains",
                    "--no-contains",
                    "--merged",
                    "--no-merged",
                    "--points-at",
                    "--sort",
                    "--format",
                ])
        }
        "tag" => {
            operands == 0
                || has(&[
                    "--list",
                    "-l",
                    "-n",
                    "--contains",
                    "--no-contains",
                    "--merged",
                    "--no-merged",
                    "--points-at",
                    "--sort",
                    "--format",
                ])
        }
        "remote" => operands == 0 || first == Some("get-url"),
        "config" => {
            has(&["--get", "--get-all", "--get-regexp", "--list", "-l"])
                || matches!(first, Some("get" | "list"))
        }
        "stash" => matches!(first, Some("list" | "show")),
        "reflog" => !matches!(first, Some("expire" | "delete" | "drop" | "write")),
        "worktree" => first == Some("list"),
        "symbolic-ref" => operands <= 1,
        "show-branch" => !has(&["--reflog"]),
        _ => true,
    };
    (!looks).then(|| format!("git {verb} changes the repository when called like this"))
}
