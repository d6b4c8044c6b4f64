//! One binary for all tests that need real parts: processes, files, sockets, git.

mod cases;
mod exec;
mod messages;
mod prompt;
mod scenario;
mod session;
mod signals;
mod support;
