//! The measurements of one step in one round, as the process of the step and the one that watches
//! it take them, and the figures of the report that they become.
//!
//! Times are in seconds, latencies in microseconds, sizes in bytes.

use serde::{Deserialize, Serialize};
use titan_workload::step::Step;

use crate::results::{Better, Measure, Round, Series, X};
use crate::units::Unit;

/// The cost and results of a step.
#[derive(Debug, Clone)]
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
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpaceSample {
    /// Since the start of the step.
    pub(crate) seconds: f64,
    pub(crate) disk: u64,
    /// Greater than zero.
    pub(crate) live: u64,
}

/// Key, title, unit, how it is judged, whether it is drawn as bars, and the value of a measure.
type Of = (
    &'static str,
    &'static str,
    Unit,
    Option<(Better, f64)>,
    bool,
    fn(&Measured) -> Option<f64>,
);

const HIGHER: Option<(Better, f64)> = Some((Better::Higher, 0.0));
const LOWER: Option<(Better, f64)> = Some((Better::Lower, 0.0));
/// Differences of 2 µs, 4 MiB or 20 ms are noise.
const LOWER_LATENCY: Option<(Better, f64)> = Some((Better::Lower, 2.0));
const LOWER_MEMORY: Option<(Better, f64)> = Some((Better::Lower, (4 << 20) as f64));
const LOWER_OPENING: Option<(Better, f64)> = Some((Better::Lower, 0.02));

/// The measures of steps, in the order of tables. Variants with different shares of keys found did
/// different work.
#[rustfmt::skip]
const ALL: [Of; 28] = [
    ("operations_per_second", "operations/s", Unit::Number, HIGHER, true, |m| Some(m.rate())),
    ("mean_us", "mean latency", Unit::Micros, None, false, |m| Some(m.latency()?.mean)),
    ("p50_us", "p50 latency", Unit::Micros, None, false, |m| Some(m.latency()?.p50)),
    ("p90_us", "p90 latency", Unit::Micros, None, false, |m| m.latency()?.p90),
    ("p99_us", "p99 latency", Unit::Micros, LOWER_LATENCY, false, |m| Some(m.latency()?.p99)),
    ("p999_us", "p99.9 latency", Unit::Micros, None, false, |m| Some(m.latency()?.p999)),
    ("p9999_us", "p99.99 latency", Unit::Micros, None, false, |m| Some(m.latency()?.p9999)),
    ("max_us", "longest latency", Unit::Micros, None, false, |m| Some(m.latency()?.max)),
    ("write_amplification", "write amplification", Unit::Number, LOWER, true, |m| ratio(m.device_written, m.work.bytes_written)),
    ("peak_space_amplification", "peak space amplification", Unit::Number, LOWER, true, Measured::peak_space_amplification),
    ("space_amplification", "space amplification at the end", Unit::Number, None, false, Measured::space_amplification),
    ("cpu_us", "CPU per operation", Unit::Micros, LOWER, false, |m| m.per_operation(m.cpu_seconds * 1e6)),
    ("peak_memory", "peak memory", Unit::Memory, LOWER_MEMORY, false, |m| Some(m.peak_memory as f64)),
    ("open_seconds", "time to open", Unit::Seconds, LOWER_OPENING, false, |m| (m.open_seconds > 0.0).then_some(m.open_seconds)),
    ("close_seconds", "time to close", Unit::Seconds, None, false, |m| m.close_seconds),
    ("user_bytes_per_second", "user data", Unit::BytesPerSecond, None, false, |m| Some((m.work.bytes_read + m.work.bytes_written) as f64 / m.work.seconds.max(1e-9))),
    ("found", "keys found", Unit::Share, None, false, |m| ratio(m.work.found, m.work.looked_up)),
    ("read_per_operation", "device reads per operation", Unit::Bytes, None, false, |m| m.per_operation(m.device_read as f64)),
    ("written_per_operation", "device writes per operation", Unit::Bytes, None, false, |m| m.per_operation(m.device_written as f64)),
    ("read_bytes_per_second", "device reads", Unit::BytesPerSecond, None, true, |m| Some(m.device_read as f64 / m.lifetime())),
    ("written_bytes_per_second", "device writes", Unit::BytesPerSecond, None, true, |m| Some(m.device_written as f64 / m.lifetime())),
    ("bytes_written", "written by users", Unit::Bytes, None, false, |m| Some(m.work.bytes_written as f64)),
    ("device_written", "written at the device", Unit::Bytes, None, false, |m| Some(m.device_written as f64)),
    ("device_read", "read at the device", Unit::Bytes, None, false, |m| Some(m.device_read as f64)),
    ("cpu_seconds", "CPU", Unit::Seconds, None, false, |m| Some(m.cpu_seconds)),
    ("seconds", "time", Unit::Seconds, None, false, |m| Some(m.work.seconds)),
    ("disk", "on disk at the end", Unit::Bytes, None, false, |m| Some(m.disk as f64)),
    ("peak_disk", "on disk at most", Unit::Bytes, None, false, |m| Some(m.peak_disk as f64)),
];

/// The sums over all steps of a workload: they include the work that a step left to the next one.
const SUMS: [&str; 5] = [
    "bytes_written",
    "device_written",
    "device_read",
    "cpu_seconds",
    "seconds",
];

/// Measures that can be compared only if variants have written the same amounts.
const OF_THE_WHOLE: [&str; 3] = [
    "write_amplification",
    "peak_space_amplification",
    "peak_memory",
];

/// With fewer operations a p99 would be the figure of a handful of them.
const RATED_OPERATIONS: u64 = 1000;

/// Points of a line. More would not be visible, and would make the page large.
const POINTS: usize = 300;

/// The measures of steps, in the order of tables.
pub(crate) fn measures() -> Vec<Measure> {
    let all = ALL
        .iter()
        .map(|(key, title, unit, judged, is_drawn, _)| Measure {
            better: judged.map(|(better, _)| better),
            noise: judged.map_or(0.0, |(_, noise)| noise),
            drawn: *is_drawn,
            ..Measure::new(key, title, *unit)
        });
    all.collect()
}

/// The figures of all steps of a workload together.
pub(crate) fn together(steps: &[Measured]) -> Round {
    let sum = |key: &str| -> f64 {
        let of = ALL.iter().find(|(name, ..)| *name == key);
        let of = of.map(|(.., of)| of);
        steps
            .iter()
            .filter_map(|step| of.and_then(|of| of(step)))
            .sum()
    };
    let mut figures: Vec<(String, f64)> = SUMS
        .iter()
        .map(|key| ((*key).to_owned(), sum(key)))
        .collect();
    if sum("bytes_written") > 0.0 {
        let amplification = sum("device_written") / sum("bytes_written");
        figures.push(("write_amplification".to_owned(), amplification));
    }
    Round {
        figures,
        unrated: vec!["write_amplification".to_owned()],
        ..Round::default()
    }
}

impl Measured {
    /// The figures of the report.
    pub(crate) fn round(&self, step: &Step) -> Round {
        let figures = ALL
            .iter()
            .filter_map(|(key, .., of)| Some(((*key).to_owned(), of(self)?)));
        let mut more = Vec::new();
        for (what, kinds) in [
            ("written by the engine", &self.written_by_kind),
            ("on disk at the end", &self.disk_by_kind),
        ] {
            more.extend(kinds.iter().map(|(kind, bytes)| {
                let title = format!("{what}: {kind}");
                (Measure::new(&title, &title, Unit::Bytes), *bytes as f64)
            }));
        }
        for latency in self.work.latencies.iter().skip(1) {
            for (percentile, value) in [
                ("p50", latency.p50),
                ("p99", latency.p99),
                ("p99.9", latency.p999),
            ] {
                let title = format!("{percentile} latency of {}", latency.operation);
                more.push((Measure::new(&title, &title, Unit::Micros), value));
            }
        }
        let mut unrated: Vec<String> = Vec::new();
        if !step.writes_the_same() || self.work.cut_short {
            unrated.extend(OF_THE_WHOLE.map(str::to_owned));
        }
        if self
            .latency()
            .is_none_or(|latency| latency.count < RATED_OPERATIONS)
        {
            unrated.push("p99_us".to_owned());
        }
        Round {
            figures: figures.collect(),
            more,
            cut_short: self.work.cut_short,
            unrated,
            series: self.series(),
        }
    }

    /// Throughput and space over time, and the curves of latencies; long ones thinned out.
    fn series(&self) -> Vec<Series> {
        let line = |name: &str, unit, x, points: Vec<(f64, f64)>| Series {
            name: name.to_owned(),
            unit,
            x,
            points,
        };
        let mut all = vec![
            line("operations/s", Unit::Number, X::Seconds, self.throughput()),
            line(
                "bytes on disk per live byte",
                Unit::Number,
                X::Seconds,
                self.space_over_time(),
            ),
        ];
        all.extend(self.work.latencies.iter().map(|latency| {
            let name = format!("latency of {}", latency.operation);
            line(&name, Unit::Micros, X::Percentile, latency.curve.clone())
        }));
        all.retain(|series| !series.points.is_empty());
        all
    }

    /// Operations per second in the middle of each interval.
    fn throughput(&self) -> Vec<(f64, f64)> {
        let ticks = self.work.over_time.as_slice();
        let together = ticks.len().div_ceil(POINTS).max(1);
        let mut start = 0.0;
        let points = ticks.chunks(together).map(|ticks| {
            let seconds = ticks.len() as f64 * TICK_SECONDS;
            let middle = start + seconds / 2.0;
            start += seconds;
            (middle, ticks.iter().sum::<u64>() as f64 / seconds)
        });
        points.collect()
    }

    /// Peaks are kept.
    fn space_over_time(&self) -> Vec<(f64, f64)> {
        let together = self.space.len().div_ceil(POINTS).max(1);
        let point =
            |sample: &SpaceSample| (sample.seconds, sample.disk as f64 / sample.live as f64);
        let peak = |samples: &[SpaceSample]| {
            let points = samples.iter().map(point);
            points.max_by(|a, b| a.1.total_cmp(&b.1))
        };
        self.space.chunks(together).filter_map(peak).collect()
    }

    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.work.operations as f64 / self.work.seconds.max(1e-9)
    }

    /// `None` for a step without operations.
    fn per_operation(&self, total: f64) -> Option<f64> {
        let operations = self.work.operations;
        (operations > 0).then(|| total / operations as f64)
    }

    /// Seconds in which the process used the device.
    fn lifetime(&self) -> f64 {
        let closing = self.close_seconds.unwrap_or(0.0);
        let all = self.open_seconds + self.work.seconds + closing + self.sync_seconds;
        all.max(1e-9)
    }

    /// Bytes on disk at the end per byte of live keys and values.
    fn space_amplification(&self) -> Option<f64> {
        ratio(self.disk, self.work.live_bytes)
    }

    /// The maximum of the same over the samples with at least half of the live bytes at the end:
    /// while a database is filled, little is live, and any file is a large part. `None` without
    /// samples.
    fn peak_space_amplification(&self) -> Option<f64> {
        let samples = self.space.iter();
        let samples = samples.filter(|sample| sample.live >= self.work.live_bytes / 2);
        let of = samples.filter_map(|sample| ratio(sample.disk, sample.live));
        Some(of.reduce(f64::max)?.max(self.space_amplification()?))
    }

    /// The latency of the step's main operation.
    fn latency(&self) -> Option<&Latency> {
        self.work.latencies.first()
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::catalog;
    use crate::work::profile::Profile;

    fn measured(operations: u64) -> Measured {
        Measured {
            work: WorkDone {
                operations,
                seconds: 2.0,
                bytes_written: 1_000,
                live_bytes: 1_000,
                latencies: vec![Latency {
                    operation: "put".to_owned(),
                    count: operations,
                    p99: 7.0,
                    ..Latency::default()
                }],
                over_time: vec![10; 100_001],
                ..WorkDone::default()
            },
            cpu_seconds: 1.0,
            device_read: 0,
            device_written: 1_500,
            device_counted: true,
            written_by_kind: vec![("WAL".to_owned(), 1_000)],
            disk_by_kind: Vec::new(),
            space: vec![
                SpaceSample {
                    seconds: 0.1,
                    disk: 900,
                    live: 100,
                },
                SpaceSample {
                    seconds: 0.2,
                    disk: 2_000,
                    live: 800,
                },
            ],
            peak_disk: 2_000,
            disk: 1_200,
            peak_memory: 5,
            open_seconds: 0.0,
            close_seconds: None,
            sync_seconds: 0.0,
        }
    }

    #[test]
    fn figures_are_those_of_the_round() {
        let workload = catalog::workload("db_bench", &Profile::Quick.scale()).unwrap();
        let round = measured(2_000).round(&workload.steps[0]);
        let figure = |round: &Round, key: &str| {
            let found = round.figures.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| *value)
        };
        assert_eq!(figure(&round, "operations_per_second"), Some(1_000.0));
        assert_eq!(figure(&round, "write_amplification"), Some(1.5));
        assert_eq!(figure(&round, "peak_space_amplification"), Some(2.5));
        assert_eq!(figure(&round, "cpu_us"), Some(500.0));
        assert_eq!(figure(&round, "open_seconds"), None);
        assert_eq!(round.more[0].0.title, "written by the engine: WAL");
        assert!(round.unrated.is_empty(), "{:?}", round.unrated);
        let points = &round.series[0].points;
        assert!(points.len() <= POINTS && points.len() > POINTS / 2);
        assert!(points.iter().all(|(_, rate)| *rate == 40.0));

        // A step with a time limit, of few operations.
        let workload = catalog::workload("ycsb", &Profile::Quick.scale()).unwrap();
        let round = measured(0).round(&workload.steps[1]);
        assert_eq!(figure(&round, "cpu_us"), None);
        assert_eq!(round.unrated.len(), OF_THE_WHOLE.len() + 1);
        let sums = together(&[measured(1), measured(2)]);
        assert_eq!(figure(&sums, "device_written"), Some(3_000.0));
        assert_eq!(figure(&sums, "write_amplification"), Some(1.5));
    }

    #[test]
    fn every_key_has_one_measure() {
        let measures = measures();
        for measure in &measures {
            let same = measures.iter().filter(|other| other.key == measure.key);
            assert_eq!(same.count(), 1, "{}", measure.key);
        }
        for key in SUMS.iter().chain(&OF_THE_WHOLE) {
            assert!(measures.iter().any(|measure| measure.key == *key), "{key}");
        }
    }
}
