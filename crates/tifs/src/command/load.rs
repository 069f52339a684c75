//! `tifs load`: makes a volume of a dump.

use std::fs::File;
use std::io::{self, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tifs::dump::load;
use tifs::kv::Kv;

use super::{Global, progress, volumes};

/// Make a volume of what tifs dump wrote
///
/// The directory must be empty, or must not exist yet. If the dump is damaged, there is no volume
/// afterwards.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the new volume.
    dir: PathBuf,
    /// The file to read; standard input if it is not given.
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  zstdcat volume.zst | tifs load /srv/copy
  tifs load /srv/copy volume.dump";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = volumes::make_store(&args.dir)?;
    let bar = progress::bytes_bar("loading");
    let mut show = |amount: tifs::dump::Amount| {
        bar.set_position(amount.bytes);
        true
    };
    let loaded = match &args.file {
        None => load(&store, &mut BufReader::new(io::stdin().lock()), &mut show),
        Some(path) => {
            let file =
                File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            load(&store, &mut BufReader::new(file), &mut show)
        }
    };
    bar.finish_and_clear();
    let closed = store.close();
    let amount = loaded.with_context(|| format!("{} has no volume", args.dir.display()))?;
    closed?;
    match global.json {
        true => println!("{}", serde_json::to_string(&amount)?),
        false => println!("{} keys, {}", amount.records, progress::bytes(amount.bytes)),
    }
    Ok(ExitCode::SUCCESS)
}
