//! `cargo xtask differential`.

use std::process::ExitCode;

use clap::Args;
use titan_campaigns::differential::Differential;
use titan_campaigns::differential::peer::Program;

use crate::campaign::{self, Budget};

/// Runs lists of operations on Titan and on RocksDB: both must give the same results.
///
/// Each list runs on both side by side, and on both alternating in one directory. Needs g++ and
/// RocksDB's headers (Debian: librocksdb-dev). Operations count as passed. Of a list that fails,
/// the reduced form is printed.
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
