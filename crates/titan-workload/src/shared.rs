//! Parts that the threads of a step share: its plan, its clock, and the operations that are left.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use titan::Error;

use crate::keys::{KEY_BYTES, Key, key, number};
use crate::live::LiveKeys;
use crate::run::Plan;
use crate::step::Choice;
use crate::tally::Tally;
use crate::target::Target;
use crate::values;

/// Where db_bench and `titan-bench` differ in what a step means. The default is `titan-bench`'s.
///
/// `titan bench` keeps the conventions of db_bench, `titan-bench` has its own. The differences,
/// those of `titan-bench` first:
///
/// - a key has 16 hexadecimal digits; or the number in 8 bytes, then eight `0`;
/// - a value begins with its key's number and is compared when it is read; or every byte can be
///   checked by `--verify`, and reads do not look at it;
/// - operations are counted for all threads together; or for each thread;
/// - a latency without a rate counts from when a call is sent; or from the end of the previous
///   call;
/// - operations that were due and never sent count with their delay at the end; or not at all;
/// - a deletion writes no bytes; or the bytes of its key;
/// - the key of a rank of a Zipf distribution is chosen by a hash, as in YCSB, so that some keys
///   have several ranks and others none; or every key has one rank.
#[derive(Debug, Clone, Copy)]
pub struct Conventions {
    /// Whether each thread performs the number of operations of the step, not all together.
    pub counts_per_thread: bool,
    /// Whether a call without a rate is measured from the end of the previous one, so that the
    /// clock is read once a call. Otherwise from when it is sent.
    pub back_to_back: bool,
    /// Whether values that are read are checked, and so every cache line of them is read.
    pub checks_values: bool,
    /// Entries that are written or deleted in one call.
    pub batch: u64,
}

impl Default for Conventions {
    fn default() -> Self {
        Conventions {
            counts_per_thread: false,
            back_to_back: false,
            checks_values: true,
            batch: 1,
        }
    }
}

/// The operations that a thread has done, on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Done(AtomicU64);

/// State that threads with the same step share.
pub(crate) struct Shared<'a, T: Target + ?Sized> {
    pub(crate) plan: &'a Plan<'a, T>,
    /// Whether keys that are recorded as existing must be found.
    pub(crate) exact: bool,
    /// When the threads began; set by the first call.
    began: &'a OnceLock<Instant>,
    stop: &'a AtomicBool,
    /// Operations that threads have taken, if they are counted together.
    pub(crate) taken: AtomicU64,
    /// By thread.
    done: Vec<Done>,
}

impl<'a, T: Target + ?Sized> Shared<'a, T> {
    pub(crate) fn new(
        plan: &'a Plan<'a, T>,
        began: &'a OnceLock<Instant>,
        stop: &'a AtomicBool,
    ) -> Self {
        let deletes = plan.step.mix.iter().any(|(o, _)| o.deletes());
        Shared {
            plan,
            // If keys are deleted while others look them up, the order is a race.
            exact: plan.exact && !deletes,
            began,
            stop,
            taken: AtomicU64::new(0),
            done: (0..plan.step.threads).map(|_| Done::default()).collect(),
        }
    }

    /// To be called once all threads are ready.
    pub(crate) fn began(&self) -> Instant {
        *self.began.get_or_init(Instant::now)
    }

    /// Notes how many operations this thread has done.
    pub(crate) fn note(&self, thread: usize, operations: u64) {
        self.done[thread].0.store(operations, Relaxed);
    }

    /// Operations that are done.
    pub(crate) fn done(&self) -> u64 {
        self.done.iter().map(|done| done.0.load(Relaxed)).sum()
    }

    pub(crate) fn is_over(&self, now: Instant) -> bool {
        let time = now.saturating_duration_since(self.began());
        self.stop.load(Relaxed) || time.as_secs_f64() >= self.plan.step.amount.seconds
    }

    /// When the operation at this position is due; `None` if each begins when an earlier one ends.
    pub(crate) fn due(&self, place: u64) -> Option<Instant> {
        let after = Duration::from_secs_f64(place as f64 / self.plan.step.rate?);
        Some(self.began() + after)
    }

    /// The delay of operations that were due by then and not sent by any thread. None if each
    /// thread counts its own.
    pub(crate) fn overdue(&self, sent: u64, end: Instant) -> impl Iterator<Item = Duration> {
        let all = match self.plan.conventions.counts_per_thread {
            true => sent,
            false => self.plan.step.amount.operations.unwrap_or(u64::MAX),
        };
        let due = (sent..all).map_while(move |place| self.due(place));
        due.map_while(move |due| end.checked_duration_since(due))
    }

    /// Numbers below it may be chosen.
    pub(crate) fn records(&self) -> u64 {
        let inserted = self.plan.live.map_or(0, LiveKeys::inserted);
        match self.plan.step.keys {
            // The newest key is among the existing ones only.
            Choice::Latest(_) => inserted,
            Choice::Uniform | Choice::Zipf(_) | Choice::ZipfOfEach(_) => {
                inserted.max(self.plan.workload.records)
            }
        }
    }

    /// Whether a key must exist.
    pub(crate) fn expects(&self, number: u64) -> bool {
        self.exact && self.plan.live.is_some_and(|live| live.contains(number))
    }

    pub(crate) fn key(&self, number: u64) -> Key {
        key(number, self.plan.workload.key_order)
    }

    /// Looks at a value that a lookup of this key found.
    pub(crate) fn read(
        &self,
        number: u64,
        value: &[u8],
        tally: &mut Tally,
    ) -> Result<(), T::Error> {
        tally.bytes_read += (KEY_BYTES + value.len()) as u64;
        if self.plan.conventions.checks_values {
            values::read(value, number, self.plan.workload.value_sizes)?;
        }
        Ok(())
    }

    /// Looks at an entry that a scan passed.
    pub(crate) fn pass(&self, key: &[u8], value: &[u8], tally: &mut Tally) -> Result<(), T::Error> {
        tally.bytes_read += (key.len() + value.len()) as u64;
        tally.looked_up += 1;
        tally.found += 1;
        if self.plan.conventions.checks_values {
            let number = number(key, self.plan.workload.key_order);
            let number = number.ok_or_else(|| Error::corruption("a key that no step writes"))?;
            values::read(value, number, self.plan.workload.value_sizes)?;
        }
        Ok(())
    }
}
