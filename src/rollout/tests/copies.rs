//! A record copied for a fork, or to go on with one from elsewhere, with a fault at every step.

use super::super::copy::{Steps, System};
use super::super::held::branch_by;
use super::*;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

#[derive(Debug, Clone, Copy)]
enum Fault {
    /// Only this many bytes are taken, or given.
    Short(usize),
    Errno(i32),
}

/// The system, but for the steps that fail.
struct Faulty {
    log: Vec<&'static str>,
    fault: Fault,
    /// The first step that fails, and how many do.
    from: usize,
    count: usize,
}

impl Faulty {
    fn at(from: usize, count: usize, fault: Fault) -> Self {
        Self { log: Vec::new(), fault, from, count }
    }

    fn step(&mut self, name: &'static str) -> io::Result<Option<usize>> {
        let number = self.log.len();
        self.log.push(name);
        if number < self.from || number - self.from >= self.count {
            return Ok(None);
        }
        match self.fault {
            Fault::Short(most) => Ok(Some(most)),
            Fault::Errno(errno) => Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

impl Steps for Faulty {
    fn create(&mut self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
        self.step("create")?;
        System.create(folder, name)
    }

    fn read(&mut self, from: &File, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.step("read")?.map_or(buffer.len(), |most| most.clamp(1, buffer.len()));
        System.read(from, &mut buffer[..length])
    }

    fn write(&mut self, to: &File, bytes: &[u8]) -> io::Result<usize> {
        let length = self.step("write")?.map_or(bytes.len(), |most| most.min(bytes.len()));
        if length == 0 { Ok(0) } else { System.write(to, &bytes[..length]) }
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        self.step("sync")?;
        System.sync(file)
    }

    fn rename(&mut self, folder: BorrowedFd<'_>, from: &OsStr, to: &OsStr) -> io::Result<()> {
        self.step("rename")?;
        System.rename(folder, from, to)
    }

    fn sync_folder(&mut self, folder: BorrowedFd<'_>) -> io::Result<()> {
        self.step("sync folder")?;
        System.sync_folder(folder)
    }

    fn remove(&mut self, folder: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        self.step("remove")?;
        System.remove(folder, name)
    }
}

/// How a record becomes another file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    Fork,
    Elsewhere,
}

struct Place {
    _dir: tempfile::TempDir,
    original: PathBuf,
    bytes: Vec<u8>,
    folder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (original, folder) = (dir.path().join("rollout.jsonl"), dir.path().join("new"));
        fs::create_dir(&folder).unwrap();
        write_all(&original, example());
        let bytes = fs::read(&original).unwrap();
        Self { _dir: dir, original, bytes, folder }
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }

    /// Copies, and goes on with the copy by one record where there is one.
    fn copy(&self, way: Way, steps: &mut Faulty) -> Result<(), RolloutError> {
        let (masker, name) = (Arc::new(Masker::none()), "rollout.jsonl");
        let writer = match way {
            Way::Fork => {
                branch_by(steps, &self.original, &self.folder, name, masker, &mut |_| {})?.0
            }
            Way::Elsewhere => {
                let (held, _) = HeldRollout::open(&self.original, &mut |_| {}).unwrap();
                held.continue_by(steps, &self.folder, name, false, masker)?.0
            }
        };
        runtime().block_on(async {
            writer.append(message("went on")).await.unwrap();
            writer.close().await.unwrap();
        });
        Ok(())
    }

    /// What must hold whatever failed.
    fn check(&self, result: &Result<(), RolloutError>, context: &str) {
        assert_eq!(fs::read(&self.original).unwrap(), self.bytes, "{context}: the original");
        append_all(&self.original, Vec::new()).unwrap_or_else(|error| {
            panic!("{context}: the original is free to be gone on with: {error}")
        });
        let copy = self.folder.join("rollout.jsonl");
        match result {
            Ok(()) => {
                assert_eq!(self.names(), ["rollout.jsonl"], "{context}");
                assert!(fs::read(&copy).unwrap().starts_with(&self.bytes), "{context}");
                assert_eq!(read(&copy).unwrap().entries.len(), example().len() + 1, "{context}");
                assert!(verify(&copy).unwrap().ok, "{context}");
            }
            Err(error) => {
                let text = error.to_string();
                let place = if text.contains("read") { &self.original } else { &copy };
                assert!(text.starts_with(&place.display().to_string()), "{context}: {text}");
                assert!(text.contains("the rollout: "), "{context}: {text}");
                assert!(error.hint().ends_with('.'), "{context}: what now");
            }
        }
    }
}

const ERRNOS: [i32; 4] = [libc::ENOSPC, libc::EIO, libc::EDQUOT, libc::EROFS];
/// Without a fault: create, read, write, read (the end), sync, rename, sync of the folder.
const STEPS: [&str; 7] = ["create", "read", "write", "read", "sync", "rename", "sync folder"];

#[test]
fn a_copy_is_synced_before_it_has_its_name_and_its_name_after() {
    for way in [Way::Fork, Way::Elsewhere] {
        let place = Place::new();
        let mut steps = Faulty::at(usize::MAX, 0, Fault::Short(0));
        let result = place.copy(way, &mut steps);
        assert!(result.is_ok());
        place.check(&result, "no fault");
        assert_eq!(steps.log, STEPS);
    }
}

#[test]
fn a_fault_at_every_step_of_a_copy() {
    for way in [Way::Fork, Way::Elsewhere] {
        for (at, name) in STEPS.iter().enumerate() {
            for errno in ERRNOS {
                // Once: what was begun is taken back. Or for good, the taking back included.
                for count in [1, usize::MAX] {
                    let context = format!("{way:?}, {name}, errno {errno}, {count} times");
                    let place = Place::new();
                    let mut steps = Faulty::at(at, count, Fault::Errno(errno));
                    let result = place.copy(way, &mut steps);
                    let error = result.as_ref().expect_err(&context);
                    assert!(error.to_string().contains("os error"), "{context}: {error}");
                    place.check(&result, &context);
                    match count {
                        1 => assert_eq!(place.names(), [""; 0], "{context}: nothing is left"),
                        // Whatever is left is no record, or a whole one.
                        _ => assert!(
                            !place.names().contains(&"rollout.jsonl".to_owned())
                                || fs::read(place.folder.join("rollout.jsonl")).unwrap()
                                    == place.bytes,
                            "{context}"
                        ),
                    }
                    assert_eq!(steps.log[at], *name, "{context}");
                }
            }
            for count in [1, 3] {
                let context = format!("{way:?}, {name}, interrupted {count} times");
                let place = Place::new();
                let mut steps = Faulty::at(at, count, Fault::Errno(libc::EINTR));
                let result = place.copy(way, &mut steps);
                assert!(result.is_ok(), "{context}: {result:?}");
                place.check(&result, &context);
                assert_eq!(steps.log.len(), STEPS.len() + count, "{context}");
            }
        }
    }
}

#[test]
fn short_reads_and_writes_lose_nothing_and_a_write_that_takes_nothing_is_an_error() {
    for way in [Way::Fork, Way::Elsewhere] {
        for most in [1, 7, 100] {
            let place = Place::new();
            let mut steps = Faulty::at(0, usize::MAX, Fault::Short(most));
            let result = place.copy(way, &mut steps);
            assert!(result.is_ok(), "{most}: {result:?}");
            place.check(&result, &format!("{way:?}, at most {most} bytes"));
        }
        let place = Place::new();
        let result = place.copy(way, &mut Faulty::at(2, usize::MAX, Fault::Short(0)));
        assert!(result.is_err());
        place.check(&result, "nothing is taken");
        assert_eq!(place.names(), [""; 0]);
    }
}

#[test]
fn a_copy_replaces_nothing() {
    for way in [Way::Fork, Way::Elsewhere] {
        let place = Place::new();
        let there = place.folder.join("rollout.jsonl");
        fs::write(&there, "another\n").unwrap();
        let error = place.copy(way, &mut Faulty::at(usize::MAX, 0, Fault::Short(0))).unwrap_err();
        assert_eq!(error, RolloutError::Exists { path: there.clone() });
        assert_eq!(fs::read(&there).unwrap(), b"another\n");
        assert_eq!(place.names(), ["rollout.jsonl"]);
    }
}
