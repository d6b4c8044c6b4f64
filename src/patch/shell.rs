//! apply_patch written as a shell command.
//!
//! Models trained on a shell call `apply_patch` as if it were a program. `exec_command` hands such
//! a command to the patch tool instead of to a shell, so only forms whose meaning is certain are
//! taken: the whole script is one apply_patch, with its patch as a here-document or as one quoted
//! word, and at most `cd DIR &&` in front. Everything else stays a shell script, to be judged as one.

use super::Patch;
use super::error::{PatchError, PatchErrorKind, shorten};
use super::parse::parse_within;

/// A patch found in a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellPatch {
    /// From `cd DIR &&`.
    pub directory: Option<String>,
    /// The patch text as the command would have received it.
    pub text: String,
    /// Lines of the script before the patch text.
    pub lines_before: usize,
}

impl ShellPatch {
    /// The same, in a command that runs in this folder.
    pub fn inside(mut self, folder: Option<&str>) -> Self {
        self.directory = match (folder, self.directory.take()) {
            (Some(folder), Some(inner)) if !inner.starts_with('/') => {
                Some(format!("{}/{inner}", folder.trim_end_matches('/')))
            }
            (Some(folder), None) => Some(folder.to_owned()),
            (_, inner) => inner,
        };
        self
    }

    /// The patch, its paths seen from where the command runs.
    pub fn parse(&self) -> Result<Patch, PatchError> {
        parse_within(&self.text, self.lines_before, self.directory.as_deref())
    }
}

/// Who asks: the patch tool, whose input is a patch whatever surrounds it, or the shell tool, for
/// which a script that isn't certainly a patch must stay a script.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    Tool,
    Shell,
}

/// The patch in a shell script. `None`: it isn't an apply_patch command. An error: it is one, but
/// in a form whose meaning is not certain.
pub fn from_shell(script: &str) -> Option<Result<ShellPatch, PatchError>> {
    recognise(script, Strictness::Shell)
}

/// The patch in a command given as words: `apply_patch TEXT`, or a shell with such a script.
pub fn from_argv(argv: &[String]) -> Option<Result<ShellPatch, PatchError>> {
    let words: Vec<&str> = argv.iter().map(String::as_str).collect();
    match words.as_slice() {
        [name, text] if is_command(name) => {
            Some(Ok(ShellPatch { directory: None, text: (*text).to_owned(), lines_before: 0 }))
        }
        [name, ..] if is_command(name) => Some(Err(misuse(format!(
            "apply_patch takes one word, the patch text; received {}.",
            words.len() - 1
        )))),
        [shell, "-c" | "-lc", script] if is_shell(shell) => from_shell(script),
        _ => None,
    }
}

/// The text in which a patch stands, from the words of a command. For the patch tool.
pub(super) fn patch_word(argv: &[String]) -> Option<String> {
    match argv {
        [text] => Some(text.clone()),
        [name, text] if is_command(name) => Some(text.clone()),
        [shell, flag, script] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc") => {
            Some(script.clone())
        }
        _ => None,
    }
}

fn is_command(word: &str) -> bool {
    matches!(word, "apply_patch" | "applypatch")
}

fn is_shell(word: &str) -> bool {
    matches!(
        word,
        "bash" | "sh" | "/bin/bash" | "/bin/sh" | "/usr/bin/bash" | "/usr/bin/sh" | "zsh"
    )
}

fn misuse(message: String) -> PatchError {
    PatchError::new(PatchErrorKind::Envelope, 0, message).hint(
        "call the apply_patch tool with the patch text, or write `apply_patch <<'EOF'`, the \
               patch, and `EOF`, and nothing else in the command",
    )
}

pub(super) fn recognise(
    script: &str,
    strictness: Strictness,
) -> Option<Result<ShellPatch, PatchError>> {
    let mut lexer = Lexer { rest: script.trim() };
    let skipped = newlines(script.get(..script.len() - script.trim_start().len()).unwrap_or(""));
    let directory = match lexer.change_directory() {
        Ok(directory) => directory,
        Err(()) => return None,
    };
    let bare_heredoc = strictness == Strictness::Tool && lexer.rest.starts_with("<<");
    if !bare_heredoc && !lexer.command() {
        return None;
    }
    let result = if lexer.rest.starts_with("<<") {
        lexer.here_document(strictness)
    } else {
        lexer.only_word()
    };
    Some(result.map(|text| {
        let after = script.trim_start();
        // Where the patch text begins in the script; a quoted word begins on its own line.
        let head = after.find(super::envelope::BEGIN).and_then(|at| after.get(..at)).unwrap_or("");
        let inside = text.find(super::envelope::BEGIN).and_then(|at| text.get(..at)).unwrap_or("");
        let lines_before = skipped + newlines(head).saturating_sub(newlines(inside));
        ShellPatch { directory, text, lines_before }
    }))
}

fn newlines(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

struct Lexer<'a> {
    rest: &'a str,
}

impl Lexer<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t']);
    }

    /// `cd DIR &&`, if it stands here. `Err` if a `cd` does, but not in this form.
    fn change_directory(&mut self) -> Result<Option<String>, ()> {
        let Some(rest) = self.rest.strip_prefix("cd").filter(|rest| rest.starts_with([' ', '\t']))
        else {
            return Ok(None);
        };
        self.rest = rest;
        self.blanks();
        let directory = self.word().ok_or(())?;
        self.blanks();
        // `cd -` and `cd ~` depend on what a shell knows, and options on which shell it is.
        if directory.is_empty() || directory.starts_with(['-', '~']) {
            return Err(());
        }
        self.rest = self.rest.strip_prefix("&&").ok_or(())?.trim_start();
        Ok(Some(directory))
    }

    /// The name of the command; true if it is ours.
    fn command(&mut self) -> bool {
        let Some(rest) =
            ["apply_patch", "applypatch"].iter().find_map(|name| self.rest.strip_prefix(name))
        else {
            return false;
        };
        if !rest.starts_with([' ', '\t', '<']) {
            return false;
        }
        self.rest = rest;
        self.blanks();
        true
    }

    fn only_word(&mut self) -> Result<String, PatchError> {
        let word = self.word().ok_or_else(|| {
            misuse("the patch after apply_patch is not one plainly quoted word.".to_owned())
        })?;
        self.nothing_more(self.rest)?;
        Ok(word)
    }

    fn nothing_more(&self, rest: &str) -> Result<(), PatchError> {
        if rest.trim().is_empty() {
            return Ok(());
        }
        let message = format!(
            "something follows the patch in the command: \"{}\".",
            shorten(rest.trim(), 40)
        );
        Err(misuse(message))
    }

    /// One word of literal text in any mixture of quotes; `None` where a shell would expand
    /// something in it, or where the word is missing.
    fn word(&mut self) -> Option<String> {
        let mut word = String::new();
        let mut any = false;
        loop {
            let mut characters = self.rest.chars();
            match characters.next() {
                Some('\'') => {
                    let (inside, rest) = characters.as_str().split_once('\'')?;
                    word.push_str(inside);
                    self.rest = rest;
                }
                Some('"') => {
                    self.rest = characters.as_str();
                    self.double_quoted(&mut word)?;
                }
                Some('\\') => {
                    let escaped = characters.next()?;
                    if escaped != '\n' {
                        word.push(escaped);
                    }
                    self.rest = characters.as_str();
                }
                Some(plain) if is_plain(plain) => {
                    word.push(plain);
                    self.rest = characters.as_str();
                }
                Some(' ' | '\t' | '\n' | '&') | None => return any.then_some(word),
                Some(_) => return None,
            }
            any = true;
        }
    }

    fn double_quoted(&mut self, word: &mut String) -> Option<()> {
        loop {
            let mut characters = self.rest.chars();
            match characters.next()? {
                '"' => {
                    self.rest = characters.as_str();
                    return Some(());
                }
                '$' | '`' => return None,
                '\\' => match characters.next()? {
                    '\n' => {}
                    escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                    other => word.extend(['\\', other]),
                },
                plain => word.push(plain),
            }
            self.rest = characters.as_str();
        }
    }

    /// The body of a here-document that ends the script.
    fn here_document(&mut self, strictness: Strictness) -> Result<String, PatchError> {
        let unreadable = || misuse("the here-document can't be read.".to_owned());
        self.rest = self.rest.strip_prefix("<<").ok_or_else(unreadable)?;
        let strip_tabs = self.rest.starts_with('-');
        self.rest = self.rest.strip_prefix('-').unwrap_or(self.rest);
        self.blanks();
        let quoted = self.rest.starts_with(['\'', '"', '\\']);
        let delimiter = self.word().filter(|word| !word.is_empty()).ok_or_else(unreadable)?;
        let (line_rest, body) = self.rest.split_once('\n').ok_or_else(unreadable)?;
        self.nothing_more(line_rest)?;
        let mut text = String::with_capacity(body.len());
        let mut remaining = body;
        let mut closed = false;
        while !remaining.is_empty() {
            let (line, rest) = remaining.split_once('\n').unwrap_or((remaining, ""));
            let line = if strip_tabs { line.trim_start_matches('\t') } else { line };
            remaining = rest;
            if line.trim_end_matches('\r') == delimiter {
                closed = true;
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        self.nothing_more(remaining)?;
        // The patch tool goes by the end marker; a shell would complain or wait.
        if !closed && strictness == Strictness::Shell {
            return Err(misuse(format!("the here-document has no closing line `{delimiter}`.")));
        }
        if !quoted && strictness == Strictness::Shell && text.contains(['$', '`', '\\']) {
            return Err(misuse(format!(
                "the here-document's delimiter {delimiter} is not quoted, so a shell would expand \
                 the `$`, `` ` `` or `\\` in the patch."
            )));
        }
        Ok(text)
    }
}

/// Characters that mean themselves in every shell.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-./+,:@%=~".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "*** Begin Patch\n*** Delete File: a\n*** End Patch\n";

    fn shell(script: &str) -> Option<Result<(Option<String>, String), PatchErrorKind>> {
        from_shell(script).map(|result| {
            result.map(|form| (form.directory, form.text)).map_err(|error| error.kind)
        })
    }

    #[test]
    fn certain_forms_are_taken() {
        let expected =
            |directory: Option<&str>| Some(Ok((directory.map(str::to_owned), PATCH.into())));
        for name in ["apply_patch", "applypatch"] {
            for delimiter in ["'EOF'", "\"EOF\"", "EOF", "\\EOF", " 'EOF'"] {
                let script = format!("{name} <<{delimiter}\n{PATCH}EOF\n");
                assert_eq!(shell(&script), expected(None), "{script}");
                let script = format!("cd 'my dir' && {name} <<{delimiter}\n{PATCH}EOF");
                assert_eq!(shell(&script), expected(Some("my dir")), "{script}");
            }
            assert_eq!(shell(&format!("{name} '{PATCH}'")), expected(None));
            assert_eq!(shell(&format!("cd sub && {name} \"{PATCH}\"")), expected(Some("sub")));
        }
        let tabbed = PATCH.replace("***", "\t***");
        assert_eq!(shell(&format!("apply_patch <<-EOF\n{tabbed}\tEOF")), expected(None));
    }

    #[test]
    fn the_folder_of_the_command_comes_before_that_of_its_cd() {
        let inside = |directory: Option<&str>, folder: Option<&str>| {
            let directory = directory.map(str::to_owned);
            let patch = ShellPatch { directory, text: PATCH.into(), lines_before: 0 };
            patch.inside(folder).directory
        };
        assert_eq!(inside(None, None), None);
        assert_eq!(inside(None, Some("a")).as_deref(), Some("a"));
        assert_eq!(inside(Some("b"), None).as_deref(), Some("b"));
        assert_eq!(inside(Some("b"), Some("a/")).as_deref(), Some("a/b"));
        assert_eq!(inside(Some("/b"), Some("a")).as_deref(), Some("/b"));
    }

    #[test]
    fn other_scripts_stay_scripts() {
        for script in [
            "cargo test",
            "apply_patches <<EOF\nx\nEOF",
            "cd a; apply_patch 'x'",
            "cd - && apply_patch 'x'",
            "cd ~ && apply_patch 'x'",
            "cd $HOME && apply_patch 'x'",
            "true && apply_patch 'x'",
            "<<EOF\nx\nEOF",
            "cd",
            "",
        ] {
            assert_eq!(shell(script), None, "{script}");
        }
    }

    #[test]
    fn uncertain_forms_are_refused() {
        for script in [
            format!("apply_patch <<'EOF'\n{PATCH}EOF\nrm -rf x"),
            format!("apply_patch <<'EOF' && rm x\n{PATCH}EOF"),
            format!("apply_patch <<'EOF'\n{PATCH}"),
            format!("apply_patch <<EOF\n{PATCH}+$(rm x)\nEOF"),
            format!("apply_patch '{PATCH}' && rm x"),
            "apply_patch \"$PATCH\"".to_owned(),
            "apply_patch \"`x`\"".to_owned(),
            "apply_patch < file".to_owned(),
            "apply_patch 'unfinished".to_owned(),
        ] {
            assert_eq!(shell(&script), Some(Err(PatchErrorKind::Envelope)), "{script}");
        }
    }

    #[test]
    fn words_of_a_command_are_recognised() {
        let argv = |words: &[&str]| {
            from_argv(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(matches!(argv(&["apply_patch", PATCH]), Some(Ok(_))));
        assert!(matches!(argv(&["bash", "-lc", "apply_patch 'x'"]), Some(Ok(_))));
        assert!(matches!(argv(&["apply_patch"]), Some(Err(_))));
        assert!(matches!(argv(&["apply_patch", "-R", PATCH]), Some(Err(_))));
        assert!(argv(&["git", "apply"]).is_none());
        assert!(argv(&[]).is_none());
    }
}
