//! One binary for all tests that need real parts: processes, files, sockets, git.

mod exec;
