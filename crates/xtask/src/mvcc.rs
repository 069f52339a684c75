//! `cargo xtask mvcc`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::Run;
use titan_campaigns::case::replay;
use titan_campaigns::mvcc::configurations::Configuration;
use titan_campaigns::mvcc::{Coverage, Mvcc};

use crate::campaign::Replayable;

/// Runs random histories of a store of versions under many configurations: each of their reads
/// must be as a model says.
///
/// Transactions, clients, reads at a time, the safe point, holds, compactions, restarts, crashes. A
/// list that fails is reduced and kept as a case, which is a test from then on. Operations count
/// as passed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask mvcc --seed 7 --operations 1000000\n  \
                        cargo xtask mvcc --replay failure.txt"
)]
pub(crate) struct MvccArgs {
    #[command(flatten)]
    input: Replayable,
    /// Number of operations that all configurations together perform in a round.
    #[arg(long, value_name = "N", default_value_t = Mvcc::default().operations)]
    operations: u64,
}

impl MvccArgs {
    /// Runs a campaign, or a case; failures are kept among the regressions of this name.
    pub(crate) fn run(
        &self,
        name: &str,
        campaign: impl FnOnce(Mvcc, &Run) -> Coverage,
    ) -> Result<ExitCode, String> {
        let cases = crate::root()
            .join("crates/titan-campaigns/regressions")
            .join(name);
        let size = Mvcc {
            operations: self.operations,
            cases: Some(cases),
            ..Mvcc::default()
        };
        let replay = replay::<Configuration>;
        self.input
            .run(name, replay, |run| run.note(campaign(size, run)))
    }
}

pub(crate) fn main(args: &MvccArgs) -> Result<ExitCode, String> {
    args.run("mvcc", |size, run| size.run(run))
}
