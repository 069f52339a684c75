//! `cargo xtask CAMPAIGN [--minutes N] [--seed S]`: runs one campaign, shows how far it is, and
//! ends with a line `N passed, N failed`. The exit status is 1 if anything failed.

mod campaign;
mod crash;
mod differential;
mod faults;
mod fuzz;
mod loom;
mod metamorphic;
mod mutants;
mod rebuild;
mod sanitize;
mod shuttle;
mod stress;

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
    Crash(crash::CrashArgs),
    Faults(faults::FaultsArgs),
    Mutants(mutants::Mutants),
    Differential(differential::DifferentialArgs),
    Metamorphic(metamorphic::MetamorphicArgs),
    /// Feeds decoders, damaged databases and lists of operations what a fuzzer thinks up.
    Fuzz(fuzz::FuzzArgs),
    Stress(stress::Stress),
    /// The whole engine, background work included, under schedules that a seed decides.
    Shuttle(shuttle::Shuttle),
    /// Small models of the commit queue, memtable, versions, files and close, under every schedule.
    Loom(loom::Loom),
    /// The memtable and the tests of many threads under a sanitizer or valgrind.
    Sanitize(sanitize::Sanitize),
}

fn main() -> ExitCode {
    match Args::parse().command {
        Command::Crash(args) => crash::main(&args),
        Command::Faults(args) => faults::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::Differential(args) => differential::main(&args),
        Command::Metamorphic(args) => metamorphic::main(&args),
        Command::Fuzz(args) => fuzz::main(&args),
        Command::Stress(args) => stress::main(&args),
        Command::Shuttle(args) => shuttle::run(args),
        Command::Loom(args) => loom::run(&args),
        Command::Sanitize(args) => sanitize::run(&args),
    }
}
