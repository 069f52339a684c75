//! `titan mvcc`: stores of versions.
//!
//! One file per command in `mvcc/`; `store` opens the store and translates errors.

mod check;
mod gc;
mod get;
mod locks;
mod put;
mod scan;
mod store;
mod versions;

use std::process::ExitCode;

use titan::Result;

use crate::global::Global;

/// Read and write stores of versions, and drop their old versions
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
    }
}
