//! `cargo xtask faults`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use titan_campaigns::faults::{Scope, faults, replay};

use crate::campaign::{self, Budget};

/// Makes every operation of the file system fail, and heals the database.
///
/// Workloads, scripted and random, run on a simulated file system, once for each of its operations.
/// The operation fails: before or after it took effect, in part, with dropped pages, a full disk,
/// or too many open files; once, or until the fault is lifted. Nothing acknowledged may be lost, no
/// read may be wrong, no call may hang, and resuming or reopening must heal the database. A round
/// takes some minutes; with --minutes, rounds follow each other.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask faults --minutes 10 --seed 7\n  \
                        cargo xtask faults --replay failure.txt"
)]
pub(crate) struct FaultsArgs {
    #[command(flatten)]
    budget: Budget,
    /// Run a regression instead: what a failure printed, from its line `settings` on.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub(crate) fn main(args: &FaultsArgs) -> Result<ExitCode, String> {
    match &args.replay {
        Some(file) => campaign::replay(file, |text| replay(&text.parse()?)),
        None => campaign::run("faults", args.budget, |run| faults(run, Scope::WHOLE)),
    }
}
