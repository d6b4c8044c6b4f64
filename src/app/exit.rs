//! The exit table: one place where a terminal state becomes an exit status.

use crate::protocol::{Signal, State};

/// Wrong arguments or files: nothing ran.
pub const INVALID: u8 = 2;
/// The asking commands' "no".
pub const NO: u8 = 1;

/// The exit status of a state. `exec` never uses 1.
pub fn status(state: State) -> u8 {
    match state {
        State::Completed => 0,
        State::Invalid => INVALID,
        State::Unverified => 10,
        State::Blocked => 11,
        State::LimitReached => 12,
        State::ModelFailed => 13,
        State::ChangesFound => 14,
        State::Findings => 15,
        State::Partial => 16,
        State::Unavailable => 20,
        State::Internal => 70,
        State::TimedOut => 124,
        State::Interrupted(Signal::Hup) => 129,
        State::Interrupted(Signal::Int) => 130,
        State::Interrupted(Signal::Term) => 143,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_own_status() {
        let states = [
            State::Completed,
            State::Invalid,
            State::Unverified,
            State::Blocked,
            State::LimitReached,
            State::ModelFailed,
            State::ChangesFound,
            State::Findings,
            State::Partial,
            State::Unavailable,
            State::Internal,
            State::TimedOut,
            State::Interrupted(Signal::Hup),
            State::Interrupted(Signal::Int),
            State::Interrupted(Signal::Term),
        ];
        let mut seen: Vec<u8> = states.into_iter().map(status).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), states.len());
        assert!(!seen.contains(&1), "1 is for the asking commands");
    }
}
