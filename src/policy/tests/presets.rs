//! Every preset reads without a fault, and does what its head says.

use super::*;
use crate::policy::source::PRESETS;

#[test]
fn every_preset_reads_and_compiles() {
    for preset in PRESETS {
        let policy = policy(&format!("version: 1\nuse: [{}]\n", preset.name));
        assert!(policy.offers_commands(), "{}", preset.name);
        assert!(preset.text.starts_with('#'), "{} says what it is for", preset.name);
    }
    let all: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
    policy(&format!("version: 1\nuse: [{}]\n", all.join(", ")));
}
