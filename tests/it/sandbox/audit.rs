//! Landlock's own log of what it refused, where this machine's runner may hear it.

use super::{MODEL, SETS, place, policy, run};
use crate::support::Run;
use serde_json::Value;

/// It complains, and does not say of what.
const SILENT: &str = "import os, sys\nos.path.exists('/root')\ntry:\n    open('../outside', 'w')\nexcept OSError:\n    sys.exit('Permission denied')\n";
/// It meets a refusal and does without.
const CONTENT: &str =
    "try:\n    open('../outside', 'w')\nexcept OSError:\n    print('never mind')\n";

#[test]
fn what_a_command_does_not_name_landlock_does() {
    let place = place(&policy(SETS[1], ""), &[("a.py", SILENT), ("b.py", CONTENT)]);
    let asked = Run::new(&place, &["doctor", "-C", "ws", "--json"]).finish();
    let found: Value = serde_json::from_str(&asked.stdout).unwrap();
    let done = run(&place, &MODEL).finish();
    done.assert(0, "completed", "completed");
    let told = done.outputs();
    assert!(told[0].contains("Permission denied") && told[1].contains("never mind"), "{told:?}");
    assert!(!told[1].contains("[sandbox:"), "what did no harm is not told: {}", told[1]);
    if found["landlock_audit"] == false {
        println!("SKIPPED in part: {}", found["landlock_audit_why_not"]);
        assert!(!told[0].contains("[sandbox:"), "nothing is guessed: {}", told[0]);
        return;
    }
    let folder = place.path("").canonicalize().unwrap();
    let line = format!("making or removing something in {} was refused", folder.display());
    assert!(told[0].contains(&line) && told[0].contains("files.write"), "{}", told[0]);
}
