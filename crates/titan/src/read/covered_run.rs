//! The moment from which an iterator skips keys that range tombstones delete, instead of stepping
//! over them.

/// Keys deleted by range tombstones that are stepped over before the rest of the range is skipped,
/// which costs a seek in each source.
const COVERED_KEYS: usize = 8;
/// The most that are stepped over before skipping is tried again after it was of no use.
const MAX_COVERED_KEYS: usize = 1024;

/// Keys that range tombstones delete, since the last one shown.
pub(super) struct CoveredRun {
    stepped_over: usize,
    /// Number of keys that are stepped over before the rest is skipped.
    patience: usize,
}

impl CoveredRun {
    pub(super) fn new() -> Self {
        CoveredRun {
            stepped_over: 0,
            patience: COVERED_KEYS,
        }
    }

    /// Counts one more; returns whether it is time to skip.
    pub(super) fn is_long(&mut self) -> bool {
        self.stepped_over += 1;
        self.stepped_over > self.patience
    }

    pub(super) fn skipped(&mut self, skipped: Skipped) {
        self.stepped_over = 0;
        match skipped {
            // Keys with newer entries are stepped over; that may take a while.
            Skipped::Nothing => self.patience = (2 * self.patience).min(MAX_COVERED_KEYS),
            Skipped::Part => self.patience = COVERED_KEYS,
            // Another range may follow.
            Skipped::All => self.patience = COVERED_KEYS / 2,
        }
    }
}

/// The part of a range that was skipped.
pub(super) enum Skipped {
    Nothing,
    Part,
    All,
}

impl Skipped {
    /// Whether anything moved, and whether nothing is left to skip.
    pub(super) fn of(moved: bool, all: bool) -> Self {
        match (moved, all) {
            (false, _) => Skipped::Nothing,
            (true, false) => Skipped::Part,
            (true, true) => Skipped::All,
        }
    }
}
