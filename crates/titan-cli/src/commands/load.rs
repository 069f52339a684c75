//! `titan load`: stores files, or the records of files, in a database.
//!
//! Entries are committed in batches of about 1 MB, each completely or not at all. An interruption
//! (Ctrl-C, `kill`) therefore needs no handling: entries that the progress bar counted have been
//! committed and persist, and the database recovers at the next opening.

mod files;
mod loader;
mod records;
mod walk;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::ValueEnum;
use serde::Serialize;
use titan::{ColumnFamily, Db, DiskUsage, Error, Result};

use crate::global::Global;
use crate::output::{self, Out, Table};
use crate::progress;
use crate::target::Target;
use crate::usage::{Live, disk_usage};

use loader::{Loader, Tally};
use walk::Walk;

/// Store files, or the records of files, in a database
///
/// Every regular file under the paths becomes an entry: its path as typed is the key (without a
/// leading `./`), its contents are the value. Symbolic links are not followed. Files that cannot
/// be read are reported and left out, and the exit status is then 1. With --format, each record of
/// each file becomes an entry instead. The database is created if it does not exist, unless every
/// file fails. An interrupted load keeps what it has loaded. A store of versions and a volume of
/// TiFS are refused.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// Files, and directories to walk.
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
    /// Write also to a store of versions or a volume of TiFS, which that may damage.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  titan load photos.db Pictures
  titan load people.db people.csv --format csv --key email";

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
    let target = Target::open(&args.db, args.cf.as_deref(), args.force, global)?;
    let started = Instant::now();
    let tally = load(args, &target.db, &target.family)?;
    if target.was_made() && tally.entries == 0 && tally.failed > 0 {
        return Err(target.undo_after(nothing_loaded(&tally)));
    }
    let db = target.db;
    db.flush_all()?;
    let seconds = started.elapsed().as_secs_f64();
    let summary = Summary {
        seconds,
        bytes_per_sec: tally.bytes as f64 / seconds.max(1e-9),
        disk: disk_usage(&args.db)?,
        live: Live::count(&db)?,
        tally,
    };
    db.close()?;
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

/// Stores the files under the paths.
fn load(args: &Args, db: &Db, family: &ColumnFamily) -> Result<Tally> {
    let walk = Walk::new(&args.paths, &args.db)?;
    // The total is only computed for a visible bar.
    let total = progress::visible().then(|| walk.total_bytes());
    let mut loader = Loader::new(db, family, progress::bytes("load", total));
    for found in walk.files() {
        match (found, args.format, &args.key) {
            (Err(error), ..) => loader.failed(&error),
            (Ok(walk::Found::Skipped), ..) => loader.skipped(),
            (Ok(walk::Found::File(path)), Some(Format::Jsonl), Some(field)) => {
                records::load_jsonl(&path, field, &mut loader)?;
            }
            (Ok(walk::Found::File(path)), Some(Format::Csv), Some(field)) => {
                records::load_csv(&path, field, &mut loader)?;
            }
            (Ok(walk::Found::File(path)), ..) => files::load_file(&path, &mut loader)?,
        }
    }
    loader.finish()
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
