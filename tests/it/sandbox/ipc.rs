//! System V objects and message queues: the command's own with namespaces, and without them only where
//! the policy says so.

use super::{MODEL, SETS, grade, has_namespaces, place, policy, run};

const TRIES: &str = r#"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def tell(what, *args):
    ctypes.set_errno(0)
    got = getattr(libc, what)(*args)
    error = "" if got >= 0 else f": {os.strerror(ctypes.get_errno())}"
    print(what, "works" if got >= 0 else "fails" + error)
    return got
segment = tell("shmget", 0, 4096, 0o1600)
libc.shmctl(segment, 0, None)
libc.msgctl(tell("msgget", 0, 0o1600), 0, None)
libc.semctl(tell("semget", 0, 1, 0o1600), 0, 0, 0)
"#;

#[test]
fn shared_objects_need_namespaces_or_the_policys_word() {
    for set in SETS {
        for switch in ["", "allow_sysv_ipc: true"] {
            let place = place(&policy(set, switch), &[("a.py", TRIES)]);
            let done = run(&place, &MODEL).finish();
            done.assert(0, "completed", "completed");
            let told = &done.outputs()[0];
            let apart = set.is_empty() && has_namespaces();
            let works = apart || !switch.is_empty();
            for call in ["shmget", "msgget", "semget"] {
                let expected = match works {
                    true => format!("{call} works"),
                    false => format!("{call} fails: Function not implemented"),
                };
                assert!(told.contains(&expected), "{set:?} {switch:?} {call}: {told}");
            }
            assert_eq!(
                told.contains("sandbox.allow_sysv_ipc"),
                !works,
                "{set:?} {switch:?}: {told}"
            );
            let held = if apart || switch.is_empty() { "prevented" } else { "not_held" };
            assert_eq!(grade(&done, "ipc")["held"], held, "{set:?} {switch:?}");
        }
    }
}
