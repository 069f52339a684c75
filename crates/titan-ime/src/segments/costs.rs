//! The steps of the engine's iterator that a segment saves, and those that its writes cost.
//!
//! A reader counts every seventeenth read of its thread. The cost in the engine is measured: at
//! most once between two passes of maintenance, a scan of the segment goes to the engine, and its
//! steps are noted.

use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// Reads of a thread that count as one sample. Prime, so that a program that alternates between two
/// keys has both counted.
pub(crate) const COUNTED: u64 = 17;
/// Steps saved by a point read from memory, and at least by each row of a scan.
pub(crate) const LEAST_SAVED: u64 = 8;
/// Steps of a point read of the engine: 2.3 us, where a step takes 0.067 us.
const LOOK_UP: u64 = 32;
/// Steps of a write to memory.
const PAID: u64 = 16;
/// A smaller loss between two passes does not count.
const SMALL: u64 = 1_000;

/// No scan will be measured.
const NONE: u8 = 0;
/// The next scan will be measured.
const DUE: u8 = 1;
/// A scan is being measured.
const GONE: u8 = 2;

/// The savings and costs of one segment.
#[derive(Default)]
pub(crate) struct Costs {
    /// Point reads.
    points: AtomicU64,
    /// Rows of scans.
    rows: AtomicU64,
    writes: AtomicU64,
    measuring: AtomicU8,
    /// Steps of the engine for a row of a scan beside one, as last measured.
    wasted: AtomicU64,
    /// Passes in a row at which it had cost more than it saved.
    losses: AtomicU32,
    /// Steps saved per pass, minus steps paid: a decaying average.
    worth: AtomicI64,
}

/// Whether this read of this thread is counted.
pub(crate) fn is_counted() -> bool {
    thread_local! {
        static READ: Cell<u64> = const { Cell::new(0) };
    }
    let read = READ.get() + 1;
    READ.set(read % COUNTED);
    read == COUNTED
}

/// The savings and costs between two passes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    /// Steps of the engine that reads have saved.
    pub(crate) saved: u64,
    /// Writes.
    pub(crate) writes: u64,
    /// Passes in a row at which it had cost more than it saved.
    pub(crate) losses: u32,
}

impl Costs {
    /// The costs of a segment that replaces this one, or a part of it.
    pub(crate) fn inherited(&self) -> Self {
        let costs = Costs::default();
        costs
            .wasted
            .store(self.wasted.load(Ordering::Relaxed), Ordering::Relaxed);
        costs
            .losses
            .store(self.losses.load(Ordering::Relaxed), Ordering::Relaxed);
        costs.worth.store(self.worth(), Ordering::Relaxed);
        costs
    }

    /// The costs of a segment that replaces this one and another. Its losses in a row are the
    /// fewer.
    pub(crate) fn joined(&self, other: &Costs) -> Self {
        let both = |field: fn(&Costs) -> &AtomicU64| {
            AtomicU64::new(
                field(self).load(Ordering::Relaxed) + field(other).load(Ordering::Relaxed),
            )
        };
        let of_self = self.losses.load(Ordering::Relaxed);
        let of_other = other.losses.load(Ordering::Relaxed);
        let wasted = self.wasted.load(Ordering::Relaxed);
        Costs {
            points: both(|costs| &costs.points),
            rows: both(|costs| &costs.rows),
            writes: both(|costs| &costs.writes),
            measuring: AtomicU8::new(NONE),
            wasted: AtomicU64::new(wasted.max(other.wasted.load(Ordering::Relaxed))),
            losses: AtomicU32::new(of_self.min(of_other)),
            worth: AtomicI64::new(self.worth() + other.worth()),
        }
    }

    /// Counts a point read that was answered.
    pub(crate) fn point(&self) {
        if is_counted() {
            self.points.fetch_add(COUNTED, Ordering::Relaxed);
        }
    }

    /// Counts a part of a scan with so many rows.
    pub(crate) fn part(&self, rows: usize) {
        if is_counted() {
            let rows = COUNTED * rows.max(1) as u64;
            self.rows.fetch_add(rows, Ordering::Relaxed);
        }
    }

    /// Counts written versions. Called with the lock of the segment.
    pub(crate) fn written(&self, writes: usize) {
        self.writes.fetch_add(writes as u64, Ordering::Relaxed);
    }

    /// Whether this scan must go to the engine to be measured.
    pub(crate) fn is_measured_now(&self) -> bool {
        self.measuring.load(Ordering::Relaxed) == DUE
            && self
                .measuring
                .compare_exchange(DUE, GONE, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    /// Whether the engine's iterator reads large values cheaper than a look-up for each. If so, its
    /// cost is measured.
    pub(crate) fn is_iterator_cheaper(&self) -> bool {
        let is_cheaper = self.wasted.load(Ordering::Relaxed) < LOOK_UP;
        if is_cheaper && self.measuring.load(Ordering::Relaxed) != GONE {
            self.measuring.store(GONE, Ordering::Relaxed);
        }
        is_cheaper
    }

    /// Notes the steps that a measured scan wasted in the engine.
    pub(crate) fn measured(&self, wasted: u64, rows: u64) {
        if self.measuring.load(Ordering::Relaxed) == GONE {
            self.expect(wasted / rows.max(1));
            self.measuring.store(NONE, Ordering::Relaxed);
        }
    }

    /// Sets the steps wasted for a row.
    pub(crate) fn expect(&self, wasted: u64) {
        self.wasted.store(wasted, Ordering::Relaxed);
    }

    /// Ends the time between two passes, and returns its balance.
    pub(crate) fn end_pass(&self) -> Balance {
        let points = self.points.swap(0, Ordering::Relaxed);
        let rows = self.rows.swap(0, Ordering::Relaxed);
        let writes = self.writes.swap(0, Ordering::Relaxed);
        let row = self.wasted.load(Ordering::Relaxed).max(LEAST_SAVED);
        let saved = points * LEAST_SAVED + rows * row;
        let paid = writes * PAID;
        let losses = match paid > saved + SMALL {
            true => self.losses.load(Ordering::Relaxed) + 1,
            false => 0,
        };
        self.losses.store(losses, Ordering::Relaxed);
        self.worth.store(
            (self.worth() + saved as i64 - paid as i64) / 2,
            Ordering::Relaxed,
        );
        if rows > 0 {
            self.measuring.store(DUE, Ordering::Relaxed);
        }
        Balance {
            saved,
            writes,
            losses,
        }
    }

    pub(crate) fn worth(&self) -> i64 {
        self.worth.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_more_than_it_saves_has_losses_until_it_is_read() {
        let costs = Costs::default();
        for n in 1..4 {
            costs.written(1_000);
            assert_eq!(costs.end_pass().losses, n);
        }
        assert!(costs.worth() < 0);
        assert_eq!(costs.inherited().worth(), costs.worth());
        for _ in 0..10 * COUNTED {
            costs.point();
        }
        costs.written(10);
        let balance = costs.end_pass();
        assert_eq!(
            (balance.saved, balance.losses),
            (10 * COUNTED * LEAST_SAVED, 0)
        );
    }

    /// A joined segment inherits the savings of both.
    #[test]
    fn what_is_joined_has_the_worth_of_both_and_the_fewer_losses() {
        let (read, written) = (Costs::default(), Costs::default());
        for _ in 0..10 * COUNTED {
            read.point();
        }
        written.written(1_000);
        read.end_pass();
        written.end_pass();
        for _ in 0..10 * COUNTED {
            read.point();
        }
        for joined in [read.joined(&written), written.joined(&read)] {
            assert_eq!(joined.worth(), read.worth() + written.worth());
            let balance = joined.end_pass();
            assert_eq!(
                (balance.saved, balance.losses),
                (10 * COUNTED * LEAST_SAVED, 0)
            );
        }
    }

    #[test]
    fn one_scan_between_two_looks_is_measured() {
        let costs = Costs::default();
        assert!(!costs.is_measured_now());
        costs.measured(1_000_000, 1);
        for _ in 0..COUNTED {
            costs.part(3);
        }
        costs.end_pass();
        assert!(costs.is_measured_now() && !costs.is_measured_now());
        costs.measured(500, 5);
        costs.measured(1_000_000, 1);
        for _ in 0..COUNTED {
            costs.part(3);
        }
        assert_eq!(costs.end_pass().saved, COUNTED * 3 * 100);
    }
}
