//! `cargo xtask CAMPAIGN [--minutes N] [--seed S]`: runs one campaign, shows how far it is, and
//! ends with a line `N passed, N failed`. The exit status is 1 if anything failed.

mod campaign;
mod loom;
mod rebuild;
mod sanitize;
mod shuttle;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

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
    /// Small models of the commit queue, memtable, versions, files and close, under every schedule.
    Loom(loom::Loom),
    /// The memtable and the tests of many threads under a sanitizer or valgrind.
    Sanitize(sanitize::Sanitize),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Shuttle(args) => shuttle::run(args),
        Command::Loom(args) => loom::run(&args),
        Command::Sanitize(args) => sanitize::run(&args),
    }
}
