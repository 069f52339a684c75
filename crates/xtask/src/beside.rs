//! `cargo xtask beside`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::beside::beside;

use crate::campaign::Budget;
use crate::rebuild;

/// Reads a database under full load with `titan check`, `scan` and `space`, again and again: each
/// of them must show one moment of the history that is written.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask beside --views 200 --seed 1")]
pub(crate) struct BesideArgs {
    #[command(flatten)]
    budget: Budget,
    /// Number of runs of each command, if no time is given.
    #[arg(long, value_name = "N", default_value_t = 200)]
    views: u64,
}

pub(crate) fn main(args: &BesideArgs) -> Result<ExitCode, String> {
    let titan = rebuild::beside_this("titandb-cli", "titan")?;
    args.budget
        .run("beside", |run| beside(run, &titan, args.views))
}
