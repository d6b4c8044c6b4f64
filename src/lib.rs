//! Turnkey runs one Turn of a coding agent, unattended.
//!
//! The rooms, in reading order; each imports only rooms above it (`tests/architecture.rs`).

#![warn(clippy::all)]

// Words
pub mod clock;
pub mod protocol;
// Rules: pure decisions, no I/O
pub mod diff;
pub mod patch;
pub mod policy;
pub mod spec;
// Doors: one outside thing each
pub mod workspace;
