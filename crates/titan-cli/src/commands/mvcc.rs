//! `titan mvcc`: stores of versions.
//!
//! One file per command in `mvcc/`.

mod check;
mod export;
mod gc;
mod get;
mod import;
mod locks;
mod put;
mod scan;
mod versions;

use std::path::Path;
use std::process::ExitCode;

use titan::Result;

use crate::global::Global;

/// Read and write stores of versions, drop their old versions, and move their data
///
/// A store keeps the versions of each key, with the timestamps of the transactions that wrote them.
/// A timestamp is a number: milliseconds since 1970 times 262,144, and a counter. Reads before the
/// safe point are refused, because their versions may have been dropped. Of these commands, only gc
/// moves the safe point.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  titan mvcc put history.db greeting hello
  titan mvcc get history.db greeting
  titan mvcc versions history.db greeting";

#[derive(clap::Subcommand)]
enum Command {
    Put(put::Args),
    Get(get::Args),
    Scan(scan::Args),
    Versions(versions::Args),
    Locks(locks::Args),
    Gc(gc::Args),
    Check(check::Args),
    Export(export::Args),
    Import(import::Args),
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.command {
        Command::Put(args) => put::run(args, global),
        Command::Get(args) => get::run(args, global),
        Command::Scan(args) => scan::run(args, global),
        Command::Versions(args) => versions::run(args, global),
        Command::Locks(args) => locks::run(args, global),
        Command::Gc(args) => gc::run(args, global),
        Command::Check(args) => check::run(args, global),
        Command::Export(args) => export::run(args, global),
        Command::Import(args) => import::run(args, global),
    }
}

impl Args {
    /// The file of an export that the command reads or writes.
    pub(crate) fn export_file(&self) -> Option<&Path> {
        match &self.command {
            Command::Export(args) => Some(&args.file),
            Command::Import(args) => Some(&args.file),
            _ => None,
        }
    }
}
