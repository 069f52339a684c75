//! `titan ime`: range caches of stores of versions.
//!
//! One file per command in `ime/`.

mod status;

use std::process::ExitCode;

use titan::Result;

use crate::global::Global;

/// Look at the range cache of a store of versions
///
/// A range cache is the memory of a program that has a store open. What it held is written beside
/// the store about each minute, and when the program closes it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  titan ime status history.db";

#[derive(clap::Subcommand)]
enum Command {
    Status(status::Args),
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.command {
        Command::Status(args) => status::run(args, global),
    }
}
