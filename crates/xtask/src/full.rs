//! `cargo xtask full`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::full::{Scope, full};

use crate::campaign::{self, Budget};

/// Fills the device at every operation of the file system, and empties the database.
///
/// Workloads, scripted and random, run on a simulated file system, once for each of its operations.
/// At that operation the device becomes full. Nothing acknowledged may be lost, in the process or
/// after a crash. With a little more room the database must go on, or open, and everything can be
/// deleted: the space comes back. A round takes some minutes; with --minutes, rounds follow each
/// other.
#[derive(Args)]
#[command(after_help = "Examples:\n  cargo xtask full --minutes 10 --seed 7")]
pub(crate) struct FullArgs {
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn main(args: &FullArgs) -> Result<ExitCode, String> {
    campaign::run("full", args.budget, |run| full(run, Scope::WHOLE))
}
