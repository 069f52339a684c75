//! The directory: all segments in the order of their keys, without overlap.
//!
//! Readers and writes take the list with one load. Changes make a new list, one at a time; a load
//! waits for a change only while that exchanges a pointer. Segments end only under the lock of
//! [`Changing`].

use std::ops::Deref;
use std::sync::Arc;

use titan::invariant;

use crate::content::keys::{EncodedRange, Keys};
use crate::segments::segment::Segment;
use crate::sync::{Cell, Mutex, MutexGuard};

/// The parts of a range that no segment covers.
pub(crate) fn not_held(
    segments: &[Arc<Segment>],
    (lower, upper): &EncodedRange,
) -> Vec<EncodedRange> {
    let mut parts = Vec::new();
    let mut from = lower.clone();
    for segment in segments {
        if !segment.overlaps(&from, upper.as_deref()) {
            continue;
        }
        if *from < *segment.lower {
            parts.push((from, Some(segment.lower.to_vec())));
        }
        match segment.range().1 {
            Some(end) => from = end,
            None => return parts,
        }
    }
    if upper.as_ref().is_none_or(|upper| from < *upper) {
        parts.push((from, upper.clone()));
    }
    invariant!(
        parts
            .iter()
            .all(|(from, to)| to.as_ref().is_none_or(|to| from < to)),
        "a part without keys: {parts:?}"
    );
    parts
}

/// The segments in the order of their keys, at one moment.
#[derive(Default)]
pub(crate) struct List {
    segments: Vec<Arc<Segment>>,
    /// The upper bounds; a segment up to the end of the key space has none.
    uppers: Keys,
}

impl List {
    fn new(segments: Vec<Arc<Segment>>) -> Self {
        let uppers = Keys::new(segments.iter().filter_map(|s| s.upper.as_deref()));
        List { segments, uppers }
    }

    /// The number of the first segment that has `key` or keys after it.
    pub(crate) fn first_with(&self, key: &[u8]) -> usize {
        self.uppers.up_to(key)
    }

    /// The segment that has `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<Segment>> {
        let first = self.segments.get(self.first_with(key));
        first.filter(|segment| segment.contains(key))
    }
}

impl Deref for List {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &Self::Target {
        &self.segments
    }
}

/// The current list, and the lock for changes.
pub(crate) struct Directory {
    list: Cell<Arc<List>>,
    /// The generation of the next segment. Locked before any segment.
    changing: Mutex<u64>,
}

impl Directory {
    pub(crate) fn new() -> Self {
        Directory {
            list: Cell::new(Arc::new(List::default())),
            changing: Mutex::new(1),
        }
    }

    /// The current list.
    pub(crate) fn load(&self) -> Arc<List> {
        self.list.load()
    }

    /// Waits for other changes.
    pub(crate) fn change(&self) -> Changing<'_> {
        let next_generation = self.changing.lock();
        Changing {
            list: self.list.load().to_vec(),
            next_generation,
            directory: self,
        }
    }
}

/// The right to change the directory.
pub(crate) struct Changing<'a> {
    /// The next list.
    pub(crate) list: Vec<Arc<Segment>>,
    next_generation: MutexGuard<'a, u64>,
    directory: &'a Directory,
}

impl Changing<'_> {
    /// A number that no segment has.
    pub(crate) fn generation(&mut self) -> u64 {
        *self.next_generation += 1;
        *self.next_generation
    }

    /// Shows the list to readers and writes.
    pub(crate) fn publish(&self) {
        let is_before = |a: &Arc<Segment>, b: &Arc<Segment>| {
            a.upper.as_deref().is_some_and(|upper| upper <= &*b.lower)
        };
        invariant!(self.list.is_sorted_by(is_before), "listed segments overlap");
        invariant!(
            self.list
                .iter()
                .all(|segment| segment.generation <= *self.next_generation),
            "a segment has a generation after {}",
            *self.next_generation
        );
        self.directory
            .list
            .store(Arc::new(List::new(self.list.clone())));
    }

    /// The number of the segment with this generation.
    pub(crate) fn position(&self, generation: u64) -> Option<usize> {
        self.list
            .iter()
            .position(|segment| segment.generation == generation)
    }

    /// Adds a segment; false if it overlaps another one.
    pub(crate) fn insert(&mut self, segment: Arc<Segment>) -> bool {
        let is_before = |other: &Arc<Segment>| {
            other
                .upper
                .as_deref()
                .is_some_and(|upper| upper <= &*segment.lower)
        };
        let at = self.list.partition_point(is_before);
        let next = self.list.get(at);
        if next.is_some_and(|next| next.overlaps(&segment.lower, segment.upper.as_deref())) {
            return false;
        }
        invariant!(
            self.position(segment.generation).is_none(),
            "generation {} is listed twice",
            segment.generation
        );
        self.list.insert(at, segment);
        true
    }
}
