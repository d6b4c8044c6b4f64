//! Judging commands: from a request to a verdict with its parts.

mod attributes;
mod judge;
mod part;
mod program;
