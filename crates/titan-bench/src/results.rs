//! What a run measured: the schema of `report.json`.
//!
//! All figures are as measured; those that are made of several of one run are methods here, medians
//! and spreads over rounds and ratios between engines are [`crate::report`]'s, so that a report can
//! be read again and compared with another. Times are in seconds, latencies in microseconds, sizes
//! in bytes.

use serde::{Deserialize, Serialize};

use crate::settings::Settings;
use crate::work::Workload;

/// The version of this schema. A report of another one is not read.
pub(crate) const SCHEMA: u32 = 1;

/// Everything that one run of `titan-bench` found.
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
    /// Names of the engines, in the order in which they were asked for.
    pub(crate) engines: Vec<String>,
    /// The same engines: what they are and how they were set up.
    pub(crate) about_engines: Vec<AboutEngine>,
    pub(crate) workloads: Vec<Workload>,
    pub(crate) rounds: u32,
    /// What the device gave before each round; empty where `fio` is missing.
    pub(crate) ceilings: Vec<Ceilings>,
    /// In the order in which they ran.
    pub(crate) runs: Vec<StepRun>,
    /// What the reader has to know beside the figures: limits of this machine, what was left out.
    pub(crate) remarks: Vec<String>,
}

/// Where it ran.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// The file system and the block device under the databases.
    pub(crate) storage: String,
    /// The commit that Titan was at, if it is known.
    pub(crate) commit: String,
}

/// An engine, as it was used.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AboutEngine {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Every option that differs from the engine's own default, or that matters here.
    pub(crate) options: Vec<(String, String)>,
    /// Where it does not do quite what the others do.
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

/// What the device gave to `fio` with direct I/O.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Ceilings {
    pub(crate) round: u32,
    /// Bytes a second, one job, 1 MiB blocks.
    pub(crate) sequential_write: f64,
    pub(crate) sequential_read: f64,
    /// Reads of 4 KiB a second, one at a time.
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

/// How a step ended.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Measured(Box<Measured>),
    /// It failed, or a step before it did, for this reason.
    Failed(String),
}

/// What a step took and gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) work: WorkDone,
    /// User and system time of the process, its background threads included.
    pub(crate) cpu_seconds: f64,
    /// What the block device did from before the start of the process to after a final sync; what
    /// the kernel counts for the process where the device is not known.
    pub(crate) device_read: u64,
    pub(crate) device_written: u64,
    /// Whether the two are the device's or the process's.
    pub(crate) device_counted: bool,
    /// What the engine says it wrote, by kind of file or job; empty where it does not say.
    pub(crate) written_by_kind: Vec<(String, u64)>,
    /// Bytes that files take at the end, by the ending of their names.
    pub(crate) disk_by_kind: Vec<(String, u64)>,
    /// Bytes on disk over time.
    pub(crate) space: Vec<SpaceSample>,
    pub(crate) peak_disk: u64,
    pub(crate) disk: u64,
    /// The most memory of its own that the process had: no pages of files, mapped or cached.
    pub(crate) peak_memory: u64,
    /// From the call that opens the database to its return; 0 where that is not known.
    pub(crate) open_seconds: f64,
    /// Whether the process before was killed, so that opening had to recover what it wrote.
    pub(crate) recovered: bool,
    /// From the call that closes it to its return; none if it was killed.
    pub(crate) close_seconds: Option<f64>,
    /// Of the sync after that, which is in the bytes written at the device.
    pub(crate) sync_seconds: f64,
}

/// What the threads of a step did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct WorkDone {
    pub(crate) operations: u64,
    /// From the first thread's start to the last one's end.
    pub(crate) seconds: f64,
    /// Whether time was up before all operations were done, or were sent when they were due. Those
    /// due and never sent are in the latencies, up to the end.
    pub(crate) cut_short: bool,
    /// Keys that were looked up, entries that scans went over.
    pub(crate) looked_up: u64,
    /// Those of them that were there.
    pub(crate) found: u64,
    /// Keys and values. Deletes write nothing: what they cost has nothing to be put in proportion to.
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    /// Keys and values that the database holds at the end.
    pub(crate) live_bytes: u64,
    pub(crate) live_entries: u64,
    /// By kind of operation; first the one that the step has most of, or has first.
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
    /// Counted from when the operation was due under a fixed rate, not from when it was sent.
    pub(crate) from_due_time: bool,
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    /// Not every program tells it.
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
    /// More than nothing.
    pub(crate) live: u64,
}

impl Measured {
    /// Operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.work.operations as f64 / self.work.seconds.max(1e-9)
    }

    /// Bytes at the device for each byte that users wrote; none for steps that write nothing.
    pub(crate) fn write_amplification(&self) -> Option<f64> {
        ratio(self.device_written, self.work.bytes_written)
    }

    /// Bytes on disk at the end for each byte of keys and values that live.
    pub(crate) fn space_amplification(&self) -> Option<f64> {
        ratio(self.disk, self.work.live_bytes)
    }

    /// The most that any sample had of the same, of those with at least half of the live bytes that
    /// there are at the end: while a database is filled, little lives, and any file is a large part.
    /// None without samples.
    pub(crate) fn peak_space_amplification(&self) -> Option<f64> {
        let samples = self.space.iter();
        let samples = samples.filter(|sample| sample.live >= self.work.live_bytes / 2);
        let of = samples.filter_map(|sample| ratio(sample.disk, sample.live));
        Some(of.reduce(f64::max)?.max(self.space_amplification()?))
    }

    /// Of the step's main operation.
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
