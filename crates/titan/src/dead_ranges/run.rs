//! The dead keys that one movement of a reader steps over.

use std::ops::Deref;

use super::range::{Edge, MIN_KEYS, ReadPoint, Way};
use super::ranges::DeadRanges;

/// Dead keys that are stepped over between two looks for a range that can be passed.
const LOOK_EVERY: u64 = 8;

/// Counts the dead keys of one movement, and remembers from where to where they were; its memory is
/// reused.
pub(crate) struct DeadRun<D> {
    ranges: D,
    reader: ReadPoint,
    /// Since the movement began, or since a range was passed.
    keys: u64,
    /// Whether `first` and `last` are of this movement.
    has_begun: bool,
    /// The first and the last dead key, to the distance of two looks.
    first: Vec<u8>,
    last: Vec<u8>,
    sees_a_part: bool,
}

impl<D: Deref<Target = DeadRanges>> DeadRun<D> {
    /// For the movements of a reader.
    pub(crate) fn new(ranges: D, reader: ReadPoint) -> Self {
        DeadRun {
            ranges,
            reader,
            keys: 0,
            has_begun: false,
            first: Vec::new(),
            last: Vec::new(),
            sees_a_part: false,
        }
    }

    /// Adds entries that the reader stepped over.
    pub(crate) fn count_skipped(&self, entries: u64) {
        self.ranges.count_skipped(entries);
    }

    /// Filters have ruled out tables of the reader: it passes ranges, and adds none. It has not
    /// seen the entries of these tables, and filters of prefixes are only right for prefixes.
    pub(crate) fn sees_a_part(&mut self) {
        self.sees_a_part = true;
    }

    /// A movement begins.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.keys = 0;
        self.has_begun = false;
    }

    /// Counts one more; returns whether it is time for a [look](DeadRun::look).
    #[inline]
    pub(crate) fn is_time_to_look(&mut self) -> bool {
        self.keys += 1;
        self.keys.is_multiple_of(LOOK_EVERY)
    }

    /// Looks for a range around the dead key, which the reader may pass: it is to go on where that
    /// ends.
    pub(crate) fn look(&mut self, key: &[u8], way: Way) -> Option<Edge> {
        let end = self.ranges.end(key, self.reader, way);
        if !self.has_begun {
            self.has_begun = true;
            self.first.clear();
            self.first.extend_from_slice(key);
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        if end.is_some() {
            self.keys = 0;
        }
        end
    }

    /// The movement has ended, and every key of the run was dead for the reader.
    #[inline]
    pub(crate) fn end(&self, way: Way) {
        if self.keys >= MIN_KEYS && !self.sees_a_part {
            self.add(way);
        }
    }

    #[cold]
    fn add(&self, way: Way) {
        let (first, last) = match way {
            Way::Forward => (&self.first, &self.last),
            Way::Backward => (&self.last, &self.first),
        };
        self.ranges.add(first, last, self.keys, self.reader);
    }
}
