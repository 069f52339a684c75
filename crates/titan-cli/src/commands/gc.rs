//! `titan gc`: frees the space of overwritten and deleted values now.
//!
//! Ctrl-C closes the database: completed collections persist, and nothing unfinished is left.
//! Killing the process is as safe; the next opening deletes the files that were being written.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use indicatif::ProgressBar;
use serde_json::json;
use titan::{CollectGarbageOptions, GarbageCollectionProgress, GarbageCollectionSummary, Result};

use crate::global::Global;
use crate::open::{self, Access};
use crate::output::{self, Out};
use crate::{interrupt, keys, progress, status, usage};

/// Free the space of overwritten and deleted values
///
/// Compacts, then moves the live values out of blob files with garbage and deletes these files.
/// RocksDB refuses a database in which values have been moved, until titan downgrade. Damaged files
/// are reported and left as they are; the exit status is then 6. It can be interrupted at any time
/// and keeps what it has done.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the database.
    db: PathBuf,
    /// The first key: text, or hexadecimal after 0x. Only blob files with values in the range are
    /// collected.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    from: Option<OsString>,
    /// The last key.
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    to: Option<OsString>,
    /// Column family; without it, all families.
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    cf: Option<String>,
    /// Skip files in which garbage is no more than this share.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    threshold: f64,
    /// Collect only garbage that is already known.
    #[arg(long)]
    no_compact: bool,
}

const EXAMPLES: &str = "Examples:
  titan gc photos.db
  titan gc photos.db --from Pictures/2025 --to Pictures/2026
  titan gc photos.db --threshold 0.2      # files with at least 80 % alive stay

See what there is to gain with titan space.";

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let (from, to) = (
        keys::parse_if_given(&args.from)?,
        keys::parse_if_given(&args.to)?,
    );
    let bar = progress::bytes("gc", Some(0));
    let options = CollectGarbageOptions {
        threshold: args.threshold,
        compact: !args.no_compact,
        progress: Some(shown_by(&bar)),
    };
    options.validate()?;
    let db = open::open(&args.db, global, Access::Write)?;
    let closing = db.clone();
    let close = move || closing.close();
    let (before, summary, seconds) =
        interrupt::closing(close, "completed collections are kept", || {
            let before = usage::disk_usage(&args.db)?;
            let started = Instant::now();
            let families = open::family_or_all(&db, args.cf.as_deref())?;
            let each = families.iter();
            let summaries = each
                .map(|family| family.collect_garbage(from.as_deref(), to.as_deref(), &options))
                .collect::<Result<Vec<_>>>();
            bar.finish_and_clear();
            Ok((before, total(summaries?), started.elapsed().as_secs_f64()))
        })?;
    let after = usage::disk_usage(&args.db)?;
    let mut out = Out::new();
    if global.json {
        out.json(&json!({
            "seconds": seconds,
            "summary": summary,
            "bytes_freed": summary.bytes_freed(),
            "before": before,
            "after": after,
        }))?;
    } else {
        out.line(usage::before_and_after(&before, &after))?;
        out.line(in_words(&summary, seconds))?;
    }
    out.flush()?;
    for damaged in &summary.damaged {
        output::complain(&damaged.error);
    }
    Ok(match summary.damaged.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(status::DAMAGED),
    })
}

/// Makes one bar follow the collections of all families in turn.
pub(super) fn shown_by(bar: &ProgressBar) -> Arc<dyn Fn(GarbageCollectionProgress) + Send + Sync> {
    let bar = bar.clone();
    Arc::new(move |at: GarbageCollectionProgress| {
        bar.set_length(at.total_bytes);
        bar.set_position(at.done_bytes);
    })
}

fn total(summaries: Vec<GarbageCollectionSummary>) -> GarbageCollectionSummary {
    let mut total = GarbageCollectionSummary::default();
    for summary in summaries {
        total.files.extend(summary.files);
        total.input_bytes += summary.input_bytes;
        total.bytes_read += summary.bytes_read;
        total.bytes_written += summary.bytes_written;
        total.damaged.extend(summary.damaged);
    }
    total
}

fn in_words(summary: &GarbageCollectionSummary, seconds: f64) -> String {
    let time = output::seconds(seconds);
    match summary.files.len() {
        0 => format!("no blob file had to be rewritten, {time}"),
        n => format!(
            "{} blob files collected: {} freed, {} read, {} written, {time}",
            output::count(n as u64),
            output::size(summary.bytes_freed()),
            output::size(summary.bytes_read),
            output::size(summary.bytes_written),
        ),
    }
}
