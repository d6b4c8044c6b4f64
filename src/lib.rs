//! Turnkey runs one Turn of a coding agent, unattended.
//!
//! The rooms, in reading order; each imports only rooms above it (`tests/architecture.rs`).

#![warn(clippy::all)]

// Words
pub mod clock;
pub mod protocol;
// Rules: pure decisions, no I/O
pub mod spec;
pub mod policy;
pub mod patch;
pub mod diff;
// Doors: one outside thing each
pub mod model;
pub mod exec;
pub mod workspace;
pub mod rollout;
pub mod hooks;
// Mind and hands
pub mod context;
pub mod tools;
pub mod verify;
// Runtime
pub mod session;
pub mod job;
// Faces
pub mod report;
pub mod cli;
pub mod app;
