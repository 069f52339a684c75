//! `tifs load`: makes a volume of a dump.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use tifs::dump::{Amount, load};

use super::interrupt::Interrupt;
use super::volumes::NewStore;
use super::{Global, output, progress, volumes};

/// Make a volume of a dump of tifs dump
///
/// The directory must be empty, or must not exist yet; the cluster must have no volume of that
/// name. If the dump is damaged or the command is
/// interrupted, everything that it made is removed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the new volume, or its address on a cluster: see tifs mount.
    dir: PathBuf,
    /// The file to read; standard input if it is not given or -.
    file: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  zstdcat volume.zst | tifs load /srv/copy
  tifs load /srv/copy volume.dump";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let interrupt = Interrupt::listen()?;
    let file = match args.file.as_deref().filter(|file| *file != Path::new("-")) {
        None => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        Some(path) => File::open(path),
    };
    let file = file.with_context(|| match &args.file {
        Some(path) => format!("cannot open {}", path.display()),
        None => "cannot read standard input".to_owned(),
    })?;
    let input = &mut BufReader::new(interrupt.reader(file));
    let loaded =
        volumes::make_store(&args.dir).and_then(|new| fill(new, &args.dir, input, &interrupt));
    if loaded.is_err() && interrupt.came() {
        bail!("interrupted: {} has no volume", args.dir.display());
    }
    let amount = loaded?;
    match global.json {
        true => output::json(&amount)?,
        false => output::print(format_args!("{}\n", progress::amount(amount)))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Fills a new store in a place with the volume of a stream.
pub(super) fn fill(
    new: NewStore,
    place: &Path,
    input: &mut dyn Read,
    interrupt: &Interrupt,
) -> Result<Amount> {
    let bar = progress::bytes_bar("loading");
    let mut show = |amount: Amount| {
        bar.set_position(amount.bytes);
        !interrupt.came()
    };
    let loaded = load(new.store()?, input, &mut show);
    bar.finish_and_clear();
    let amount = loaded.with_context(|| format!("no volume was made in {}", place.display()))?;
    let completed = new.complete();
    completed.with_context(|| format!("no volume was made in {}", place.display()))?;
    Ok(amount)
}
