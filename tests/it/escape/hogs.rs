//! Attacks that take more than a command may have. Each is bounded by itself.

use super::{Targets, Ways};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::FromRawFd;
use std::time::Duration;
use std::{fs, io};

/// Processes that the fork bomb starts at the most, and how long each of them lives.
const FORKS: usize = 200;
const FORK_LIFE: Duration = Duration::from_secs(2);
/// The hog: so many processes with so many MiB each.
const HOGS: usize = 4;
const HOG_MIB: usize = 100;
/// The filler writes so many MiB.
const FILL_MIB: usize = 32;

/// Starts processes, at the most [`FORKS`], that do nothing and end soon.
pub fn fork_bomb(_: &Targets, ways: &mut Ways) {
    let mut started = 0;
    for _ in 0..FORKS {
        // SAFETY: the child only sleeps and leaves.
        unsafe {
            match libc::fork() {
                0 => {
                    std::thread::sleep(FORK_LIFE);
                    libc::_exit(0);
                }
                -1 => break,
                _ => started += 1,
            }
        }
    }
    let limit = FORKS;
    std::thread::sleep(FORK_LIFE / 2);
    if started == limit {
        ways.tried(&format!("{started} processes"), Ok(()));
    } else {
        ways.tried("fork", Err::<(), _>(io::Error::other(format!("stopped at {started}"))));
    }
}

/// Several processes that together hold [`HOGS`] × [`HOG_MIB`] MiB for a moment.
pub fn memory_hog(_: &Targets, ways: &mut Ways) {
    let mut children = Vec::new();
    for _ in 0..HOGS {
        // SAFETY: the child fills memory of its own, holds it for a moment and leaves.
        unsafe {
            match libc::fork() {
                0 => {
                    let size = HOG_MIB << 20;
                    let (prot, flags) = (
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                    );
                    let at = libc::mmap(std::ptr::null_mut(), size, prot, flags, -1, 0);
                    if at == libc::MAP_FAILED {
                        libc::_exit(1);
                    }
                    for page in (0..size).step_by(4096) {
                        at.cast::<u8>().add(page).write(1);
                    }
                    std::thread::sleep(FORK_LIFE);
                    libc::_exit(0);
                }
                pid => children.push(pid),
            }
        }
    }
    let mut held = 0;
    for pid in children {
        let mut status = 0;
        // SAFETY: waits for a child of ours.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        held += usize::from(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
    }
    match held == HOGS {
        true => ways.tried(&format!("{} MiB", HOGS * HOG_MIB), Ok(())),
        false => ways.tried("hold", Err::<(), _>(io::Error::other(format!("{held} of {HOGS}")))),
    }
}

/// The same in memory files, half of them mapped and closed, by processes that let nobody look at them.
pub fn memory_files(_: &Targets, ways: &mut Ways) {
    let mut kept = Vec::new();
    let block = vec![1u8; 1 << 20];
    // SAFETY: no pointers but a name; new descriptors are owned at once; what is mapped stays so.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0);
        for number in 0..HOGS {
            let fd = libc::memfd_create(c"hog".as_ptr(), 0);
            if fd < 0 {
                return ways.call("memfd_create", fd);
            }
            let mut file = File::from_raw_fd(fd);
            for _ in 0..HOG_MIB {
                if let Err(error) = file.write_all(&block) {
                    return ways.tried("write", Err::<(), _>(error));
                }
            }
            if number % 2 == 0 {
                kept.push(file);
                continue;
            }
            let (size, prot) = (HOG_MIB << 20, libc::PROT_READ);
            let at = libc::mmap(std::ptr::null_mut(), size, prot, libc::MAP_SHARED, fd, 0);
            if at == libc::MAP_FAILED {
                return ways.call("mmap", -1);
            }
        }
    }
    std::thread::sleep(FORK_LIFE);
    ways.tried(&format!("{} MiB", HOGS * HOG_MIB), Ok(()));
}

pub fn disk_filler(ways: &mut Ways) {
    let block = vec![1u8; 1 << 20];
    let filled = (0..FILL_MIB).try_for_each(|number| {
        // Several files, each of which is small; slow enough for whoever looks.
        std::thread::sleep(Duration::from_millis(25));
        let mut file =
            OpenOptions::new().create(true).append(true).open(format!("fill-{}", number % 8))?;
        file.write_all(&block)
    });
    // Whoever looks may come late on a busy machine.
    std::thread::sleep(FORK_LIFE);
    for number in 0..8 {
        let _ = fs::remove_file(format!("fill-{number}"));
    }
    ways.tried(&format!("{FILL_MIB} MiB"), filled);
}
