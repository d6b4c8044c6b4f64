//! Faults at every write, sync and cut, on a disk that forgets what a failed sync was asked to keep.

use super::super::file::Sink;
use super::super::journal::{Journal, Position};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

const TS: &str = "2026-11-29T22:48:21.035Z";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    /// Only this many bytes are taken.
    Short(usize),
    Errno(i32),
}

/// A file in a page cache over a disk. After a failed sync the cache counts as clean, as on Linux:
/// the next sync succeeds, and what the failed one should have written is lost.
#[derive(Default)]
struct Disk {
    cache: Vec<(u8, bool)>,
    durable: Vec<u8>,
    operations: usize,
    faults: BTreeMap<usize, Fault>,
    /// From this operation on everything fails.
    dead_from: Option<(usize, i32)>,
    pauses: Duration,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Disk>>);

impl Disk {
    fn fault(&mut self) -> Option<Fault> {
        let operation = self.operations;
        self.operations += 1;
        match self.dead_from {
            Some((from, errno)) if operation >= from => Some(Fault::Errno(errno)),
            _ => self.faults.get(&operation).copied(),
        }
    }
}

impl Sink for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.0.lock().unwrap();
        let taken = match disk.fault() {
            None => bytes.len(),
            Some(Fault::Short(most)) => bytes.len().min(most),
            Some(Fault::Errno(errno)) => return Err(io::Error::from_raw_os_error(errno)),
        };
        disk.cache.extend(bytes[..taken].iter().map(|byte| (*byte, true)));
        Ok(taken)
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        match disk.fault() {
            Some(Fault::Errno(libc::EINTR)) => {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            Some(Fault::Errno(errno)) => {
                disk.cache.iter_mut().for_each(|(_, dirty)| *dirty = false);
                return Err(io::Error::from_raw_os_error(errno));
            }
            _ => {}
        }
        let length = disk.cache.len();
        disk.durable.resize(length, 0);
        for at in 0..length {
            if disk.cache[at].1 {
                disk.durable[at] = disk.cache[at].0;
                disk.cache[at].1 = false;
            }
        }
        Ok(())
    }

    fn truncate(&mut self, length: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        if let Some(Fault::Errno(errno)) = disk.fault() {
            return Err(io::Error::from_raw_os_error(errno));
        }
        disk.cache.truncate(length as usize);
        disk.durable.truncate(length as usize);
        Ok(())
    }

    fn pause(&mut self, wait: Duration) {
        self.0.lock().unwrap().pauses += wait;
    }
}

/// Seven records with a sync after the second, fifth and last.
fn script() -> Vec<Record> {
    let mut all = example();
    all.extend([message("five"), message("six"), message("seven")]);
    all
}

/// The lines as they should stand.
fn lines_wanted() -> Vec<String> {
    let disk = Shared::default();
    let mut journal =
        Journal::new(disk.clone(), "x".into(), Arc::new(Masker::none()), Position::start());
    for record in script() {
        journal.append(TS, &record).unwrap();
    }
    journal.sync().unwrap();
    let text = String::from_utf8(disk.0.lock().unwrap().durable.clone()).unwrap();
    text.split_inclusive('\n').map(str::to_owned).collect()
}

/// Runs the script over this disk and checks everything that must hold whatever fails.
fn check(disk: Disk, wanted: &[String]) -> Result<(), TestCaseError> {
    let disk = Shared(Arc::new(Mutex::new(disk)));
    let mut journal =
        Journal::new(disk.clone(), "x".into(), Arc::new(Masker::none()), Position::start());
    let mut failure = None;
    let mut confirmed = journal.confirmed();
    for (number, record) in script().iter().enumerate() {
        let mut step = journal.append(TS, record).map(|()| journal.confirmed());
        if step.is_ok() && matches!(number, 1 | 4 | 6) {
            step = journal.sync();
            if let Ok(now) = step {
                prop_assert_eq!(now.records as usize, number + 1, "a sync confirms all before it");
            }
        }
        match step {
            Ok(now) => {
                prop_assert!(failure.is_none(), "an error stays");
                confirmed = now;
            }
            Err(error) => {
                if let Some(first) = &failure {
                    prop_assert_eq!(&error, first, "an error stays the same");
                }
                failure = Some(error);
            }
        }
        // The confirmed prefix is on disk, byte for byte, at every moment.
        let text: String = wanted[..confirmed.records as usize].concat();
        let state = disk.0.lock().unwrap();
        prop_assert_eq!(confirmed.bytes as usize, text.len());
        prop_assert!(state.durable.len() >= text.len(), "confirmed bytes are gone");
        prop_assert_eq!(&state.durable[..text.len()], text.as_bytes());
        // And what is in the file is a prefix of what should be: nothing twice, nothing skipped.
        let cache: Vec<u8> = state.cache.iter().map(|(byte, _)| *byte).collect();
        prop_assert!(wanted.concat().as_bytes().starts_with(&cache), "not a prefix");
        prop_assert!(state.pauses < Duration::from_secs(60), "attempts are bounded");
    }
    if failure.is_none() {
        prop_assert_eq!(confirmed.records as usize, wanted.len());
    } else {
        prop_assert_eq!(journal.sync().err(), failure.clone());
        prop_assert_eq!(journal.failure().cloned(), failure);
    }
    Ok(())
}

const ERRNOS: [i32; 4] = [libc::ENOSPC, libc::EIO, libc::EINTR, libc::EAGAIN];

#[test]
fn a_fault_at_every_operation() {
    let wanted = lines_wanted();
    // 7 writes and 3 syncs without a fault; with one some more.
    for at in 0..16 {
        for length in [1, 2, 3, 5] {
            let with = |fault: Fault| Disk {
                faults: (at..at + length).map(|operation| (operation, fault)).collect(),
                ..Disk::default()
            };
            for errno in ERRNOS {
                check(with(Fault::Errno(errno)), &wanted).unwrap();
            }
            for most in [0, 1, 7, 100] {
                check(with(Fault::Short(most)), &wanted).unwrap();
            }
        }
        for errno in ERRNOS {
            check(Disk { dead_from: Some((at, errno)), ..Disk::default() }, &wanted).unwrap();
        }
    }
}

#[test]
fn a_failed_sync_is_not_believed_when_it_is_asked_again() {
    let wanted = lines_wanted();
    // The operations of the first sync: two writes before it.
    let disk = Shared(Arc::new(Mutex::new(Disk {
        faults: [(2, Fault::Errno(libc::EIO))].into(),
        ..Disk::default()
    })));
    let mut journal =
        Journal::new(disk.clone(), "x".into(), Arc::new(Masker::none()), Position::start());
    for record in &script()[..2] {
        journal.append(TS, record).unwrap();
    }
    assert_eq!(journal.sync().unwrap().records, 2);
    assert_eq!(disk.0.lock().unwrap().durable, wanted[..2].concat().as_bytes());
}

#[test]
fn a_write_that_stops_in_a_line_goes_on_where_it_stopped() {
    let disk = Shared(Arc::new(Mutex::new(Disk {
        faults: [(0, Fault::Short(10)), (1, Fault::Errno(libc::ENOSPC)), (2, Fault::Short(3))]
            .into(),
        ..Disk::default()
    })));
    let mut journal =
        Journal::new(disk.clone(), "x".into(), Arc::new(Masker::none()), Position::start());
    journal.append(TS, &run_started()).unwrap();
    assert_eq!(disk.0.lock().unwrap().operations, 4, "10 bytes, an error, 3 bytes, the rest");
    journal.sync().unwrap();
    assert_eq!(disk.0.lock().unwrap().durable, lines_wanted()[0].as_bytes());
}

#[test]
fn giving_up_leaves_whole_lines_and_says_why() {
    let disk = Shared(Arc::new(Mutex::new(Disk {
        // The third line: ten bytes of it, then a full disk; the cut at the end works.
        faults: (3..8)
            .map(|operation| (operation, Fault::Errno(libc::ENOSPC)))
            .chain([(2, Fault::Short(10))])
            .collect(),
        ..Disk::default()
    })));
    let mut journal =
        Journal::new(disk.clone(), "/run/x".into(), Arc::new(Masker::none()), Position::start());
    journal.append(TS, &script()[0]).unwrap();
    journal.append(TS, &script()[1]).unwrap();
    let error = journal.append(TS, &script()[2]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/run/x: cannot write the rollout: No space left on device (os error 28)"
    );
    assert!(error.hint().starts_with("Free space"));
    assert_eq!(journal.append(TS, &script()[3]).unwrap_err(), error);
    let state = disk.0.lock().unwrap();
    let cache: Vec<u8> = state.cache.iter().map(|(byte, _)| *byte).collect();
    assert_eq!(String::from_utf8(cache).unwrap(), lines_wanted()[..2].concat());
}

#[test]
fn much_without_a_flush_is_synced_by_itself() {
    let disk = Shared::default();
    let mut journal =
        Journal::new(disk.clone(), "x".into(), Arc::new(Masker::none()), Position::start());
    let text = "x".repeat(10_000);
    for _ in 0..300 {
        journal.append(TS, &message(&text)).unwrap();
    }
    assert!(journal.confirmed().bytes > 2 << 20, "memory is bounded by what is unconfirmed");
}

proptest! {
    #[test]
    fn any_faults_keep_the_confirmed_prefix(
        faults in prop::collection::btree_map(
            0usize..40,
            prop_oneof![
                (0usize..300).prop_map(Fault::Short),
                prop::sample::select(ERRNOS.to_vec()).prop_map(Fault::Errno),
            ],
            0..20,
        ),
        dead_from in prop::option::of((0usize..60, prop::sample::select(ERRNOS.to_vec()))),
    ) {
        check(Disk { faults, dead_from, ..Disk::default() }, &lines_wanted())?;
    }
}
