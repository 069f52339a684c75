//! Parts of scans: rows of one segment at a time, in both directions.

use std::sync::Arc;

use titan_mvcc::codec::AFTER_VERSIONS;
use titan_mvcc::{Direction, Found, Part, PartRequest, SourceRow, Timestamp};

use crate::content::leaf::Leaf;
use crate::content::root::Root;
use crate::content::view::{MergedRow, View};
use crate::reads::admission::{admitted, found};
use crate::segments::directory::List;
use crate::segments::segment::Segment;
use crate::stats::Read;

/// The least number of rows passed for each row that may be returned. So a part ends among dead
/// rows too, and the next one sees later changes.
const LOOKED_AT: usize = 16;

/// The most segments tried for one that answers. The engine's part ends there and the next part
/// tries on, so a read too old for all segments does not try them all.
const LOOKED_AHEAD: usize = 8;

/// The next part of a scan: rows of a segment, or where the engine's part ends.
pub(super) fn part(
    list: &List,
    request: &PartRequest<'_>,
    rows: &mut Vec<SourceRow>,
) -> (Read, Part) {
    let taken = Taken::new(rows, request);
    match request.direction {
        Direction::Forward => forward(list, request, taken),
        Direction::Backward => backward(list, request, taken),
    }
}

/// The first of the segments that answers, or the last one tried.
fn first_to_ask<'l>(
    segments: impl Iterator<Item = &'l Arc<Segment>>,
    at: Timestamp,
) -> Option<&'l Arc<Segment>> {
    let answers = |segment: &Segment| admitted(segment.root().as_deref(), at).is_ok();
    let mut looked_at = segments.enumerate();
    let found = looked_at.find(|(n, segment)| *n == LOOKED_AHEAD || answers(segment));
    found.map(|(_, segment)| segment)
}

/// The rows of a part so far.
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

    /// Adds the answer for a row. Returns whether the part goes on.
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

    /// Skips a leaf in one step, if all its rows are dead for the read.
    fn passes(&mut self, leaf: &Leaf) -> bool {
        let passes = leaf.is_dead_at(self.at);
        self.steps += u64::from(passes);
        passes
    }
}

/// A part from a segment, if it answers: `take` collects rows of its root and returns the part's
/// end. `beyond` is the bound at which the scan leaves the segment, if it does.
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
    if segment.costs.is_measured_now() {
        return by_engine(Read::Measured);
    }
    if request.fetches_stored
        && segment.costs.is_iterator_cheaper()
        && !mutant!(large_values_are_looked_up)
    {
        return by_engine(Read::Stored);
    }
    segment.touch();
    let end = take(root, taken);
    segment.costs.part(taken.rows.len());
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

/// Takes rows up to `beyond` or the end of the request. Returns the end of the part, if the scan
/// goes on there.
fn rows_forward(
    root: &Root,
    request: &PartRequest<'_>,
    beyond: Option<&[u8]>,
    taken: &mut Taken<'_>,
) -> Option<Vec<u8>> {
    let beyond = beyond.filter(|_| !mutant!(scan_ends_with_its_segment));
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
                if !mutant!(part_ends_at_its_last_row) {
                    end.extend_from_slice(&AFTER_VERSIONS);
                }
                return Some(end);
            }
        }
    }
    beyond.map(<[u8]>::to_vec)
}

fn backward(list: &List, request: &PartRequest<'_>, mut taken: Taken<'_>) -> (Read, Part) {
    // The last segment before the end of the request.
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

/// Takes rows down to `beyond` or the begin of the request. Returns the end of the part, if the
/// scan goes on there.
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
