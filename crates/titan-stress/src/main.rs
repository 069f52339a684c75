//! `titan-stress PLAN`: one life of the process that the stress campaign kills.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// One life of the process that the stress campaign kills. It runs operations on a database
/// with many threads, and reports on standard output what it begins and what is
/// acknowledged.
#[derive(Parser)]
#[command(
    name = "titan-stress",
    after_help = "The campaign starts it, with plans of its own:\n  cargo xtask stress --mode kill --minutes 1"
)]
struct Args {
    /// File with the plan of this life.
    plan: PathBuf,
}

fn main() -> ExitCode {
    titan_stress::stressed::live(&Args::parse().plan)
}
