//! The measurements of a run: the schema of `report.json`.
//!
//! All figures are as measured. Figures derived from several of one run are methods here; medians
//! and spreads over rounds and ratios between engines are computed by [`crate::report`], so that a
//! report can be read again and compared with another. Times are in seconds, latencies in
//! microseconds, sizes in bytes.

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use titan_workload::step::Workload;

/// The version of this schema. Reports of other versions are not read.
pub(crate) const SCHEMA: u32 = 1;

/// All results of one run of `titan-bench`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// `quick`, `standard` or `long`.
    pub(crate) profile: String,
    /// When it began, in seconds since 1970.
    pub(crate) began: u64,
    pub(crate) seconds: f64,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    /// Names of the engines, in the requested order.
    pub(crate) engines: Vec<String>,
    /// The same engines: their versions and configuration.
    pub(crate) about_engines: Vec<AboutEngine>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) rounds: u32,
    /// The performance of the device before each round; empty if `fio` is missing.
    pub(crate) ceilings: Vec<Ceilings>,
    /// In the order in which they ran.
    pub(crate) runs: Vec<StepRun>,
    /// Remarks for the reader besides the figures: limits of this machine, what was omitted.
    pub(crate) remarks: Vec<String>,
}

/// The machine.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// The file system and the block device under the databases.
    pub(crate) storage: String,
    /// The commit of Titan, if known.
    pub(crate) commit: String,
}

/// An engine, as it was used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AboutEngine {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Every option that differs from the engine's default, or that matters here.
    pub(crate) options: Vec<(String, String)>,
    /// Where it differs from what the others do.
    pub(crate) notes: Vec<String>,
}

impl AboutEngine {
    pub(crate) fn new<'a>(
        name: &str,
        version: &str,
        options: impl IntoIterator<Item = (&'a str, String)>,
        notes: Vec<String>,
    ) -> Self {
        let options = options.into_iter();
        AboutEngine {
            name: name.to_owned(),
            version: version.to_owned(),
            options: options
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            notes,
        }
    }
}

/// The performance of the device for `fio` with direct I/O.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Ceilings {
    pub(crate) round: u32,
    /// Bytes per second, one job, 1 MiB blocks.
    pub(crate) sequential_write: f64,
    pub(crate) sequential_read: f64,
    /// Reads of 4 KiB per second, one at a time.
    pub(crate) random_read_depth_1: f64,
    /// The same, 32 at a time.
    pub(crate) random_read_depth_32: f64,
}

/// One step of one workload by one engine in one round.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct StepRun {
    pub(crate) round: u32,
    pub(crate) engine: String,
    pub(crate) workload: String,
    pub(crate) step: String,
    pub(crate) outcome: Outcome,
}

/// End of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Measured(Box<Measured>),
    /// It or an earlier step failed, for this reason.
    Failed(String),
}

/// The cost and results of a step.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) work: WorkDone,
    /// User and system time of the process, its background threads included.
    pub(crate) cpu_seconds: f64,
    /// The bytes of the block device from before the start of the process to after a final sync; if
    /// the device is unknown, those that the kernel counts for the process.
    pub(crate) device_read: u64,
    pub(crate) device_written: u64,
    /// Whether these two are the device's or the process's.
    pub(crate) device_counted: bool,
    /// Bytes that the engine reports as written, by kind of file or job; empty if it reports none.
    pub(crate) written_by_kind: Vec<(String, u64)>,
    /// Disk usage of files at the end, by extension.
    pub(crate) disk_by_kind: Vec<(String, u64)>,
    /// Bytes on disk over time.
    pub(crate) space: Vec<SpaceSample>,
    pub(crate) peak_disk: u64,
    pub(crate) disk: u64,
    /// The peak of the process's own memory, without pages of files, mapped or cached.
    pub(crate) peak_memory: u64,
    /// The duration of opening the database; 0 if unknown.
    pub(crate) open_seconds: f64,
    /// Whether the previous process was killed, so that opening had to recover its writes.
    pub(crate) recovered: bool,
    /// The duration of closing; `None` if the process was killed.
    pub(crate) close_seconds: Option<f64>,
    /// The duration of the sync after that, whose bytes are included in those of the device.
    pub(crate) sync_seconds: f64,
}

/// The operations of the threads of a step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct WorkDone {
    pub(crate) operations: u64,
    /// From the first thread's start to the last one's end.
    pub(crate) seconds: f64,
    /// Whether time ran out before all operations were done, or sent when they were due. Those due
    /// and never sent are included in the latencies, up to the end.
    pub(crate) cut_short: bool,
    /// Keys that were looked up, and entries that scans passed.
    pub(crate) looked_up: u64,
    /// Number of them that existed.
    pub(crate) found: u64,
    /// Keys and values. Deletes write no bytes: there is nothing to relate their cost to.
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Keys and values in the database at the end.
    pub(crate) live_bytes: u64,
    pub(crate) live_entries: u64,
    /// By kind of operation; first the step's most frequent one, or the first of several.
    pub(crate) latencies: Vec<Latency>,
    /// Operations done in each interval of [`TICK_SECONDS`].
    pub(crate) over_time: Vec<u64>,
}

/// The length of the intervals of [`WorkDone::over_time`].
pub(crate) const TICK_SECONDS: f64 = 0.25;

/// The distribution of the latencies of one kind of operation.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) operation: String,
    pub(crate) count: u64,
    /// Measured from the time at which the operation was due under a fixed rate, not from when it
    /// was sent.
    pub(crate) from_due_time: bool,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    /// Not every program reports it.
    pub(crate) p90: Option<f64>,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    pub(crate) p9999: f64,
    pub(crate) max: f64,
    /// Points of the whole curve: percentile (0 to 100) and latency.
    pub(crate) curve: Vec<(f64, f64)>,
}

/// Bytes at one moment.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SpaceSample {
    /// Since the start of the step.
    pub(crate) seconds: f64,
    pub(crate) disk: u64,
    /// Greater than zero.
    pub(crate) live: u64,
}

impl Measured {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.work.operations as f64 / self.work.seconds.max(1e-9)
    }

    /// Bytes at the device per byte that users wrote; `None` for steps that write nothing.
    pub(crate) fn write_amplification(&self) -> Option<f64> {
        ratio(self.device_written, self.work.bytes_written)
    }

    /// Bytes on disk at the end per byte of live keys and values.
    pub(crate) fn space_amplification(&self) -> Option<f64> {
        ratio(self.disk, self.work.live_bytes)
    }

    /// The maximum of the same over the samples with at least half of the live bytes at the end:
    /// while a database is filled, little is live, and any file is a large part. `None` without
    /// samples.
    pub(crate) fn peak_space_amplification(&self) -> Option<f64> {
        let samples = self.space.iter();
        let samples = samples.filter(|sample| sample.live >= self.work.live_bytes / 2);
        let of = samples.filter_map(|sample| ratio(sample.disk, sample.live));
        Some(of.reduce(f64::max)?.max(self.space_amplification()?))
    }

    /// The latency of the step's main operation.
    pub(crate) fn latency(&self) -> Option<&Latency> {
        self.work.latencies.first()
    }
}

impl StepRun {
    pub(crate) fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed(_) => None,
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}
