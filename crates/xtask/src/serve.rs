//! `cargo xtask serve`.

use std::process::ExitCode;

use clap::Args;

use crate::campaign::Budget;

/// Runs transactions over the network on `titan serve`, which is killed again and again.
///
/// Eight clients commit in all ways of the protocol, die, and resolve what the dead have left. The
/// history of each round must be snapshot isolated, with everything that was acknowledged, and no
/// lock is left at its end.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask serve --transactions 100000 --seed 1")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    budget: Budget,
    /// Number of transactions, if no time is given.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    transactions: u64,
    /// Number of transactions of a round.
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    round: u64,
    /// Mean time between two kills, in milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    between_kills: u64,
}

#[cfg(not(shuttle))]
pub(crate) fn main(args: &ServeArgs) -> Result<ExitCode, String> {
    use std::time::Duration;

    use titan_campaigns::serve::{Round, serve};

    use crate::rebuild;
    let titan = rebuild::beside_this("titandb-cli", "titan")?;
    let round = Round {
        transactions: args.round,
        between_kills: Duration::from_millis(args.between_kills),
    };
    args.budget.run("serve", |run| {
        serve(run, &titan, args.transactions, round);
    })
}

#[cfg(shuttle)]
pub(crate) fn main(_: &ServeArgs) -> Result<ExitCode, String> {
    Err("a node does not run under the scheduler of this build".to_owned())
}
