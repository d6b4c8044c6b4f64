//! `sed`: its scripts write files (`w`) and run commands (`e`), so only a small grammar is let
//! through: addresses with `p`, `d`, `q`, `=`, and substitutions without `w` and `e`.

use super::{Access, Examined, FileUse};
use crate::policy::value::Value;

const HINT: &str = "lines are shown by `sed -n '10,20p' FILE`; files are changed with a patch";

pub fn examine(argv: &[Value]) -> Examined {
    let mut out = Examined::default();
    let mut operands: Vec<&Value> = Vec::new();
    let mut has_script = false;
    let mut writes = false;
    let mut index = 1;
    let mut only_operands = false;
    while let Some(value) = argv.get(index) {
        let at = index;
        index += 1;
        let Some(word) = value.as_known() else {
            if !only_operands && value.may_be_unknown_option() {
                out.hazard(at, format!("{} could become an option of sed", value.display()));
            }
            operands.push(value);
            continue;
        };
        if only_operands || !word.starts_with('-') || word == "-" {
            operands.push(value);
            continue;
        }
        match word {
            "--" => only_operands = true,
            "-n" | "-E" | "-r" | "-s" | "-u" | "-z" | "-l" | "--quiet" | "--silent"
            | "--regexp-extended" | "--separate" | "--unbuffered" | "--null-data" | "--posix"
            | "--sandbox" | "--help" | "--version" | "-nE" | "-En" | "-nr" | "-rn" | "-ns"
            | "-nz" => {}
            "-e" | "--expression" | "-ne" | "-Ee" | "-nEe" => {
                has_script = true;
                script(argv.get(index), index, &mut out);
                index += 1;
            }
            _ if word.starts_with("--expression=") => {
                has_script = true;
                text(word.get(13..).unwrap_or_default(), at, &mut out);
            }
            "-i" | "--in-place" => {
                writes = true;
                out.hazard(at, format!("sed {word} changes files; {HINT}"));
            }
            _ => out.hazard(
                at,
                format!("sed {word} is no option that is known to be harmless; {HINT}"),
            ),
        }
    }
    let files = if has_script {
        operands.as_slice()
    } else {
        let first = operands.first().copied();
        let at = argv.iter().position(|value| Some(value) == first).unwrap_or(0);
        script(first, at, &mut out);
        operands.get(1..).unwrap_or_default()
    };
    let access = if writes { Access::Write } else { Access::Read };
    out.files.extend(files.iter().map(|value| FileUse { access, value: (*value).clone() }));
    out
}

fn script(value: Option<&Value>, index: usize, out: &mut Examined) {
    match value {
        None => {}
        Some(Value::Known(script)) => text(script, index, out),
        // Line numbers from a variable are known to be digits: `sed -n "$((n-5)),${n}p"` is not.
        Some(Value::Unknown(unknown)) => {
            out.hazard(index, format!("the script {} can't be known before running", unknown.text));
        }
    }
}

fn text(script: &str, index: usize, out: &mut Examined) {
    if !is_small(script) {
        out.hazard(index, format!("this sed script may write files or run commands; {HINT}"));
    }
}

/// Whether a script is in the small grammar: commands split by `;` or line ends, each an address and
/// one letter, or a substitution.
fn is_small(script: &str) -> bool {
    let mut reader = Reader { rest: script };
    loop {
        reader.skip(&[' ', '\t', ';', '\n']);
        if reader.rest.is_empty() {
            return true;
        }
        if !(reader.address() && reader.command()) {
            return false;
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip(&mut self, signs: &[char]) {
        self.rest = self.rest.trim_start_matches(signs);
    }

    fn take(&mut self, sign: char) -> bool {
        match self.rest.strip_prefix(sign) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn digits(&mut self) -> bool {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        self.rest = self.rest.get(end..).unwrap_or_default();
        end > 0
    }

    /// Nothing, `N`, `$`, `/re/`, and two of them with a comma; `!` behind.
    fn address(&mut self) -> bool {
        if self.one_address() == Some(false) {
            return false;
        }
        self.skip(&[' ']);
        if self.take(',') {
            self.skip(&[' ']);
            let _ = self.take('+') || self.take('~');
            if self.one_address() != Some(true) {
                return false;
            }
        }
        self.skip(&[' ']);
        while self.take('!') {}
        self.skip(&[' ']);
        true
    }

    /// Whether an address stands here; false when it is not closed.
    fn one_address(&mut self) -> Option<bool> {
        if self.take('$') {
            return Some(true);
        }
        if self.digits() {
            if self.take('~') && !self.digits() {
                return Some(false);
            }
            return Some(true);
        }
        if self.take('/') {
            let closed = self.until('/');
            // `I` and `M` may follow a pattern.
            if closed {
                let _ = self.take('I');
            }
            return Some(closed);
        }
        None
    }

    /// Goes past the next unescaped sign on the same line. A sign inside `[…]` closes for some
    /// programs and not for others, so brackets that hold it are refused.
    fn until(&mut self, sign: char) -> bool {
        let mut escaped = false;
        let mut in_bracket = false;
        for (at, c) in self.rest.char_indices() {
            if c == '\n' {
                return false;
            }
            if escaped {
                escaped = false;
            } else if c == '\\' {
                escaped = true;
            } else if c == sign {
                if in_bracket {
                    return false;
                }
                self.rest = self.rest.get(at + c.len_utf8()..).unwrap_or_default();
                return true;
            } else if c == '[' {
                in_bracket = true;
            } else if c == ']' {
                in_bracket = false;
            }
        }
        false
    }

    /// One command and what ends it.
    fn command(&mut self) -> bool {
        let good = match self.rest.chars().next() {
            Some('p' | 'd' | '=' | 'P' | 'D' | 'g' | 'G' | 'h' | 'H' | 'x' | 'n' | 'N' | 'l') => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                true
            }
            Some('q' | 'Q') => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                self.digits();
                true
            }
            Some('s') => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                self.substitution()
            }
            Some('y') => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                self.delimited()
            }
            _ => false,
        };
        self.skip(&[' ', '\t']);
        good && (self.rest.is_empty() || self.rest.starts_with([';', '\n']))
    }

    /// `s/re/text/flags`, the flags without `w`, `e` and `m`.
    fn substitution(&mut self) -> bool {
        if !self.delimited() {
            return false;
        }
        let end = self
            .rest
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'i' | 'I')))
            .unwrap_or(self.rest.len());
        self.rest = self.rest.get(end..).unwrap_or_default();
        true
    }

    fn delimited(&mut self) -> bool {
        let Some(sign) = self.rest.chars().next() else { return false };
        if !matches!(sign, '/' | '|' | '#' | ',' | ':' | '@' | '!' | '%' | '+' | '~') {
            return false;
        }
        self.rest = self.rest.get(sign.len_utf8()..).unwrap_or_default();
        self.until(sign) && self.until(sign)
    }
}

#[cfg(test)]
mod tests {
    use super::is_small;

    #[test]
    fn d66_only_a_small_grammar() {
        for script in [
            "10,20p",
            "$p",
            "5q",
            "1d;$d",
            "/^fn /,/^}/p",
            "s/a/b/g",
            "s|a/b|c|",
            "10,$p",
            "1~2p",
            "/x/!d",
            "$=",
            "5,+3p",
            "s/a\\/b/c/2gp",
            "1,5p;10q",
            "p",
            "",
        ] {
            assert!(is_small(script), "{script}");
        }
        for script in [
            "w CANARY",
            "1w CANARY",
            "s/a/b/w CANARY",
            "s/a/b/e",
            "e touch CANARY",
            "1e touch CANARY",
            "r /etc/passwd",
            "R x",
            "W x",
            "a\\\ntext",
            "s/a/b/;w x",
            "{w x\n}",
            "s/a/touch x/ge",
            "s/[/]/x/w CANARY",
            "y/a/b/w",
            "1,5p;w x",
            "s/a/b",
            "b",
            ":a",
            "c\\x",
            "i\\x",
            "s\na\nb\nw x",
            "s/a\\\n/b/w x",
            "s/a/b/pw CANARY",
            "s/a/b/ge CANARY",
            "1!e id",
            "v",
            "F",
            "z",
        ] {
            assert!(!is_small(script), "{script}");
        }
    }
}
