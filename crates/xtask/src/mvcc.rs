//! `cargo xtask mvcc`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::mvcc::Mvcc;

use crate::campaign::{self, Budget};

/// Runs random histories of a store of versions under many configurations: whatever they read must
/// be as a model says.
///
/// Transactions, reads at a time, the safe point, holds, compactions, restarts and crashes.
/// Operations count as passed.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask mvcc --seed 7 --operations 1000000")]
pub(crate) struct MvccArgs {
    #[command(flatten)]
    budget: Budget,
    /// Number of operations that all configurations together perform in a round.
    #[arg(long, value_name = "N", default_value_t = Mvcc::default().operations)]
    operations: u64,
}

pub(crate) fn main(args: &MvccArgs) -> Result<ExitCode, String> {
    let campaign = Mvcc {
        operations: args.operations,
        ..Mvcc::default()
    };
    campaign::run("mvcc", args.budget, |run| campaign.run(run))
}
