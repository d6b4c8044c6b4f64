//! The few settings of a repository that say what its bytes mean.
//!
//! Only what is needed to read: the hash, the form of the refs, and whether git would have changed
//! bytes on their way to the work tree. Nothing that runs or writes is looked at.

use super::ObjectFormat;

/// What the repository's own config says about reading it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) format: ObjectFormat,
    /// Refs live in a binary table that is not read here.
    pub(crate) reftable: bool,
    /// Line endings may differ between blob and work tree.
    pub(crate) converts: bool,
}

/// Read config text in git's format; what is not understood is passed over.
pub(crate) fn parse(text: &[u8]) -> Settings {
    let mut settings = Settings::default();
    let mut section = String::new();
    for line in text.split(|byte| *byte == b'\n') {
        let line = String::from_utf8_lossy(line);
        let mut line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let Some((name, after)) = rest.split_once(']') else { continue };
            section = name.trim().to_ascii_lowercase();
            line = after.trim();
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        apply(&mut settings, &section, &key.trim().to_ascii_lowercase(), &bare(value));
    }
    settings
}

fn apply(settings: &mut Settings, section: &str, key: &str, value: &str) {
    match (section, key) {
        ("extensions", "objectformat") if value == "sha256" => {
            settings.format = ObjectFormat::Sha256;
        }
        ("extensions", "refstorage") => settings.reftable = value != "files",
        ("core", "autocrlf") => settings.converts |= value != "false" && value != "0",
        ("core", "eol") => settings.converts |= value == "crlf",
        // An included file may set any of these: take it that it does.
        (section, "path") if section == "include" || section.starts_with("includeif") => {
            settings.converts = true;
        }
        _ => {}
    }
}

/// A value without its comment and quotes, in lower case.
fn bare(value: &str) -> String {
    let value = value.split(['#', ';']).next().unwrap_or_default();
    value.trim().trim_matches('"').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_matter_are_found() {
        let sha1 = Settings::default();
        let cases: [(&str, Settings); 7] = [
            ("", sha1),
            ("[core]\n\tautocrlf = false\n", sha1),
            ("[core]\n\tautocrlf = input # yes\n", Settings { converts: true, ..sha1 }),
            ("[CORE] AutoCRLF\n", Settings { converts: true, ..sha1 }),
            ("[include]\npath = ../x\n", Settings { converts: true, ..sha1 }),
            (
                "[extensions]\n\tobjectFormat = \"sha256\"\n",
                Settings { format: ObjectFormat::Sha256, ..sha1 },
            ),
            ("[extensions]\nrefStorage=reftable", Settings { reftable: true, ..sha1 }),
        ];
        for (text, want) in cases {
            assert_eq!(parse(text.as_bytes()), want, "{text:?}");
        }
    }
}
