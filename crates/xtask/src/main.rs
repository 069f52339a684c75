//! `cargo xtask NAME [--minutes N] [--seed S]`: runs one campaign, shows its progress, and ends
//! with a line `N passed, N failed`. The exit status is 1 if anything failed. `cargo xtask pages`
//! writes the pages of results, `cargo xtask instructions` counts what calls cost.
//!
//! Each command has a module with its arguments and a function `main`. What all share is in
//! `campaign`; `rebuild` is for those that need another build.

mod beside;
mod campaign;
mod crash;
mod differential;
mod faults;
mod full;
mod fuzz;
mod ime;
mod instructions;
mod loom;
mod metamorphic;
mod mutants;
mod mvcc;
mod pages;
mod rebuild;
mod rocksdb_matrix;
mod sanitize;
mod serve;
mod shuttle;
mod stress;
mod tifs;
mod wal_damage;

use std::path::Path;
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
    Beside(beside::BesideArgs),
    Crash(crash::CrashArgs),
    Differential(differential::DifferentialArgs),
    Faults(faults::FaultsArgs),
    Full(full::FullArgs),
    Fuzz(fuzz::FuzzArgs),
    Ime(ime::ImeArgs),
    Instructions(instructions::InstructionsArgs),
    Loom(loom::LoomArgs),
    Metamorphic(metamorphic::MetamorphicArgs),
    Mutants(mutants::MutantsArgs),
    Mvcc(mvcc::MvccArgs),
    Pages(pages::PagesArgs),
    RocksdbMatrix(rocksdb_matrix::MatrixArgs),
    Sanitize(sanitize::SanitizeArgs),
    Serve(serve::ServeArgs),
    Shuttle(shuttle::ShuttleArgs),
    Stress(stress::StressArgs),
    Tifs(tifs::TifsArgs),
    WalDamage(wal_damage::WalDamageArgs),
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Beside(args) => beside::main(&args),
        Command::Crash(args) => crash::main(&args),
        Command::Differential(args) => differential::main(&args),
        Command::Faults(args) => faults::main(&args),
        Command::Full(args) => full::main(&args),
        Command::Fuzz(args) => fuzz::main(&args),
        Command::Ime(args) => ime::main(&args),
        Command::Instructions(args) => instructions::main(&args),
        Command::Loom(args) => loom::main(&args),
        Command::Metamorphic(args) => metamorphic::main(&args),
        Command::Mutants(args) => mutants::main(&args),
        Command::Mvcc(args) => mvcc::main(&args),
        Command::Pages(args) => pages::main(&args),
        Command::RocksdbMatrix(args) => rocksdb_matrix::main(&args),
        Command::Sanitize(args) => sanitize::main(&args),
        Command::Serve(args) => serve::main(&args),
        Command::Shuttle(args) => shuttle::main(&args),
        Command::Stress(args) => stress::main(&args),
        Command::Tifs(args) => tifs::main(&args),
        Command::WalDamage(args) => wal_damage::main(&args),
    };
    done.unwrap_or_else(|why| {
        eprintln!("{why}");
        ExitCode::FAILURE
    })
}

/// The root of the source tree.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
