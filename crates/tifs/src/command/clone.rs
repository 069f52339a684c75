//! `tifs clone`: copies a volume to another place.

use std::io::{self, BufReader, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use rustix::io::Errno;
use tifs::dump::{Amount, dump};

use super::interrupt::Interrupt;
use super::{Global, load, output, progress, volumes};

/// Copy a volume to a directory, to TiKV or to etcd
///
/// Does what a dump and a load do, without a file between. The copy is the volume as of the begin
/// of the command, with everything that programs had written to a mount of it until then. If the
/// command fails or is interrupted, everything that it made is removed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Directory of the volume, its address on a cluster, or a path in a mounted one.
    from: PathBuf,
    /// Directory of the new volume, or its address on a cluster: see tifs mount.
    to: PathBuf,
}

const EXAMPLES: &str = "Examples:
  tifs clone /srv/volume tikv://pd1:2379,pd2:2379/files
  tifs clone tikv://pd1:2379/files /srv/copy";

pub(super) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    // Until it is open, a signal ends the command at once: a mount that does not answer is waited
    // for.
    let opened = volumes::open_store(&args.from)?;
    opened.tell_moment();
    let interrupt = Interrupt::listen()?;
    let copied = copy(&opened, args, &interrupt);
    if copied.is_err() && interrupt.came() {
        bail!("interrupted: {} has no volume", args.to.display());
    }
    let amount = copied?;
    match global.json {
        true => output::json(&amount)?,
        false => output::print(format_args!("{}\n", progress::amount(amount)))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn copy(from: &volumes::OpenStore, args: &Args, interrupt: &Interrupt) -> Result<Amount> {
    let new = volumes::make_store(&args.to)?;
    let (stream, to_write) = io::pipe().context("cannot make a pipe")?;
    thread::scope(|scope| {
        let dumped = scope.spawn(move || {
            let mut out = BufWriter::new(to_write);
            dump(&*from.store, &mut out, &mut |_| !interrupt.came())
        });
        let mut input = BufReader::new(interrupt.reader(stream));
        let filled = load::fill(new, &args.to, &mut input, interrupt);
        // ORDER: before the wait. A dump that nobody reads would wait for ever.
        drop(input);
        let dumped = dumped
            .join()
            .map_err(|_| anyhow!("the copy ended early, by a bug"))?;
        match dumped {
            // The failure of the load is the error to report.
            Err(error) if error.errno() == Errno::PIPE => filled,
            Err(error) => {
                Err(error).with_context(|| format!("cannot copy {}", args.from.display()))
            }
            Ok(_) => filled,
        }
    })
}
