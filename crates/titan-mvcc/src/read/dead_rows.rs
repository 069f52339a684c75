//! Runs of dead rows that a scan of the engine meets.
//!
//! A scan remembers one key of the current run, and counts its rows.

use titan::invariant;

use crate::format::AFTER_VERSIONS;
use crate::lookup::Direction;

/// Shorter runs are not reported.
const LONG_RUN: u64 = 32;

/// The current run of a scan.
pub(super) struct DeadRows {
    direction: Direction,
    /// The scanned range: the first encoded key.
    lower: Vec<u8>,
    /// The end of the range, exclusive.
    upper: Option<Vec<u8>>,
    /// The encoded key of the first dead row.
    first: Vec<u8>,
    rows: u64,
    /// True if no row with a value precedes the run.
    is_at_start: bool,
}

/// A run that has ended, from one encoded key to before another.
pub(super) struct Run {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) rows: u64,
}

impl DeadRows {
    pub(super) fn new(lower: &[u8], upper: Option<&[u8]>, direction: Direction) -> Self {
        DeadRows {
            direction,
            lower: lower.to_vec(),
            upper: upper.map(<[u8]>::to_vec),
            first: Vec::new(),
            rows: 0,
            is_at_start: true,
        }
    }

    /// The scanned range.
    pub(super) fn bounds(&self) -> (&[u8], Option<&[u8]>) {
        (&self.lower, self.upper.as_deref())
    }

    /// Adds a row without a value. Cost: a copy of the first key of a run.
    pub(super) fn add(&mut self, encoded: &[u8]) {
        if self.rows == 0 {
            self.first.clear();
            self.first.extend_from_slice(encoded);
        }
        self.rows += 1;
    }

    /// Ends the run before the row `live`, or at the end of the range. Returns a long run.
    pub(super) fn end_run(&mut self, live: Option<&[u8]>) -> Option<Run> {
        let rows = std::mem::take(&mut self.rows);
        let is_at_start = std::mem::replace(&mut self.is_at_start, false);
        if rows < LONG_RUN {
            return None;
        }
        let after = |key: &[u8]| [key, &AFTER_VERSIONS].concat();
        let first = || (!is_at_start).then_some(&*self.first);
        let (lower, upper) = match self.direction {
            Direction::Forward => (
                first().unwrap_or(&self.lower).to_vec(),
                live.or(self.upper.as_deref()).map(<[u8]>::to_vec),
            ),
            Direction::Backward => (
                live.map_or_else(|| self.lower.clone(), after),
                first().map_or_else(|| self.upper.clone(), |first| Some(after(first))),
            ),
        };
        invariant!(
            upper.as_ref().is_none_or(|upper| lower < *upper),
            "a run of {rows} rows has no keys"
        );
        Some(Run { lower, upper, rows })
    }
}
