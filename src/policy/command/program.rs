//! Which file a command word leads to.

use crate::policy::facts::Facts;
use crate::policy::rules::Program;
use crate::policy::value::Value;
use std::path::Path;

/// Looks a command word up: a bare name on the clean PATH, a path from the folder it acts in.
pub fn find(word: &str, cwd: Option<&Path>, facts: &dyn Facts) -> Program {
    let base = word.rsplit('/').next().unwrap_or(word).to_owned();
    let real =
        |path: &Path| path.to_str().and_then(|text| facts.resolve(Path::new("/"), text).ok());
    let usual = facts.program(&base).and_then(|path| real(&path));
    let file = if word.contains('/') {
        match cwd {
            Some(cwd) => facts.resolve(cwd, word).ok(),
            // Only an absolute path is the same from everywhere.
            None if word.starts_with('/') => facts.resolve(Path::new("/"), word).ok(),
            None => None,
        }
    } else {
        usual.clone()
    };
    let target = file
        .as_ref()
        .and_then(|path| path.file_name())
        .and_then(|name| name.to_str())
        .map(str::to_owned);
    let writable = file.as_deref().is_some_and(|path| facts.is_writable_place(path));
    Program { word: word.to_owned(), base, target, file, usual, writable }
}

/// Words as a person would type them.
pub fn quote_words(words: &[Value]) -> String {
    let mut line = String::new();
    for word in words {
        if !line.is_empty() {
            line.push(' ');
        }
        match word {
            Value::Known(text) => line.push_str(&quoted(text)),
            Value::Unknown(unknown) => line.push_str(&unknown.text),
        }
    }
    if line.chars().count() > 300 {
        line = line.chars().take(300).collect();
        line.push('…');
    }
    line
}

/// The words one by one, for records: at most 100 of them and some 2,000 signs, the cut shown.
pub fn shown_words(words: &[Value]) -> Vec<String> {
    let (mut left, mut shown) = (2_000, Vec::new());
    for word in words {
        let text = match word {
            Value::Known(text) => text,
            Value::Unknown(unknown) => &unknown.text,
        };
        let signs = text.chars().count();
        if shown.len() == 100 || signs > left {
            shown.push(text.chars().take(left).chain(['…']).collect());
            break;
        }
        left -= signs;
        shown.push(text.clone());
    }
    shown
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%^".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    if text.chars().any(char::is_control) {
        return format!("{text:?}");
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
