//! The source of ranges that the store asks before the engine.

use std::time::Duration;

use titan_mvcc::{Found, Part, PartRequest, RangeSource, SourceRow, Timestamp};

use crate::reads::admission::{admitted, found};
use crate::reads::scan;
use crate::segments::shared::Shared;
use crate::stats::Read;

/// The time that a scan waits for a thread that applies writes. That thread takes about 2 us a row,
/// and the scan may cost much more in the engine. A point read does not wait.
const PATIENCE: Duration = Duration::from_micros(500);

/// The least bytes of a row in memory.
const LEAST_ROW: u64 = 32;
impl RangeSource for Shared {
    fn get(&self, encoded: &[u8], at: Timestamp) -> Option<Found> {
        let (read, found) = self.look_up(encoded, at);
        self.counters.points.count(read);
        if read == Read::NotHeld && self.chooses && !mutant!(points_are_not_told) {
            self.cold.points.add(encoded);
        }
        found
    }

    fn part(&self, request: &PartRequest<'_>, rows: &mut Vec<SourceRow>) -> Part {
        if let Err(why) = self.is_ready_within(PATIENCE) {
            self.counters.parts.count(why);
            return Part::Engine { end: None };
        }
        let list = self.directory.load();
        let (read, part) = scan::part(&list, request, rows);
        self.counters.parts.count(read);
        part
    }

    fn met_dead_rows(&self, lower: &[u8], upper: Option<&[u8]>, _: u64) {
        if !self.faults.is_off() {
            self.cold.gaps.add(lower, upper);
        }
    }

    fn read_engine(&self, lower: &[u8], upper: Option<&[u8]>, steps: u64, rows: u64) {
        if !self.chooses || self.faults.is_off() {
            return;
        }
        let wasted = steps.saturating_sub(rows);
        match self.directory.load().find(lower) {
            Some(segment) => segment.costs.measured(wasted, rows),
            // It would hide smaller ranges within it that fit.
            None if rows.saturating_mul(LEAST_ROW) > self.budget.limit() as u64 => {}
            None => self.cold.scans.add(lower, upper, wasted, rows),
        }
    }
}

impl Shared {
    fn look_up(&self, encoded: &[u8], at: Timestamp) -> (Read, Option<Found>) {
        if let Err(why) = self.is_ready_within(Duration::ZERO) {
            return (why, None);
        }
        let list = self.directory.load();
        let Some(segment) = list.find(encoded) else {
            return (Read::NotHeld, None);
        };
        let root = segment.root();
        let root = match admitted(root.as_deref(), at) {
            Ok(root) => root,
            Err(why) => return (why, None),
        };
        segment.touch();
        let found = found(root.get(encoded, at));
        match found {
            // The engine is asked too: that saves nothing.
            Found::Stored => return (Read::Stored, Some(found)),
            Found::Nothing | Found::Value(_) => segment.costs.point(),
        }
        match found {
            Found::Nothing => (Read::HitNothing, Some(found)),
            found => (Read::Hit, Some(found)),
        }
    }
}
