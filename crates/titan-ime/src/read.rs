//! Reads from memory.
//!
//! Owns the rule of admission. A read takes the root of a segment with one load. If the root serves the timestamp
//! of the read, it has all that the read can find: every version that was published before the call, because the
//! hook puts it there or ends the segment first, and every old one that the timestamp needs, because the root says
//! what it serves and was pruned by that. So a sequence number is not compared and readers do not announce
//! themselves. What comes later changes other roots.

use bytes::Bytes;
use titan_mvcc::{Direction, Found, Part, RangeSource, SourceRow, Timestamp};

use crate::directory::List;
use crate::root::Root;
use crate::row::Seen;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::stats::Read;
use crate::view::View;

/// Rows of a part that are looked at for each row that may be returned, at least. So a part ends also where rows
/// are dead, and the next one sees what has changed since.
const LOOKED_AT: usize = 16;

/// What follows an encoded key after all of its versions. No encoded key begins with another one, so that is
/// before the next key.
pub(crate) const AFTER_VERSIONS: [u8; 9] = [0xff; 9];

impl RangeSource for Shared {
    fn get(&self, encoded: &[u8], at: Timestamp) -> Option<Found> {
        let (read, found) = self.look_up(encoded, at);
        self.counters.points.count(read);
        found
    }

    fn part(
        &self,
        lower: &[u8],
        upper: Option<&[u8]>,
        direction: Direction,
        at: Timestamp,
        limit: usize,
        rows: &mut Vec<SourceRow>,
    ) -> Part {
        if self.is_off() {
            self.counters.parts.count(Read::Off);
            return Part::Engine { end: None };
        }
        let list = self.directory.load();
        let range = Range { lower, upper };
        let (read, part) = match direction {
            Direction::Forward => forward(&list, range, at, limit, rows),
            Direction::Backward => backward(&list, range, at, limit, rows),
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
            None => self.interest.add(lower, upper, wasted, rows),
        }
    }
}

impl Shared {
    fn look_up(&self, encoded: &[u8], at: Timestamp) -> (Read, Option<Found>) {
        if self.is_off() {
            return (Read::Off, None);
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
        segment.usage.point();
        let found = found(root.get(encoded, at));
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

/// Whether a segment would answer.
fn answers(segment: &Segment, at: Timestamp) -> bool {
    admitted(segment.root().as_deref(), at).is_ok()
}

/// What is left of a scan.
#[derive(Clone, Copy)]
struct Range<'a> {
    lower: &'a [u8],
    upper: Option<&'a [u8]>,
}

fn forward(
    list: &List,
    range: Range<'_>,
    at: Timestamp,
    limit: usize,
    rows: &mut Vec<SourceRow>,
) -> (Read, Part) {
    let here = list.first_with(range.lower);
    let mut why = Read::NotHeld;
    if let Some(segment) = list.get(here)
        && segment.contains(range.lower)
    {
        let root = segment.root();
        match admitted(root.as_deref(), at) {
            Ok(_) if segment.usage.is_measured_now() => {
                let own = segment.upper.as_deref();
                let end = own.filter(|own| range.upper.is_none_or(|upper| *own < upper));
                let end = end.map(<[u8]>::to_vec);
                return (Read::Measured, Part::Engine { end });
            }
            Ok(root) => {
                segment.touch();
                let part = rows_forward(segment, root, range, at, limit, rows);
                segment.usage.part(rows.len());
                return (Read::Hit, part);
            }
            Err(reason) => why = reason,
        }
    }
    let is_in_range = |segment: &Segment| range.upper.is_none_or(|upper| *segment.lower < *upper);
    let next = list
        .iter()
        .skip(here)
        .filter(|segment| *segment.lower > *range.lower);
    let mut next = next.take_while(|segment| is_in_range(segment));
    let end = next.find(|segment| answers(segment, at));
    let end = end.map(|segment| segment.lower.to_vec());
    (why, Part::Engine { end })
}

fn rows_forward(
    segment: &Segment,
    root: &Root,
    range: Range<'_>,
    at: Timestamp,
    limit: usize,
    rows: &mut Vec<SourceRow>,
) -> Part {
    // Where the part ends if there are not too many rows, and whether the scan goes on there.
    let (upper, goes_on) = match (segment.upper.as_deref(), range.upper) {
        (Some(own), Some(upper)) => (Some(own.min(upper)), own < upper),
        (own, upper) => (own.or(upper), own.is_some()),
    };
    // MUTANT: a scan ends where its segment ends.
    let goes_on = goes_on
        && !mutant!(
            "scan-ends-with-its-segment",
            "-p titan-ime --test it reads::"
        );
    let (mut steps, mut dead) = (0, 0);
    let mut n = root.leaf_of(range.lower);
    while let Some(leaf) = root.leaves.get(n) {
        for row in View::new(leaf).forward(range.lower) {
            if upper.is_some_and(|upper| row.key >= upper) {
                let end = goes_on.then(|| upper.map(<[u8]>::to_vec)).flatten();
                return Part::Memory { end, steps, dead };
            }
            steps += 1;
            match found(row.at(at)) {
                Found::Nothing => dead += 1,
                found => rows.push(SourceRow {
                    encoded: row.key.to_vec(),
                    found,
                }),
            }
            if rows.len() >= limit || steps as usize >= limit * LOOKED_AT {
                let mut end = row.key.to_vec();
                // MUTANT: the next part begins with the last row of this one.
                if !mutant!(
                    "part-ends-at-its-last-row",
                    "-p titan-ime --test it model::"
                ) {
                    end.extend_from_slice(&AFTER_VERSIONS);
                }
                return Part::Memory {
                    end: Some(end),
                    steps,
                    dead,
                };
            }
        }
        n += 1;
    }
    let end = goes_on.then(|| upper.map(<[u8]>::to_vec)).flatten();
    Part::Memory { end, steps, dead }
}

fn backward(
    list: &List,
    range: Range<'_>,
    at: Timestamp,
    limit: usize,
    rows: &mut Vec<SourceRow>,
) -> (Read, Part) {
    // The last segment that begins before the end of the range.
    let before = match range.upper {
        Some(upper) => list.partition_point(|segment| *segment.lower < *upper),
        None => list.len(),
    };
    let reaches = |segment: &Segment| match (segment.upper.as_deref(), range.upper) {
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
        let root = segment.root();
        match admitted(root.as_deref(), at) {
            Ok(_) if segment.usage.is_measured_now() => {
                let end = (*segment.lower > *range.lower).then(|| segment.lower.to_vec());
                return (Read::Measured, Part::Engine { end });
            }
            Ok(root) => {
                segment.touch();
                let part = rows_backward(segment, root, range, at, limit, rows);
                segment.usage.part(rows.len());
                return (Read::Hit, part);
            }
            Err(reason) => why = reason,
        }
    }
    let upper_of = |segment: &Segment| segment.upper.as_deref().unwrap_or_default().to_vec();
    let mut candidates =
        candidates.take_while(|segment| segment.overlaps(range.lower, range.upper));
    let end = candidates.find(|segment| answers(segment, at));
    let end = end.map(|segment| upper_of(segment));
    (why, Part::Engine { end })
}

fn rows_backward(
    segment: &Segment,
    root: &Root,
    range: Range<'_>,
    at: Timestamp,
    limit: usize,
    rows: &mut Vec<SourceRow>,
) -> Part {
    let goes_on = *segment.lower > *range.lower;
    let lower = range.lower.max(&segment.lower);
    let (mut steps, mut dead) = (0, 0);
    let mut n = match range.upper {
        Some(upper) => root.leaf_of(upper),
        None => root.leaves.len().saturating_sub(1),
    };
    while let Some(leaf) = root.leaves.get(n) {
        for row in View::new(leaf).backward(range.upper) {
            if row.key < lower {
                let end = goes_on.then(|| lower.to_vec());
                return Part::Memory { end, steps, dead };
            }
            steps += 1;
            match found(row.at(at)) {
                Found::Nothing => dead += 1,
                found => rows.push(SourceRow {
                    encoded: row.key.to_vec(),
                    found,
                }),
            }
            if rows.len() >= limit || steps as usize >= limit * LOOKED_AT {
                let end = Some(row.key.to_vec());
                return Part::Memory { end, steps, dead };
            }
        }
        if n == 0 {
            break;
        }
        n -= 1;
    }
    let end = goes_on.then(|| lower.to_vec());
    Part::Memory { end, steps, dead }
}
