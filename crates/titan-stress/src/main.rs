//! `titan-stress PLAN`: one life of the process that the stress campaign kills.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// One life of the process that the stress campaign kills. It works on a database with many
/// threads, and tells on standard output what it begins and what is acknowledged.
#[derive(Parser)]
#[command(
    name = "titan-stress",
    after_help = "The campaign starts it, with plans of its own:\n  cargo xtask stress --mode kill --minutes 1"
)]
struct Args {
    /// The file that says what this life is to be.
    plan: PathBuf,
}

fn main() -> ExitCode {
    titan_stress::stressed::live(&Args::parse().plan)
}
