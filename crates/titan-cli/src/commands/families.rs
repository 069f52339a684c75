//! `titan families`: lists, creates and drops column families.

mod create;
mod drop;
mod list;

use std::process::ExitCode;

use clap::Subcommand;
use titan::Result;

use crate::global::Global;

/// List, create and drop column families
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  titan families create photos.db thumbnails
  titan families list photos.db
  titan families drop photos.db thumbnails --yes";

#[derive(Subcommand)]
enum Command {
    List(list::Args),
    Create(create::Args),
    Drop(drop::Args),
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.command {
        Command::List(args) => list::run(args, global),
        Command::Create(args) => create::run(args, global),
        Command::Drop(args) => drop::run(args, global),
    }
}
