//! The gate in front of every system call that changes something while a patch is committed.
//!
//! In the program it is open. In tests it can be told to fail the nth call, or to fail from the
//! nth call on as if the process had been killed there, so that every point of failure is tried.

#[cfg(not(test))]
pub(super) fn pass(_call: &'static str) -> std::io::Result<()> {
    Ok(())
}

/// Whether to act as on a file system that can neither exchange two files nor rename without
/// replacing. Never, outside tests: there the file system itself says so.
#[cfg(not(test))]
pub(super) fn is_old_file_system() -> bool {
    false
}

#[cfg(test)]
pub(super) use testing::{is_old_file_system, pass};

#[cfg(test)]
pub(crate) mod testing {
    use std::cell::{Cell, RefCell};
    use std::io;

    /// Where calls fail.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Fault {
        Never,
        /// Only the call with this number.
        Once(usize),
        /// The call with this number and all after it, as a kill would have it.
        From(usize),
    }

    thread_local! {
        static FAULT: Cell<Fault> = const { Cell::new(Fault::Never) };
        static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
        static MEDDLER: RefCell<Option<Meddler>> = const { RefCell::new(None) };
    }

    thread_local! {
        static OLD: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) fn on_old_file_system(old: bool) {
        OLD.set(old);
    }

    pub(in crate::workspace::commit) fn is_old_file_system() -> bool {
        OLD.get()
    }

    /// Something that happens between two calls of a commit, as another process would do it.
    type Meddler = (usize, Box<dyn FnOnce()>);

    /// Before the call with this number, do `act` once.
    pub(crate) fn meddle(before: usize, act: impl FnOnce() + 'static) {
        MEDDLER.set(Some((before, Box::new(act))));
    }

    /// Set the fault and begin to count anew.
    pub(crate) fn arm(fault: Fault) {
        FAULT.set(fault);
        CALLS.with_borrow_mut(Vec::clear);
    }

    /// The calls since the gate was armed.
    pub(crate) fn calls() -> Vec<&'static str> {
        CALLS.with_borrow(Clone::clone)
    }

    pub(in crate::workspace::commit) fn pass(call: &'static str) -> io::Result<()> {
        let number = CALLS.with_borrow_mut(|calls| {
            calls.push(call);
            calls.len()
        });
        if let Some((_, act)) = MEDDLER.with_borrow_mut(|it| it.take_if(|(at, _)| *at == number)) {
            act();
        }
        let fails = match FAULT.get() {
            Fault::Never => false,
            Fault::Once(at) => number == at,
            Fault::From(at) => number >= at,
        };
        if fails { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}
