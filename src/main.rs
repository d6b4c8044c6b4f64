//! The binary: the launcher of commands, or the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    // First, and before anything is set up: a launcher starts for every command.
    if std::env::args_os().nth(1).is_some_and(|word| word == turnkey::exec::LAUNCHER_ARG) {
        return ExitCode::from(turnkey::exec::launcher_main());
    }
    turnkey::app::main()
}
