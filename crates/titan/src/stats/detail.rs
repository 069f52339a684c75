//! Counters and times of a level, which may change at any time.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::histograms::Recorder;
use super::{HistogramData, HistogramKind, SlowOperationEvent, StatsLevel, Stripe};
use crate::clock::SystemClock;
use crate::error::Result;

/// The mean number of frequent calls of a thread of which one is timed, at the level `sampled`.
const SAMPLED: u32 = 32;

/// Copies of the counters. Threads spread over them, so that they rarely share a cache line.
const STRIPES: usize = 16;

/// The values of [`Detail::mode`]: nothing is counted; all that the level says; operations are
/// timed only to tell the slow ones.
const OFF: u8 = 0;
const COUNTS: u8 = 1;
const WATCHES: u8 = 2;

/// A gap that has not been drawn yet.
const UNKNOWN: u32 = u32::MAX;

thread_local! {
    /// The frequent calls of this thread that are not timed before the next one that is;
    /// [`UNKNOWN`] before the first one.
    static UNTIMED: Cell<u32> = const { Cell::new(UNKNOWN) };
    /// The state of the random numbers that gaps between timed calls come from; 0 before the first.
    static GAPS: Cell<u32> = const { Cell::new(0) };
    /// The stripe of this thread, once it has one.
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
    /// Whether this thread tells somebody of a slow operation. The operations of that one are not
    /// told.
    static TELLS: Cell<bool> = const { Cell::new(false) };
}

/// The level, and the parts that it switches on. It has cache lines of its own, since every call
/// reads it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Detail {
    mode: AtomicU8,
    /// Made when it is switched on for the first time.
    parts: OnceLock<Box<Parts>>,
    /// Counters that nobody reads: slow operations are told at the level `off`, too.
    unread: OnceLock<Box<Parts>>,
    slow: Arc<Slow>,
}

/// Told of each slow operation.
type Tell = Box<dyn Fn(&SlowOperationEvent) + Send + Sync>;

/// The operations that count as slow, and the function that is told of them.
#[derive(Default)]
struct Slow {
    /// Nanoseconds; 0 if none is slow.
    from: AtomicU64,
    tell: OnceLock<Tell>,
}

struct Parts {
    /// Whether every call is timed: at the level `all`, and to tell the slow ones.
    times_all: AtomicBool,
    /// Whether every call that is timed is in the histograms, at the level `all`.
    records_all: AtomicBool,
    clock: Arc<dyn SystemClock>,
    /// By the numbers of their kinds; none where nobody reads them.
    histograms: Vec<Recorder>,
    slow: Arc<Slow>,
    stripes: [Stripe; STRIPES],
}

impl std::fmt::Debug for Slow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Slow({:?} ns)", self.from)
    }
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Detail {
    /// Changes the level, and the time from which on an operation is slow; 0 if none is. The counts
    /// stay.
    ///
    /// # Errors
    /// `Internal` if the histograms cannot be made.
    pub(crate) fn set(
        &self,
        level: StatsLevel,
        slow_micros: u64,
        clock: &Arc<dyn SystemClock>,
    ) -> Result<()> {
        let nanos = slow_micros.saturating_mul(1000);
        self.slow.from.store(nanos, Ordering::Relaxed);
        let mode = match (level, nanos) {
            (StatsLevel::Off, 0) => OFF,
            (StatsLevel::Off, _) => WATCHES,
            _ => COUNTS,
        };
        let make = |histograms| {
            Box::new(Parts {
                times_all: AtomicBool::new(true),
                records_all: AtomicBool::new(false),
                clock: Arc::clone(clock),
                histograms,
                slow: Arc::clone(&self.slow),
                stripes: Default::default(),
            })
        };
        // Another thread may have made them: then they are as good.
        if mode == COUNTS && self.parts.get().is_none() {
            let _ = self.parts.set(make(Recorder::of_all_kinds()?));
        }
        if mode == WATCHES {
            self.unread.get_or_init(|| make(Vec::new()));
        }
        if let Some(parts) = self.parts.get() {
            let records_all = level == StatsLevel::All;
            parts.records_all.store(records_all, Ordering::Relaxed);
            parts
                .times_all
                .store(records_all || nanos > 0, Ordering::Relaxed);
            if level == StatsLevel::Sampled {
                let recorders = parts.histograms.iter().zip(HistogramKind::ALL);
                let frequent = recorders.filter(|(_, kind)| kind.is_frequent());
                frequent.for_each(|(recorder, _)| recorder.mark_sample());
            }
        }
        self.mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    /// Has `tell` told of slow operations from now on. Only the first call counts.
    pub(super) fn on_slow(&self, tell: Tell) {
        let _ = self.slow.tell.set(tell);
    }

    /// See [`Statistics::detailed`](super::Statistics::detailed).
    #[inline]
    pub(super) fn on(&self) -> Option<Detailed<'_>> {
        let parts = match self.mode.load(Ordering::Relaxed) {
            OFF => return None,
            COUNTS => &self.parts,
            _ => &self.unread,
        };
        parts.get().map(|parts| Detailed(parts))
    }

    /// The sum of a counter.
    pub(super) fn sum(&self, counter: impl Fn(&Stripe) -> &AtomicU64) -> u64 {
        let stripes = self.parts.get().map(|parts| &parts.stripes);
        let stripes = stripes.into_iter().flatten();
        stripes.map(|s| counter(s).load(Ordering::Relaxed)).sum()
    }

    /// A histogram, as readers see it.
    pub(super) fn data(&self, kind: HistogramKind) -> HistogramData {
        let parts = self.parts.get();
        let recorder = parts.and_then(|parts| parts.histograms.get(kind as usize));
        recorder.map_or_else(HistogramData::default, |r| r.data(kind.unit()))
    }
}

impl Slow {
    /// Tells of an operation, if it is slow. Syncs are left out: they end under locks, under which
    /// no listener may be called.
    fn consider(&self, kind: HistogramKind, nanos: u64) {
        let from = self.from.load(Ordering::Relaxed);
        let is_locked = matches!(kind, HistogramKind::WalSync | HistogramKind::ManifestSync);
        if from > 0
            && nanos >= from
            && !is_locked
            && let Some(tell) = self.tell.get()
            && !TELLS.replace(true)
        {
            tell(&SlowOperationEvent {
                operation: kind.name(),
                took: Duration::from_nanos(nanos),
            });
            TELLS.set(false);
        }
    }
}

/// Counters and histograms that are switched on.
#[derive(Clone, Copy)]
pub(crate) struct Detailed<'a>(&'a Parts);

impl<'a> Detailed<'a> {
    /// The counters to which this thread adds.
    #[inline]
    pub(crate) fn stripe(self) -> &'a Stripe {
        let number = match STRIPE.get() {
            usize::MAX => first_stripe(),
            number => number,
        };
        &self.0.stripes[number % STRIPES]
    }

    /// Adds a value to a histogram.
    pub(crate) fn record(self, kind: HistogramKind, value: u64) {
        if let Some(recorder) = self.0.histograms.get(kind as usize) {
            recorder.add(value);
        }
    }

    /// Times the code that runs until the watch is dropped.
    pub(crate) fn time(self, kind: HistogramKind) -> StopWatch<'a> {
        StopWatch {
            detailed: self,
            kind,
            is_recorded: true,
            began: self.0.clock.monotonic(),
        }
    }

    /// Adds the time that has passed since the clock of the database was at `began`.
    pub(crate) fn since(self, kind: HistogramKind, began: Duration) {
        self.end(Begun {
            kind,
            is_recorded: true,
            began,
        });
    }

    /// Ends a measurement, and adds it to its histogram.
    pub(crate) fn end(self, begun: Begun) {
        drop(StopWatch {
            detailed: self,
            kind: begun.kind,
            is_recorded: begun.is_recorded,
            began: begun.began,
        });
    }

    /// Times a call of a frequent kind, if it is to be timed: some are, spread at random so that no
    /// pattern of calls is overlooked, or all.
    #[inline]
    pub(crate) fn sample(self, kind: HistogramKind) -> Option<StopWatch<'a>> {
        debug_assert!(kind.is_frequent(), "{kind:?} is not marked as a sample");
        let left = match UNTIMED.get() {
            UNKNOWN => next_gap(),
            left => left,
        };
        if left > 0 {
            UNTIMED.set(left - 1);
            if !self.0.times_all.load(Ordering::Relaxed) {
                return None;
            }
            return Some(self.time_other(kind));
        }
        Some(self.time_sample(kind))
    }

    /// Times a call that is no sample, to be recorded if every one is.
    #[cold]
    fn time_other(self, kind: HistogramKind) -> StopWatch<'a> {
        StopWatch {
            detailed: self,
            kind,
            is_recorded: self.0.records_all.load(Ordering::Relaxed),
            began: self.0.clock.monotonic(),
        }
    }

    #[cold]
    fn time_sample(self, kind: HistogramKind) -> StopWatch<'a> {
        if matches!(UNTIMED.get(), 0 | UNKNOWN) {
            UNTIMED.set(next_gap());
        }
        self.time(kind)
    }
}

/// A running measurement. It ends, and is added to its histogram, when it is dropped.
pub(crate) struct StopWatch<'a> {
    detailed: Detailed<'a>,
    kind: HistogramKind,
    /// Whether it is added to the histogram, and not only judged.
    is_recorded: bool,
    began: Duration,
}

/// A measurement that goes on while nothing of the statistics is borrowed.
pub(crate) struct Begun {
    kind: HistogramKind,
    is_recorded: bool,
    began: Duration,
}

impl StopWatch<'_> {
    /// The same measurement, which [`Detailed::end`] ends.
    pub(crate) fn begun(self) -> Begun {
        let begun = Begun {
            kind: self.kind,
            is_recorded: self.is_recorded,
            began: self.began,
        };
        // It has nothing to free, and does not end here.
        std::mem::forget(self);
        begun
    }
}

impl Drop for StopWatch<'_> {
    #[inline(never)]
    fn drop(&mut self) {
        let parts = self.detailed.0;
        let took = parts.clock.monotonic().saturating_sub(self.began);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        if self.is_recorded {
            self.detailed.record(self.kind, nanos);
        }
        parts.slow.consider(self.kind, nanos);
    }
}

/// Gives the thread its stripe.
#[cold]
fn first_stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    STRIPE.set(number);
    number
}

/// The number of calls to pass over, from 0 to twice the mean. Each thread has numbers of its own,
/// so that threads of few calls are not all timed at the same ones.
#[cold]
fn next_gap() -> u32 {
    static SEED: AtomicU32 = AtomicU32::new(0);
    let mut state = match GAPS.get() {
        0 => SEED.fetch_add(0x9e37_79b9, Ordering::Relaxed) | 1,
        state => state,
    };
    for _ in 0..2 {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
    }
    GAPS.set(state);
    state % (2 * SAMPLED - 1)
}
