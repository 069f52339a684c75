//! Measurements of a run of one side: counters at every look, latencies of every job; and the
//! figures of any part of it.

use super::counters::Counters;
use super::pools::{Done, LOOK, Latency};
use super::processor::Processor;

/// Looks whose average says whether a ratio is reached. Some jobs return many rows, and few of them
/// are in one look.
const SMOOTHED: usize = 7;

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// Seconds since the begin of the run; the time between two phases does not count.
    pub(super) at: f64,
    pub(super) processor: Processor,
    pub(super) counters: Counters,
}

/// A part of a run that is measured for itself.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub(super) name: &'static str,
    pub(super) from: f64,
    pub(super) to: f64,
}

/// A run.
#[derive(Default)]
pub(super) struct Series {
    pub(super) phases: Vec<Phase>,
    pub(super) looks: Vec<Look>,
    pub(super) done: Done,
}

/// The figures of a part of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// Steps forward for each row that was returned, of all reads.
    pub(super) next_per_processed: f64,
    /// In percent of one processor.
    pub(super) reader_cpu_percent: f64,
    /// The part of it that the jobs which scan have used.
    pub(super) scanning_cpu_percent: f64,
    /// Latency of the jobs that scan, up to the end of their reads.
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    /// Latency of all jobs, up to the end of their reads.
    pub(super) all_mean_us: f64,
    pub(super) all_p99_us: f64,
    pub(super) writer_cpu_percent: f64,
    pub(super) cache_cpu_percent: f64,
    pub(super) background_cpu_percent: f64,
    pub(super) jobs_per_second: f64,
    pub(super) commits_per_second: f64,
    /// Latency of commits, from the end of their reads.
    pub(super) commit_mean_us: f64,
    pub(super) commit_p99_us: f64,
    pub(super) seeks_per_processed: f64,
    /// The share of scans' parts that was answered from memory.
    pub(super) scan_hit_ratio: f64,
    /// The share of point reads.
    pub(super) point_hit_ratio: f64,
    /// Parts of scans that the cache did not answer, by reason, a second.
    pub(super) scans_not_held_per_second: f64,
    pub(super) scans_too_old_per_second: f64,
    /// Bytes that the cache has charged, at the end.
    pub(super) held_bytes: u64,
}

/// The figures of the time between two looks.
#[derive(Clone, Debug)]
pub(super) struct Point {
    /// The end of it, in seconds since the begin.
    pub(super) at: f64,
    pub(super) figures: Figures,
}

impl Figures {
    /// Processor time of all threads, in percent of one processor.
    pub(super) fn all_cpu_percent(&self) -> f64 {
        self.reader_cpu_percent
            + self.writer_cpu_percent
            + self.cache_cpu_percent
            + self.background_cpu_percent
    }
}

impl Series {
    /// The figures from one moment to another. None if no two looks are in between.
    pub(super) fn figures(&self, from: f64, to: f64) -> Option<Figures> {
        let mut looks = self
            .looks
            .iter()
            .filter(|look| (from..=to).contains(&look.at));
        let first = looks.next()?;
        let last = looks.next_back()?;
        let (reads, commits) = (&self.done.reads, &self.done.commits);
        let within = |all: &[Latency]| -> Vec<Latency> {
            let due = first.at..last.at;
            all.iter()
                .filter(|one| due.contains(&one.due))
                .copied()
                .collect()
        };
        Some(figures(first, last, &within(reads), &within(commits)))
    }

    /// All of it, look by look.
    pub(super) fn curve(&self) -> Vec<Point> {
        let point = |pair: &[Look]| {
            let [from, to] = pair else {
                return None;
            };
            let figures = self.figures(from.at, to.at)?;
            Some(Point { at: to.at, figures })
        };
        self.looks.windows(2).filter_map(point).collect()
    }

    /// When the steps for a row first were this many, on the average of [`SMOOTHED`] looks: the
    /// middle of these.
    pub(super) fn crossing(&self, next_per_processed: f64) -> Option<f64> {
        self.looks.windows(SMOOTHED).find_map(|looks| {
            let (first, last) = (looks.first()?, looks.last()?);
            let figures = self.figures(first.at, last.at)?;
            let is_there = figures.next_per_processed >= next_per_processed;
            is_there.then_some((first.at + last.at) / 2.0)
        })
    }
}

/// Time in a phase until the hit ratio of scans was nine tenths of that in its last quarter, and
/// that ratio. None if there is none.
pub(super) fn seconds_to_hits(points: &[Point], phase: &Phase) -> Option<(f64, f64)> {
    // The first look of a phase ends the time before it.
    let begun = phase.from + LOOK.as_secs_f64() / 2.0;
    let of_phase = || {
        let points = points.iter();
        points.filter(|point| point.at > begun && point.at <= phase.to)
    };
    let tail = phase.to - (phase.to - phase.from) / 4.0;
    let last: Vec<f64> = of_phase()
        .filter(|point| point.at > tail)
        .map(|point| point.figures.scan_hit_ratio)
        .collect();
    let end = mean(&last)?;
    let first = of_phase().find(|point| point.figures.scan_hit_ratio >= end * 0.9)?;
    (end > 0.0).then_some((first.at - phase.from, end))
}

fn figures(first: &Look, last: &Look, reads: &[Latency], commits: &[Latency]) -> Figures {
    let seconds = (last.at - first.at).max(1e-9);
    let processor = last.processor - first.processor;
    let percent = |used: f64| used / seconds * 100.0;
    let counted = last.counters.since(first.counters);
    let processed = counted.reads.processed.max(1) as f64;
    let micros = |scans: bool| {
        let all = reads.iter().filter(|read| read.scans || !scans);
        sorted(all.map(|read| read.micros))
    };
    let scans = reads.iter().filter(|read| read.scans);
    let used: f64 = scans.map(|read| read.cpu_micros).sum();
    let (scanning, all) = (micros(true), micros(false));
    let written = sorted(commits.iter().map(|commit| commit.micros));
    Figures {
        next_per_processed: counted.reads.next as f64 / processed,
        reader_cpu_percent: percent(processor.readers),
        scanning_cpu_percent: percent(used / 1e6),
        mean_us: mean(&scanning).unwrap_or(0.0),
        p50_us: quantile(&scanning, 0.5),
        p99_us: quantile(&scanning, 0.99),
        p999_us: quantile(&scanning, 0.999),
        max_us: quantile(&scanning, 1.0),
        all_mean_us: mean(&all).unwrap_or(0.0),
        all_p99_us: quantile(&all, 0.99),
        writer_cpu_percent: percent(processor.writers),
        cache_cpu_percent: percent(processor.cache),
        background_cpu_percent: percent(processor.background),
        jobs_per_second: reads.len() as f64 / seconds,
        commits_per_second: commits.len() as f64 / seconds,
        commit_mean_us: mean(&written).unwrap_or(0.0),
        commit_p99_us: quantile(&written, 0.99),
        seeks_per_processed: counted.reads.seek as f64 / processed,
        scan_hit_ratio: counted.parts.hit_ratio(),
        point_hit_ratio: counted.points.hit_ratio(),
        scans_not_held_per_second: counted.parts.not_held as f64 / seconds,
        scans_too_old_per_second: counted.parts.too_old as f64 / seconds,
        held_bytes: last.counters.held_bytes,
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The smallest value that this share of all does not exceed; 0 if there are none.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A run of ten seconds. In each second as many more steps are taken, 10 rows are returned, and
    /// readers have half a second of processor time; jobs take a millisecond.
    pub(in crate::ime) fn series() -> Series {
        let mut counters = Counters::default();
        let mut looks = Vec::new();
        for second in 0..=10 {
            counters.reads.next += 10 * second;
            counters.reads.processed += 10;
            counters.parts.hits = second.saturating_sub(2) * 5;
            counters.parts.not_held = second.min(2) * 5;
            looks.push(Look {
                at: second as f64,
                processor: Processor {
                    readers: second as f64 / 2.0,
                    ..Processor::default()
                },
                counters,
            });
        }
        let latency = |n| Latency {
            due: f64::from(n) / 10.0,
            micros: f64::from(n % 10 + 1) * 100.0,
            cpu_micros: 100_000.0,
            scans: n % 2 == 0,
        };
        let phase = Phase {
            name: "all",
            from: 0.0,
            to: 10.0,
        };
        Series {
            phases: vec![phase],
            looks,
            done: Done {
                reads: (0..100).map(latency).collect(),
                ..Done::default()
            },
        }
    }

    #[test]
    fn figures_are_those_of_the_time_between_looks() {
        let series = series();
        let figures = series.figures(4.0, 6.0).unwrap();
        assert_eq!(figures.next_per_processed, 5.5);
        assert_eq!(figures.reader_cpu_percent, 50.0);
        assert!((figures.scanning_cpu_percent - 50.0).abs() < 1e-6);
        assert!((figures.mean_us - 500.0).abs() < 1e-6);
        assert!((figures.all_mean_us - 550.0).abs() < 1e-6);
        assert_eq!((figures.p50_us, figures.p99_us), (500.0, 900.0));
        assert_eq!(
            (figures.jobs_per_second, figures.scan_hit_ratio),
            (10.0, 1.0)
        );
        assert!(series.figures(4.0, 4.2).is_none());
    }

    #[test]
    fn the_curve_says_when_it_crosses_a_ratio_and_when_it_is_hot() {
        let series = series();
        let curve = series.curve();
        assert_eq!(curve.len(), 10);
        // In the seconds from 4 to 10: 5 to 10 steps a row.
        assert_eq!(series.crossing(7.0), Some(7.0));
        assert_eq!(series.crossing(62.0), None);
        let hot = seconds_to_hits(&curve, &series.phases[0]);
        assert_eq!(hot, Some((3.0, 1.0)));
    }
}
