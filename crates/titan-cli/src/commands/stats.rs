//! `titan stats`: shows the components of a database.

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use titan::{Db, DiskUsage, FamilyMetrics, Metrics, Moment, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out, Table};
use crate::{levels, usage};

/// Show levels, blob files, memtables and counters
///
/// For blob files: the live bytes, to which tables refer; the estimated part of these that newer
/// entries shadow, as garbage that compactions have yet to find; and the known garbage. titan space
/// recommends what to do about it.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
}

const EXAMPLES: &str = "Examples:
  titan stats photos.db
  titan stats photos.db --json | jq '.families[0].levels'";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let db = open::open(&args.db, global, Access::Read)?;
    let disk = usage::disk_usage(&args.db)?;
    let mut out = Out::new();
    if global.json {
        out.json(&Document {
            moment: db.moment(),
            metrics: db.metrics(),
            disk,
        })?;
    } else {
        print(&db, &disk, &mut out)?;
    }
    out.flush()?;
    db.close()?;
    Ok(ExitCode::SUCCESS)
}

/// The engine's own metrics, and related figures.
#[derive(Serialize)]
struct Document {
    #[serde(skip_serializing_if = "Option::is_none")]
    moment: Option<Moment>,
    #[serde(flatten)]
    metrics: Metrics,
    disk: DiskUsage,
}

fn print(db: &Db, disk: &DiskUsage, out: &mut Out) -> Result<()> {
    let metrics = db.metrics();
    for family in &metrics.families {
        print_family(family, out)?;
        out.line("")?;
    }
    out.line("Database")?;
    let mut table = Table::new(&["on disk", "bytes"]);
    for (kind, bytes) in [
        ("SST", disk.sst_bytes),
        ("blob", disk.blob_bytes),
        ("blob maps", disk.map_bytes),
        ("WAL", disk.wal_bytes),
        ("MANIFEST", disk.manifest_bytes),
        ("other", disk.other_bytes),
    ] {
        table.row([kind.to_owned(), output::size(bytes)]);
    }
    out.line(table)?;
    let files = disk.sst_bytes.saturating_add(disk.blob_bytes);
    let of_family = |family: &FamilyMetrics| family.table_bytes().saturating_add(family.blob_bytes);
    let shown: u64 = metrics.families.iter().map(of_family).sum();
    if let more @ 1.. = shown.saturating_sub(files) {
        // Reading a database replays its WAL into tables and blob files in memory.
        out.line(format_args!(
            "  the column families have {} more: data that only the WAL has counts there as if it were flushed",
            output::size(more)
        ))?;
    }
    out.line(format_args!(
        "  last sequence number {}",
        metrics.last_sequence
    ))?;
    out.line(format_args!(
        "  open files {} of {}, their memory {} of {}",
        output::count(metrics.open_files as u64),
        output::count(metrics.max_open_files),
        output::size(metrics.open_files_memory),
        output::size(metrics.max_open_files_memory),
    ))?;
    let memory = metrics.data_memory.map(output::size);
    out.line(format_args!(
        "  data of {} taken {} in memory; half of the memory left is {}",
        output::size(metrics.data_bytes),
        match metrics.data_in_memory {
            true => "to fit",
            false => "not to fit",
        },
        memory.as_deref().unwrap_or("not known")
    ))?;
    out.line(format_args!(
        "  block cache {}, snapshots {}",
        output::size(metrics.block_cache_bytes),
        metrics.snapshots
    ))?;
    out.line("")?;
    out.line("Counters since the database was opened")?;
    let mut table = Table::new(&["counter", "count"]);
    for (name, n) in db
        .statistics()
        .counters()
        .into_iter()
        .filter(|(_, n)| *n > 0)
    {
        table.row([name.replace('_', " "), output::count(n)]);
    }
    out.line(table)
}

fn print_family(family: &FamilyMetrics, out: &mut Out) -> Result<()> {
    out.line(format_args!("Column family {}", family.name))?;
    out.line(levels::table(family))?;
    out.line(levels::blob_files(family))?;
    out.line(format_args!(
        "  memtables {}, waiting for flush {}",
        output::size(family.memtable_bytes),
        family.immutable_memtables
    ))?;
    out.line(format_args!(
        "  keys about {}, tombstones {}, waiting for compaction {}, writes {}",
        output::count(family.estimated_keys),
        output::count(family.tombstones),
        output::size(family.pending_compaction_bytes),
        family.stall
    ))
}
