//! `titan mvcc gc`: moves the safe point and drops versions that no read can find.
//!
//! Ctrl-C closes the store: the safe point stays moved, and dropped versions stay dropped.
//!
//! The safe point does not pass locks. Their time to live begins anew when a store is opened, so
//! the command waits for it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use titan::{CollectGarbageOptions, Error, Result};
use titan_mvcc::{Store, Timestamp, VersionSpace};

use super::super::gc::shown_by;
use crate::global::Global;
use crate::output::{self, Out};
use crate::store::{AnyClock, timestamp, translated, write};
use crate::{interrupt, progress, usage};

/// Move the safe point, drop the versions before it that no read can find, and free their space
///
/// The safe point never moves back: later reads before it are refused, in all openings. Of each
/// key, the newest version at the safe point stays, and all newer ones. Locks that clients of the
/// Percolator calls have left stop the safe point: the command waits up to a minute until they
/// expire, ends them, and reports on standard error if some are left. It can be interrupted at any
/// time and keeps its progress.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the store.
    db: PathBuf,
    /// The new safe point: a timestamp, or `now`.
    #[arg(long, value_name = "TS|now", value_parser = goal, allow_negative_numbers = true)]
    safe_point: Goal,
    #[command(flatten)]
    clock: AnyClock,
}

/// The new safe point.
#[derive(Clone, Copy, Debug)]
enum Goal {
    At(Timestamp),
    Now,
}

fn goal(text: &str) -> Result<Goal, String> {
    match text {
        "now" => Ok(Goal::Now),
        _ => timestamp(text)
            .map(Goal::At)
            .map_err(|e| format!("{e}, or `now`")),
    }
}

const EXAMPLES: &str = "Examples:
  titan mvcc gc history.db --safe-point now
  titan mvcc gc history.db --safe-point $(titan mvcc put history.db greeting hello)";

/// The longest time to live that the command waits for.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The time between two checks for locks.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let store = write(&args.db, global, false, &args.clock)?;
    let closing = store.clone();
    let close = move || closing.close().map_err(translated);
    let (before, dropped, seconds) =
        interrupt::closing(close, "dropped versions stay dropped", || {
            let before = usage::disk_usage(&args.db)?;
            let started = Instant::now();
            let dropped = drop_old(&store, args.safe_point)?;
            Ok((before, dropped, started.elapsed().as_secs_f64()))
        })?;
    let after = usage::disk_usage(&args.db)?;
    let mut out = Out::new();
    let Dropped {
        safe_point,
        versions,
        left,
        locks,
    } = dropped;
    if global.json {
        out.json(&json!({
            "seconds": seconds,
            "safe_point": safe_point,
            "locks_before_it": locks,
            "versions_before": versions.versions,
            "versions_after": left.versions,
            "before": before,
            "after": after,
        }))?;
    } else {
        out.line(usage::before_and_after(&before, &after))?;
        out.line(format_args!(
            "safe point {safe_point}: {} of {} versions dropped, {}",
            output::count(versions.versions.saturating_sub(left.versions)),
            output::count(versions.versions),
            output::seconds(seconds)
        ))?;
    }
    out.flush()?;
    if locks > 0 && !global.json {
        let stop = match locks {
            1 => "1 lock stops".to_owned(),
            n => format!("{} locks stop", output::count(n as u64)),
        };
        output::tell(format_args!(
            "titan: {stop} the safe point: see titan mvcc locks"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

struct Dropped {
    safe_point: Timestamp,
    /// The number of locks that stopped it.
    locks: usize,
    /// Versions before and after.
    versions: VersionSpace,
    left: VersionSpace,
}

fn drop_old(store: &Store, goal: Goal) -> Result<Dropped> {
    let count = || -> Result<VersionSpace> {
        let report = store.space_report().map_err(translated)?;
        Ok(report.versions)
    };
    // Puts all versions into tables, which count them.
    store.db().flush_all()?;
    let versions = count()?;
    let to = match goal {
        Goal::At(at) => at,
        Goal::Now => store.now(),
    };
    let (safe_point, locks) = advance(store, to)?;
    store.drop_old_versions().map_err(translated)?;
    let bar = progress::bytes("gc", Some(0));
    let options = CollectGarbageOptions {
        progress: Some(shown_by(&bar)),
        // Already done.
        compact: false,
        ..CollectGarbageOptions::default()
    };
    let each = store.db().column_families();
    let summaries = each
        .iter()
        .map(|family| family.collect_garbage(None, None, &options));
    let summaries = summaries.collect::<Result<Vec<_>>>();
    bar.finish_and_clear();
    let damaged = summaries?.into_iter().flat_map(|summary| summary.damaged);
    if let Some(damaged) = damaged.into_iter().next() {
        return Err(Error::clone(&damaged.error)
            .context("old versions are dropped, but not their space freed"));
    }
    Ok(Dropped {
        safe_point,
        locks,
        versions,
        left: count()?,
    })
}

/// Moves the safe point. Returns it, and the number of locks that stopped it.
fn advance(store: &Store, to: Timestamp) -> Result<(Timestamp, usize)> {
    let begun = Instant::now();
    loop {
        let safe_point = store.advance_safe_point(to).map_err(translated)?;
        if safe_point >= to {
            return Ok((safe_point, 0));
        }
        let locks = store.percolator().scan_locks(to, b"", usize::MAX);
        let lives = locks.iter().map(|lock| lock.ttl);
        let waits = lives.filter(|ttl| *ttl <= LONGEST_WAIT).max();
        if waits.is_none_or(|ttl| begun.elapsed() > ttl + PAUSE) {
            return Ok((safe_point, locks.len()));
        }
        std::thread::sleep(PAUSE);
        // Fails if an interruption has closed the store; moving the safe point no further would not
        // notice.
        store.versions(b"").map_err(translated)?;
    }
}
