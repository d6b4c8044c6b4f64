//! Who runs it: what root owns, the model's key in the runner, and users without a name.

use super::{MODEL, SETS, has_namespaces, place, policy, run};
use crate::support::{command, script};
use serde_json::Value;
use std::fs;

#[test]
fn what_root_owns_is_not_readable_because_of_that() {
    for set in SETS {
        let place = place(
            &policy(set, ""),
            &[(
                "a.py",
                r#"
import os, stat
opened = []
def look(path):
    try:
        open(path, "rb").read(1); opened.append(path)
    except OSError:
        pass
for name in ["/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/docker/daemon.json", "/proc/kcore", "/proc/1/environ", "/var/lib/docker/x", "/sys/kernel/debug", "/root/.bashrc", "/run/docker.sock"]:
    look(name)
for name in os.listdir("/dev"):
    path = "/dev/" + name
    try:
        mode = os.stat(path).st_mode
    except OSError:
        continue
    harmless = ["null", "zero", "full", "random", "urandom", "tty"]
    if name not in harmless and (stat.S_ISBLK(mode) or name in ["mem", "kmsg", "port", "kvm", "fuse"]):
        look(path)
print("opened", opened, "end", len(open("/etc/passwd").read()) > 0)
"#,
            )],
        );
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        assert!(done.outputs()[0].contains("opened [] end True"), "{set:?}: {}", done.outputs()[0]);
    }
}

#[test]
fn the_models_key_is_wiped_from_the_runners_own_block_and_it_dumps_no_core() {
    use crate::support::model_server::{Reply, Server};
    let key = "sk-test-key-of-the-model-0123456789";
    let place = place(&policy("", ""), &[]);
    let server = Server::start([Reply::never_answer()]);
    let base = server.base_url();
    let args = ["--model", "openai/m", "--base-url", &base, "--timeout", "20s", "t"];
    let running = run(&place, &args).env("OPENAI_API_KEY", key).start();
    crate::support::eventually("the request is there", || server.request_count() > 0);
    let pid = running.child.id();
    // Readable for the root of this machine only: the runner is not dumpable.
    match fs::read(format!("/proc/{pid}/environ")) {
        Ok(block) => {
            let text = String::from_utf8_lossy(&block).into_owned();
            assert!(text.contains("HOME="), "it is the runner's block: {text}");
            assert!(!text.contains(key), "{text}");
        }
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
    let sent = server.requests()[0].headers.iter().any(|(_, value)| value.contains(key));
    assert!(sent, "the key was used");
    running.signal("TERM");
    running.wait(std::time::Duration::from_secs(10)).assert(143, "interrupted", "interrupted");
}

/// Whether tests can become another user here.
fn can_become_another_user() -> bool {
    // SAFETY: cannot fail.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        println!("SKIPPED: only root can become another user");
    }
    root
}

#[test]
fn d10_d48_any_user_without_a_name_gets_the_same_walls() {
    use std::os::unix::process::CommandExt;
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 10001;
    let tries = "id -u; echo yes > inside; echo no > ../outside; cat ../secret; exec 3<>/dev/tcp/127.0.0.1/9; echo end\n";
    for set in SETS {
        let text = policy(set, "").replace("\"sh a.sh\"", "\"bash a.sh\"");
        let place = place(&text, &[("a.sh", tries)]);
        place.write("model.yaml", script(&[&command("bash a.sh")]));
        place.write("secret", "SECRET");
        let owned = std::process::Command::new("chown")
            .args(["-R", &format!("{USER}:{USER}")])
            .arg(place.path(""))
            .status();
        assert!(owned.unwrap().success());
        // The binary that cargo built may lie where only root can go.
        let binary = place.path("turnkey");
        crate::support::copied_binary(&binary);
        let args: Vec<std::ffi::OsString> =
            run(&place, &MODEL).command().get_args().map(Into::into).collect();
        let done = std::process::Command::new(&binary)
            .args(args)
            .current_dir(place.path(""))
            .env_clear()
            .env("HOME", place.path("home"))
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .uid(USER)
            .gid(USER)
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{set:?}: {shown}");
        let result: Value = serde_json::from_str(&place.read("out/result.json")).unwrap();
        let rollout = place.read("out/rollout.jsonl");
        assert!(place.exists("ws/inside") && !place.exists("outside"), "{set:?}: {shown}");
        assert!(rollout.contains("10001") && !rollout.contains("SECRET"), "{set:?}");
        let grades = result["sandbox"].to_string();
        if set.is_empty() && has_namespaces() {
            assert!(!grades.contains("without them"), "a user namespace was had: {grades}");
        }
    }
}
