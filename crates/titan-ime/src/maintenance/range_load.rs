//! Loads of ranges for a program: they take over segments that are held, and load the rest.
//!
//! Loads of the program come first: loads that the cache began give way.

use std::collections::VecDeque;

use crate::content::keys::EncodedRange;
use crate::error::{Error, Result};
use crate::maintenance::attached::Attached;
use crate::maintenance::segment_load::{Kind, Progress, SegmentLoad, begin_change};
use crate::segments::directory::not_held;
use crate::segments::segment::Segment;
use crate::stats::Dropped;

/// A load of a range, from [`RangeCache::begin_load`](crate::RangeCache::begin_load). Dropping it
/// abandons the parts that are not held yet.
#[must_use = "a load that is dropped is abandoned"]
#[derive(Debug)]
pub struct Load {
    /// The parts that were not held, in order.
    parts: VecDeque<SegmentLoad>,
}

impl Load {
    /// Announces segments for the parts that are not held.
    ///
    /// # Errors
    /// `EmptyRange`, `Off`; `Overlaps` if the program loads a part of it already.
    pub(crate) fn begin(attached: &Attached, range: EncodedRange, kind: Kind) -> Result<Self> {
        let shared = &attached.shared;
        let mut changing = begin_change(shared, &range)?;
        let (lower, upper) = (&range.0, range.1.as_deref());
        let overlaps = |segment: &Segment| segment.overlaps(lower, upper);
        let is_loading = |segment: &Segment| segment.root().is_none();
        let mut there = changing.list.iter().filter(|segment| overlaps(segment));
        if there.any(|segment| is_loading(segment) && segment.is_of_program) {
            return Err(Error::Overlaps);
        }
        let (gone, kept) = std::mem::take(&mut changing.list)
            .into_iter()
            .partition::<Vec<_>, _>(|segment| overlaps(segment) && is_loading(segment));
        changing.list = kept;
        if !gone.is_empty() {
            shared.end(&changing, &gone, Dropped::TakenOver);
        }
        if kind == Kind::Pinned {
            let held = changing.list.iter().filter(|segment| overlaps(segment));
            held.for_each(|segment| segment.pin());
        }
        let mut parts = VecDeque::new();
        for part in not_held(&changing.list, &range) {
            let part = SegmentLoad::announce(attached, part, kind, true, &mut changing);
            parts.extend(part);
        }
        changing.publish();
        Ok(Load { parts })
    }

    /// Makes a step: the barrier of a part first, then some hundred entries each, then merging.
    /// Called until it returns `Done`.
    ///
    /// # Errors
    /// `MemoryLimit`, `Abandoned`, `Off`; `Store` if entries cannot be read. Ranges held before and
    /// finished parts stay held; further steps fail with `Abandoned`.
    pub fn step(&mut self) -> Result<Progress> {
        let Some(part) = self.parts.front_mut() else {
            return Ok(Progress::Done);
        };
        match part.step() {
            Ok(Progress::Going) => return Ok(Progress::Going),
            Ok(Progress::Done) => {
                self.parts.pop_front();
            }
            Err(e) => {
                // The one that has failed stays, and fails again.
                self.parts.truncate(1);
                return Err(e);
            }
        }
        Ok(match self.parts.is_empty() {
            true => Progress::Done,
            false => Progress::Going,
        })
    }

    /// Makes all steps.
    ///
    /// # Errors
    /// Those of [`Load::step`].
    pub fn finish(mut self) -> Result<()> {
        while self.step()? == Progress::Going {}
        Ok(())
    }
}
