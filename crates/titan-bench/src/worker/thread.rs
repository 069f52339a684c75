//! A thread of a step: draws operations, runs them, and measures their times.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::num::NonZeroU64;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::Job;
use crate::engine::Store;
use crate::work::keys::{Chooser, KEY_BYTES, Key, key, number};
use crate::work::live::LiveKeys;
use crate::work::values::{self, Values};
use crate::work::{Choice, Operation, Step, Workload};

/// State that all threads of a step share.
pub(super) struct Shared<'a> {
    workload: &'a Workload,
    step: &'a Step,
    store: &'a dyn Store,
    pub(super) live: &'a LiveKeys,
    seed: u64,
    /// Whether the existing keys are known exactly: nothing recorded has been lost since.
    exact: bool,
    /// When the threads began; set by the first call.
    began: &'a OnceLock<Instant>,
    /// Operations that threads have taken.
    taken: AtomicU64,
    /// Operations that are done.
    pub(super) done: AtomicU64,
    pub(super) stop: AtomicBool,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        job: &'a Job,
        step: &'a Step,
        store: &'a dyn Store,
        live: &'a LiveKeys,
        began: &'a OnceLock<Instant>,
    ) -> Self {
        Shared {
            workload: &job.workload,
            step,
            store,
            live,
            seed: job.seed,
            // If keys are deleted while others look them up, the order is a race.
            exact: job.exact && !step.mix.iter().any(|(operation, _)| operation.deletes()),
            began,
            taken: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        }
    }

    /// To be called once all threads are ready.
    pub(super) fn began(&self) -> Instant {
        *self.began.get_or_init(Instant::now)
    }

    fn is_over(&self) -> bool {
        self.stop.load(Relaxed) || self.began().elapsed().as_secs_f64() >= self.step.amount.seconds
    }

    /// The position of the next `count` operations in the order of all; `None` if the step is
    /// over.
    fn take(&self, count: u64) -> Option<u64> {
        if self.is_over() {
            return None;
        }
        let place = self.taken.fetch_add(count, Relaxed);
        let all = self.step.amount.operations.unwrap_or(u64::MAX);
        (place < all).then_some(place)
    }

    /// When the operation at this position is due; `None` if each begins when an earlier one ends.
    fn due(&self, place: u64) -> Option<Instant> {
        let after = Duration::from_secs_f64(place as f64 / self.step.rate?);
        Some(self.began() + after)
    }

    /// The delay of operations that were due by then and not sent by any thread.
    pub(super) fn overdue(&self, sent: u64, end: Instant) -> impl Iterator<Item = Duration> {
        let all = self.step.amount.operations.unwrap_or(u64::MAX);
        let due = (sent..all).map_while(move |place| self.due(place));
        due.map_while(move |due| end.checked_duration_since(due))
    }

    /// Numbers below it may be chosen.
    fn records(&self) -> u64 {
        match self.step.keys {
            // The newest key is among the existing ones only.
            Choice::Latest(_) => self.live.inserted(),
            Choice::Uniform | Choice::Zipf(_) => self.live.inserted().max(self.workload.records),
        }
    }

    /// Whether a key must exist.
    fn expects(&self, number: u64) -> bool {
        self.exact && self.live.contains(number)
    }

    /// Checks an entry that a scan passed.
    fn check(&self, key: &[u8], value: &[u8], tally: &mut Tally) -> Result<()> {
        tally.looked_up += 1;
        tally.found += 1;
        tally.bytes_read += (key.len() + value.len()) as u64;
        let number = number(key, self.workload.key_order).context("a key that no step writes")?;
        values::read(value, number, self.workload.value_sizes)
    }
}

/// The results of a thread.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) operations: u64,
    pub(super) looked_up: u64,
    pub(super) found: u64,
    pub(super) bytes_read: u64,
    pub(super) bytes_written: u64,
    /// In nanoseconds, by operation name.
    pub(super) latencies: BTreeMap<&'static str, Histogram<u64>>,
    /// `None` if the thread did nothing.
    pub(super) ended: Option<Instant>,
}

impl Tally {
    pub(super) fn record(&mut self, name: &'static str, latency: Duration) -> Result<()> {
        let histogram = match self.latencies.entry(name) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(place) => place.insert(Histogram::new(3)?),
        };
        let nanoseconds = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        Ok(histogram.record(nanoseconds.max(1))?)
    }
}

/// The random generator of the thread of this number, or of its values.
pub(super) fn random(seed: u64, number: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(super) struct Thread<'a> {
    shared: &'a Shared<'a>,
    random: fastrand::Rng,
    chooser: Chooser,
    /// `None` if the step does not write.
    values: Option<Values>,
    /// The sum of the frequencies of all operations.
    shares: u32,
    tally: Tally,
}

impl<'a> Thread<'a> {
    /// The thread of this number: each draws its own keys and values.
    pub(super) fn new(shared: &'a Shared<'a>, number: u64, values: Option<Values>) -> Result<Self> {
        Ok(Thread {
            chooser: Chooser::new(shared.step.keys, shared.records())?,
            values,
            random: random(shared.seed, number),
            shares: shared.step.mix.iter().map(|(_, share)| share).sum(),
            shared,
            tally: Tally::default(),
        })
    }

    /// Runs until the step is over.
    pub(super) fn run(mut self) -> Result<Tally> {
        match self.shared.step.mix[..] {
            [(Operation::ReadNext, _)] => self.read_in_order()?,
            _ => self.draw_and_perform()?,
        }
        self.tally.ended = Some(Instant::now());
        Ok(self.tally)
    }

    fn draw_and_perform(&mut self) -> Result<()> {
        if self.shared.step.rate.is_some() {
            // Makes sleeps end on time, not within the default of 50 microseconds.
            rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
        }
        loop {
            let operation = self.draw();
            let count = match operation {
                Operation::MultiGet(keys) => u64::from(keys),
                _ => 1,
            };
            let Some(place) = self.shared.take(count) else {
                return Ok(());
            };
            let due = self.shared.due(place);
            if let Some(due) = due {
                thread::sleep(due.saturating_duration_since(Instant::now()));
                if self.shared.is_over() {
                    return Ok(());
                }
            }
            // Measured from the time at which it was due: for its user, an operation delayed by an
            // earlier one is as late as if it had been slow itself.
            let began = due.unwrap_or_else(Instant::now);
            self.perform(operation)
                .with_context(|| format!("{} number {place}", operation.name()))?;
            self.tally.record(operation.name(), began.elapsed())?;
            self.tally.operations += count;
            self.shared.done.fetch_add(count, Relaxed);
        }
    }

    fn draw(&mut self) -> Operation {
        let mix = &self.shared.step.mix;
        let mut drawn = if mix.len() > 1 {
            self.random.u32(..self.shares)
        } else {
            0
        };
        for (operation, share) in mix {
            match drawn.checked_sub(*share) {
                Some(left) => drawn = left,
                None => return *operation,
            }
        }
        mix[mix.len() - 1].0
    }

    fn choose(&mut self) -> u64 {
        self.chooser.draw(&mut self.random, self.shared.records())
    }

    fn key(&self, number: u64) -> Key {
        key(number, self.shared.workload.key_order)
    }

    fn perform(&mut self, operation: Operation) -> Result<()> {
        let shared = self.shared;
        match operation {
            Operation::Insert => {
                let number = shared.live.insert();
                self.put(number.context("there is no space to record more keys")?)
            }
            Operation::Put => {
                let number = self.choose();
                self.put(number)
            }
            Operation::Get => {
                let number = self.choose();
                self.get(number)
            }
            Operation::ReadModifyWrite => {
                let number = self.choose();
                self.get(number)?;
                self.put(number)
            }
            Operation::MultiGet(count) => self.multi_get(count),
            Operation::Scan(count) => self.scan(count),
            Operation::ScanUpTo(most) => {
                let count = self.random.u32(1..=most);
                self.scan(count)
            }
            // Only possible as the single operation of a step, where it is not drawn.
            Operation::ReadNext => Ok(()),
            Operation::Delete => {
                let number = self.choose();
                shared.store.delete(&self.key(number))?;
                shared.live.remove(number);
                Ok(())
            }
            Operation::Expire(left) => {
                let Some(range) = shared.live.expire(left) else {
                    return Ok(());
                };
                let ends = (self.key(range.start), self.key(range.end));
                shared.store.delete_range(&ends.0, &ends.1)
            }
        }
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let key = self.key(number);
        let store = self.shared.store;
        let written = &mut self.tally.bytes_written;
        let values = self.values.as_mut().context("a thread without values")?;
        values.with(number, |value| {
            *written += (KEY_BYTES + value.len()) as u64;
            store.put(&key, value)
        })?;
        self.shared.live.add(number);
        Ok(())
    }

    fn get(&mut self, number: u64) -> Result<()> {
        let key = self.key(number);
        let sizes = self.shared.workload.value_sizes;
        let expected = self.shared.expects(number);
        let read = &mut self.tally.bytes_read;
        let found = self.shared.store.get(&key, &mut |value| {
            *read += (KEY_BYTES + value.len()) as u64;
            values::read(value, number, sizes)
        })?;
        ensure!(
            found || !expected,
            "key {number} was written and is not there"
        );
        self.tally.looked_up += 1;
        self.tally.found += u64::from(found);
        Ok(())
    }

    fn multi_get(&mut self, count: u32) -> Result<()> {
        let numbers: Vec<u64> = (0..count).map(|_| self.choose()).collect();
        let keys: Vec<Key> = numbers.iter().map(|number| self.key(*number)).collect();
        let sizes = self.shared.workload.value_sizes;
        let expected = numbers
            .iter()
            .filter(|number| self.shared.expects(**number))
            .count();
        let (tally, mut found) = (&mut self.tally, 0);
        self.shared.store.multi_get(&keys, &mut |at, value| {
            found += 1;
            tally.bytes_read += (KEY_BYTES + value.len()) as u64;
            values::read(value, numbers[at], sizes)
        })?;
        ensure!(
            found >= expected,
            "of {expected} keys that were written {found} are there"
        );
        tally.looked_up += u64::from(count);
        tally.found += found as u64;
        Ok(())
    }

    fn scan(&mut self, count: u32) -> Result<()> {
        let number = self.choose();
        let from = self.key(number);
        let shared = self.shared;
        let tally = &mut self.tally;
        let mut left = count;
        shared.store.scan(&from, &mut |key, value| {
            shared.check(key, value, tally)?;
            left -= 1;
            Ok(left > 0)
        })
    }

    /// One scan over everything; each entry is an operation.
    fn read_in_order(&mut self) -> Result<()> {
        let shared = self.shared;
        let tally = &mut self.tally;
        let mut before = Instant::now();
        let mut ended_early = false;
        shared.store.scan(b"", &mut |key, value| {
            shared.check(key, value, tally)?;
            let now = Instant::now();
            tally.record(Operation::ReadNext.name(), now - before)?;
            before = now;
            tally.operations += 1;
            shared.done.fetch_add(1, Relaxed);
            ended_early = shared.take(1).is_none();
            Ok(!ended_early)
        })?;
        let (found, there) = (tally.found, shared.live.entries());
        ensure!(
            ended_early || !shared.exact || found == there,
            "{there} keys were written, and a scan over everything found {found}"
        );
        Ok(())
    }
}
