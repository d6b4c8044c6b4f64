//! Reading policy files: the main file, the files and presets it uses, and every fault at once.

mod check;
mod load;
mod parts;
mod read;
mod rule;

pub use load::load;

/// A preset that ships in the binary.
pub struct Preset {
    pub name: &'static str,
    pub text: &'static str,
}

/// Every preset, in the order they are listed to people.
pub const PRESETS: &[Preset] = &[
    Preset { name: "inspect", text: include_str!("../presets/inspect.yaml") },
    Preset { name: "git-read", text: include_str!("../presets/git-read.yaml") },
    Preset { name: "git-commit", text: include_str!("../presets/git-commit.yaml") },
    Preset { name: "edit", text: include_str!("../presets/edit.yaml") },
    Preset { name: "rust", text: include_str!("../presets/rust.yaml") },
    Preset { name: "node", text: include_str!("../presets/node.yaml") },
    Preset { name: "python", text: include_str!("../presets/python.yaml") },
    Preset { name: "go", text: include_str!("../presets/go.yaml") },
    Preset { name: "java", text: include_str!("../presets/java.yaml") },
    Preset { name: "make", text: include_str!("../presets/make.yaml") },
];

/// The text of a preset.
pub fn preset(name: &str) -> Option<&'static str> {
    PRESETS.iter().find(|preset| preset.name == name).map(|preset| preset.text)
}
