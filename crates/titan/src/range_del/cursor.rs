//! Lookup of covering tombstones for keys in nearly sorted order.
//!
//! Iterators and compactions ask about one key after the other. The cursor remembers the position
//! of the last key; a key nearby costs two comparisons, one further away a few more or a binary
//! search.

use std::cmp::Ordering;
use std::sync::Arc;

#[cfg(test)]
use bytes::Bytes;

use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::range_del::fragmented::{Fragment, FragmentedTombstones};

/// Fragments tried one by one before a binary search.
const NEAR: usize = 4;

/// A position in a list of tombstones, as a reader at `snapshot` sees it.
#[derive(Clone, Debug)]
pub(crate) struct TombstoneCursor {
    tombstones: Arc<FragmentedTombstones>,
    comparator: InternalKeyComparator,
    snapshot: SequenceNumber,
    /// A guess at the first fragment that ends after the next key.
    position: usize,
}

/// The newest tombstone that covers a key, and a range around the key that it covers at least. All
/// entries in `start..end` older than `sequence` are deleted.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Covering<'a> {
    pub(crate) sequence: SequenceNumber,
    pub(crate) start: &'a Bytes,
    pub(crate) end: &'a Bytes,
}

impl TombstoneCursor {
    pub(crate) fn new(
        tombstones: Arc<FragmentedTombstones>,
        comparator: InternalKeyComparator,
        snapshot: SequenceNumber,
    ) -> Self {
        TombstoneCursor {
            tombstones,
            comparator,
            snapshot,
            position: 0,
        }
    }

    /// The newest tombstone not newer than the snapshot that covers `user_key`.
    #[inline]
    #[cfg(test)]
    pub(crate) fn covering(&mut self, user_key: &[u8]) -> Option<Covering<'_>> {
        let snapshot = self.snapshot;
        let fragment = self.locate(user_key)?;
        let sequence = fragment.newest_at(snapshot)?;
        Some(Covering {
            sequence,
            start: &fragment.start,
            end: &fragment.end,
        })
    }

    /// The newest tombstone that covers `user_key`, and the end of the range, from that key on, in
    /// which it or newer ones delete everything older than it.
    pub(crate) fn covered_until(&mut self, user_key: &[u8]) -> Option<(SequenceNumber, &[u8])> {
        let (at, sequence) = self.newest(user_key)?;
        let fragments = self.tombstones.fragments();
        let mut last = fragments.get(at)?;
        for next in fragments.get(at + 1..)? {
            if next.start != last.end || next.newest_at(self.snapshot) < Some(sequence) {
                break;
            }
            last = next;
        }
        Some((sequence, &last.end))
    }

    /// The same in the other direction: the start of the range.
    pub(crate) fn covered_from(&mut self, user_key: &[u8]) -> Option<(SequenceNumber, &[u8])> {
        let (at, sequence) = self.newest(user_key)?;
        let fragments = self.tombstones.fragments();
        let mut first = fragments.get(at)?;
        for before in fragments.get(..at)?.iter().rev() {
            if before.end != first.start || before.newest_at(self.snapshot) < Some(sequence) {
                break;
            }
            first = before;
        }
        Some((sequence, &first.start))
    }

    /// The fragment that covers `user_key`, and its newest tombstone that the snapshot sees.
    fn newest(&mut self, user_key: &[u8]) -> Option<(usize, SequenceNumber)> {
        let snapshot = self.snapshot;
        let sequence = self.locate(user_key)?.newest_at(snapshot)?;
        Some((self.position, sequence))
    }

    /// Whether an entry of `user_key` at `sequence` is deleted as of the snapshot.
    #[inline]
    pub(crate) fn covers(&mut self, user_key: &[u8], sequence: SequenceNumber) -> bool {
        self.covering_in_stripe(user_key, sequence, self.snapshot)
    }

    /// Whether a tombstone with a sequence number in `(sequence, stripe_upper]` covers `user_key`.
    /// If `stripe_upper` is the smallest snapshot not below `sequence` (or `MAX`), every reader
    /// that sees the entry sees that tombstone, too, and a compaction may drop the entry. The
    /// cursor's own snapshot plays no part.
    #[inline]
    pub(crate) fn covering_in_stripe(
        &mut self,
        user_key: &[u8],
        sequence: SequenceNumber,
        stripe_upper: SequenceNumber,
    ) -> bool {
        let newest = self
            .locate(user_key)
            .and_then(|fragment| fragment.newest_at(stripe_upper));
        newest.is_some_and(|tombstone| tombstone > sequence)
    }

    /// The fragment that contains `user_key`.
    #[inline]
    fn locate(&mut self, user_key: &[u8]) -> Option<&Fragment> {
        let (fragments, comparator) = (self.tombstones.fragments(), &self.comparator);
        let place = |index: usize| fragments.get(index).map(|f| side(f, user_key, comparator));
        // In the common case the key is in the same fragment as the last one, or in the gap before
        // it. The fragment before shows whether it is in the gap.
        let mut at = self.position.min(fragments.len());
        for _ in 0..NEAR {
            match place(at) {
                Some(Ordering::Equal) => {
                    self.position = at;
                    return fragments.get(at);
                }
                Some(Ordering::Greater) => at += 1,
                // Before this fragment, or this is the end.
                Some(Ordering::Less) | None => match at.checked_sub(1).and_then(place) {
                    Some(Ordering::Greater) | None => {
                        self.position = at;
                        return None;
                    }
                    Some(_) => at -= 1,
                },
            }
        }
        let ended = |f: &Fragment| comparator.compare_user(&f.end, user_key).is_le();
        self.position = fragments.partition_point(ended);
        fragments
            .get(self.position)
            .filter(|fragment| comparator.compare_user(&fragment.start, user_key).is_le())
    }
}

/// The position of `user_key` relative to `fragment`: before, in or after it.
#[inline]
fn side(fragment: &Fragment, user_key: &[u8], comparator: &InternalKeyComparator) -> Ordering {
    if comparator.compare_user(user_key, &fragment.start).is_lt() {
        return Ordering::Less;
    }
    let to_end = comparator.compare_user(user_key, &fragment.end);
    let included = mutant!(range_deletion_includes_its_end) && to_end.is_eq();
    if to_end.is_lt() || included {
        Ordering::Equal
    } else {
        Ordering::Greater
    }
}
