//! `tifs bench`: measures a mounted file system.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tifs::bench::{Measured, Scale, Workload, run as measure};

use super::{Global, progress};

/// Measure a file system by what programs do, beside another one
///
/// Each round runs every workload in the directory, and then in the other one if there is one. Shown
/// are the medians of the rounds, and of the ratios of each round. What was written is removed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// A directory in the file system to measure.
    dir: PathBuf,
    /// A directory in another file system, to compare with.
    #[arg(long, value_name = "DIR")]
    beside: Option<PathBuf>,
    /// How often to repeat everything.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Files and directories of a workload.
    #[arg(long, default_value_t = 2000)]
    files: usize,
    /// MiB of the large file.
    #[arg(long, default_value_t = 1024)]
    mebibytes: u64,
}

const EXAMPLES: &str = "Examples:
  tifs bench /mnt/files
  tifs bench /mnt/files --beside /var/tmp --json";

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
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    ctrlc::set_handler(move || end.store(true, Ordering::Relaxed))
        .context("cannot handle signals")?;
    let steps = args.rounds * directories.len() * Workload::ALL.len();
    let bar = progress::steps(steps as u64);
    let mut show = |step: &str| {
        bar.inc(1);
        bar.set_message(step.to_owned());
        !ended.load(Ordering::Relaxed)
    };
    let measured = measure(&directories, &Workload::ALL, &scale, args.rounds, &mut show);
    bar.finish_and_clear();
    let measured = measured?;
    if global.json {
        println!("{}", serde_json::to_string(&measured)?);
    } else {
        print(&measured);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(measured: &[Measured]) {
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
        println!("{name:22}{}  {unit}/s{ratio}", rates.concat());
    }
}
