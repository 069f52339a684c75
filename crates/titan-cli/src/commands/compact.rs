//! `titan compact`: merges the tables into as few files as possible.
//!
//! Ctrl-C closes the database: finished compactions persist, and nothing unfinished is left.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use indicatif::ProgressBar;
use serde_json::json;
use titan::{CompactRangeOptions, CompactionEvent, EventListener, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{interrupt, keys, progress, usage};

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
    let bar = progress::bytes("compact", None);
    let counts = Arc::new(Counts { bar: bar.clone() });
    let db = open::open_with(&args.db, global, Access::Write, vec![counts])?;
    let closing = db.clone();
    let close = move || closing.close();
    let (before, seconds) = interrupt::closing(close, "finished compactions are kept", || {
        let before = usage::disk_usage(&args.db)?;
        let started = Instant::now();
        let families = open::family_or_all(&db, args.cf.as_deref())?;
        let mut each = families.iter();
        let compacted =
            each.try_for_each(|f| f.compact_range(from.as_deref(), to.as_deref(), &options));
        bar.finish_and_clear();
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

/// Counts the bytes that compactions have written.
struct Counts {
    bar: ProgressBar,
}

impl EventListener for Counts {
    fn compaction_finished(&self, event: &CompactionEvent) {
        self.bar.inc(event.bytes_written);
    }
}
