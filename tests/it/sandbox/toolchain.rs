//! A real toolchain inside the sandbox.

use super::{SETS, policy};
use crate::support::{Run, Sandboxed, command, script};
use std::path::PathBuf;
use std::process::Command;

/// The folder of the real cargo and rustc, without the wrapper that may stand before them.
fn toolchain() -> Option<PathBuf> {
    let asked = Command::new("rustc").args(["--print", "sysroot"]).output().ok()?;
    let root = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    root.join("bin/cargo").exists().then_some(root)
}

#[test]
fn d54_cargo_check_works_offline_in_an_empty_home() {
    let Some(root) = toolchain() else {
        println!("SKIPPED: no cargo and rustc here");
        return;
    };
    for set in SETS {
        let text = policy(set, "")
            .replace("allow: [", "allow: [\"cargo check --offline\", \"sh look.sh\", ")
            .replace("read: [\"**\"", &format!("read: [\"**\", \"{}/**\"", root.display()));
        let place = Sandboxed::with_policy(&text);
        place.write(
            "ws/Cargo.toml",
            "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n",
        );
        place.write("ws/src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n");
        place.write(
            "ws/build.rs",
            "fn main() {\n    println!(\"cargo::rerun-if-changed=build.rs\");\n}\n",
        );
        place.write("ws/look.sh", "ls -A \"$HOME\"; mktemp && echo temp works; echo x > \"$HOME/.x\" && echo home works\n");
        place.write(
            "model.yaml",
            script(&[&command("sh look.sh"), &command("cargo check --offline")]),
        );
        let path = format!("{}/bin:/usr/local/bin:/usr/bin:/bin", root.display());
        let done =
            Run::exec(&place, &["--model", "scripted/model.yaml", "t"]).env("PATH", &path).finish();
        done.assert(0, "completed", "completed");
        let told = done.outputs();
        assert!(
            told[0].contains("temp works") && told[0].contains("home works"),
            "{set:?}: {}",
            told[0]
        );
        assert!(
            told[1].contains("exit code: 0") && told[1].contains("Finished"),
            "{set:?}: {}",
            told[1]
        );
        assert!(place.exists("ws/target/debug"), "{set:?}");
        assert!(
            !told[1].contains("denied") && !told[1].contains("not permitted"),
            "{set:?}: {}",
            told[1]
        );
    }
}
