//! Work shared by a few threads that also find more of it.

use std::sync::{Condvar, Mutex, PoisonError};

/// Jobs still to be done; the work ends when none is left and no thread is busy.
pub(super) struct Queue<T> {
    state: Mutex<QueueState<T>>,
    changed: Condvar,
}

struct QueueState<T> {
    jobs: Vec<T>,
    busy: usize,
    panicked: bool,
}

impl<T> Queue<T> {
    pub(super) fn new(first: T) -> Self {
        let state = QueueState { jobs: vec![first], busy: 0, panicked: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    pub(super) fn run(&self, mut visit: impl FnMut(T, &mut Vec<T>)) {
        while let Some(job) = self.next() {
            let mut done = Done { queue: self, more: Vec::new() };
            visit(job, &mut done.more);
        }
    }

    fn next(&self) -> Option<T> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if state.panicked {
                return None;
            }
            if let Some(job) = state.jobs.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub(super) fn panicked(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).panicked
    }
}

/// Hands in the jobs found and the thread's idleness in one step, also when it panics: the other
/// threads must not wait for it for ever.
struct Done<'a, T> {
    queue: &'a Queue<T>,
    more: Vec<T>,
}

impl<T> Drop for Done<'_, T> {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.jobs.append(&mut self.more);
        state.busy -= 1;
        state.panicked |= std::thread::panicking();
        drop(state);
        self.queue.changed.notify_all();
    }
}
