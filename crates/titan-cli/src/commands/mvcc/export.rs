//! `titan mvcc export`: writes the pairs of a store, node or cluster to a file.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use titan::{Error, Result};
use titan_mvcc::Timestamp;

use crate::global::Global;
use crate::output::{self, Out};
use crate::store::timestamp;
use crate::transfer::export;
use crate::transfer::format::directory_of;
use crate::transfer::pairs::KeyRange;
use crate::transfer::sides::{self, Access, Network, Place};
use crate::{keys, progress};

/// Write the keys and values of a store, node or cluster to a file, as of one timestamp
///
/// Locks, older versions and raw keys are left out. After an interruption, run the same command
/// again: it goes on as of the same timestamp, as long as the source can read it. The file is
/// durable and complete when the command ends. A store is opened read-only; if another process has
/// it open, it is read as of one moment, and such an export does not go on. Nor does one of a store
/// with locks. Let no export go on with a copy of its store: it is refused only if it has fewer
/// writes. Of a directory of titan serve, the store is the directory `versions`. A cluster holds
/// its safe point meanwhile.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of a store, or tikv:// and HOST:PORT of placement drivers, with commas between.
    #[arg(value_parser = Place::parse)]
    source: Place,
    /// File to write. A complete export is refused.
    pub(super) file: PathBuf,
    /// The first key to export, or the next one after it: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The key before which to stop.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Export the keys that begin so.
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true, conflicts_with_all = ["from", "to"])]
    prefix: Option<OsString>,
    /// Read as of this timestamp; by default, as of now.
    #[arg(long, value_name = "TS", value_parser = timestamp, allow_negative_numbers = true)]
    at: Option<Timestamp>,
    #[command(flatten)]
    network: Network,
}

const EXAMPLES: &str = "Examples:
  titan mvcc export history.db history.export
  titan mvcc export history.db greetings.export --prefix greeting

From a node or cluster:
  titan mvcc export tikv://127.0.0.1:2379 node.export
  titan mvcc export tikv://pd1:2379,pd2:2379 all.export --ca ca.pem --cert me.pem --key me.key";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let range = range(args)?;
    refuse_within(&args.source, &args.file)?;
    let started = Instant::now();
    let mut source = sides::open(&args.source, Access::Read, &args.network, global)?;
    let bar = progress::bytes("export", None);
    let exported = export::run(&mut *source, &args.file, range, args.at, &bar);
    bar.finish_and_clear();
    let closed = source.close();
    let exported = exported?;
    closed?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = &exported.summary;
    let mut out = Out::new();
    if global.json {
        out.json(&json!({
            "timestamp": exported.timestamp,
            "pairs": summary.pairs,
            "bytes": summary.bytes,
            "sha256": summary.checksum_text(),
            "pairs_kept": exported.kept,
            "file_bytes": exported.length,
            "seconds": seconds,
        }))?;
    } else {
        let kept = match exported.kept {
            0 => String::new(),
            kept => format!(", {} of an interrupted export", output::count(kept)),
        };
        out.line(format_args!(
            "exported {} pairs, {}, as of {}{kept}",
            output::count(summary.pairs),
            output::size(summary.bytes),
            exported.timestamp
        ))?;
        out.line(format_args!(
            "file {}, {}",
            output::size(exported.length),
            output::seconds(seconds)
        ))?;
        out.line(format_args!("sha256 {}", summary.checksum_text()))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn range(args: &Args) -> Result<KeyRange> {
    if let Some(prefix) = keys::parse_if_given(&args.prefix)? {
        return Ok(KeyRange::of_prefix(&prefix));
    }
    let from = keys::parse_if_given(&args.from)?;
    Ok(KeyRange {
        from: from.unwrap_or_default().into(),
        to: keys::parse_if_given(&args.to)?.map(Into::into),
    })
}

/// Refuses a file in the directory of its source.
fn refuse_within(source: &Place, file: &Path) -> Result<()> {
    let Place::Directory(dir) = source else {
        return Ok(());
    };
    match (dir.canonicalize(), directory_of(file).canonicalize()) {
        (Ok(dir), Ok(parent)) if parent.starts_with(&dir) => {
            let what = "the file of an export cannot be in the directory of its store";
            Err(Error::invalid_argument(what))
        }
        _ => Ok(()),
    }
}
