//! Modes, owners, times and attributes: what a command may change of them, and what not.

use super::{MODEL, SETS, grade, place, policy, run};
use crate::support::without;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// Every form of every call, on a file outside that may be read; and what must work inside.
const TRIES: &str = r#"
import ctypes, os, socket, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    ctypes.set_errno(0)
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def tell(what, call):
    try:
        call(); print(what, "works")
    except OSError as error:
        print(what, "errno", error.errno)

def forms(where, target):
    name = target.encode()
    own = (os.getuid(), os.getgid())
    held = os.open(target, os.O_RDONLY)
    print(where)
    tell("chmod", lambda: os.chmod(target, 0o751))
    tell("fchmod", lambda: os.fchmod(held, 0o751))
    tell("chown", lambda: os.chown(target, *own))
    tell("lchown", lambda: os.lchown(target, *own))
    tell("fchown", lambda: os.fchown(held, *own))
    tell("utime", lambda: os.utime(target, (1, 1)))
    tell("lutime", lambda: os.utime(target, (1, 1), follow_symlinks=False))
    tell("futime", lambda: os.utime(held, ns=(2, 1_000_000_005)))
    tell("touch", lambda: call("utimes", name, None))
    tell("by folder", lambda: os.chmod(os.path.basename(target), 0o751,
        dir_fd=os.open(os.path.dirname(target), os.O_RDONLY)))
    tell("by descriptor", lambda: os.chmod(f"/dev/fd/{held}", 0o751))
    for xattr in ["user.one", "user.two"]:
        tell("setxattr", lambda: os.setxattr(target, xattr, b"value"))
    tell("fsetxattr", lambda: os.setxattr(held, "user.three", b"value"))
    tell("removexattr", lambda: os.removexattr(target, "user.one"))
    tell("fremovexattr", lambda: os.removexattr(held, "user.two"))
    os.close(held)
    print("end of", where)

top = os.getcwd()
forms("outside", os.path.join(os.path.dirname(top), "foreign"))
open("mine", "w").close()
forms("inside", os.path.join(top, "mine"))
print("mode %o" % os.stat("mine").st_mode, "attributes", sorted(os.listxattr("mine")))

print("errors")
tell("gone", lambda: os.chmod("gone", 0o700))
tell("empty", lambda: os.chmod("", 0o700))
tell("no descriptor", lambda: os.fchmod(999, 0o700))
tell("no folder", lambda: os.chmod("mine/x", 0o700))
tell("long", lambda: os.chmod("x" * 5000, 0o700))
tell("no memory", lambda: call("chmod", ctypes.c_void_p(8), 0o700))
tell("no attribute", lambda: os.removexattr("mine", "user.none"))
tell("create only", lambda: os.setxattr("mine", "user.three", b"x", os.XATTR_CREATE))
print("end of errors")

print("odd ones")
os.mkfifo("fifo"); tell("fifo", lambda: os.chmod("fifo", 0o640))
os.symlink("mine", "link"); tell("link's time", lambda: os.utime("link", (5, 5), follow_symlinks=False))
print("time", os.lstat("link").st_mtime, os.stat("mine").st_mtime != 5)
os.mkdir("folder"); tell("folder", lambda: os.chmod("folder", 0o2775))
r, w = os.pipe(); tell("pipe", lambda: os.fchmod(w, 0o600))
a, b = socket.socketpair(); tell("socket", lambda: os.fchmod(a.fileno(), 0o600))
m = os.memfd_create("m"); tell("memfd", lambda: os.fchmod(m, 0o600))
t = tempfile.TemporaryFile(); tell("unlinked", lambda: os.fchmod(t.fileno(), 0o640))
deep = "/".join(["d" * 200] * 15); os.makedirs(deep); tell("deep", lambda: os.chmod(deep, 0o700))
os.chdir("folder"); open("x", "w").close(); tell("relative", lambda: os.chmod("./../folder/x", 0o600))
print("end of odd ones")
"#;

/// What was told between two marks.
fn section<'a>(told: &'a str, name: &str) -> &'a str {
    let (_, rest) = told.split_once(&format!("\n{name}\n")).unwrap_or_else(|| panic!("{told}"));
    rest.split_once(&format!("end of {name}")).unwrap_or_else(|| panic!("{told}")).0
}

#[test]
fn modes_owners_times_and_attributes_are_held_outside_and_free_inside() {
    for set in SETS {
        let place = place(&policy(set, ""), &[("a.py", TRIES)]);
        place.write("foreign", "x");
        fs::set_permissions(place.path("foreign"), fs::Permissions::from_mode(0o640)).unwrap();
        let text = place.read("policy.yaml");
        let readable = format!("read: [\"**\", \"{}/**\"]", place.path("").display());
        place.write("policy.yaml", text.replace("read: [\"**\"]", &readable));
        let look = || fs::metadata(place.path("foreign")).unwrap();
        let before = look();
        let done = run(&place, &MODEL).finish();
        done.assert(0, "completed", "completed");
        let told = &done.outputs()[0];
        assert_eq!(grade(&done, "files.metadata")["held"], "prevented", "{set:?}");
        let outside = section(told, "outside");
        assert!(!outside.contains("works"), "{set:?}: {outside}");
        // The mounts' answer, or the supervisor's.
        for line in outside.lines() {
            assert!(line.ends_with("errno 1") || line.ends_with("errno 30"), "{set:?}: {line}");
        }
        let after = look();
        let state = |meta: &fs::Metadata| (meta.mode(), meta.ctime(), meta.ctime_nsec());
        assert_eq!(state(&after), state(&before), "{set:?}: {outside}");
        let inside = section(told, "inside");
        assert!(!inside.contains("errno"), "{set:?}: {inside}");
        let seen = "mode 100751 attributes ['user.three']";
        assert!(told.contains(seen), "{set:?}: {told}");
        let errors = section(told, "errors");
        for (what, errno) in [
            ("gone", 2),
            ("empty", 2),
            ("no descriptor", 9),
            ("no folder", 20),
            ("long", 36),
            ("no memory", 14),
            ("no attribute", 61),
            ("create only", 17),
        ] {
            assert!(
                errors.contains(&format!("{what} errno {errno}\n")),
                "{set:?} {what}: {errors}"
            );
        }
        let odd = section(told, "odd ones");
        assert!(!odd.contains("errno") && odd.contains("time 5.0 True"), "{set:?}: {odd}");
    }
}

/// As in a container whose filter refuses what the supervisor would rather use.
#[test]
fn the_supervisor_works_also_where_its_shorter_ways_are_refused() {
    let tries = "import os\nopen('mine', 'w').close()\nos.chmod('mine', 0o751)\nos.chmod(os.path.abspath('mine'), 0o751)\nos.utime('mine', (5, 5))\nos.setxattr('mine', 'user.one', b'value')\nprint('mode %o' % os.stat('mine').st_mode, os.stat('mine').st_mtime, os.listxattr('mine'))\ntry:\n    os.chmod('../foreign', 0o777)\nexcept OSError as error:\n    print('foreign', error.errno)\n";
    let place = place(&policy(SETS[1], ""), &[("a.py", tries)]);
    place.write("foreign", "x");
    let mode = || fs::metadata(place.path("foreign")).unwrap().mode();
    let before = mode();
    let mut started = run(&place, &MODEL);
    without(&mut started, &[libc::SYS_process_vm_readv, 452, libc::SYS_pidfd_getfd]);
    let done = started.finish();
    done.assert(0, "completed", "completed");
    let told = &done.outputs()[0];
    assert!(told.contains("mode 100751 5.0 ['user.one']"), "{told}");
    assert!(told.contains("foreign 1") && mode() == before, "{told}");
}

#[test]
fn on_the_floor_protected_places_keep_their_metadata_and_no_file_gets_another_identity() {
    let tries = "chmod 777 .git/config; touch -d @1 .git/config; chmod u+s mine; chmod g+s folder && echo folder works; touch -d @1 new && echo times work\n";
    let place = place(&policy(SETS[1], "accept: [reverted]"), &[("a.sh", tries)]);
    place.write("ws/mine", "x");
    fs::create_dir(place.path("ws/folder")).unwrap();
    place.git_init(&place.path("ws"));
    let done = run(&place, &MODEL).finish();
    let told = &done.outputs()[0];
    assert_eq!(told.matches("Operation not permitted").count(), 3, "{told}");
    assert!(told.contains("folder works") && told.contains("times work"), "{told}");
    assert!(!told.contains("put back"), "nothing had to be: {told}");
    assert_eq!(fs::metadata(place.path("ws/mine")).unwrap().mode() & 0o6000, 0);
}
