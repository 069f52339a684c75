//! `tifs fsck`: checks a volume.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use tifs::check::{Report, check};

use super::{Global, progress, volumes};

/// Check that a volume is consistent
///
/// Nothing is changed, and the volume must not be mounted. A crash leaves nothing to repair, so what is
/// found is damage or a bug. The exit status is 0 if the volume is clean, 1 if it could not be checked,
/// 4 if there are problems.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume.
    dir: PathBuf,
    /// Also read the content of all files, to verify its checksums.
    #[arg(long)]
    content: bool,
}

const EXAMPLES: &str = "Examples:
  tifs fsck /srv/volume
  tifs fsck /srv/volume --content
  tifs fsck /srv/volume --json | jq '.findings[]'";

/// The exit status of a volume with problems: what fsck(8) says for errors that are left.
const PROBLEMS: u8 = 4;

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = volumes::open_store(&args.dir)?;
    let ended = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&ended);
    ctrlc::set_handler(move || end.store(true, Ordering::Relaxed))
        .context("cannot handle signals")?;
    let bar = progress::bar("keys");
    let report = check(&store, args.content, &mut |keys| {
        bar.set_position(keys);
        !ended.load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let report = report.with_context(|| format!("cannot check {}", args.dir.display()))?;
    if global.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print(&report);
    }
    Ok(match report.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(PROBLEMS),
    })
}

fn print(report: &Report) {
    for finding in &report.findings {
        println!("{finding}");
    }
    let kept = report.findings.len() as u64;
    if report.problems > kept {
        println!("... and {} more", report.problems - kept);
    }
    println!(
        "{} inodes, {} names, {} extended attributes, {} blocks, {} of content",
        report.inodes,
        report.entries,
        report.attributes,
        report.blocks,
        progress::bytes(report.bytes)
    );
    if report.orphans + report.truncated > 0 {
        println!(
            "the next mount deletes {} files without names, and blocks of {} truncated ones",
            report.orphans, report.truncated
        );
    }
    match report.problems {
        0 => println!("clean"),
        1 => println!("1 problem"),
        problems => println!("{problems} problems"),
    }
}
