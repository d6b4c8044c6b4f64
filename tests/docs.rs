//! The reference in `docs/` is made from the tables that the program itself uses, so that the numbers
//! people read are the numbers that run. `UPDATE_DOCS=1 cargo test --test docs` writes it anew.

use std::fs;
use std::path::{Path, PathBuf};
use turnkey::spec::{defaults, reference};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// Text in a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn spec_reference() -> String {
    let mut text = String::from(
        "# The task spec\n\nMade from the program's own tables; `turnkey spec schema` prints the same as JSON Schema\n\
         (put `# yaml-language-server: $schema=FILE` in the first line of a spec to have an editor check it),\n\
         `turnkey spec check FILE` names every fault with file, line and column. Precedence: flag, then\n\
         `TURNKEY_MODEL`, `TURNKEY_BASE_URL`, `TURNKEY_OUTPUT`, `TURNKEY_COLOR`, then the spec, then the default.\n\
         Relative paths are relative to the spec file.\n\n\
         | key | type | default | flag | meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    for row in reference() {
        let flag = row.flag.map(|flag| format!("`{flag}`")).unwrap_or_default();
        let default =
            row.default.clone().map(|text| format!("`{}`", cell(&text))).unwrap_or_default();
        let later = if row.supported { "" } else { " (not supported yet)" };
        text.push_str(&format!(
            "| `{}` | {} | {default} | {flag} | {}{later} |\n",
            row.path,
            cell(&row.value),
            cell(row.about)
        ));
    }
    text.push_str("\n## Every default\n\n| what | value | changeable | meaning |\n| --- | --- | --- | --- |\n");
    for row in defaults::table() {
        let changeable = if row.fixed { "no" } else { "yes" };
        text.push_str(&format!(
            "| `{}` | `{}` | {changeable} | {} |\n",
            row.key,
            cell(&row.value),
            cell(row.about)
        ));
    }
    text
}

#[test]
fn the_spec_reference_is_what_the_program_uses() {
    let path = root().join("docs/spec.md");
    let made = spec_reference();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(made == written, "docs/spec.md is old: UPDATE_DOCS=1 cargo test --test docs");
}

/// Links between the pages must lead somewhere.
#[test]
fn links_in_the_pages_lead_somewhere() {
    let mut pages = vec![root().join("README.md"), root().join("ARCHITECTURE.md")];
    pages.extend(fs::read_dir(root().join("docs")).unwrap().flatten().map(|entry| entry.path()));
    let mut broken = Vec::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(page).unwrap();
        for part in text.split("](").skip(1) {
            let target = part.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            if !page.parent().unwrap().join(file).exists() {
                broken.push(format!("{}: {target}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:?}");
}

/// The README's two commands are what CI runs, word for word.
#[test]
fn the_readmes_commands_are_what_ci_runs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let ci = fs::read_to_string(root().join(".ci/run")).unwrap();
    let commands: Vec<&str> = readme
        .split("```sh\n")
        .skip(1)
        .map(|block| block.split("```").next().unwrap().trim())
        .filter(|block| block.starts_with("cargo "))
        .collect();
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in commands {
        assert!(ci.contains(command), "{command} is not in .ci/run");
    }
}

/// The five-line policy of the README must be a policy.
#[test]
fn the_readmes_policy_is_one() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for block in readme.split("```yaml\n").skip(1) {
        let yaml = block.split("```").next().unwrap();
        let parsed =
            turnkey::policy::PolicyFile::parse("README.md", yaml, &|name| Err(name.to_owned()));
        assert!(parsed.is_ok(), "{:?}\n{yaml}", parsed.err());
    }
}

/// Policies in the pages must be policies, their own tests included.
#[test]
fn policies_in_the_pages_are_policies() {
    let page = fs::read_to_string(root().join("docs/policy.md")).unwrap();
    let mut seen = 0;
    for block in page.split("```yaml\n").skip(1) {
        let yaml = block.split("```").next().unwrap();
        let parsed =
            turnkey::policy::PolicyFile::parse("policy.md", yaml, &|name| Err(name.to_owned()));
        assert!(parsed.is_ok(), "{:?}\n{yaml}", parsed.err());
        seen += 1;
    }
    assert!(seen > 0);
}

/// The hooks of their page must be those of a spec.
#[test]
fn the_hooks_of_their_page_are_hooks() {
    let page = fs::read_to_string(root().join("docs/hooks.md")).unwrap();
    let blocks: Vec<&str> = page.split("```yaml\n").skip(1).collect();
    assert_eq!(blocks.len(), 1);
    for block in blocks {
        let yaml = format!("version: 1\ntask: t\n{}", block.split("```").next().unwrap());
        let spec = turnkey::spec::parse("hooks.md", &yaml).unwrap_or_else(|f| panic!("{f:?}"));
        assert_eq!(turnkey::job::hook_faults(&spec), []);
    }
}
