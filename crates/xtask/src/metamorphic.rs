//! `cargo xtask metamorphic`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use titan_campaigns::metamorphic::{Metamorphic, replay};

use crate::campaign::{self, Budget};

/// Runs lists of operations under many configurations: all must give the same answers.
///
/// A list that fails is made small and kept as a case, which is a test from then on. Passed are
/// operations, once for each configuration.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask metamorphic --minutes 10 --seed 7")]
pub(crate) struct MetamorphicArgs {
    #[command(flatten)]
    budget: Budget,
    /// Only performs the case in this file.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Configurations at work at the same time; without it, as many as there are cores.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

impl MetamorphicArgs {
    pub(crate) fn run(self) -> ExitCode {
        let campaigns = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("titan-campaigns");
        let default = Metamorphic::default();
        let metamorphic = Metamorphic {
            threads: self.threads.unwrap_or(default.threads),
            cases: Some(campaigns.join("regressions/metamorphic")),
            ..default
        };
        campaign::run("metamorphic", self.budget, |run| match &self.replay {
            Some(file) => replay(run, file),
            None => metamorphic.run(run),
        })
    }
}
