//! One binary for all tests that need real parts: processes, files, sockets, git.

mod ahead;
mod apply;
mod capture;
mod cases;
mod container;
mod ends;
mod escape;
mod exec;
mod github;
mod hidden;
mod hook_ends;
mod hooks;
mod killed;
mod live;
mod long;
mod looks;
#[cfg(target_os = "linux")]
mod memory;
mod messages;
mod network;
mod orphans;
mod patching;
mod prompt;
mod replay;
mod resume;
mod sandbox;
mod scenario;
mod session;
mod signals;
mod starter;
mod starter_ends;
mod support;
mod turn_diff;
mod wire;
