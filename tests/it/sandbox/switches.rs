//! The switches of the policy, by the real calls: refused without, at work with, and said.

use super::{MODEL, SETS, grade, has_namespaces, place, policy, run};
use std::fs;
use std::os::unix::fs::PermissionsExt;

#[test]
fn io_uring_is_there_only_by_its_switch_which_lets_sockets_past_the_filter() {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    if disabled.is_ok_and(|text| text.trim() != "0") {
        println!("SKIPPED: this machine has io_uring switched off");
        return;
    }
    let sets_up = "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\ngot = libc.syscall(425, 4, ctypes.create_string_buffer(256))\nprint('io_uring', 'works' if got >= 0 else os.strerror(ctypes.get_errno()))\n";
    for set in SETS {
        let held = place(&policy(set, ""), &[("a.py", sets_up)]);
        let done = run(&held, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        assert!(told.contains("io_uring Operation not permitted"), "{set:?}: {told}");
        // What the switch costs is more than `require` takes.
        let text = policy(set, "allow_io_uring: true");
        let refused = place(&text, &[("a.py", sets_up)]);
        let done = run(&refused, &MODEL).finish();
        done.assert(20, "unavailable", "sandbox.not_held");
        assert!(done.stderr.contains("allow_io_uring lets it past the filter"), "{}", done.stderr);
        let text = text.replace("mode: require", "mode: best-effort");
        let open = place(&text, &[("a.py", sets_up)]);
        let done = run(&open, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        assert!(told.contains("io_uring works"), "{set:?}: {told}");
        for clause in ["network", "sockets"] {
            assert_eq!(grade(&done, clause)["held"], "not_held", "{set:?} {clause}");
        }
        let by_mounts = set.is_empty() && has_namespaces();
        let metadata = if by_mounts { "prevented" } else { "not_held" };
        assert_eq!(grade(&done, "files.metadata")["held"], metadata, "{set:?}");
    }
}

#[test]
fn user_namespaces_are_there_only_by_their_switch_and_lead_nowhere() {
    let tries = r#"
import subprocess
def tell(what, *words):
    done = subprocess.run(["unshare", "--user", *words], capture_output=True, text=True)
    print(what, "works" if done.returncode == 0 else done.stderr.strip())
tell("user", "true")
tell("network", "--net", "true")
tell("map", "--map-root-user", "true")
tell("mount", "--mount", "--propagation", "unchanged", "mount", "-t", "tmpfs", "none", "/mnt")
tell("read", "cat", "../secret")
tell("write", "sh", "-c", "echo evil > ../outside")
tell("chmod", "chmod", "777", "../foreign")
tell("chmod in another root", "python3", "-c", "import os; os.chroot('..'); os.chmod('/foreign', 0o777)")
"#;
    let has = std::process::Command::new("unshare").args(["--user", "true"]).status();
    if !has.is_ok_and(|status| status.success()) {
        println!("SKIPPED: no user namespace can be made here");
        return;
    }
    for set in SETS {
        for switch in ["", "allow_user_namespaces: true"] {
            let place = place(&policy(set, switch), &[("a.py", tries)]);
            place.write("secret", "SECRET");
            place.write("foreign", "x");
            let foreign = place.path("foreign");
            fs::set_permissions(&foreign, fs::Permissions::from_mode(0o640)).unwrap();
            let done = run(&place, &MODEL).finish();
            done.assert(0, "completed", "completed");
            let told = &done.outputs()[0];
            for what in ["user", "network"] {
                let works = told.contains(&format!("{what} works"));
                assert_eq!(works, !switch.is_empty(), "{set:?} {switch:?} {what}: {told}");
            }
            // An id map is written in /proc, which no command writes to.
            for what in ["map", "mount", "read", "write", "chmod", "chmod in another root"] {
                assert!(!told.contains(&format!("{what} works")), "{set:?} {switch:?}: {told}");
            }
            assert!(!told.contains("SECRET") && !place.exists("outside"), "{set:?}: {told}");
            let mode = fs::metadata(&foreign).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o640, "{set:?} {switch:?}: {told}");
            assert_eq!(grade(&done, "files.metadata")["held"], "prevented", "{set:?} {switch:?}");
        }
    }
}
