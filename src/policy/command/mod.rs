//! Judging commands: from a request to a verdict with its parts.

mod attributes;
mod call;
mod judge;
mod nearest;
mod part;
mod program;
mod wrappers;
