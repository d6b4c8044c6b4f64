//! `turnkey spec …`

use super::{exit, lines, refuse};
use crate::cli::SpecCommand;
use crate::report::Output;
use crate::spec;

pub async fn run(command: SpecCommand, output: &Output) -> u8 {
    match command {
        SpecCommand::Schema => {
            output.stdout(pretty(&spec::schema())).await;
            0
        }
        SpecCommand::Check { file } => {
            let name = file.display().to_string();
            let source = match std::fs::read_to_string(&file) {
                Ok(source) => source,
                Err(error) => return refuse(output, &format!("{name}: {error}")).await,
            };
            match spec::parse(&name, &source) {
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
    }
}

pub fn pretty(value: &serde_json::Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
