//! macOS: the same clauses as a profile for `sandbox-exec`.
//!
//! Everything is denied by default; what a command needs to start at all is granted, then what the policy
//! grants. Making the text is a pure function, tested on every platform; handing it to `sandbox-exec` is
//! one changed command line. The launcher around it is Linux's so far: a build for macOS needs one first.

use super::{Confinement, Wall};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The system's own program; a profile that it does not understand ends the command.
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// What programs need before they do anything of their own: the loader, time zones, user look-ups.
const GROUND: &str = "(version 1)
(deny default)
(allow process-exec process-fork)
(allow signal (target same-sandbox))
(allow process-info* (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow file-read* (literal \"/\"))
(allow file-read* (subpath \"/System\") (subpath \"/Library\") (subpath \"/private/var/db/timezone\"))
(allow file-read* (subpath \"/private/etc\") (subpath \"/private/var/select\"))
(allow mach-lookup (global-name \"com.apple.system.opendirectoryd.libinfo\"))
(allow mach-lookup (global-name \"com.apple.system.notification_center\"))
(allow ipc-posix-sem)
(allow pseudo-tty)
(allow file-ioctl (regex #\"^/dev/tty\"))
";

/// The profile of a confinement. Protected places come last: of several rules the last one counts.
fn profile(confinement: &Confinement) -> Option<String> {
    let mut text = String::from(GROUND);
    for path in &confinement.read {
        rule(&mut text, "allow file-read*", path)?;
    }
    for path in &confinement.write {
        rule(&mut text, "allow file-read* file-write*", path)?;
    }
    for path in &confinement.mounts.read_only {
        rule(&mut text, "deny file-write*", path)?;
    }
    for hidden in &confinement.mounts.hidden {
        rule(&mut text, "deny file-read* file-write*", &hidden.path)?;
    }
    text.push_str(&network(confinement)?);
    Some(text)
}

/// The command line of a program behind the profile; `None` where the profile can't be written down.
pub fn wrapped(
    confinement: &Confinement,
    program: &Path,
    argv: &[String],
) -> Option<(PathBuf, Vec<String>)> {
    if !confinement.enabled {
        return Some((program.to_owned(), argv.to_vec()));
    }
    let profile = profile(confinement)?;
    let mut words = vec!["sandbox-exec".to_owned(), "-p".to_owned(), profile];
    words.push(program.to_str()?.to_owned());
    words.extend(argv.iter().skip(1).cloned());
    Some((PROGRAM.into(), words))
}

/// `subpath` covers a folder with everything beneath, and a file. Nothing for a path that is no text:
/// a rule that is left out could only be one that grants less, or one that denies less, and so the whole
/// profile is refused.
fn rule(text: &mut String, what: &str, path: &Path) -> Option<()> {
    let path = quoted(path)?;
    writeln!(text, "({what} (subpath {path}))").ok()
}

fn quoted(path: &Path) -> Option<String> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control))?;
    Some(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Sockets. Unix sockets are files: they are reached inside writable folders alone.
fn network(confinement: &Confinement) -> Option<String> {
    let mut text = String::new();
    for path in &confinement.write {
        let path = quoted(path)?;
        writeln!(text, "(allow network-outbound network-bind network-inbound (subpath {path}))")
            .ok()?;
    }
    match confinement.wall {
        Wall::None => {}
        Wall::Loopback => text.push_str(
            "(allow network-outbound (remote ip \"localhost:*\"))\n\
             (allow network-bind network-inbound (local ip \"localhost:*\"))\n",
        ),
        Wall::Proxy(port) => {
            writeln!(text, "(allow network-outbound (remote ip \"localhost:{port}\"))").ok()?;
        }
        Wall::Open => text.push_str("(allow network*)\n(allow system-socket)\n"),
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::sandbox::{Layers, Mounts};

    fn confinement(wall: Wall) -> Confinement {
        Confinement {
            enabled: true,
            layers: Layers::ALL,
            read: vec!["/usr".into(), "/w".into()],
            write: vec!["/w/src".into()],
            mounts: Mounts { read_only: vec!["/w/src/.git".into()], ..Mounts::default() },
            wall,
            ..Confinement::default()
        }
    }

    #[test]
    fn grants_come_before_what_is_carved_out_of_them() {
        let text = profile(&confinement(Wall::None)).unwrap();
        let at = |line: &str| text.find(line).unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(text.starts_with("(version 1)\n(deny default)\n"));
        let granted = at("(allow file-read* file-write* (subpath \"/w/src\"))");
        assert!(granted < at("(deny file-write* (subpath \"/w/src/.git\"))"));
        at("(allow file-read* (subpath \"/w\"))");
        assert!(!text.contains("ip \""), "no network: {text}");
    }

    #[test]
    fn each_wall_has_its_rules() {
        let text = |wall| profile(&confinement(wall)).unwrap();
        assert!(text(Wall::Loopback).contains("(remote ip \"localhost:*\")"));
        assert!(text(Wall::Proxy(8080)).contains("(remote ip \"localhost:8080\")"));
        assert!(!text(Wall::Proxy(8080)).contains("localhost:*"));
        assert!(text(Wall::Open).contains("(allow network*)"));
    }

    #[test]
    fn a_path_can_not_become_a_rule() {
        let mut evil = confinement(Wall::None);
        evil.write = vec!["/w/a\")) (allow default) ((\"\\".into()];
        let text = profile(&evil).unwrap();
        assert!(text.contains(r#"(subpath "/w/a\")) (allow default) ((\"\\"))"#), "{text}");
        evil.write = vec!["/w/a\nb".into()];
        assert_eq!(profile(&evil), None, "a path that cannot be written down refuses the command");
    }

    #[test]
    fn parentheses_are_balanced_outside_of_texts() {
        for wall in [Wall::None, Wall::Loopback, Wall::Proxy(1), Wall::Open] {
            let (mut depth, mut in_text) = (0, false);
            for c in profile(&confinement(wall)).unwrap().chars() {
                match c {
                    '"' => in_text = !in_text,
                    '(' if !in_text => depth += 1,
                    ')' if !in_text => depth -= 1,
                    _ => {}
                }
                assert!(depth >= 0);
            }
            assert_eq!((depth, in_text), (0, false), "{wall:?}");
        }
    }

    #[test]
    fn a_command_is_wrapped_word_by_word() {
        let words = ["sh", "-c", "echo a b"].map(String::from);
        let shell = Path::new("/bin/sh");
        let confined = confinement(Wall::None);
        let (program, argv) = wrapped(&confined, shell, &words).unwrap();
        assert_eq!(program, Path::new(PROGRAM));
        assert_eq!(argv[..2], ["sandbox-exec", "-p"]);
        assert_eq!(argv[2], profile(&confined).unwrap());
        assert_eq!(argv[3..], ["/bin/sh", "-c", "echo a b"]);
        let off = Confinement::default();
        assert_eq!(wrapped(&off, shell, &words).unwrap(), (shell.to_owned(), words.to_vec()));
    }
}
