//! `titan compact`: merges the tables into as few files as possible.
//!
//! Ctrl-C closes the database: finished compactions persist, and nothing unfinished is left.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use serde_json::json;
use titan::{CompactRangeOptions, CompactionEvent, EventListener, FlushEvent, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::progress::Looking;
use crate::{interrupt, keys, usage};

/// Compact a range of keys, or everything
///
/// It can be interrupted at any time and keeps the compactions that have ended.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The first key: text, or hexadecimal after 0x.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The last key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Column family; without it, all families.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Rewrite the last level too: applies changed options to all data.
    #[arg(long)]
    force: bool,
}

const EXAMPLES: &str = "Examples:
  titan compact photos.db
  titan compact photos.db --from Pictures/2025 --to Pictures/2026";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (from, to) = (
        keys::parse_if_given(&args.from)?,
        keys::parse_if_given(&args.to)?,
    );
    let options = CompactRangeOptions {
        force_bottommost: args.force,
    };
    let written = Arc::new(Written::new(&args.db));
    let looked_at = Arc::clone(&written);
    let db = open::open_with(&args.db, global, Access::Write, vec![written])?;
    let progress = Looking::new("compact", None, move || looked_at.bytes());
    let closing = db.clone();
    let close = move || closing.close();
    let (before, seconds) = interrupt::closing(close, "finished compactions are kept", || {
        let before = usage::disk_usage(&args.db)?;
        let started = Instant::now();
        let families = open::family_or_all(&db, args.cf.as_deref())?;
        let mut each = families.iter();
        let compacted =
            each.try_for_each(|f| f.compact_range(from.as_deref(), to.as_deref(), &options));
        drop(progress);
        compacted?;
        Ok((before, started.elapsed().as_secs_f64()))
    })?;
    let after = usage::disk_usage(&args.db)?;
    let mut out = Out::new();
    if global.json {
        out.json(&json!({ "seconds": seconds, "before": before, "after": after }))?;
    } else {
        out.line(usage::before_and_after(&before, &after))?;
        out.line(output::seconds(seconds))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The bytes that compactions have written, those of one that runs included.
struct Written {
    dir: PathBuf,
    /// By compactions that have ended.
    ended: AtomicU64,
    /// The newest table that none of those that run has written.
    before: AtomicU64,
}

impl Written {
    fn new(dir: &Path) -> Self {
        let written = Written {
            dir: dir.to_owned(),
            ended: AtomicU64::new(0),
            before: AtomicU64::new(0),
        };
        written.pass_over();
        written
    }

    /// The tables, by their numbers, with their lengths.
    fn tables(&self) -> impl Iterator<Item = (u64, u64)> {
        let entries = std::fs::read_dir(&self.dir).into_iter().flatten();
        entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let number = entry.file_name().to_str()?.strip_suffix(".sst")?.parse();
            Some((number.ok()?, entry.metadata().ok()?.len()))
        })
    }

    /// Counts the tables that there are no more.
    fn pass_over(&self) {
        let newest = self.tables().map(|(number, _)| number).max();
        let newest = newest.unwrap_or_default();
        self.before.store(newest, Ordering::Relaxed);
    }

    fn bytes(&self) -> u64 {
        let before = self.before.load(Ordering::Relaxed);
        let running = self.tables().filter(|(number, _)| *number > before);
        let running: u64 = running.map(|(_, bytes)| bytes).sum();
        self.ended.load(Ordering::Relaxed) + running
    }
}

impl EventListener for Written {
    fn flush_finished(&self, _: &FlushEvent) {
        self.pass_over();
    }

    fn compaction_finished(&self, event: &CompactionEvent) {
        self.ended.fetch_add(event.bytes_written, Ordering::Relaxed);
        self.pass_over();
    }
}
