//! The same small piece of work done for many things, on a few threads.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// How it is done.
pub(crate) struct Crew<'a> {
    pub(crate) threads: usize,
    /// Once it is set, nothing more is begun.
    pub(crate) stopped: &'a AtomicBool,
}

impl Crew<'_> {
    /// Does `work` for every one of `all`, each thread with a workbench of its own. It ends early at
    /// an error, which is told, and where it is stopped, which is one.
    pub(crate) fn each<T: Sync, B, E: Send>(
        &self,
        all: &[T],
        bench: impl Fn() -> B + Sync,
        work: impl Fn(&mut B, &T) -> Result<(), E> + Sync,
        fault: impl Fn(io::Error) -> E + Sync,
    ) -> Result<(), E> {
        const CHUNK: usize = 16;
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let run = || -> Result<(), E> {
            let mut bench = bench();
            while !failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(CHUNK, Ordering::Relaxed);
                let Some(rest) = all.get(at..).filter(|rest| !rest.is_empty()) else { break };
                for one in rest.iter().take(CHUNK) {
                    self.go_on().map_err(&fault)?;
                    work(&mut bench, one).inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = self.threads.clamp(1, all.len().div_ceil(CHUNK).max(1));
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
            let own = run();
            let lost = || Err(fault(io::Error::other("a thread broke off")));
            let ends = others.into_iter().map(|other| other.join().unwrap_or_else(|_| lost()));
            ends.fold(own, Result::and)
        })
    }

    fn go_on(&self) -> io::Result<()> {
        match self.stopped.load(Ordering::Relaxed) {
            true => Err(io::ErrorKind::Interrupted.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn every_one_is_done_once_an_error_ends_it_and_so_does_a_stop() {
        let stopped = AtomicBool::new(false);
        let crew = Crew { threads: 3, stopped: &stopped };
        let all: Vec<usize> = (0..1000).collect();
        let done = Mutex::new(Vec::new());
        let note = |_: &mut (), one: &usize| -> io::Result<()> {
            done.lock().unwrap().push(*one);
            Ok(())
        };
        crew.each(&all, || (), note, |error| error).unwrap();
        let mut done_now = done.lock().unwrap().split_off(0);
        done_now.sort_unstable();
        assert_eq!(done_now, all);
        let bad = |_: &mut (), one: &usize| match one {
            500 => Err(io::Error::other("five hundred")),
            _ => Ok(()),
        };
        let error = crew.each(&all, || (), bad, |error| error).unwrap_err();
        assert_eq!(error.to_string(), "five hundred");
        stopped.store(true, Ordering::Relaxed);
        let error = crew.each(&all, || (), note, |error| error).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(done.lock().unwrap().is_empty());
    }
}
