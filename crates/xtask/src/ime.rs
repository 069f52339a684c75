//! `cargo xtask ime`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::ime::Ime;

use crate::mvcc::MvccArgs;

/// Runs random histories of a store of versions with a range cache: every read, of held and
/// other ranges, must be as a model says.
///
/// The histories are those of `mvcc`, with loads, drops, pruning, audits and limits of memory in
/// between. A list that fails is reduced and kept as a case, which is a test from then on.
/// Operations count as passed.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask ime --seed 7 --operations 1000000\n  \
                        cargo xtask ime --replay failure.txt"
)]
pub(crate) struct ImeArgs {
    #[command(flatten)]
    args: MvccArgs,
}

pub(crate) fn main(args: &ImeArgs) -> Result<ExitCode, String> {
    args.args.run("ime", |size, run| Ime(size).run(run))
}
