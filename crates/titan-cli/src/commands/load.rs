//! `titan load`: stores files, or the records of files, in a database.
//!
//! Entries are committed in batches of about 1 MB, each completely or not at all. An interruption
//! (Ctrl-C, `kill`) therefore needs no handling: entries that the progress bar counted have been
//! committed and persist, and the database recovers at the next opening. A load in bulk looks for
//! Ctrl-C, removes its temporary files, and says which entries it has loaded: none, or those with
//! large values.

mod bulk;
mod files;
mod loader;
mod piped;
mod records;
mod walk;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::{ValueEnum, value_parser};
use serde::Serialize;
use serde_json::json;
use titan::{Db, DiskUsage, Error, Result};

use crate::global::Global;
use crate::output::{self, Out, Table};
use crate::target::Target;
use crate::usage::{Live, disk_usage};
use crate::{interrupt, progress};

use bulk::Bulk;
use loader::{Loader, Tally};
use records::is_standard_input;
use walk::Walk;

/// Store files, or the records of files, in a database
///
/// Every regular file under the paths becomes an entry: its path as typed is the key (without a
/// leading `./`), its contents are the value. Symbolic links are not followed. Files that cannot
/// be read are reported and left out, and the exit status is then 1. With --format, each record of
/// each file becomes an entry instead. The database is created if it does not exist, unless every
/// file fails. An interrupted load keeps what it has loaded. A store of versions and a volume of
/// TiFS are refused.
///
/// Of entries with the same key, the last one counts, also with --bulk. That writes no log: it
/// sorts entries outside of memory, and adds them in one step at the end, as `titan ingest` does.
/// So a load that fails or is interrupted has loaded nothing, but for values of min_blob_size and
/// more: they go to blob files as they come, and an error says how many did. Files and records that
/// are left out are no such failure. Until the end, sorted entries take their bytes once, and twice
/// if the input is not sorted, beside the database. Tables go below all others, or above those with
/// keys of their range, where compactions merge them. Among large values they go above all others,
/// since the pointers to those are there.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Files, and directories to walk; with --format, - is standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Store the records of the files: lines of JSON objects, or rows after a header line. The
    /// value is the record as a JSON object.
    #[arg(long, value_enum, requires = "key")]
    format: Option<Format>,
    /// The field of a record that is its key: text, or a number as it is written.
    #[arg(
        long,
        value_name = "FIELD",
        allow_hyphen_values = true,
        requires = "format"
    )]
    key: Option<String>,
    /// Column family, created if it does not exist.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Add all entries in one step, past the log. For many entries, sorted or not.
    #[arg(long)]
    bulk: bool,
    /// Directory for the temporary directory of --bulk; without it, the one that has the database.
    /// On another file system, tables are copied. A load that is killed leaves it: DB.bulk-1.
    #[arg(long, value_name = "DIR", requires = "bulk")]
    temp: Option<PathBuf>,
    /// Memory for sorting; without it, 256, or a quarter of the memory that is left.
    #[arg(long, value_name = "MIB", requires = "bulk", value_parser = value_parser!(u32).range(1..=1 << 20))]
    sort_memory: Option<u32>,
    /// Write also to a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  titan load photos.db Pictures
  titan load people.db people.csv --format csv --key email
  titan load people.db people.csv --format csv --key email --bulk
  cat people.csv | titan load sorted.db - --format csv --key email --bulk";

/// The format of a file of records.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One JSON object per line.
    Jsonl,
    /// Comma-separated values; the first row has the names of the fields.
    Csv,
}

#[derive(Serialize)]
struct Summary {
    #[serde(flatten)]
    tally: Tally,
    seconds: f64,
    bytes_per_sec: f64,
    disk: DiskUsage,
    live: Live,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if args.format.is_none() && args.paths.iter().any(|path| is_standard_input(path)) {
        let why = "standard input is read with --format only, as records";
        return Err(Error::invalid_argument(why));
    }
    let target = Target::open(&args.db, args.cf.as_deref(), args.force, global)?;
    if args.bulk {
        interrupt::leave_to_command();
    }
    let started = Instant::now();
    let tally = match load(args, &target) {
        Ok(tally) => tally,
        Err(failed) if args.bulk && !failed.has_committed && target.was_made() => {
            return Err(target.undo_after(failed.error));
        }
        Err(failed) => return Err(failed.error),
    };
    if target.was_made() && tally.entries == 0 && tally.failed > 0 {
        return Err(target.undo_after(nothing_loaded(&tally)));
    }
    interrupt::name("count");
    let counted = count(&args.db, target.db, tally, started);
    let counted = counted.map_err(|e| e.context(all_loaded(&tally)))?;
    let (Some(summary), false) = (counted, interrupt::has_come()) else {
        tell_interrupted(&tally);
        return Ok(ExitCode::SUCCESS);
    };
    let mut out = Out::new();
    if global.json {
        out.json(&summary)?;
    } else {
        print(&summary, args.format.is_some(), &mut out)?;
    }
    out.flush()?;
    if summary.tally.failed > 0 {
        let failed = output::count(summary.tally.failed);
        output::complain(&Error::invalid_argument(format!(
            "{failed} not loaded, see above"
        )));
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}

/// Ends a complete load. None after the signal, since nobody waits for the summary then.
fn count(directory: &Path, db: Db, tally: Tally, started: Instant) -> Result<Option<Summary>> {
    db.flush_all()?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = match interrupt::has_come() {
        true => None,
        false => Some(Summary {
            seconds,
            bytes_per_sec: tally.bytes as f64 / seconds.max(1e-9),
            disk: disk_usage(directory)?,
            live: Live::count(&db)?,
            tally,
        }),
    };
    db.close().map(|()| summary)
}

/// Says that the signal came too late.
fn tell_interrupted(tally: &Tally) {
    let loaded = all_loaded(tally);
    match output::is_json() {
        true => output::tell(json!({ "loaded": tally })),
        false => output::tell(format_args!("titan: {loaded}")),
    }
}

/// A load that ended with an error.
struct Failed {
    error: Error,
    /// Whether entries are in the database.
    has_committed: bool,
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed {
            error,
            has_committed: false,
        }
    }
}

/// Stores the files under the paths.
fn load(args: &Args, target: &Target<'_>) -> Result<Tally, Failed> {
    let bulk = args.bulk.then(|| {
        let memory = args.sort_memory.map(|mib| u64::from(mib) << 20);
        Bulk::new(&args.db, &target.family, args.temp.as_deref(), memory)
    });
    let bulk = bulk.transpose()?;
    let place = bulk.as_ref().map(|bulk| bulk.place().to_owned());
    let left_out: Vec<&Path> = place.as_deref().into_iter().chain([&*args.db]).collect();
    // The total is only computed for a visible bar.
    let has_total = progress::visible() && !args.paths.iter().any(|path| is_standard_input(path));
    let total = match has_total {
        true => Some(Walk::new(&args.paths, &left_out)?.total_bytes()),
        false => None,
    };
    let progress = progress::bytes("load", total);
    let mut loader = Loader::new(&target.db, &target.family, bulk, progress);
    let loaded = load_paths(args, &left_out, &mut loader).and_then(|()| loader.finish());
    loaded.map_err(|e| Failed {
        has_committed: loader.has_committed(),
        error: loader.give_up(e),
    })
}

fn load_paths(args: &Args, left_out: &[&Path], loader: &mut Loader<'_>) -> Result<()> {
    for path in &args.paths {
        if is_standard_input(path) {
            load_file(args, path, loader)?;
            continue;
        }
        for found in Walk::new(std::slice::from_ref(path), left_out)?.files() {
            match found {
                Err(error) => loader.failed(&error)?,
                Ok(walk::Found::Skipped) => loader.skipped(),
                Ok(walk::Found::File(path)) => load_file(args, &path, loader)?,
            }
        }
    }
    Ok(())
}

fn load_file(args: &Args, path: &Path, loader: &mut Loader<'_>) -> Result<()> {
    match (args.format, &args.key) {
        (Some(Format::Jsonl), Some(field)) => records::load_jsonl(path, field, loader),
        (Some(Format::Csv), Some(field)) => records::load_csv(path, field, loader),
        _ => files::load_file(path, loader),
    }
}

/// The result of a complete load.
fn all_loaded(tally: &Tally) -> String {
    match tally.failed {
        0 => "everything was loaded".to_owned(),
        failed => format!("everything but {} was loaded", output::count(failed)),
    }
}

fn nothing_loaded(tally: &Tally) -> Error {
    let failed = output::count(tally.failed);
    Error::invalid_argument(format!("nothing loaded, {failed} failed, see above"))
}

fn print(summary: &Summary, records: bool, out: &mut Out) -> Result<()> {
    let Summary {
        tally,
        seconds,
        bytes_per_sec,
        disk,
        live,
    } = summary;
    let files = output::count(tally.files);
    let bytes = output::size(tally.bytes);
    let time = output::seconds(*seconds);
    let rate = output::size(*bytes_per_sec as u64);
    if records {
        let entries = output::count(tally.entries);
        out.line(format_args!(
            "{entries} records of {files} files, {bytes}, {time}, {rate}/s"
        ))?;
    } else {
        out.line(format_args!("{files} files, {bytes}, {time}, {rate}/s"))?;
    }
    if tally.skipped > 0 {
        let skipped = output::count(tally.skipped);
        out.line(format_args!(
            "{skipped} symbolic links and special files left out"
        ))?;
    }
    let keys = output::count(live.keys);
    let live_bytes = output::size(live.bytes);
    out.line(format_args!(
        "now in the database: {keys} keys, {live_bytes} live"
    ))?;
    let mut table = Table::new(&["on disk", "bytes", "per live byte"]);
    for (name, bytes) in [
        ("SST", disk.sst_bytes),
        ("blob", disk.blob_bytes),
        ("blob maps", disk.map_bytes),
        ("WAL", disk.wal_bytes),
        ("SST + blob + maps", disk.data_bytes()),
    ] {
        let share = output::ratio_text(output::ratio(bytes, live.bytes));
        table.row([name.to_owned(), output::size(bytes), share]);
    }
    out.line(table)
}
