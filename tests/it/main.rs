//! One binary for all tests that need real parts: processes, files, sockets, git.

mod cases;
mod ends;
mod exec;
mod replay;
mod resume;
mod messages;
mod prompt;
mod scenario;
mod session;
mod signals;
mod support;
