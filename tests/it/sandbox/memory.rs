//! `command_limits.memory` and what lies in memory files.

use super::{MODEL, SETS, has_namespaces, place, policy, run};

/// Each holds 96 MiB for a while; what is ended says nothing more.
const WAYS: &[(&str, &str)] = &[
    ("memfd", "fd = os.memfd_create('m'); [os.write(fd, block) for _ in range(96)]"),
    ("shared mapping", "m = mmap.mmap(-1, 96 << 20); [m.write(block) for _ in range(96)]"),
    (
        "closed memfd",
        "fd = os.memfd_create('m'); [os.write(fd, block) for _ in range(96)]\nm = mmap.mmap(fd, 96 << 20); os.close(fd); sum(m[::4096])",
    ),
    (
        "half and half",
        "fd = os.memfd_create('m'); [os.write(fd, block) for _ in range(48)]\nm = mmap.mmap(-1, 48 << 20); [m.write(block) for _ in range(48)]",
    ),
];

/// What only namespaces give a command, and what is counted there.
const IN_NAMESPACES: &[(&str, &str)] = &[
    (
        "own /dev/shm",
        "f = open('/dev/shm/x', 'wb'); [f.write(block) for _ in range(96)]; f.close()",
    ),
    (
        "a segment that nobody has attached",
        "libc = ctypes.CDLL(None); libc.shmat.restype = ctypes.c_void_p\ns = libc.shmget(0, 96 << 20, 0o1600); at = libc.shmat(s, None, 0)\nctypes.memset(at, 1, 96 << 20); libc.shmdt(ctypes.c_void_p(at))",
    ),
];

/// One mapping of 60 MiB that five processes have touched: counted once.
const SHARED: &str = "import mmap, os, time\nm = mmap.mmap(-1, 60 << 20)\nblock = b'x' * (1 << 20)\n[m.write(block) for _ in range(60)]\nchildren = []\nfor _ in range(4):\n    pid = os.fork()\n    if pid == 0:\n        sum(m[::4096]); time.sleep(0.7); os._exit(0)\n    children.append(pid)\n[os.waitpid(pid, 0) for pid in children]\nprint('done')\n";

fn limited(set: &str, mib: u32) -> String {
    format!("{}command_limits: {{ memory: {mib}MiB }}\n", policy(set, ""))
}

#[test]
fn memory_files_count_against_the_limit_however_they_are_held() {
    for set in SETS {
        let more = if set.is_empty() && has_namespaces() { IN_NAMESPACES } else { &[] };
        for (name, way) in WAYS.iter().chain(more) {
            let text = format!(
                "import ctypes, mmap, os, time\nblock = b'x' * (1 << 20)\n{way}\ntime.sleep(5)\nprint('held')\n"
            );
            let place = place(&limited(set, 64), &[("a.py", &text)]);
            let done = run(&place, &MODEL).finish();
            let told = &done.outputs()[0];
            assert!(told.contains("more than 64 MiB of memory"), "{set:?} {name}: {told}");
            assert!(!told.contains("held"), "{set:?} {name}: {told}");
        }
    }
}

#[test]
fn what_processes_share_counts_once() {
    for set in SETS {
        let place = place(&limited(set, 250), &[("a.py", SHARED)]);
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        assert!(done.outputs()[0].contains("done"), "{set:?}: {}", done.outputs()[0]);
    }
}
