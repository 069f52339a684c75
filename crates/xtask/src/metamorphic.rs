//! `cargo xtask metamorphic`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use titan_campaigns::case::replay;
use titan_campaigns::metamorphic::Metamorphic;
use titan_campaigns::metamorphic::configurations::Configuration;

use crate::campaign::{self, Budget};

/// Runs lists of operations under many configurations: all must give the same results.
///
/// A list that fails is reduced and kept as a case, which is a test from then on. Operations count
/// as passed, once for each configuration.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  cargo xtask metamorphic --minutes 10 --seed 7\n  \
                        cargo xtask metamorphic --replay failure.txt"
)]
pub(crate) struct MetamorphicArgs {
    #[command(flatten)]
    budget: Budget,
    /// Run a case instead, such as a failure printed and kept.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
}

pub(crate) fn main(args: &MetamorphicArgs) -> Result<ExitCode, String> {
    if let Some(file) = &args.replay {
        return campaign::replay(file, replay::<Configuration>);
    }
    let cases = crate::root().join("crates/titan-campaigns/regressions/metamorphic");
    let metamorphic = Metamorphic {
        cases: Some(cases),
        ..Metamorphic::default()
    };
    campaign::run("metamorphic", args.budget, |run| metamorphic.run(run))
}
