//! Scans that take each part of their range from a [`RangeSource`](crate::RangeSource) or from the
//! engine.
//!
//! Promises that rows come in order, each once, also if the source loads or drops ranges
//! meanwhile. The scan owns the rest of the range, and each part removes one end of it. So a row is
//! in exactly one part.
//!
//! Much time may pass between parts. A version up to the scan's timestamp that is published in this
//! time was locked when the scan began, and the scan reads such keys by themselves.

use std::vec;

use titan::invariant;

use super::deferred_values::Deferrals;
use super::engine_scan::EngineScan;
use super::locked_keys::LockedKeys;
use super::row::{Row, RowRef, ValueRef};
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::format::{VERSIONS, decode_key, encode_key};
use crate::lookup::{Direction, Found, Part, PartRequest, ReadStats, SourceRow};

/// Rows of the first part from memory. Many scans end after a few rows.
const FIRST_PART: usize = 4;
/// The most rows of a part from memory. Each part asks the source again.
const LARGEST_PART: usize = 128;

/// The rows of a range, from [`Snapshot::scan`]. Ends after the first error that is not a reported
/// lock.
pub struct Scan {
    snapshot: Snapshot,
    direction: Direction,
    /// The rest of the range: the first encoded key.
    lower: Vec<u8>,
    /// The end of the rest, exclusive.
    upper: Option<Vec<u8>>,
    /// True while parts remain.
    has_parts: bool,
    /// The current part from the engine.
    engine: Option<EngineScan>,
    current: Current,
    /// The current row, if no part from the engine has it.
    own: Option<Row>,
    /// The rows of the current part from memory.
    rows: vec::IntoIter<SourceRow>,
    part_rows: usize,
    /// Those rows whose values only the engine has.
    deferrals: Deferrals,
    /// The cost of earlier parts.
    stats: ReadStats,
    /// The keys that were locked when the scan began.
    locked: LockedKeys,
}

/// The place of the current row. Rows are large, so the scan moves this instead.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Current {
    Nowhere,
    /// The part from the engine is at it.
    Engine,
    /// The scan has it.
    Own,
}

impl Snapshot {
    /// Scans the rows from the key `from` to before the key `to`; `None` is the end of the store.
    /// Opening a scan reads no entries; [`Scan`] has its cost.
    ///
    /// # Errors
    /// `Engine`. The scan itself returns the errors of [`Snapshot::get_lazy`].
    pub fn scan(
        &self,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Scan> {
        Scan::new(self.clone(), from, to, direction)
    }
}

impl Scan {
    fn new(
        snapshot: Snapshot,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        direction: Direction,
    ) -> Result<Self> {
        let is_empty = matches!((from, to), (Some(from), Some(to)) if from >= to);
        // ORDER: first the locks, because a lock that is gone has left its version.
        let locked = LockedKeys::new(&snapshot, from, to, direction);
        let mut scan = Scan {
            snapshot,
            locked,
            direction,
            lower: from.map(encode_key).unwrap_or_default(),
            upper: to.map(encode_key),
            has_parts: !is_empty,
            engine: None,
            current: Current::Nowhere,
            own: None,
            rows: Vec::new().into_iter(),
            part_rows: FIRST_PART,
            deferrals: Deferrals::default(),
            stats: ReadStats::default(),
        };
        if !is_empty && scan.snapshot.core().reads.range_source.is_none() {
            // Opens the iterator now, to return its error.
            scan.next_part()?;
        }
        Ok(scan)
    }

    /// The cost of the scan so far. An examined row in memory counts as a step.
    pub fn stats(&self) -> ReadStats {
        match &self.engine {
            Some(engine) => plus(self.stats, engine.stats()),
            None => self.stats,
        }
    }

    /// Moves to the next row, and shows it where it is. Ends as the iterator does. Cost: that of
    /// the iterator without its copies of keys and values.
    ///
    /// # Errors
    /// Those of [`Snapshot::get_lazy`].
    pub fn next_ref(&mut self) -> Result<Option<RowRef<'_>>> {
        self.advance().inspect_err(|e| self.end_after(e))?;
        Ok(self.row())
    }

    /// The current row.
    fn row(&self) -> Option<RowRef<'_>> {
        match self.current {
            Current::Nowhere => None,
            Current::Engine => self.engine.as_ref().and_then(EngineScan::row),
            Current::Own => {
                let row = self.own.as_ref()?;
                Some(RowRef::new(&row.key, ValueRef::Lazy(&row.value)))
            }
        }
    }

    /// Takes the current row: its key and value move to the caller.
    fn take(&mut self) -> Result<Option<Row>> {
        match std::mem::replace(&mut self.current, Current::Nowhere) {
            Current::Nowhere => Ok(None),
            Current::Engine => match &mut self.engine {
                Some(engine) => engine.take_row(),
                None => Ok(None),
            },
            Current::Own => Ok(self.own.take()),
        }
    }

    /// Ends the scan after an error, but for a lock: that is at a key that the scan has left.
    fn end_after(&mut self, error: &Error) {
        if !matches!(error, Error::KeyIsLocked(_)) {
            self.has_parts = false;
            self.engine = None;
            self.current = Current::Nowhere;
            self.own = None;
            self.rows = Vec::new().into_iter();
            self.locked = LockedKeys::default();
        }
    }

    /// Moves to the next row.
    fn advance(&mut self) -> Result<()> {
        if self.locked.is_empty() {
            self.advance_stored()?;
        } else {
            let mut locked = std::mem::take(&mut self.locked);
            let (snapshot, direction) = (self.snapshot.clone(), self.direction);
            let mut points = ReadStats::default();
            let row = locked.next_row(&snapshot, direction, &mut points, || {
                self.advance_stored()?;
                self.take()
            });
            self.locked = locked;
            // Rows are counted below.
            points.processed = 0;
            self.stats += points;
            self.own = row?;
            self.current = match self.own {
                Some(_) => Current::Own,
                None => Current::Nowhere,
            };
        }
        self.stats.processed += u64::from(self.current != Current::Nowhere);
        Ok(())
    }

    /// Moves to the next row of the parts, without regard to locks.
    fn advance_stored(&mut self) -> Result<()> {
        if self.current == Current::Own {
            self.own = None;
        }
        self.current = Current::Nowhere;
        loop {
            if let Some(row) = self.rows.next() {
                self.own = self.returned(row)?;
                if self.own.is_none() {
                    continue;
                }
                self.current = Current::Own;
                return Ok(());
            }
            if let Some(engine) = &mut self.engine {
                if engine.advance()? {
                    self.current = Current::Engine;
                    return Ok(());
                }
                self.stats = plus(self.stats, engine.stats());
                self.engine = None;
            }
            if !self.has_parts {
                return Ok(());
            }
            self.next_part()?;
        }
    }

    /// Takes the next part of the rest.
    fn next_part(&mut self) -> Result<()> {
        let upper = self.upper.as_deref();
        let mut rows = Vec::new();
        let part = match &self.snapshot.core().reads.range_source {
            None => Part::Engine { end: None },
            Some(source) => {
                let request = PartRequest {
                    lower: &self.lower,
                    upper,
                    direction: self.direction,
                    at: self.snapshot.timestamp(),
                    limit: self.part_rows,
                    fetches_stored: self.deferrals.are_fetched(),
                };
                source.part(&request, &mut rows)
            }
        };
        self.rows = rows.into_iter();
        let end = match part {
            Part::Memory { end, steps, dead } => {
                match self.direction {
                    Direction::Forward => self.stats.next += steps,
                    Direction::Backward => self.stats.prev += steps,
                }
                self.stats.dead_rows_skipped += dead;
                self.part_rows = (self.part_rows * 2).min(LARGEST_PART);
                end
            }
            Part::Engine { end } => {
                let at_end = end.as_deref();
                let (lower, upper) = match self.direction {
                    Direction::Forward => (&*self.lower, at_end.or(upper)),
                    Direction::Backward => (at_end.unwrap_or(&self.lower), upper),
                };
                let snapshot = self.snapshot.clone();
                self.engine = Some(EngineScan::new(snapshot, lower, upper, self.direction)?);
                end
            }
        };
        invariant!(
            match (&end, self.direction) {
                (None, _) => true,
                (Some(end), Direction::Forward) => *end > self.lower,
                (Some(end), Direction::Backward) => {
                    self.upper.as_ref().is_none_or(|upper| end < upper)
                }
            },
            "a part of a scan takes nothing away"
        );
        match (end, self.direction) {
            (None, _) => self.has_parts = false,
            (Some(end), Direction::Forward) => self.lower = end,
            (Some(end), Direction::Backward) => self.upper = Some(end),
        }
        Ok(())
    }

    /// Decodes a row from memory. Returns `None` without a value.
    ///
    /// A source learns of a version before it is published. If the version is not after the
    /// timestamp, its key was locked when the scan began: the scan reads it by itself and does not
    /// return this row.
    fn returned(&mut self, row: SourceRow) -> Result<Option<Row>> {
        let key = decode_key(&row.encoded)
            .ok_or_else(|| Error::corrupt_entry(VERSIONS, &row.encoded, "its key is damaged"))?;
        let value = match row.found {
            Found::Nothing => return Ok(None),
            Found::Value(value) => value.into(),
            Found::Stored => self.deferrals.defer(&self.snapshot, row.encoded),
        };
        Ok(Some(Row { key, value }))
    }
}

fn plus(mut a: ReadStats, b: ReadStats) -> ReadStats {
    a += b;
    a
}

impl Iterator for Scan {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        let taken = self.advance().and_then(|()| self.take());
        if let Err(e) = &taken {
            self.end_after(e);
        }
        taken.transpose()
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.snapshot.core().reads.totals.add(self.stats());
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("timestamp", &self.snapshot.timestamp())
            .field("direction", &self.direction)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
