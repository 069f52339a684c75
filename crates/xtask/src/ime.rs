//! `cargo xtask ime`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::ime::Ime;

use crate::campaign::{self, Budget};

/// Runs random histories of a store of versions with a range cache: whatever is held, every read
/// must be as a model says.
///
/// The histories are those of `mvcc`, with loads, drops, pruning, audits and limits of memory in
/// between. Operations count as passed.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask ime --seed 7 --operations 1000000")]
pub(crate) struct ImeArgs {
    #[command(flatten)]
    budget: Budget,
    /// Number of operations that all configurations together perform in a round.
    #[arg(long, value_name = "N", default_value_t = Ime::default().operations)]
    operations: u64,
}

pub(crate) fn main(args: &ImeArgs) -> Result<ExitCode, String> {
    let campaign = Ime {
        operations: args.operations,
        ..Ime::default()
    };
    campaign::run("ime", args.budget, |run| campaign.run(run))
}
