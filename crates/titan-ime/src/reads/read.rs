//! Reads from memory.
//!
//! Owns the rule of admission. A read settles the pending writes and takes the root of a segment with one load. If the
//! root serves the timestamp of the read, it has all that the read can find: every version that was published before the
//! call, because it was pending, or put there, or the segment ended first; and every old one that the timestamp needs,
//! because the root says what it serves and was pruned by that. So a sequence number is not compared and readers do not announce
//! themselves. What comes later changes other roots.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use titan_mvcc::entries::AFTER_VERSIONS;
use titan_mvcc::{Direction, Found, Part, PartRequest, RangeSource, SourceRow, Timestamp};

use crate::content::leaf::Leaf;
use crate::content::root::Root;
use crate::content::versions::Seen;
use crate::content::view::{MergedRow, View};
use crate::segments::directory::List;
use crate::segments::segment::Segment;
use crate::segments::shared::Shared;
use crate::stats::Read;

/// How long a scan waits for another thread that puts writes into memory. That takes about two microseconds a row, and what
/// the scan would cost in the engine may be much. A point read does not wait.
const PATIENCE: Duration = Duration::from_micros(500);

/// Rows of a part that are looked at for each row that may be returned, at least. So a part ends also where rows
/// are dead, and the next one sees what has changed since.
const LOOKED_AT: usize = 16;

/// Bytes of a row in memory, at least.
const LEAST_ROW: u64 = 32;
/// Segments that are looked at to find one that answers. A part of the engine ends there, and the next one looks on: a
/// read that is too old for all segments does not look at all of them.
const LOOKED_AHEAD: usize = 8;

impl RangeSource for Shared {
    fn get(&self, encoded: &[u8], at: Timestamp) -> Option<Found> {
        let (read, found) = self.look_up(encoded, at);
        self.counters.points.count(read);
        // MUTANT: point reads do not make a range worth holding.
        if read == Read::NotHeld
            && self.chooses
            && !mutant!("points-are-not-told", "-p titan-ime --test it choosing::")
        {
            self.points.add(encoded);
        }
        found
    }

    fn part(&self, request: &PartRequest<'_>, rows: &mut Vec<SourceRow>) -> Part {
        if let Err(why) = self.is_ready_within(PATIENCE) {
            self.counters.parts.count(why);
            return Part::Engine { end: None };
        }
        let list = self.directory.load();
        let taken = Taken::new(rows, request);
        let (read, part) = match request.direction {
            Direction::Forward => forward(&list, request, taken),
            Direction::Backward => backward(&list, request, taken),
        };
        self.counters.parts.count(read);
        part
    }

    fn met_dead_rows(&self, lower: &[u8], upper: Option<&[u8]>, _: u64) {
        if !self.is_off() {
            self.gaps.add(lower, upper);
        }
    }

    fn read_engine(&self, lower: &[u8], upper: Option<&[u8]>, steps: u64, rows: u64) {
        if !self.chooses || self.is_off() {
            return;
        }
        let wasted = steps.saturating_sub(rows);
        match self.directory.load().find(lower) {
            Some(segment) => segment.usage.measured(wasted, rows),
            // It would hide smaller ranges within it that fit.
            None if rows.saturating_mul(LEAST_ROW) > self.budget.limit() as u64 => {}
            None => self.interest.add(lower, upper, wasted, rows),
        }
    }
}

impl Shared {
    /// Settles, within bounds. An error says why segments cannot be looked at after all.
    fn is_ready_within(&self, wait: Duration) -> Result<(), Read> {
        let is_settled = self.settle_within(wait);
        // ORDER: after that, because a panic while writes are applied turns the cache off.
        match (self.is_off(), is_settled) {
            (true, _) => Err(Read::Off),
            (false, false) => Err(Read::NotApplied),
            (false, true) => Ok(()),
        }
    }

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
            Found::Nothing | Found::Value(_) => segment.usage.point(),
        }
        match found {
            Found::Nothing => (Read::HitNothing, Some(found)),
            found => (Read::Hit, Some(found)),
        }
    }
}

fn found(seen: Seen<'_>) -> Found {
    match seen {
        Seen::Nothing => Found::Nothing,
        Seen::Value(value) => Found::Value(Bytes::copy_from_slice(value)),
        Seen::Stored(_) => Found::Stored,
    }
}

/// The root, if it serves the timestamp; else why not.
fn admitted(root: Option<&Root>, at: Timestamp) -> Result<&Root, Read> {
    let root = root.ok_or(Read::NotReady)?;
    // MUTANT: a read is answered by a root that has been pruned past it.
    match root.served.has(at) || mutant!("old-reads-are-admitted", "-p titan-ime --test it model::")
    {
        true => Ok(root),
        false => Err(Read::TooOld),
    }
}

/// The first of segments that would answer, or the last one that is looked at.
fn first_to_ask<'l>(
    segments: impl Iterator<Item = &'l Arc<Segment>>,
    at: Timestamp,
) -> Option<&'l Arc<Segment>> {
    let answers = |segment: &Segment| admitted(segment.root().as_deref(), at).is_ok();
    let mut looked_at = segments.enumerate();
    let found = looked_at.find(|(n, segment)| *n == LOOKED_AHEAD || answers(segment));
    found.map(|(_, segment)| segment)
}

/// The rows of a part, until there are enough.
struct Taken<'r> {
    rows: &'r mut Vec<SourceRow>,
    at: Timestamp,
    limit: usize,
    steps: u64,
    dead: u64,
}

impl<'r> Taken<'r> {
    fn new(rows: &'r mut Vec<SourceRow>, request: &PartRequest<'_>) -> Self {
        Taken {
            rows,
            at: request.at,
            limit: request.limit,
            steps: 0,
            dead: 0,
        }
    }

    /// Adds what the read finds of a row. Returns whether the part goes on after it.
    fn add(&mut self, row: &MergedRow<'_>) -> bool {
        self.steps += 1;
        match found(row.at(self.at)) {
            Found::Nothing => self.dead += 1,
            found => self.rows.push(SourceRow {
                encoded: row.key.to_vec(),
                found,
            }),
        }
        self.rows.len() < self.limit && (self.steps as usize) < self.limit * LOOKED_AT
    }

    /// Passes a leaf in one step, if the read finds none of its rows.
    fn passes(&mut self, leaf: &Leaf) -> bool {
        let passes = leaf.is_dead_at(self.at);
        self.steps += u64::from(passes);
        passes
    }
}

/// A part from a segment, if that answers: what `take` finds in its root, which returns where the part ends. `beyond` is
/// where the scan goes on after the segment, if it does.
fn from_segment(
    segment: &Segment,
    request: &PartRequest<'_>,
    beyond: Option<&[u8]>,
    taken: &mut Taken<'_>,
    take: impl FnOnce(&Root, &mut Taken<'_>) -> Option<Vec<u8>>,
) -> Result<(Read, Part), Read> {
    let root = segment.root();
    let root = admitted(root.as_deref(), request.at)?;
    let by_engine = |why| {
        let end = beyond.map(<[u8]>::to_vec);
        Ok((why, Part::Engine { end }))
    };
    if segment.usage.is_measured_now() {
        return by_engine(Read::Measured);
    }
    // MUTANT: a scan looks up each of its large values.
    if request.fetches_stored
        && segment.usage.is_iterator_cheaper()
        && !mutant!(
            "large-values-are-looked-up",
            "-p titan-ime --test it reads::"
        )
    {
        return by_engine(Read::Stored);
    }
    segment.touch();
    let end = take(root, taken);
    segment.usage.part(taken.rows.len());
    let (steps, dead) = (taken.steps, taken.dead);
    Ok((Read::Hit, Part::Memory { end, steps, dead }))
}

fn forward(list: &List, request: &PartRequest<'_>, mut taken: Taken<'_>) -> (Read, Part) {
    let here = list.first_with(request.lower);
    let is_before_end = |key: &[u8]| request.upper.is_none_or(|upper| key < upper);
    let mut why = Read::NotHeld;
    if let Some(segment) = list.get(here)
        && segment.contains(request.lower)
    {
        let beyond = segment.upper.as_deref().filter(|own| is_before_end(own));
        let take = |root: &Root, taken: &mut Taken<'_>| rows_forward(root, request, beyond, taken);
        match from_segment(segment, request, beyond, &mut taken, take) {
            Ok(part) => return part,
            Err(reason) => why = reason,
        }
    }
    let next = list
        .iter()
        .skip(here)
        .filter(|segment| *segment.lower > *request.lower);
    let next = next.take_while(|segment| is_before_end(&segment.lower));
    let end = first_to_ask(next, request.at).map(|segment| segment.lower.to_vec());
    (why, Part::Engine { end })
}

/// Takes rows from the beginning of the range on, up to `beyond` or the end of the request. Returns where that ended, if
/// the scan goes on there.
fn rows_forward(
    root: &Root,
    request: &PartRequest<'_>,
    beyond: Option<&[u8]>,
    taken: &mut Taken<'_>,
) -> Option<Vec<u8>> {
    // MUTANT: a scan ends where its segment ends.
    let beyond = beyond.filter(|_| {
        !mutant!(
            "scan-ends-with-its-segment",
            "-p titan-ime --test it reads::"
        )
    });
    let upper = beyond.or(request.upper);
    let first = root.leaf_of(request.lower);
    for leaf in root.leaves.get(first..).unwrap_or_default() {
        if upper.is_some_and(|upper| leaf.first_key() >= upper) {
            return beyond.map(<[u8]>::to_vec);
        }
        if taken.passes(leaf) {
            continue;
        }
        for row in View::new(leaf).forward(request.lower) {
            if upper.is_some_and(|upper| row.key >= upper) {
                return beyond.map(<[u8]>::to_vec);
            }
            if !taken.add(&row) {
                let mut end = row.key.to_vec();
                // MUTANT: the next part begins with the last row of this one.
                if !mutant!(
                    "part-ends-at-its-last-row",
                    "-p titan-ime --test it model::"
                ) {
                    end.extend_from_slice(&AFTER_VERSIONS);
                }
                return Some(end);
            }
        }
    }
    beyond.map(<[u8]>::to_vec)
}

fn backward(list: &List, request: &PartRequest<'_>, mut taken: Taken<'_>) -> (Read, Part) {
    // The last segment that begins before the end of the request.
    let before = match request.upper {
        Some(upper) => list.partition_point(|segment| *segment.lower < *upper),
        None => list.len(),
    };
    let reaches = |segment: &Segment| match (segment.upper.as_deref(), request.upper) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(upper)) => own >= upper,
    };
    let mut why = Read::NotHeld;
    let mut candidates = list
        .get(..before)
        .unwrap_or_default()
        .iter()
        .rev()
        .peekable();
    if let Some(segment) = candidates.next_if(|segment| reaches(segment)) {
        let beyond = (*segment.lower > *request.lower).then_some(&*segment.lower);
        let take = |root: &Root, taken: &mut Taken<'_>| rows_backward(root, request, beyond, taken);
        match from_segment(segment, request, beyond, &mut taken, take) {
            Ok(part) => return part,
            Err(reason) => why = reason,
        }
    }
    let candidates =
        candidates.take_while(|segment| segment.overlaps(request.lower, request.upper));
    let end = first_to_ask(candidates, request.at)
        .map(|segment| segment.upper.as_deref().unwrap_or_default().to_vec());
    (why, Part::Engine { end })
}

/// Takes rows from the end of the range on, down to `beyond` or the beginning of the request. Returns where that ended, if
/// the scan goes on there.
fn rows_backward(
    root: &Root,
    request: &PartRequest<'_>,
    beyond: Option<&[u8]>,
    taken: &mut Taken<'_>,
) -> Option<Vec<u8>> {
    let lower = beyond.unwrap_or(request.lower);
    let last = match request.upper {
        Some(upper) => root.leaf_of(upper),
        None => root.leaves.len().saturating_sub(1),
    };
    for leaf in root.leaves.get(..=last).unwrap_or_default().iter().rev() {
        if taken.passes(leaf) {
            if leaf.first_key() < lower {
                return beyond.map(<[u8]>::to_vec);
            }
            continue;
        }
        for row in View::new(leaf).backward(request.upper) {
            if row.key < lower {
                return beyond.map(<[u8]>::to_vec);
            }
            if !taken.add(&row) {
                return Some(row.key.to_vec());
            }
        }
    }
    beyond.map(<[u8]>::to_vec)
}
