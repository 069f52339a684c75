//! Measurements of a step, as text and as JSON.

use serde::Serialize;
use titan::{DiskUsage, Result};

use super::args::Args;
use super::live::KnownBy;
use crate::output::{self, Out};

/// The measurements of one step. The field names are the interface of `--json`.
#[derive(Serialize)]
pub(super) struct StepReport {
    pub(super) name: &'static str,
    pub(super) ops: u64,
    pub(super) ops_per_sec: f64,
    /// Keys and values per second, in units of 1024 * 1024 bytes.
    pub(super) mb_per_sec: f64,
    /// Latency of a call, which with batches performs several operations.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    /// Bytes written to all files per byte of user data written; null for steps that only read.
    pub(super) write_amp: Option<f64>,
    /// SST and blob bytes on disk per live byte at the end; null if live bytes are unknown.
    pub(super) space_amp: Option<f64>,
    pub(super) space_amp_max: Option<f64>,
    pub(super) space_amp_mean: Option<f64>,
    /// As `space_amp_mean`, but of the garbage only the known part.
    pub(super) known_amp_mean: Option<f64>,
    pub(super) seconds: f64,
    /// The wait for compactions after the step, not part of `seconds`.
    pub(super) wait_seconds: f64,
    pub(super) threads: usize,
    /// Reads that found their key; null for steps without lookups.
    pub(super) found: Option<u64>,
    /// Steps of the engine's iterator; only for a store of versions, as the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) next: Option<u64>,
    /// Rows that reads found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) processed: Option<u64>,
    pub(super) user_bytes_written: u64,
    pub(super) bytes_written: WrittenBytes,
    /// Bytes on disk at the end, by kind of file.
    pub(super) disk: DiskUsage,
    pub(super) live_keys: Option<u64>,
    pub(super) live_bytes: Option<u64>,
    pub(super) live_known_by: Option<KnownBy>,
    /// Time that writes waited for flushes and compactions, summed over threads.
    pub(super) stall_seconds: f64,
    /// The largest resident set during the step.
    pub(super) peak_memory_bytes: Option<u64>,
    /// The writer of readwhilewriting, which the figures above exclude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) background: Option<Background>,
    /// Upper bounds of latency in microseconds and the share of calls up to each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) histogram: Option<Vec<(f64, f64)>>,
}

/// Bytes written during a step, by the kind of writer.
#[derive(Clone, Copy, Serialize)]
pub(super) struct WrittenBytes {
    pub(super) wal: u64,
    pub(super) flush_sst: u64,
    pub(super) flush_blob: u64,
    pub(super) compaction_sst: u64,
    pub(super) compaction_blob: u64,
    pub(super) gc_blob: u64,
    pub(super) manifest: u64,
}

impl WrittenBytes {
    /// The bytes added since `earlier`.
    pub(super) fn since(&self, earlier: &WrittenBytes) -> WrittenBytes {
        WrittenBytes {
            wal: self.wal - earlier.wal,
            flush_sst: self.flush_sst - earlier.flush_sst,
            flush_blob: self.flush_blob - earlier.flush_blob,
            compaction_sst: self.compaction_sst - earlier.compaction_sst,
            compaction_blob: self.compaction_blob - earlier.compaction_blob,
            gc_blob: self.gc_blob - earlier.gc_blob,
            manifest: self.manifest - earlier.manifest,
        }
    }

    pub(super) fn total(&self) -> u64 {
        let WrittenBytes {
            wal,
            flush_sst,
            flush_blob,
            compaction_sst,
            compaction_blob,
            gc_blob,
            manifest,
        } = self;
        wal + flush_sst + flush_blob + compaction_sst + compaction_blob + gc_blob + manifest
    }
}

/// The operations of the writer that accompanies the other threads.
#[derive(Serialize)]
pub(super) struct Background {
    pub(super) writes: u64,
    pub(super) writes_per_sec: f64,
}

/// All steps of a run, and the settings they ran with.
#[derive(Serialize)]
pub(super) struct Report {
    steps: Vec<StepReport>,
    version: &'static str,
    num: u64,
    value_size: u32,
    threads: u16,
    sync: bool,
    seed: u64,
}

impl Report {
    pub(super) fn new(args: &Args, seed: u64, steps: Vec<StepReport>) -> Self {
        Report {
            steps,
            version: env!("CARGO_PKG_VERSION"),
            num: args.num,
            value_size: args.value_size,
            threads: args.threads,
            sync: args.sync,
            seed,
        }
    }
}

/// Prints a step: a line of results, then lines of costs.
pub(super) fn print(step: &StepReport, out: &mut Out) -> Result<()> {
    let StepReport {
        name,
        mb_per_sec,
        p50_us,
        p99_us,
        p999_us,
        ..
    } = step;
    let (ops, rate) = (
        output::count(step.ops),
        output::count(step.ops_per_sec as u64),
    );
    let amp = output::ratio_text;
    out.line(format_args!(
        "{name:<16} : {ops} ops, {rate} ops/s, {mb_per_sec:.1} MB/s, p50 {p50_us:.1} us, \
         p99 {p99_us:.1} us, p99.9 {p999_us:.1} us, write_amp {}, space_amp {} (max {}, mean {})",
        amp(step.write_amp),
        amp(step.space_amp),
        amp(step.space_amp_max),
        amp(step.space_amp_mean)
    ))?;
    let mut took = vec![output::seconds(step.seconds)];
    if step.wait_seconds >= 0.01 {
        took.push(format!(
            "then {} for compactions",
            output::seconds(step.wait_seconds)
        ));
    }
    if step.stall_seconds >= 0.01 {
        took.push(format!("stalled {}", output::seconds(step.stall_seconds)));
    }
    if let Some(found) = step.found {
        took.push(format!("{} found", output::count(found)));
    }
    if let (Some(next), Some(processed)) = (step.next, step.processed)
        && processed > 0
    {
        let (next, processed) = (output::count(next), output::count(processed));
        took.push(format!("{next} next, {processed} processed"));
    }
    if let Some(background) = &step.background {
        let rate = output::count(background.writes_per_sec as u64);
        took.push(format!(
            "{} writes beside, {rate}/s",
            output::count(background.writes)
        ));
    }
    if let Some(bytes) = step.peak_memory_bytes {
        took.push(format!("peak memory {}", output::size(bytes)));
    }
    out.line(format_args!("    {}", took.join(", ")))?;
    let (disk, written) = (&step.disk, &step.bytes_written);
    out.line(format_args!(
        "    on disk: SST {}, blob {}, WAL {}, MANIFEST {}",
        output::size(disk.sst_bytes),
        output::size(disk.blob_bytes),
        output::size(disk.wal_bytes),
        output::size(disk.manifest_bytes)
    ))?;
    if written.total() > 0 {
        out.line(format_args!(
            "    written: user {}, WAL {}, flush {} + {} blob, compaction {} + {} blob, \
             garbage collection {}, MANIFEST {}",
            output::size(step.user_bytes_written),
            output::size(written.wal),
            output::size(written.flush_sst),
            output::size(written.flush_blob),
            output::size(written.compaction_sst),
            output::size(written.compaction_blob),
            output::size(written.gc_blob),
            output::size(written.manifest)
        ))?;
    }
    if let (Some(keys), Some(bytes), Some(known)) =
        (step.live_keys, step.live_bytes, step.live_known_by)
    {
        let how = match known {
            KnownBy::Tracking => "",
            KnownBy::Scan => ", earlier ones counted by a scan",
            KnownBy::Assumption => ", all assumed to exist at first",
        };
        let (keys, bytes) = (output::count(keys), output::size(bytes));
        out.line(format_args!("    live: {keys} keys, {bytes}{how}"))?;
    }
    for (bound, share) in step.histogram.iter().flatten() {
        out.line(format_args!(
            "    <= {bound:>12.2} us  {:>8.4} %",
            100.0 * share
        ))?;
    }
    Ok(())
}
