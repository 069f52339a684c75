//! `titan mvcc import`: writes the pairs of an export to a store, node or cluster.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde_json::json;
use titan::{Error, ErrorKind, Result};

use crate::global::Global;
use crate::output::{self, Out};
use crate::store::AnyClock;
use crate::transfer::import::{self, Comparison, Source};
use crate::transfer::pairs::Summary;
use crate::transfer::sides::{self, Access, Network, Place, Side};
use crate::{keys, progress};

/// Write the keys and values of an export to a store, node or cluster, and verify them
///
/// The range of the export is to have its pairs and no others in the target. A target with other
/// keys or values in the range is refused before anything is written, as is a damaged file. With
/// --overwrite they are replaced and deleted. After an interruption, run the same command again: it
/// writes what is still missing. At last the range is read as of one timestamp, and compared with
/// the count and checksum of the file. Stop other writers of the range before. Commit timestamps
/// are new ones. A missing store is made.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// File of titan mvcc export.
    pub(super) file: PathBuf,
    /// Directory of a store, or tikv:// and HOST:PORT of placement drivers, with commas between.
    #[arg(value_parser = Place::parse)]
    target: Place,
    /// Delete other keys in the range of the export, and replace other values.
    #[arg(long)]
    overwrite: bool,
    /// Only compare the target with the export: the exit status is 1 if they differ.
    #[arg(long, conflicts_with = "overwrite")]
    check: bool,
    #[command(flatten)]
    network: Network,
    #[command(flatten)]
    clock: AnyClock,
}

const EXAMPLES: &str = "Examples:
  titan mvcc export history.db history.export
  titan mvcc import history.export copy.db
  titan mvcc import history.export copy.db --check --json | jq .same

To a node or cluster:
  titan mvcc import history.export tikv://127.0.0.1:2379
  titan mvcc import all.export tikv://pd1:2379,pd2:2379 --ca ca.pem --cert me.pem --key me.key";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let started = Instant::now();
    let source = Source::open(&args.file)?;
    let access = match args.check {
        true => Access::Read,
        false => Access::Write(&args.clock),
    };
    if args.target.is_missing() {
        // Otherwise a damaged file would leave an empty store behind.
        let bar = progress::bytes("check", Some(source.length));
        let checked = source.check(&bar);
        bar.finish_and_clear();
        checked?;
    }
    let mut target = sides::open(&args.target, access, &args.network, global)?;
    let outcome = work(args, &source, &mut *target);
    let closed = target.close();
    let (before, summary, verified_at) = outcome?;
    closed?;
    let seconds = started.elapsed().as_secs_f64();
    let mut out = Out::new();
    if global.json {
        out.json(&json!({
            "timestamp": source.header.timestamp,
            "pairs": summary.pairs,
            "bytes": summary.bytes,
            "sha256": summary.checksum_text(),
            "same": before.same,
            "missing": before.missing,
            "other": before.other,
            "extra": before.extra,
            "verified_at": verified_at,
            "seconds": seconds,
        }))?;
    } else {
        print(args, &before, &summary, &mut out)?;
        if let Some(at) = verified_at {
            out.line(format_args!(
                "verified as of {at}, {}",
                output::seconds(seconds)
            ))?;
        }
        out.line(format_args!("sha256 {}", summary.checksum_text()))?;
    }
    out.flush()?;
    match (&before.first, args.check) {
        (Some(key), true) => {
            let key = keys::escaped(key);
            let what = format!("the target differs from the export, first at {key}");
            output::complain(&Error::new(ErrorKind::Conflict, what));
            Ok(ExitCode::FAILURE)
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Compares, writes and verifies. Returns the comparison, count and checksum of the export, and the
/// timestamp of the verification.
fn work(
    args: &Args,
    source: &Source<'_>,
    target: &mut dyn Side,
) -> Result<(Comparison, Summary, Option<titan_mvcc::Timestamp>)> {
    let bar = progress::bytes("compare", Some(source.length));
    let compared = source.compare(target, &bar);
    bar.finish_and_clear();
    let (before, summary) = compared?;
    if args.check {
        return Ok((before, summary, None));
    }
    if !args.overwrite {
        import::refuse_foreign(&before)?;
    }
    if let Some(first) = &before.first {
        let bar = progress::bytes("import", Some(source.length));
        let written = source.write(target, first, args.overwrite, &bar);
        bar.finish_and_clear();
        written?;
    }
    let bar = progress::bytes("verify", Some(summary.bytes));
    let verified = import::verify(target, &source.header.range, &summary, &bar);
    bar.finish_and_clear();
    Ok((before, summary, Some(verified?)))
}

fn print(args: &Args, before: &Comparison, summary: &Summary, out: &mut Out) -> Result<()> {
    let Comparison {
        same,
        missing,
        other,
        extra,
        ..
    } = before;
    let [same, missing, other, extra] = [same, missing, other, extra].map(|n| output::count(*n));
    let (pairs, bytes) = (output::count(summary.pairs), output::size(summary.bytes));
    match args.check {
        true => out.line(format_args!(
            "the export has {pairs} pairs, {bytes}: {same} are the same in the target, {missing} missing, \
             {other} have other values; {extra} other keys"
        )),
        false => out.line(format_args!(
            "imported {missing} of {pairs} pairs, {bytes}: {same} were there, {other} values replaced, \
             {extra} keys deleted"
        )),
    }
}
