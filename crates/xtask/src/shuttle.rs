//! `cargo xtask shuttle`: the engine under a scheduler that a seed decides. Needs another build of
//! everything, with `--cfg shuttle` and a target directory of its own: the command builds this very
//! program anew that way and hands over to it.

use std::process::ExitCode;

use clap::Args;

use crate::campaign::Budget;

/// The whole engine, background work included, under schedules that a seed decides.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask shuttle --minutes 5\n  cargo xtask shuttle --replay 17"
)]
pub(crate) struct ShuttleArgs {
    #[command(flatten)]
    budget: Budget,
    /// Only the round of this seed, as a failure names it.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["minutes", "seed"])]
    replay: Option<u64>,
}

#[cfg(shuttle)]
pub(crate) fn main(args: &ShuttleArgs) -> Result<ExitCode, String> {
    use titan_campaigns::schedules::{round, schedules};
    crate::campaign::run("shuttle", args.budget, |run| match args.replay {
        Some(seed) => round(run, seed),
        None => schedules(run),
    })
}

#[cfg(not(shuttle))]
pub(crate) fn main(_: &ShuttleArgs) -> Result<ExitCode, String> {
    use crate::rebuild::Rebuild;
    Ok(Rebuild::with_cfg("shuttle").hand_over())
}
