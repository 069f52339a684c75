//! Runs the threads of one step and measures it.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use titan::{Db, DiskUsage, Error, Result, Statistics};

use super::live::LiveKeys;
use super::report::{Background, StepReport, WrittenBytes};
use super::worker::{self, Limit, Shared, Tally, Worker};
use super::{Args, Benchmark, Open, memory, workloads};
use crate::output;
use crate::progress;
use crate::usage::disk_usage;

/// The interval between samples of space during a step.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);

/// Runs the step, the `index`th of this process.
pub(super) fn run(
    args: &Args,
    seed: u64,
    index: usize,
    benchmark: Benchmark,
    open: &Open,
) -> Result<StepReport> {
    let (db, live) = (&open.db, open.live.as_ref());
    let statistics = db.statistics();
    let written_before = written(statistics);
    let stalled_before = statistics.stall_micros();
    memory::reset_peak();

    let limit = limit(args, benchmark);
    let shared = Shared::default();
    let foreground = usize::from(args.threads);
    let accompanied = benchmark == Benchmark::ReadWhileWriting;
    let start = Barrier::new(foreground + usize::from(accompanied));
    let running = AtomicUsize::new(foreground);
    let main = thread::current();
    // Runs one thread from start to end.
    let work = |number: usize, limit: Limit| -> Result<Tally> {
        let background = number == foreground;
        // Only threads that write need values and must record what they wrote.
        let noted = live.filter(|_| background || (benchmark.writes() && !accompanied));
        let made = Worker::new(
            args,
            db,
            noted,
            &shared,
            limit,
            mix(seed, benchmark, index, number),
        );
        start.wait();
        let result = made.and_then(|mut worker| {
            worker.start();
            if background {
                workloads::write_random(&mut worker)?;
            } else {
                workloads::run(benchmark, &mut worker)?;
            }
            Ok(worker.finish())
        });
        let last = !background && running.fetch_sub(1, Ordering::AcqRel) == 1;
        if last || result.is_err() {
            shared.stop.store(true, Ordering::Relaxed);
        }
        main.unpark();
        result
    };

    let _held = args.hold_snapshot.then(|| db.snapshot());
    let mut space = SpaceWatch::new(args, db, live);
    let (tallies, background) = thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..foreground)
            .map(|n| scope.spawn(move || work(n, limit)))
            .collect();
        let background = accompanied.then(|| scope.spawn(move || work(foreground, Limit::Never)));
        watch(benchmark, limit, &threads, &shared, &mut space);
        // Whether the threads succeeded, failed or panicked, the accompanying writer must
        // stop.
        shared.stop.store(true, Ordering::Relaxed);
        let tallies: Result<Vec<Tally>> = threads.into_iter().map(join).collect();
        (tallies, background.map(join).transpose())
    });
    let (tallies, background) = (tallies?, background?);

    let waited = Instant::now();
    if args.wait_compactions && benchmark.writes() {
        db.wait_idle()?;
    }
    let wait_seconds = waited.elapsed().as_secs_f64();
    let disk = disk_usage(&args.db)?;
    space.note(&disk);

    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    let seconds = seconds(&tallies);
    let mut latencies = worker::latencies()?;
    for tally in &tallies {
        latencies
            .add(&tally.latencies)
            .map_err(|e| Error::invalid_argument(format!("adding latencies: {e}")))?;
    }
    let operations = sum(|t| t.operations);
    let user_bytes = sum(|t| t.written) + background.as_ref().map_or(0, |t| t.written);
    let bytes_written = written(statistics).since(&written_before);
    Ok(StepReport {
        name: benchmark.name(),
        ops: operations,
        ops_per_sec: operations as f64 / seconds,
        mb_per_sec: sum(|t| t.bytes) as f64 / f64::from(1 << 20) / seconds,
        p50_us: microseconds(&latencies, 50.0),
        p99_us: microseconds(&latencies, 99.0),
        p999_us: microseconds(&latencies, 99.9),
        max_us: latencies.max() as f64 / 1e3,
        write_amp: output::ratio(bytes_written.total(), user_bytes),
        space_amp: space.amplification(&disk),
        space_amp_max: space.max,
        space_amp_mean: space.mean(space.sum),
        known_amp_mean: space.mean(space.known_sum),
        seconds,
        wait_seconds,
        threads: foreground,
        found: benchmark.looks_up().then(|| sum(|t| t.found)),
        user_bytes_written: user_bytes,
        bytes_written,
        disk,
        live_keys: live.map(LiveKeys::keys),
        live_bytes: live.map(LiveKeys::bytes),
        live_known_by: live.map(LiveKeys::known_by),
        stall_seconds: (statistics.stall_micros() - stalled_before) as f64 / 1e6,
        peak_memory_bytes: memory::peak_bytes(),
        background: background.map(|tally| Background::of(&tally)),
        histogram: args.histogram.then(|| distribution(&latencies)),
    })
}

fn limit(args: &Args, benchmark: Benchmark) -> Limit {
    let reads = Limit::Operations(args.reads.unwrap_or(args.num));
    let writes = Limit::Operations(args.writes.unwrap_or(args.num));
    let time = args
        .duration
        .map(|seconds| Limit::Time(Duration::from_secs(seconds)));
    match benchmark {
        // Steps that go through the keys in order end with the keys.
        Benchmark::FillSeq => writes,
        Benchmark::ReadSeq => reads,
        Benchmark::FillRandom | Benchmark::Overwrite | Benchmark::DeleteRandom => {
            time.unwrap_or(writes)
        }
        _ => time.unwrap_or(reads),
    }
}

/// A seed for each thread of each step, so that steps with equal seeds draw different keys.
fn mix(seed: u64, benchmark: Benchmark, index: usize, thread: usize) -> u64 {
    let parts = [seed, index as u64, thread as u64];
    let words = benchmark.name().bytes().map(u64::from).chain(parts);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    })
}

fn join(thread: ScopedJoinHandle<'_, Result<Tally>>) -> Result<Tally> {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Draws progress and samples space until the threads are done.
fn watch(
    benchmark: Benchmark,
    limit: Limit,
    threads: &[ScopedJoinHandle<'_, Result<Tally>>],
    shared: &Shared,
    space: &mut SpaceWatch<'_>,
) {
    let total = match limit {
        Limit::Operations(n) => Some(n.saturating_mul(threads.len() as u64)),
        Limit::Time(_) | Limit::Never => None,
    };
    let bar = progress::operations(benchmark.name(), total);
    let mut next = Instant::now() + SAMPLE_EVERY;
    while !threads.iter().all(ScopedJoinHandle::is_finished) {
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
        if Instant::now() >= next {
            next = Instant::now() + SAMPLE_EVERY;
            space.sample();
            bar.set_position(shared.done.load(Ordering::Relaxed));
        }
    }
    bar.finish_and_clear();
}

/// The time from the first start to the last end.
fn seconds(tallies: &[Tally]) -> f64 {
    let started = tallies.iter().map(|tally| tally.started).min();
    let ended = tallies.iter().map(|tally| tally.ended).max();
    let time = started
        .zip(ended)
        .map_or(Duration::ZERO, |(start, end)| end - start);
    time.as_secs_f64().max(1e-9)
}

fn microseconds(latencies: &Histogram<u64>, percentile: f64) -> f64 {
    latencies.value_at_percentile(percentile) as f64 / 1e3
}

/// Upper bounds in microseconds that double, with the share of calls up to each.
fn distribution(latencies: &Histogram<u64>) -> Vec<(f64, f64)> {
    let all = latencies.len().max(1) as f64;
    let mut below = 0;
    let mut bounds = Vec::new();
    for at in latencies.iter_log(250, 2.0) {
        below += at.count_since_last_iteration();
        if at.count_since_last_iteration() > 0 {
            bounds.push((at.value_iterated_to() as f64 / 1e3, below as f64 / all));
        }
    }
    bounds
}

fn written(statistics: &Statistics) -> WrittenBytes {
    WrittenBytes {
        wal: statistics.wal_bytes(),
        flush_sst: statistics.flush_sst_bytes(),
        flush_blob: statistics.flush_blob_bytes(),
        compaction_sst: statistics.compaction_sst_bytes(),
        compaction_blob: statistics.compaction_blob_bytes(),
        gc_blob: statistics.gc_blob_bytes(),
        manifest: statistics.manifest_bytes(),
    }
}

/// Bytes on disk per live byte: the latest and the maximum.
struct SpaceWatch<'a> {
    args: &'a Args,
    /// Without it bytes cannot be related to anything, and no samples are taken.
    live: Option<&'a LiveKeys>,
    db: &'a Db,
    max: Option<f64>,
    /// The sum over the samples of bytes on disk per live byte.
    sum: f64,
    /// The same with only known garbage.
    known_sum: f64,
    samples: u64,
}

impl<'a> SpaceWatch<'a> {
    fn new(args: &'a Args, db: &'a Db, live: Option<&'a LiveKeys>) -> Self {
        SpaceWatch {
            args,
            live,
            db,
            max: None,
            sum: 0.0,
            known_sum: 0.0,
            samples: 0,
        }
    }

    fn amplification(&self, disk: &DiskUsage) -> Option<f64> {
        output::ratio(disk.data_bytes(), self.live?.bytes())
    }

    fn note(&mut self, disk: &DiskUsage) {
        if let Some(now) = self.amplification(disk) {
            self.max = Some(self.max.map_or(now, |max| max.max(now)));
        }
    }

    fn sample(&mut self) {
        // A failed sample is skipped; the listing at the end of the step reports why.
        let Some(live) = self.live.map(LiveKeys::bytes) else {
            return;
        };
        if let Ok(disk) = disk_usage(&self.args.db)
            && let Some(now) = self.amplification(&disk)
        {
            self.note(&disk);
            let families = self.db.metrics().families;
            let garbage: u64 = families.iter().map(|f| f.garbage_blob_bytes).sum();
            self.sum += now;
            self.known_sum += 1.0 + garbage as f64 / live as f64;
            self.samples += 1;
        }
    }

    fn mean(&self, sum: f64) -> Option<f64> {
        (self.samples > 0).then(|| sum / self.samples as f64)
    }
}
