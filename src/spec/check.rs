//! Checks of single values that more than one key needs: paths, globs, names, addresses.
//!
//! Each answers with what is wrong, in words that complete `"key" …`; the caller knows the place.

use super::types::ModelName;
use super::yaml::quoted;

/// A path of the operator's: any, but one that a program would read otherwise than it looks.
pub fn path(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("must be a path, not an empty text".into());
    }
    if text.chars().any(char::is_control) {
        return Err(format!("holds a control character: {}", quoted(text)));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(format!(
            "must be a path without \"~\", which is not expanded here: {}",
            quoted(text)
        ));
    }
    Ok(())
}

/// A path that stays inside the workspace whatever it is joined with.
pub fn inner_path(text: &str) -> Result<(), String> {
    path(text)?;
    if text.starts_with('/') {
        return Err(format!("must be relative to the workspace, not {}", quoted(text)));
    }
    if text.split('/').any(|part| part == "..") {
        return Err(format!("must stay inside the workspace, without \"..\": {}", quoted(text)));
    }
    if text.split('/').all(|part| part.is_empty() || part == ".") {
        return Err(format!("must name something inside the workspace, not {}", quoted(text)));
    }
    Ok(())
}

/// A glob over paths inside the workspace, in the policy's dialect: `*` stays within one folder.
pub fn glob(text: &str) -> Result<(), String> {
    inner_path(text)?;
    if text.starts_with('!') {
        return Err(format!(
            "must be a glob without \"!\", which means nothing here: {}",
            quoted(text)
        ));
    }
    globset::GlobBuilder::new(text)
        .literal_separator(true)
        .build()
        .map(|_| ())
        .map_err(|error| format!("is no valid glob: {}: {}", quoted(text), error.kind()))
}

/// A file that must exist: one path, for no glob can be told from what it matches.
pub fn required_file(text: &str) -> Result<(), String> {
    inner_path(text)?;
    if text.contains(['*', '?']) {
        return Err(format!("must name one file, not a pattern: {}", quoted(text)));
    }
    Ok(())
}

/// A glob over names of tools, in which `*` stands for any text. Which tools there are is known where
/// they are made, not here.
pub fn tool_names(text: &str) -> Result<(), String> {
    let fits = (1..=200).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-*".contains(c));
    if fits {
        return Ok(());
    }
    Err(format!(
        "must be the name of a tool, in which \"*\" stands for any text, not {}",
        quoted(text)
    ))
}

/// A letter or `_`, then letters, digits and `_`; at most 200.
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && text.len() <= 200 && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The name of a job: safe as a file name and in every report.
pub fn job_name(text: &str) -> Result<(), String> {
    let fits = (1..=100).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || ".-_".contains(c));
    if fits {
        return Ok(());
    }
    Err(format!(
        "must be 1 to 100 letters, digits, \".\", \"_\" or \"-\", the first a letter or digit, not {}",
        quoted(text)
    ))
}

/// An image or a container, as the engines write them. The first character keeps it from being read as
/// an option.
pub fn container_reference(text: &str) -> Result<(), String> {
    let fits = (1..=300).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-/:@+".contains(c));
    if fits {
        return Ok(());
    }
    Err(format!("must be a name such as registry.example.com/team/tools:1.2, not {}", quoted(text)))
}

/// `PROVIDER/NAME`. Which providers exist is known where they are built, not here.
pub fn model_name(text: &str) -> Result<ModelName, String> {
    let fault = || format!("must be PROVIDER/NAME, not {}", quoted(text));
    let (provider, name) = text.split_once('/').ok_or_else(fault)?;
    let provider_fits = provider.starts_with(|c: char| c.is_ascii_lowercase())
        && provider.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    let name_fits = !name.is_empty() && !name.chars().any(|c| c.is_control() || c.is_whitespace());
    if provider_fits && name_fits && text.len() <= 4096 {
        return Ok(ModelName { provider: provider.to_owned(), name: name.to_owned() });
    }
    Err(fault())
}

/// An http or https address without user, query or fragment. User data is refused because the
/// address is written into every record; the text is left out of that message for the same reason.
pub fn url(text: &str) -> Result<(), String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let Some(rest) = rest else {
        return Err("must begin with https:// or http://".into());
    };
    if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
        return Err("must be an address without spaces, control characters and \"\\\"".into());
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("must not hold a user name or password".into());
    }
    if rest.contains(['?', '#']) {
        return Err("must not hold a query (\"?\") or fragment (\"#\")".into());
    }
    let (host, port) = split_port(authority);
    if host.is_empty() || port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return Err(format!(
            "must name a host, and a port from 0 to 65535 if any, not {}",
            quoted(text)
        ));
    }
    Ok(())
}

/// Host and port; the colons of an address in brackets are its own.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    let after_bracket = authority.rfind(']').map_or(0, |end| end + 1);
    match authority.get(after_bracket..).and_then(|tail| tail.find(':')) {
        Some(colon) => {
            let (host, port) = authority.split_at(after_bracket + colon);
            (host, port.strip_prefix(':'))
        }
        None => (authority, None),
    }
}

/// A command of the operator's own.
pub fn command(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("must be a command, not an empty text".into());
    }
    if text.contains('\0') {
        return Err("holds a NUL".into());
    }
    if text.len() > 64 * 1024 {
        return Err(format!(
            "has {} bytes; a command has 65536 at most: put it into a script",
            text.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_stay_inside() {
        for good in ["a", "a/b.txt", ".github/x", "a..b", "app/[id]/page.tsx", "./a"] {
            assert_eq!(inner_path(good), Ok(()), "{good}");
        }
        for bad in ["", " ", "/etc", "..", "a/../b", "a/..", ".", "./", "a\nb", "~/x", "//"] {
            assert!(inner_path(bad).is_err(), "{bad:?}");
        }
        assert!(required_file("dist/*.gz").is_err());
        assert_eq!(required_file("app/[id]/page.tsx"), Ok(()));
    }

    #[test]
    fn globs() {
        for good in ["tests/**", ".github/**", "*.lock", "{a,b}/c"] {
            assert_eq!(glob(good), Ok(()), "{good}");
        }
        for bad in ["a{b", "[", "!a", "/abs/**", "../**"] {
            assert!(glob(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn model_names() {
        let name = model_name("openai/org/gpt-5.5:free").unwrap();
        assert_eq!((name.provider.as_str(), name.name.as_str()), ("openai", "org/gpt-5.5:free"));
        for bad in ["gpt-5", "/x", "openai/", "Open AI/x", "openai/a b", "OPENAI/x"] {
            assert!(model_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        for good in [
            "https://api.example.com/v1",
            "http://127.0.0.1:8080/v1",
            "http://[::1]:80",
            "https://h/a@b",
        ] {
            assert_eq!(url(good), Ok(()), "{good}");
        }
        for bad in [
            "api.example.com",
            "ftp://x",
            "https://",
            "https://:80",
            "https://u:p@h/",
            "https://h?x=1",
            "https://h:99999",
            "https://h/\u{7}",
            "https://h\\@evil/",
        ] {
            assert!(url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pasted_secret_is_not_repeated() {
        let text = url("https://u:hunter2@h/").unwrap_err();
        assert!(!text.contains("hunter2"), "{text}");
    }
}
