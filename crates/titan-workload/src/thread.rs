//! A thread of a step: draws operations, performs them, and measures their times.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use titan::Error;

use crate::keys::{Chooser, KEY_BYTES, Key};
use crate::live::LiveKeys;
use crate::run::{Failed, Plan};
use crate::shared::Shared;
use crate::step::Operation;
use crate::tally::{Latencies, Tally, add_to, histogram, record};
use crate::target::Target;
use crate::values::Values;

/// A thread that waits for an operation to be due checks at this interval whether to stop.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

/// The results of a thread.
pub(crate) struct Ended {
    pub(crate) tally: Tally,
    pub(crate) latencies: Latencies,
    pub(crate) at: Instant,
}

/// The random generator of the thread of this number, or of its values.
pub(crate) fn random(seed: u64, number: u64) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

pub(crate) struct Thread<'a, T: Target + ?Sized> {
    shared: &'a Shared<'a, T>,
    /// The index of the thread in its step.
    index: usize,
    random: fastrand::Rng,
    chooser: Chooser,
    /// `None` if the step does not write.
    values: Option<Values>,
    /// The sum of the frequencies of all operations.
    shares: u32,
    tally: Tally,
    /// In the order of the mix.
    latencies: Vec<Histogram<u64>>,
    /// When the last call ended.
    now: Instant,
    /// The next number of [`Operation::PutInOrder`].
    next: u64,
    /// The numbers and keys of the current call, to use their memory again.
    numbers: Vec<u64>,
    keys: Vec<Key>,
}

impl<'a, T: Target + ?Sized> Thread<'a, T> {
    /// A thread that draws its own keys with this seed.
    pub(crate) fn new(
        shared: &'a Shared<'a, T>,
        index: usize,
        random: fastrand::Rng,
        values: Option<Values>,
    ) -> Result<Self, Failed<T::Error>> {
        let prepared = |e: Error| Failed::new("preparing a thread".to_owned(), e.into());
        let (step, mix) = (shared.plan.step, &shared.plan.step.mix);
        Ok(Thread {
            chooser: Chooser::new(step.keys, shared.records()).map_err(prepared)?,
            index,
            values,
            random,
            shares: mix.iter().map(|(_, share)| share).sum(),
            shared,
            tally: Tally::default(),
            latencies: mix
                .iter()
                .map(|_| histogram().map_err(prepared))
                .collect::<Result<_, _>>()?,
            now: Instant::now(),
            next: 0,
            numbers: Vec::new(),
            keys: Vec::new(),
        })
    }

    /// Runs until the step is over.
    pub(crate) fn run(mut self) -> Result<Ended, Failed<T::Error>> {
        let mix = &self.shared.plan.step.mix;
        self.now = self.shared.began();
        match mix[..] {
            [(Operation::ReadNext, _)] => {
                let read = self.read_in_order();
                read.map_err(|e| Failed::new("a scan over everything".to_owned(), e))?;
            }
            _ => self.draw_and_perform()?,
        }
        let mut latencies = Latencies::new();
        for ((operation, _), histogram) in mix.iter().zip(&self.latencies) {
            add_to(&mut latencies, operation.name(), histogram);
        }
        Ok(Ended {
            tally: self.tally,
            latencies,
            at: Instant::now(),
        })
    }

    fn draw_and_perform(&mut self) -> Result<(), Failed<T::Error>> {
        let batch = self.shared.plan.conventions.batch;
        loop {
            let (at, operation) = self.draw();
            let most = match operation {
                Operation::MultiGet(keys) => u64::from(keys),
                Operation::Insert | Operation::Put | Operation::PutInOrder | Operation::Delete => {
                    batch
                }
                _ => 1,
            };
            let Some((place, count, began)) = self.take(most) else {
                return Ok(());
            };
            let began = match began {
                Some(began) => began,
                None if self.shared.plan.conventions.back_to_back => self.now,
                None => Instant::now(),
            };
            let performed = self.perform(operation, count);
            performed
                .map_err(|e| Failed::new(format!("{} number {place}", operation.name()), e))?;
            self.ended(at, began, count);
        }
    }

    /// Takes the next operations, at most so many. Returns their position in the order of all,
    /// their number and, if the step has a rate, when they were due; `None` if the step is over.
    fn take(&mut self, most: u64) -> Option<(u64, u64, Option<Instant>)> {
        let plan = self.shared.plan;
        if self.shared.is_over(self.now) {
            return None;
        }
        let all = plan.step.amount.operations.unwrap_or(u64::MAX);
        let (place, count) = if plan.conventions.counts_per_thread {
            let own = self.tally.operations;
            let count = all.saturating_sub(own).min(most);
            (own.saturating_mul(u64::from(plan.step.threads)), count)
        } else {
            let place = self.shared.taken.fetch_add(most, Relaxed);
            (place, all.saturating_sub(place).min(most))
        };
        if count == 0 {
            return None;
        }
        // Measured from the time at which it was due: for its user, an operation delayed by an
        // earlier one is as late as if it had been slow itself.
        let due = self.shared.due(place);
        if let Some(due) = due {
            loop {
                let now = Instant::now();
                if self.shared.is_over(now) {
                    return None;
                }
                let left = due.saturating_duration_since(now);
                if left.is_zero() {
                    break;
                }
                thread::sleep(left.min(LONGEST_SLEEP));
            }
        }
        Some((place, count, due))
    }

    /// Records the end of a call of the operation at this place of the mix.
    fn ended(&mut self, at: usize, began: Instant, operations: u64) {
        self.now = Instant::now();
        let latency = self.now.saturating_duration_since(began);
        record(&mut self.latencies[at], latency);
        self.tally.operations += operations;
        self.shared.note(self.index, self.tally.operations);
    }

    fn draw(&mut self) -> (usize, Operation) {
        let mix = &self.shared.plan.step.mix;
        let mut drawn = match mix.len() {
            1 => 0,
            _ => self.random.u32(..self.shares),
        };
        for (at, (operation, share)) in mix.iter().enumerate() {
            match drawn.checked_sub(*share) {
                Some(left) => drawn = left,
                None => return (at, *operation),
            }
        }
        let last = mix.len() - 1;
        (last, mix[last].0)
    }

    fn choose(&mut self) -> u64 {
        self.chooser.draw(&mut self.random, self.shared.records())
    }

    fn perform(&mut self, operation: Operation, count: u64) -> Result<(), T::Error> {
        let Plan { live, target, .. } = *self.shared.plan;
        match operation {
            Operation::Insert | Operation::Put | Operation::PutInOrder | Operation::Delete
                if count > 1 =>
            {
                self.write(operation, count)
            }
            Operation::Insert | Operation::Put | Operation::PutInOrder => {
                let number = self.number(operation)?;
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
            Operation::MultiGet(_) => self.multi_get(count),
            Operation::Scan(count) => self.scan(count),
            Operation::ScanUpTo(most) => {
                let count = self.random.u32(1..=most);
                self.scan(count)
            }
            Operation::Seek(entries) => {
                let number = self.choose();
                let read = &mut self.tally.bytes_read;
                let key = self.shared.key(number);
                let found = target.seek(&key, entries, &mut |key, value| {
                    *read += (key.len() + std::hint::black_box(value).len()) as u64;
                    Ok(true)
                })?;
                self.tally.looked_up += 1;
                self.tally.found += u64::from(found);
                Ok(())
            }
            // Only possible as the single operation of a step, where it is not drawn.
            Operation::ReadNext => Ok(()),
            Operation::Delete => {
                let number = self.choose();
                target.delete(&self.shared.key(number))?;
                self.deleted(number);
                Ok(())
            }
            Operation::Expire(left) => {
                let Some(range) = live.and_then(|live| live.expire(left)) else {
                    return Ok(());
                };
                let ends = (self.shared.key(range.start), self.shared.key(range.end));
                target.delete_range(&ends.0, &ends.1)
            }
        }
    }

    /// The number that an operation that may be in a batch writes next.
    fn number(&mut self, operation: Operation) -> Result<u64, Error> {
        let Plan { live, workload, .. } = *self.shared.plan;
        Ok(match operation {
            Operation::Insert => {
                let none = || Error::invalid_argument("there is no space to record more keys");
                live.and_then(LiveKeys::insert).ok_or_else(none)?
            }
            Operation::PutInOrder => {
                let number = self.next % workload.records;
                self.next += 1;
                number
            }
            _ => self.choose(),
        })
    }

    fn deleted(&mut self, number: u64) {
        if let Some(live) = self.shared.plan.live {
            live.remove(number);
        }
        self.tally.deleted += 1;
    }

    fn put(&mut self, number: u64) -> Result<(), T::Error> {
        let key = self.shared.key(number);
        let Plan { live, target, .. } = *self.shared.plan;
        let written = &mut self.tally.bytes_written;
        let values = self.values.as_mut().ok_or_else(without_values)?;
        values.with(number, |value| {
            *written += (KEY_BYTES + value.len()) as u64;
            target.put(&key, value)
        })?;
        if let Some(live) = live {
            live.add(number);
        }
        Ok(())
    }

    /// Writes several entries, or deletes several keys, in one call.
    fn write(&mut self, operation: Operation, count: u64) -> Result<(), T::Error> {
        self.numbers.clear();
        for _ in 0..count {
            let number = self.number(operation)?;
            self.numbers.push(number);
        }
        let shared = self.shared;
        let (numbers, written) = (&self.numbers, &mut self.tally.bytes_written);
        let mut values = self.values.as_mut();
        shared.plan.target.write(&mut |batch| {
            for &number in numbers {
                let key = shared.key(number);
                if operation == Operation::Delete {
                    batch.delete(&key)?;
                    continue;
                }
                let values = values.as_mut().ok_or_else(without_values)?;
                values.with(number, |value| {
                    *written += (KEY_BYTES + value.len()) as u64;
                    batch.put(&key, value)
                })?;
            }
            Ok(())
        })?;
        for at in 0..self.numbers.len() {
            let number = self.numbers[at];
            match (operation, shared.plan.live) {
                (Operation::Delete, _) => self.deleted(number),
                (_, Some(live)) => live.add(number),
                (_, None) => {}
            }
        }
        Ok(())
    }

    fn get(&mut self, number: u64) -> Result<(), T::Error> {
        let shared = self.shared;
        let expected = shared.expects(number);
        let tally = &mut self.tally;
        let found = shared.plan.target.get(&shared.key(number), &mut |value| {
            shared.read(number, std::hint::black_box(value), tally)
        })?;
        if expected && !found {
            let message = format!("key {number} was written and is not there");
            return Err(Error::corruption(message).into());
        }
        self.tally.looked_up += 1;
        self.tally.found += u64::from(found);
        Ok(())
    }

    fn multi_get(&mut self, count: u64) -> Result<(), T::Error> {
        let shared = self.shared;
        self.numbers.clear();
        self.keys.clear();
        let mut expected = 0;
        for _ in 0..count {
            let number = self.choose();
            self.numbers.push(number);
            self.keys.push(shared.key(number));
            expected += u64::from(shared.expects(number));
        }
        let (numbers, tally, mut found) = (&self.numbers, &mut self.tally, 0);
        shared.plan.target.multi_get(&self.keys, &mut |at, value| {
            found += 1;
            shared.read(numbers[at], std::hint::black_box(value), tally)
        })?;
        if found < expected {
            let message = format!("of {expected} keys that were written {found} are there");
            return Err(Error::corruption(message).into());
        }
        self.tally.looked_up += count;
        self.tally.found += found;
        Ok(())
    }

    fn scan(&mut self, count: u32) -> Result<(), T::Error> {
        let number = self.choose();
        let shared = self.shared;
        let (tally, mut left) = (&mut self.tally, count);
        shared
            .plan
            .target
            .scan(&shared.key(number), &mut |key, value| {
                shared.pass(key, value, tally)?;
                left -= 1;
                Ok(left > 0)
            })
    }

    /// One scan over everything; each entry is an operation.
    fn read_in_order(&mut self) -> Result<(), T::Error> {
        let shared = self.shared;
        let mut next = self.take(1);
        let mut ended_early = next.is_none();
        if ended_early {
            return Ok(());
        }
        shared.plan.target.scan(b"", &mut |key, value| {
            let due = next.and_then(|(_, _, due)| due);
            shared.pass(key, std::hint::black_box(value), &mut self.tally)?;
            self.ended(0, due.unwrap_or(self.now), 1);
            next = self.take(1);
            ended_early = next.is_none();
            Ok(!ended_early)
        })?;
        let found = self.tally.found;
        let there = shared.plan.live.map_or(0, LiveKeys::entries);
        if !ended_early && shared.exact && found != there {
            return Err(Error::corruption(format!(
                "{there} keys were written, and a scan over everything found {found}"
            ))
            .into());
        }
        Ok(())
    }
}

fn without_values() -> Error {
    Error::internal("a thread without values")
}
