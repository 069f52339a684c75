//! `cargo xtask NAME [--minutes N] [--seed S]`: runs one campaign, shows its progress, and ends
//! with a line `N passed, N failed`. The exit status is 1 if anything failed. `cargo xtask pages`
//! writes the pages of results, `cargo xtask instructions` counts what calls cost.
//!
//! Each command has a module with its arguments and a function `main`, or a place in `campaigns`.
//! `campaign` has the parts that all share; `rebuild` is for those that need another build.

mod beside;
mod campaign;
mod campaigns;
mod fuzz;
mod ime;
mod instructions;
mod loom;
mod mutants;
mod mvcc;
mod pages;
mod rebuild;
mod rocksdb_matrix;
mod sanitize;
mod serve;
mod shuttle;
mod stress;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::campaigns::{
    CrashArgs, DifferentialArgs, FaultsArgs, FullArgs, MetamorphicArgs, TifsArgs, WalDamageArgs,
};

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

/// Makes the subcommands: the arguments of each, and the function that it runs.
macro_rules! commands {
    ($($name:ident($args:path) = $main:path,)*) => {
        #[derive(Subcommand)]
        enum Command {
            $($name($args),)*
        }

        fn main() -> ExitCode {
            let done = match Args::parse().command {
                $(Command::$name(args) => $main(&args),)*
            };
            done.unwrap_or_else(|why| {
                eprintln!("{why}");
                ExitCode::FAILURE
            })
        }
    };
}

commands! {
    Beside(beside::BesideArgs) = beside::main,
    Crash(CrashArgs) = CrashArgs::main,
    Differential(DifferentialArgs) = DifferentialArgs::main,
    Faults(FaultsArgs) = FaultsArgs::main,
    Full(FullArgs) = FullArgs::main,
    Fuzz(fuzz::FuzzArgs) = fuzz::main,
    Ime(ime::ImeArgs) = ime::main,
    Instructions(instructions::InstructionsArgs) = instructions::main,
    Loom(loom::LoomArgs) = loom::main,
    Metamorphic(MetamorphicArgs) = MetamorphicArgs::main,
    Mutants(mutants::MutantsArgs) = mutants::main,
    Mvcc(mvcc::MvccArgs) = mvcc::main,
    Pages(pages::PagesArgs) = pages::main,
    RocksdbMatrix(rocksdb_matrix::MatrixArgs) = rocksdb_matrix::main,
    Sanitize(sanitize::SanitizeArgs) = sanitize::main,
    Serve(serve::ServeArgs) = serve::main,
    Shuttle(shuttle::ShuttleArgs) = shuttle::main,
    Stress(stress::StressArgs) = stress::main,
    Tifs(TifsArgs) = TifsArgs::main,
    WalDamage(WalDamageArgs) = WalDamageArgs::main,
}

/// The root of the source tree.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}
