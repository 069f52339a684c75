//! `cargo xtask shuttle`: the engine under a scheduler that a seed determines. Needs another build
//! of everything, with `--cfg shuttle` and its own target directory: the command builds this
//! program again that way and runs it.

use std::process::ExitCode;

use clap::Args;

use crate::campaign::Budget;

/// Runs the whole engine, background jobs included, and the range cache, under schedules that a
/// seed determines.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask shuttle --minutes 5\n  cargo xtask shuttle --scenario 'range cache' --rounds 10000\n  cargo xtask shuttle --replay 17"
)]
pub(crate) struct ShuttleArgs {
    #[command(flatten)]
    budget: Budget,
    /// Only the round of this seed, as a failure prints it.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["minutes", "seed"])]
    replay: Option<u64>,
    /// Only rounds of this scenario; a name that does not exist lists all.
    #[arg(long, value_name = "NAME", conflicts_with = "replay")]
    scenario: Option<String>,
    /// Number of rounds of it, ten schedules each, if no time is given.
    #[arg(long, value_name = "N", default_value_t = 100, requires = "scenario")]
    rounds: u64,
}

#[cfg(shuttle)]
pub(crate) fn main(args: &ShuttleArgs) -> Result<ExitCode, String> {
    use titan_campaigns::schedules::{round, schedules, schedules_of};
    args.budget
        .run("shuttle", |run| match (args.replay, &args.scenario) {
            (Some(seed), _) => round(run, seed),
            (None, None) => schedules(run),
            (None, Some(scenario)) => {
                if let Err(why) = schedules_of(run, scenario, args.rounds) {
                    run.fail(why);
                }
            }
        })
}

#[cfg(not(shuttle))]
pub(crate) fn main(_: &ShuttleArgs) -> Result<ExitCode, String> {
    use crate::rebuild::Rebuild;
    Ok(Rebuild::with_cfg("shuttle").hand_over())
}
