//! `cargo xtask crash`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use titan_campaigns::crash::{Scope, crash, replay};

use crate::campaign::{self, Budget};

/// Stops the machine at every operation of the file system, and recovers.
///
/// Workloads, scripted and random, run on a simulated file system. Each is crashed at every
/// operation that changes files, losing nothing, everything, or random parts of what was not
/// synced, and killed within every append. What is recovered is compared with what was
/// acknowledged, and some of it is crashed again. A round takes some minutes; with --minutes,
/// rounds follow each other.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask crash --minutes 10 --seed 7\n  \
                        cargo xtask crash --replay failure.txt"
)]
pub(crate) struct CrashArgs {
    #[command(flatten)]
    budget: Budget,
    /// Run a regression instead: what a failure printed, from its line `settings` on.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub(crate) fn main(args: &CrashArgs) -> Result<ExitCode, String> {
    match &args.replay {
        Some(file) => campaign::replay(file, |text| replay(&text.parse()?)),
        None => campaign::run("crash", args.budget, |run| crash(run, Scope::WHOLE)),
    }
}
