//! `tifs bench`: measures a mounted file system.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tifs::bench::{Measured, Scale, Workload, run as measure};

use super::interrupt::Interrupt;
use super::{Global, output, progress};

/// Measure a file system by calls of programs, beside another one
///
/// Each round runs every workload in the directory, then in the other one if given. Prints the
/// medians of the rounds, and of the ratios of each round. Removes all that it wrote.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A directory in the file system to measure.
    dir: PathBuf,
    /// A directory in another file system, to compare with.
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,
    /// Number of rounds.
    #[arg(long, default_value_t = 5, value_parser = at_least_one)]
    rounds: usize,
    /// Files and directories of a workload.
    #[arg(long, default_value_t = 2000, value_parser = at_least_one)]
    files: usize,
    /// MiB of the large file.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 24))]
    mebibytes: u64,
}

const EXAMPLES: &str = "Examples:
  tifs bench /mnt/files
  tifs bench /mnt/files --beside /var/tmp --json";

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(e) => Err(format!("{e}")),
    }
}

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let directories: Vec<PathBuf> = [Some(&args.dir), args.beside.as_ref()]
        .into_iter()
        .flatten()
        .cloned()
        .collect();
    let scale = Scale {
        files: args.files,
        file_bytes: args.mebibytes << 20,
        ..Scale::default()
    };
    let interrupt = Interrupt::listen()?;
    let steps = args.rounds * directories.len() * Workload::ALL.len();
    let bar = progress::steps(steps as u64);
    let mut show = |step: &str| {
        bar.inc(1);
        bar.set_message(step.to_owned());
        !interrupt.came()
    };
    let measured = measure(&directories, &Workload::ALL, &scale, args.rounds, &mut show);
    bar.finish_and_clear();
    if measured.is_err() && interrupt.came() {
        bail!("interrupted; the written files are removed");
    }
    let measured = measured.context("cannot measure")?;
    match global.json {
        true => output::json(&measured)?,
        false => output::print(table(&measured))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(measured: &[Measured]) -> String {
    let mut text = String::new();
    for result in measured {
        let rates: Vec<String> = result
            .rates
            .iter()
            .map(|rate| format!("{rate:12.0}"))
            .collect();
        let ratio = result
            .ratio()
            .map_or(String::new(), |ratio| format!("{ratio:8.2} x"));
        let (name, unit) = (result.workload, result.unit);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:22}{}  {unit}/s{ratio}", rates.concat());
    }
    text
}
