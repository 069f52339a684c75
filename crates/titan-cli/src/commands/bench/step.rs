//! Runs one step and measures it.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use titan::{Db, DiskUsage, Error, Result, Statistics};
use titan_workload::keys::KEY_BYTES;
use titan_workload::live::LiveKeys;
use titan_workload::run::{self, Made, Plan};
use titan_workload::shared::Conventions;
use titan_workload::step::{Amount, Choice, KeyOrder, Operation, Step, ValueSizes, Workload};
use titan_workload::tally::{Tally, histogram};
use titan_workload::target::Target;
use titan_workload::values::Contents;

use super::args::{Args, Benchmark};
use super::live::Open;
use super::memory;
use super::opened::Opened;
use super::report::{Background, StepReport, WrittenBytes};
use crate::output;
use crate::progress;
use crate::usage::disk_usage;

/// The interval between samples of space during a step.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// Keys that multireadrandom reads in one call by default.
const READ_BATCH: u64 = 10;
/// Rows that a scan reads by default.
const SCANNED_ROWS: u64 = 100;

/// Runs the step, the `index`th of this process.
pub(super) fn run(
    args: &Args,
    seed: u64,
    index: usize,
    benchmark: Benchmark,
    open: &Open,
) -> Result<StepReport> {
    let db = open.database.db();
    let live = open.live.as_ref().map(|live| &live.keys);
    let statistics = db.statistics();
    let written_before = written(statistics);
    let stalled_before = statistics.stall_micros();
    let counted_before = open.database.counters();
    memory::reset_peak();

    let workload = workload(args);
    let step = step(args, benchmark);
    let accompanied = benchmark == Benchmark::ReadWhileWriting;
    let beside = accompanied.then(|| beside(args));
    let target: &dyn Target<Error = Error> = match &open.database {
        Opened::Plain(titan) => titan,
        Opened::Versions(versions) => versions,
    };
    let plan = Plan {
        workload: &workload,
        step: &step,
        conventions: Conventions {
            // A load writes each row once, with any number of threads.
            counts_per_thread: benchmark != Benchmark::Load,
            back_to_back: true,
            checks_values: false,
            batch: args.batch_size.unwrap_or(1),
        },
        seed: mix(seed, benchmark, index),
        exact: false,
        live,
        target,
        before_rate: || Ok(()),
    };
    let sizes = workload.value_sizes;
    let made = Made::new(&step, sizes, Contents::Checked, plan.seed, accompanied);
    let _held = args.hold_snapshot.then(|| db.snapshot());
    let mut space = SpaceWatch::new(args, db, live);
    let total = step.amount.operations;
    let times = match plan.conventions.counts_per_thread {
        true => u64::from(args.threads),
        false => 1,
    };
    let total = total.map(|each| each.saturating_mul(times));
    let bar = progress::operations(benchmark.name(), total);
    let done = run::run(&plan, beside.as_ref(), made, SAMPLE_EVERY, |look| {
        space.sample();
        bar.set_position(look.operations);
    });
    bar.finish_and_clear();
    let (done, background) = done.map_err(|failed| failed.error.context(failed.doing))?;

    let waited = Instant::now();
    if args.wait_compactions && benchmark.writes() {
        db.wait_idle()?;
    }
    let wait_seconds = waited.elapsed().as_secs_f64();
    let disk = disk_usage(&args.db)?;
    space.note(&disk);

    let counted = open.database.counters().zip(counted_before);
    let counted = counted.map(|(after, before)| after.since(before));
    let (tally, seconds) = (done.tally, done.seconds);
    // A step has operations of one kind.
    let latencies = done.latencies.into_values().next();
    let latencies = latencies.map_or_else(histogram, Ok)?;
    let beside = background.as_ref();
    let user_bytes = user_bytes(&tally) + beside.map_or(0, |beside| user_bytes(&beside.tally));
    let bytes_written = written(statistics).since(&written_before);
    let bytes = tally.bytes_read + self::user_bytes(&tally);
    Ok(StepReport {
        name: benchmark.name(),
        ops: tally.operations,
        ops_per_sec: tally.operations as f64 / seconds,
        mb_per_sec: bytes as f64 / f64::from(1 << 20) / seconds,
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
        threads: usize::from(args.threads),
        found: benchmark.looks_up().then_some(tally.found),
        next: counted.map(|counted| counted.next),
        processed: counted.map(|counted| counted.processed),
        user_bytes_written: user_bytes,
        bytes_written,
        disk,
        live_keys: live.map(LiveKeys::entries),
        live_bytes: live.map(LiveKeys::bytes),
        live_known_by: open.live.as_ref().map(|live| live.known_by),
        stall_seconds: (statistics.stall_micros() - stalled_before) as f64 / 1e6,
        peak_memory_bytes: memory::peak_bytes(),
        background: beside.map(|beside| Background {
            writes: beside.tally.operations,
            writes_per_sec: beside.tally.operations as f64 / beside.seconds,
        }),
        histogram: args.histogram.then(|| distribution(&latencies)),
    })
}

/// The keys and values of all steps.
fn workload(args: &Args) -> Workload {
    Workload {
        name: "titan bench".to_owned(),
        about: String::new(),
        records: args.num,
        key_order: KeyOrder::DbBench,
        value_sizes: ValueSizes::Fixed(args.value_size),
        steps: Vec::new(),
    }
}

fn step(args: &Args, benchmark: Benchmark) -> Step {
    let (reads, writes) = (
        args.reads.unwrap_or(args.num),
        args.writes.unwrap_or(args.num),
    );
    let keys_per_call = args.batch_size.unwrap_or(READ_BATCH);
    let keys_per_call = u32::try_from(keys_per_call).unwrap_or(u32::MAX);
    let (operation, count) = match benchmark {
        Benchmark::FillSeq => (Operation::PutInOrder, writes),
        Benchmark::FillRandom | Benchmark::Overwrite => (Operation::Put, writes),
        Benchmark::ReadRandom | Benchmark::ReadWhileWriting => (Operation::Get, reads),
        Benchmark::MultiReadRandom => (Operation::MultiGet(keys_per_call), reads),
        Benchmark::SeekRandom => (Operation::Seek(args.seek_nexts.unwrap_or(0)), reads),
        Benchmark::Load => (Operation::Insert, args.num),
        Benchmark::Update => (Operation::Put, writes),
        Benchmark::Get => (Operation::Get, reads),
        Benchmark::Scan => {
            let rows = args.seek_nexts.unwrap_or(SCANNED_ROWS).max(1);
            let rows = u32::try_from(rows).unwrap_or(u32::MAX);
            (Operation::Scan(rows), reads)
        }
        Benchmark::ReadSeq => (Operation::ReadNext, reads),
        Benchmark::DeleteRandom => (Operation::Delete, writes),
    };
    // Steps that go through the keys in order end with the keys.
    let in_order = matches!(
        operation,
        Operation::Insert | Operation::PutInOrder | Operation::ReadNext
    );
    Step {
        name: benchmark.name().to_owned(),
        threads: u32::from(args.threads),
        mix: vec![(operation, 1)],
        keys: args.zipf.map_or(Choice::Uniform, Choice::ZipfOfEach),
        amount: match args.duration.filter(|_| !in_order) {
            Some(seconds) => Amount {
                operations: None,
                seconds: seconds as f64,
            },
            None => Amount {
                operations: Some(count),
                seconds: f64::INFINITY,
            },
        },
        rate: args.rate.map(|rate| rate as f64),
        writer_beside: None,
        holds_snapshot: args.hold_snapshot,
        ends_killed: false,
        fresh: benchmark.fills(),
    }
}

/// The writer of readwhilewriting. It has the rate of one thread.
fn beside(args: &Args) -> Step {
    let one = |rate| rate as f64 / f64::from(args.threads);
    Step {
        threads: 1,
        amount: Amount {
            operations: None,
            seconds: f64::INFINITY,
        },
        rate: args.rate.map(one),
        ..step(args, Benchmark::Overwrite)
    }
}

/// A seed for each step, so that steps with equal seeds draw different keys.
fn mix(seed: u64, benchmark: Benchmark, index: usize) -> u64 {
    let words = benchmark.name().bytes().map(u64::from);
    let words = words.chain([seed, index as u64]);
    words.fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash ^ (hash >> 29)
    })
}

/// Bytes of keys and values written, and of keys deleted.
fn user_bytes(tally: &Tally) -> u64 {
    tally.bytes_written + tally.deleted * KEY_BYTES as u64
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
