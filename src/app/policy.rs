//! `turnkey policy …`

use super::{exit, lines, refuse};
use crate::cli::PolicyCommand;
use crate::policy::PolicyFile;
use crate::report::Output;
use std::path::Path;

pub async fn run(command: PolicyCommand, output: &Output) -> u8 {
    match command {
        PolicyCommand::Check { file } => check(&file, output).await,
    }
}

async fn check(path: &Path, output: &Output) -> u8 {
    let name = path.display().to_string();
    let source = match std::fs::read_to_string(path) {
        Ok(source) => source,
        Err(error) => return refuse(output, &format!("{name}: {error}")).await,
    };
    let dir = path.parent().map(Path::to_owned).unwrap_or_default();
    let load = move |used: &str| {
        std::fs::read_to_string(dir.join(used)).map_err(|error| format!("{used}: {error}"))
    };
    match PolicyFile::parse(&name, &source, &load) {
        Ok(_) => {
            output.stdout(format!("{name}: ok")).await;
            0
        }
        Err(faults) => {
            output.stderr(lines(&faults)).await;
            exit::NO
        }
    }
}
