//! `tifs dump`: writes a volume as a stream.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tifs::dump::dump;

use super::{Global, progress, volumes};

/// Write a volume to a file or to standard output
///
/// The stream has everything: content, attributes, times, links, extended attributes. tifs load makes a
/// volume of it. The volume must not be mounted.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume.
    dir: PathBuf,
    /// The file to write, which must not exist; standard output if it is not given.
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  tifs dump /srv/volume | zstd > volume.zst
  tifs dump /srv/volume volume.dump";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = volumes::open_store(&args.dir)?;
    let bar = progress::bytes_bar("dumping");
    let mut show = |amount: tifs::dump::Amount| {
        bar.set_position(amount.bytes);
        true
    };
    let amount = match &args.file {
        None => dump(&store, &mut BufWriter::new(io::stdout().lock()), &mut show)?,
        Some(path) => {
            let file = File::create_new(path)
                .with_context(|| format!("cannot create {}", path.display()))?;
            let mut out = BufWriter::new(file);
            let amount = dump(&store, &mut out, &mut show)?;
            out.flush()?;
            out.get_ref().sync_all()?;
            amount
        }
    };
    bar.finish_and_clear();
    let said = match global.json {
        true => serde_json::to_string(&amount)?,
        false => format!("{} keys, {}", amount.records, progress::bytes(amount.bytes)),
    };
    // Standard output may be the stream.
    eprintln!("{said}");
    Ok(ExitCode::SUCCESS)
}
