//! `cargo xtask tifs`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::campaign::Budget;

/// Does operations of file systems on volumes of TiFS, without a mount.
///
/// Everything that a volume answers and has must be as a model says: in memory, in the engine,
/// after crashes at the operations of a simulated disk, after calls of the store that fail, on
/// disks that fail or are full, and under threads. A failure is printed with a reduced list of
/// operations.
#[derive(Args)]
#[command(after_help = "Examples:\n  cargo xtask tifs --minutes 10 --seed 7\n  \
                        cargo xtask tifs --replay failure.txt")]
pub(crate) struct TifsArgs {
    #[command(flatten)]
    budget: Budget,
    /// Run a regression instead: what a failure printed, from its line `trial` on.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

#[cfg(not(shuttle))]
pub(crate) fn main(args: &TifsArgs) -> Result<ExitCode, String> {
    use titan_campaigns::tifs::{ROUND, replay, tifs};

    use crate::campaign;
    match &args.replay {
        Some(file) => campaign::replay(file, replay),
        None => campaign::run("tifs", args.budget, |run| tifs(run, ROUND)),
    }
}

#[cfg(shuttle)]
pub(crate) fn main(_: &TifsArgs) -> Result<ExitCode, String> {
    Err("a volume does not run under the scheduler of this build".to_owned())
}
