//! What is counted and timed only from a level on, which may change at any time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::histograms::Recorder;
use super::{HistogramData, HistogramKind, StatsLevel, Stripe};
use crate::clock::SystemClock;
use crate::error::Result;

/// The mean number of frequent calls of a thread of which one is timed, at the level `sampled`.
const SAMPLED: u32 = 16;

/// Copies of the counters. Threads spread over them, so that they rarely share a cache line.
const STRIPES: usize = 16;

thread_local! {
    /// The frequent calls of this thread that are not timed before the next one that is.
    static UNTIMED: Cell<u32> = const { Cell::new(0) };
    /// The state of the random numbers from which gaps between timed calls come.
    static GAPS: Cell<u32> = const { Cell::new(0x9e37_79b9) };
    /// The stripe of this thread, once it has one.
    static STRIPE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The level, and what it switches on. It has cache lines of its own, since every call reads it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Detail {
    level: AtomicU8,
    /// Made when it is switched on for the first time.
    parts: OnceLock<Box<Parts>>,
}

struct Parts {
    clock: Arc<dyn SystemClock>,
    /// By the numbers of their kinds.
    histograms: Vec<Recorder>,
    stripes: [Stripe; STRIPES],
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Detail {
    /// Changes the level. What was counted stays.
    ///
    /// # Errors
    /// `Internal` if the histograms cannot be made.
    pub(crate) fn set_level(&self, level: StatsLevel, clock: &Arc<dyn SystemClock>) -> Result<()> {
        if level != StatsLevel::Off && self.parts.get().is_none() {
            let parts = Parts {
                clock: Arc::clone(clock),
                histograms: Recorder::of_all_kinds()?,
                stripes: Default::default(),
            };
            // Another thread may have made them: then they are as good.
            let _ = self.parts.set(Box::new(parts));
        }
        self.level.store(level as u8, Ordering::Relaxed);
        Ok(())
    }

    /// See [`Statistics::detailed`](super::Statistics::detailed).
    #[inline]
    pub(super) fn on(&self) -> Option<Detailed<'_>> {
        let level = self.level.load(Ordering::Relaxed);
        if level == StatsLevel::Off as u8 {
            return None;
        }
        let parts = self.parts.get()?;
        Some(Detailed { parts, level })
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

/// Counters and histograms that are switched on.
#[derive(Clone, Copy)]
pub(crate) struct Detailed<'a> {
    parts: &'a Parts,
    level: u8,
}

impl<'a> Detailed<'a> {
    /// The counters to which this thread adds.
    #[inline]
    pub(crate) fn stripe(self) -> &'a Stripe {
        let number = match STRIPE.get() {
            usize::MAX => first_stripe(),
            number => number,
        };
        &self.parts.stripes[number % STRIPES]
    }

    /// Adds a value to a histogram.
    #[inline]
    pub(crate) fn record(self, kind: HistogramKind, value: u64) {
        if let Some(recorder) = self.parts.histograms.get(kind as usize) {
            recorder.add(value);
        }
    }

    /// Whether this call of a frequent kind is to be timed: some of them, spread at random so that
    /// no pattern of calls is overlooked, or all.
    #[inline]
    pub(crate) fn is_sample(self) -> bool {
        if self.level == StatsLevel::All as u8 {
            return true;
        }
        match UNTIMED.get() {
            0 => {
                UNTIMED.set(next_gap());
                true
            }
            left => {
                UNTIMED.set(left - 1);
                false
            }
        }
    }

    /// The beginning of a time for [`Detailed::record_since`].
    pub(crate) fn now(self) -> Duration {
        self.parts.clock.monotonic()
    }

    /// Adds the time since a moment to a histogram.
    pub(crate) fn record_since(self, began: Duration, kind: HistogramKind) {
        let nanos = self.now().saturating_sub(began).as_nanos();
        self.record(kind, u64::try_from(nanos).unwrap_or(u64::MAX));
    }

    /// Times what happens until the watch is dropped.
    pub(crate) fn time(self, kind: HistogramKind) -> StopWatch<'a> {
        StopWatch {
            detailed: self,
            kind,
            began: self.now(),
        }
    }

    /// Times one call of a frequent kind, if it is a sample.
    #[inline]
    pub(crate) fn sample(self, kind: HistogramKind) -> Option<StopWatch<'a>> {
        self.is_sample().then(|| self.time(kind))
    }
}

/// A running measurement. It ends, and is added to its histogram, when it is dropped.
pub(crate) struct StopWatch<'a> {
    detailed: Detailed<'a>,
    kind: HistogramKind,
    began: Duration,
}

impl Drop for StopWatch<'_> {
    fn drop(&mut self) {
        self.detailed.record_since(self.began, self.kind);
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

/// The number of calls to pass over, from 0 to twice the mean.
#[cold]
fn next_gap() -> u32 {
    let mut state = GAPS.get();
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
    GAPS.set(state);
    state % (2 * SAMPLED - 1)
}
