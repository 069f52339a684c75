//! `cargo xtask differential`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::differential::Differential;
use titan_campaigns::differential::peer::Program;

use crate::campaign::{self, Budget};

/// Runs lists of operations on Titan and on RocksDB: both must give the same answers.
///
/// Each list is performed by both side by side, and by both in turn in one directory. Needs g++ and
/// RocksDB's headers (Debian: librocksdb-dev). Passed are operations; of a list that fails, what is
/// left of it when it was made small is printed.
#[derive(Args)]
#[command(after_help = "Example:\n  cargo xtask differential --minutes 10 --seed 7")]
pub(crate) struct DifferentialArgs {
    #[command(flatten)]
    budget: Budget,
}

pub(crate) fn main(args: &DifferentialArgs) -> Result<ExitCode, String> {
    let program = Program::compile(&crate::root().join("target/rocksdb-peer"));
    let program = program.map_err(|trouble| trouble.to_string())?;
    let differential = Differential::new(program);
    campaign::run("differential", args.budget, |run| differential.run(run))
}
