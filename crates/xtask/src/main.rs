//! `cargo xtask CAMPAIGN [--minutes N] [--seed S]`: runs one campaign, shows how far it is, and
//! ends with a line `N passed, N failed`. The exit status is 1 if anything failed.

mod campaign;
mod rebuild;
mod shuttle;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use campaign::Budget;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Campaigns that look for lost bytes",
    after_help = "Example:\n  cargo xtask crash --minutes 10 --seed 7"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// The whole engine, background work included, under schedules that a seed decides.
    Shuttle(shuttle::Shuttle),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Shuttle(args) => shuttle::run(args),
    }
}
