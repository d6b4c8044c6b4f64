//! Whole outputs of commands as artifacts: `command-0001.log` and so on in the run folder, masked, bounded
//! each and in all.

use crate::exec::{LogEnd, OutputLog, OutputLogs};
use crate::rollout::{Masker, StreamMasker};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A run keeps at the most as much as this many commands may keep.
const SHARE: u64 = 16;
/// Characters of a command line in the result.
const SHOWN: usize = 200;
/// Logs named in the result; the files are all there.
const MAX_NAMED: usize = 1_000;

/// One kept output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandLog {
    pub command: String,
    pub end: LogEnd,
}

/// The logs of one run.
#[derive(Debug, Clone)]
pub struct RunLogs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    folder: PathBuf,
    /// Bytes of one command.
    limit: u64,
    masker: Arc<Masker>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    opened: u32,
    /// Bytes that may still be written in this run.
    left: u64,
    kept: Vec<CommandLog>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books room for output; what is not used is given back.
    fn take(&self, wanted: u64) -> u64 {
        let mut state = self.state();
        let taken = wanted.min(state.left);
        state.left -= taken;
        taken
    }
}

impl RunLogs {
    pub fn new(folder: &Path, limit: u64, masker: Arc<Masker>) -> Self {
        let state = State { opened: 0, left: limit.saturating_mul(SHARE), kept: Vec::new() };
        let shared = Shared { folder: folder.to_owned(), limit, masker, state: Mutex::new(state) };
        Self { shared: Arc::new(shared) }
    }

    /// The logs so far, in the order in which their commands ended.
    pub fn kept(&self) -> Vec<CommandLog> {
        self.shared.state().kept.clone()
    }
}

impl OutputLogs for RunLogs {
    fn open(&self, command: &str) -> Box<dyn OutputLog> {
        let shared = self.shared.clone();
        let file = {
            let mut state = shared.state();
            state.opened += 1;
            log_name(state.opened)
        };
        let command: String = shared.masker.mask(command).chars().take(SHOWN).collect();
        let opened = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(shared.folder.join(&file));
        let (out, fault) = match opened {
            Ok(out) => (Some(out), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let masker = StreamMasker::new(shared.masker.clone());
        Box::new(Log { shared, command, file, out, masker, fault, bytes: 0, cut: 0 })
    }
}

/// One log at work.
struct Log {
    shared: Arc<Shared>,
    command: String,
    file: String,
    /// Nothing once writing failed.
    out: Option<File>,
    masker: StreamMasker,
    fault: Option<String>,
    /// Bytes of the command's output that went in, and that did not.
    bytes: u64,
    cut: u64,
}

impl Log {
    fn put(&mut self, bytes: &[u8]) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = out.write_all(bytes) {
            self.out = None;
            self.fault = Some(error.to_string());
        }
    }
}

impl OutputLog for Log {
    fn write(&mut self, chunk: &[u8]) {
        let length = chunk.len() as u64;
        let room = if self.out.is_some() && self.cut == 0 {
            self.shared.take(length.min(self.shared.limit.saturating_sub(self.bytes)))
        } else {
            0
        };
        let (kept, _) = chunk.split_at(usize::try_from(room).unwrap_or(chunk.len()));
        let masked = self.masker.push(kept);
        self.put(&masked);
        self.bytes += room;
        self.cut += length - room;
    }

    fn end(mut self: Box<Self>) -> LogEnd {
        let rest = self.masker.finish();
        self.put(&rest);
        if self.fault.is_none() && self.cut > 0 && self.bytes < self.shared.limit {
            self.fault = Some(format!(
                "the logs of a run hold {SHARE} times command_limits.log, and these are full"
            ));
        }
        if self.bytes == 0 {
            // An empty file says nothing that the result does not say.
            if self.out.take().is_some() {
                let _ = std::fs::remove_file(self.shared.folder.join(&self.file));
            }
            self.file = String::new();
        }
        let Self { shared, command, file, fault, bytes, cut, .. } = *self;
        let end = LogEnd { file, bytes, cut, fault };
        let mut state = shared.state();
        if state.kept.len() < MAX_NAMED {
            state.kept.push(CommandLog { command, end: end.clone() });
        }
        drop(state);
        end
    }
}

fn log_name(number: u32) -> String {
    format!("command-{number:04}.log")
}

/// Whether a file of this name in an artifacts folder is one of ours.
pub fn is_log_name(name: &str) -> bool {
    let number = name.strip_prefix("command-").and_then(|rest| rest.strip_suffix(".log"));
    number.is_some_and(|number| number.len() >= 4 && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(limit: u64) -> (tempfile::TempDir, RunLogs) {
        let dir = tempfile::tempdir().unwrap();
        let masker = Arc::new(Masker::new([("TOKEN", "hunter2hunter2")]));
        let logs = RunLogs::new(dir.path(), limit, masker);
        (dir, logs)
    }

    #[test]
    fn a_secret_cut_by_chunks_is_masked_and_the_end_is_counted() {
        let (dir, logs) = logs(1024);
        let mut log = logs.open("echo hunter2hunter2");
        for chunk in ["a hunter2", "hun", "ter2 b\n"] {
            log.write(chunk.as_bytes());
        }
        let end = log.end();
        assert_eq!(end.to_string(), "command-0001.log (19 bytes)");
        let text = std::fs::read_to_string(dir.path().join("command-0001.log")).unwrap();
        assert_eq!(text, "a [masked] b\n");
        assert_eq!(logs.kept()[0].command, "echo [masked]");
    }

    #[test]
    fn one_command_and_a_whole_run_are_bounded_and_it_is_said() {
        let (dir, logs) = logs(10);
        for _ in 0..SHARE {
            let mut log = logs.open("yes");
            log.write(&[b'y'; 25]);
            log.write(&[b'y'; 25]);
            assert_eq!((log.end().bytes, 40), (10, 40));
        }
        let mut log = logs.open("yes");
        log.write(b"more");
        let end = log.end();
        assert_eq!((end.file.as_str(), end.bytes, end.cut), ("", 0, 4));
        assert!(end.to_string().contains("16 times command_limits.log"), "{end}");
        let size = |name: &str| std::fs::metadata(dir.path().join(name)).map(|meta| meta.len());
        assert_eq!(size("command-0016.log").unwrap(), 10);
        assert!(size("command-0017.log").is_err());
    }

    #[test]
    fn a_log_that_is_there_already_is_not_written_over() {
        let (dir, logs) = logs(1024);
        std::fs::write(dir.path().join("command-0001.log"), "other").unwrap();
        let mut log = logs.open("x");
        log.write(b"mine");
        let end = log.end();
        assert!(end.fault.is_some() && end.file.is_empty(), "{end}");
        assert_eq!(std::fs::read(dir.path().join("command-0001.log")).unwrap(), b"other");
    }

    #[test]
    fn names_of_logs_are_known() {
        assert!(is_log_name(&log_name(1)) && is_log_name(&log_name(123_456)));
        for name in ["command-1.log", "command-0001.txt", "command-.log", "my-command-0001.log"] {
            assert!(!is_log_name(name), "{name}");
        }
    }
}
