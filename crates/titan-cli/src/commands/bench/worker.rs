//! The state of a thread of a step: random keys, values, a clock and its counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand_distr::{Distribution, Zipf};
use titan::{ColumnFamily, Db, Error, ReadOptions, Result, WriteBatch, WriteOptions};

use super::Args;
use super::live::LiveKeys;
use super::values::{KEY_BYTES, Values, key};

/// Longer operations count as this long, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;
/// A thread that waits for the next call to be due checks at this interval whether to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Operations after which a thread updates the shared count.
const REPORT_EVERY: u64 = 64;

/// State that the threads of a step share.
#[derive(Default)]
pub(super) struct Shared {
    /// Operations done, for the progress bar.
    pub(super) done: AtomicU64,
    /// All threads must stop: one failed, or those that the writer accompanied are done.
    pub(super) stop: AtomicBool,
}

/// When a thread ends.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// After this many operations.
    Operations(u64),
    /// After this time.
    Time(Duration),
    /// When the other threads are done.
    Never,
}

/// The results of a thread.
pub(super) struct Tally {
    pub(super) operations: u64,
    /// Bytes of keys and values, written or found.
    pub(super) bytes: u64,
    /// Bytes of keys and values written, of keys deleted.
    pub(super) written: u64,
    /// Reads that found their key.
    pub(super) found: u64,
    /// Latencies in nanoseconds, one per call.
    pub(super) latencies: Histogram<u64>,
    pub(super) started: Instant,
    pub(super) ended: Instant,
}

/// A histogram for latencies, precise to a thousandth.
pub(super) fn latencies() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, LONGEST, 3).map_err(|e| Error::invalid_argument(e.to_string()))
}

/// One running thread.
pub(super) struct Worker<'a> {
    pub(super) args: &'a Args,
    pub(super) db: &'a Db,
    pub(super) family: &'a ColumnFamily,
    pub(super) read_options: ReadOptions,
    write_options: WriteOptions,
    live: Option<&'a LiveKeys>,
    shared: &'a Shared,
    limit: Limit,
    random: Rng,
    skew: Option<Skew>,
    /// The time from one operation to the next, if a rate is given.
    every: Option<Duration>,
    /// When the next call is due.
    due: Instant,
    values: Option<Values>,
    tally: Tally,
    unreported: u64,
}

impl<'a> Worker<'a> {
    /// A thread whose random numbers start from `seed`. Writes are recorded in `live`, which exists
    /// for every step that writes.
    pub(super) fn new(
        args: &'a Args,
        db: &'a Db,
        live: Option<&'a LiveKeys>,
        shared: &'a Shared,
        limit: Limit,
        seed: u64,
    ) -> Result<Self> {
        let mut random = Rng::with_seed(seed);
        let now = Instant::now();
        let skew = args
            .zipf
            .map(|exponent| Skew::new(exponent, args.num, random.u64(..)));
        let every = |rate: u64| Duration::from_secs(u64::from(args.threads)).div_f64(rate as f64);
        Ok(Worker {
            args,
            db,
            family: db,
            read_options: ReadOptions::default(),
            write_options: WriteOptions {
                sync: args.sync,
                ..WriteOptions::default()
            },
            live,
            shared,
            limit,
            values: live.map(|_| Values::new(args.value_size, random.u64(..))),
            skew: skew.transpose()?,
            random,
            every: args.rate.map(every),
            due: now,
            tally: Tally {
                operations: 0,
                bytes: 0,
                written: 0,
                found: 0,
                latencies: latencies()?,
                started: now,
                ended: now,
            },
            unreported: 0,
        })
    }

    /// Starts the clock.
    pub(super) fn start(&mut self) {
        self.tally.started = Instant::now();
        self.tally.ended = self.tally.started;
        self.due = self.tally.started;
    }

    /// The number of a random key; see [`Args::zipf`].
    pub(super) fn any_key(&mut self) -> u64 {
        match &mut self.skew {
            None => self.random.u64(..self.args.num),
            Some(skew) => skew.draw(),
        }
    }

    /// How many operations the next call may perform; 0 at the end.
    pub(super) fn left(&self) -> u64 {
        if self.shared.stop.load(Relaxed) {
            return 0;
        }
        match self.limit {
            Limit::Operations(n) => n.saturating_sub(self.tally.operations),
            Limit::Time(time) => {
                // The clock is read between calls only if a rate is given.
                let now = self.every.map_or(self.tally.ended, |_| Instant::now());
                match now.saturating_duration_since(self.tally.started) < time {
                    true => u64::MAX,
                    false => 0,
                }
            }
            Limit::Never => u64::MAX,
        }
    }

    /// Records the end of a call that performed `operations`.
    pub(super) fn ended(&mut self, operations: u64) {
        let now = Instant::now();
        let began = match self.every {
            None => self.tally.ended,
            // A call delayed by a slow one counts from the time at which it was due.
            Some(_) => self.due,
        };
        let nanoseconds = now.saturating_duration_since(began).as_nanos();
        self.tally
            .latencies
            .saturating_record(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.tally.ended = now;
        self.tally.operations += operations;
        self.unreported += operations;
        if self.unreported >= REPORT_EVERY {
            self.shared
                .done
                .fetch_add(std::mem::take(&mut self.unreported), Relaxed);
        }
        if let Some(every) = self.every {
            self.due += every.mul_f64(operations as f64);
            self.wait_for_call();
        }
    }

    /// Waits until the next call is due or the thread must stop.
    fn wait_for_call(&self) {
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() || self.left() == 0 {
                return;
            }
            std::thread::sleep(left.min(LONGEST_SLEEP));
        }
    }

    /// Records the bytes that a read found.
    pub(super) fn found(&mut self, bytes: usize) {
        self.tally.found += 1;
        self.tally.bytes += bytes as u64;
    }

    /// Records the bytes that a scan passed.
    pub(super) fn passed(&mut self, bytes: usize) {
        self.tally.bytes += bytes as u64;
    }

    /// Adds a new value for the key of this number to a batch.
    pub(super) fn put(&mut self, batch: &mut WriteBatch, number: u64) -> Result<()> {
        let (family, key) = (self.family, key(number));
        if let Some(values) = &mut self.values {
            values.with(number, |value| batch.put(family, key, value))?;
        }
        if let Some(live) = self.live {
            live.add(number);
        }
        self.wrote(KEY_BYTES + self.args.value_size as usize);
        Ok(())
    }

    /// Adds the deletion of the key of this number to a batch.
    pub(super) fn delete(&mut self, batch: &mut WriteBatch, number: u64) -> Result<()> {
        batch.delete(self.family, key(number))?;
        if let Some(live) = self.live {
            live.remove(number);
        }
        self.wrote(KEY_BYTES);
        Ok(())
    }

    fn wrote(&mut self, bytes: usize) {
        self.tally.bytes += bytes as u64;
        self.tally.written += bytes as u64;
    }

    /// Commits a batch.
    pub(super) fn commit(&mut self, batch: WriteBatch) -> Result<()> {
        self.db.write(batch, &self.write_options)
    }

    /// The results.
    pub(super) fn finish(self) -> Tally {
        self.shared.done.fetch_add(self.unreported, Relaxed);
        self.tally
    }
}

/// How often each key is drawn.
struct Skew {
    ranks: Zipf<f64>,
    random: SmallRng,
    keys: u64,
    /// The distance between the keys of consecutive ranks: frequent keys are far apart, and every
    /// key has one rank.
    step: u64,
}

impl Skew {
    fn new(exponent: f64, keys: u64, seed: u64) -> Result<Self> {
        let ranks = Zipf::new(keys as f64, exponent);
        let ranks = ranks.map_err(|e| Error::invalid_argument(format!("--zipf: {e}")))?;
        let golden = (keys as f64 * 0.618_033_988_749_895) as u64;
        let step = (golden..=keys).find(|step| greatest_common_divisor(*step, keys) == 1);
        Ok(Skew {
            ranks,
            random: SmallRng::seed_from_u64(seed),
            keys,
            step: step.unwrap_or(1),
        })
    }

    fn draw(&mut self) -> u64 {
        let rank = self.ranks.sample(&mut self.random) as u64;
        let at = u128::from(rank) * u128::from(self.step) % u128::from(self.keys);
        at as u64
    }
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    match b {
        0 => a,
        b => greatest_common_divisor(b, a % b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_a_rank_and_few_are_drawn_often() {
        for keys in [1, 2, 64, 1000, 4096, 99_991] {
            let mut skew = Skew::new(0.99, keys, 1).unwrap();
            let step = |rank| (u128::from(rank + 1) * u128::from(skew.step)) as u64 % keys;
            let distinct: std::collections::BTreeSet<u64> = (0..keys).map(step).collect();
            assert_eq!(distinct.len() as u64, keys);
            let mut drawn = vec![0u32; keys as usize];
            (0..10_000).for_each(|_| drawn[skew.draw() as usize] += 1);
            drawn.sort_unstable();
            let most: u32 = drawn.iter().rev().take(keys.div_ceil(10) as usize).sum();
            assert!(keys < 10 || most > 5_000, "{keys}: {most}");
        }
    }
}
