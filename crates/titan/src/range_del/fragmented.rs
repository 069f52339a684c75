//! Range tombstones cut into fragments that do not overlap.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;

use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::range_tombstone::RangeTombstone;
use crate::number_map::NumberMap;
use crate::sorting;

/// A range of user keys and the sequence numbers of all tombstones that cover all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fragment {
    /// The first user key in the range.
    pub(crate) start: Bytes,
    /// The first user key after the range.
    pub(crate) end: Bytes,
    /// Newest first, each once; never empty.
    pub(crate) sequences: Vec<SequenceNumber>,
}

impl Fragment {
    /// The newest tombstone not newer than `snapshot`, if there is one.
    #[inline]
    pub(crate) fn newest_at(&self, snapshot: SequenceNumber) -> Option<SequenceNumber> {
        let newer = match self.sequences.first() {
            Some(&newest) if newest <= snapshot => return Some(newest), // most reads are of now
            _ => self
                .sequences
                .partition_point(|&sequence| sequence > snapshot),
        };
        self.sequences.get(newer).copied()
    }
}

/// Fragments sorted by start, none overlapping another. Immutable.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FragmentedTombstones {
    fragments: Vec<Fragment>,
}

impl FragmentedTombstones {
    /// The empty list, which all users share.
    pub(crate) fn empty() -> Arc<Self> {
        static EMPTY: LazyLock<Arc<FragmentedTombstones>> = LazyLock::new(Arc::default);
        Arc::clone(&EMPTY)
    }

    /// Cuts `tombstones`, in any order, into fragments. Empty ranges are ignored; neighbours with
    /// equal sequence numbers become one. O(n log n) plus the size of the result, which is
    /// quadratic where all tombstones nest.
    pub fn build(
        tombstones: impl IntoIterator<Item = RangeTombstone>,
        comparator: &InternalKeyComparator,
    ) -> Self {
        let mut edges = Vec::new();
        for RangeTombstone {
            start,
            end,
            sequence,
        } in tombstones
        {
            if comparator.compare_user(&start, &end).is_lt() {
                edges.push(Edge {
                    key: start,
                    opens: true,
                    sequence,
                });
                edges.push(Edge {
                    key: end,
                    opens: false,
                    sequence,
                });
            }
        }
        Self::sweep(edges, comparator)
    }

    fn sweep(mut edges: Vec<Edge>, comparator: &InternalKeyComparator) -> Self {
        sorting::sort_by(&mut edges, |a, b| comparator.compare_user(&a.key, &b.key));

        // Sweep over the edges. `open` counts the tombstones that cover the keys from `from` on.
        let mut open: NumberMap<SequenceNumber, usize> = NumberMap::new();
        let mut from: Option<Bytes> = None;
        let mut list = FragmentedTombstones::default();
        for edge in edges {
            if let Some(start) = from.take_if(|from| *from != edge.key)
                && !open.is_empty()
            {
                let sequences = open.keys().rev().copied().collect();
                list.push(Fragment {
                    start,
                    end: edge.key.clone(),
                    sequences,
                });
            }
            // Edges at one key may come in any order: a count below zero cannot arise, as both
            // edges of a tombstone are at different keys, the opening one first.
            let count = open.get_or_default(edge.sequence);
            match (edge.opens, *count) {
                (true, _) => *count += 1,
                (false, 2..) => *count -= 1,
                (false, left) => {
                    debug_assert!(left == 1, "closed before it was opened");
                    open.remove(&edge.sequence);
                }
            }
            from = Some(edge.key);
        }
        list
    }

    /// A list of fragments that are sorted and do not overlap.
    pub(super) fn from_fragments(fragments: impl IntoIterator<Item = Fragment>) -> Self {
        let mut list = FragmentedTombstones::default();
        fragments
            .into_iter()
            .for_each(|fragment| list.push(fragment));
        list
    }

    /// Appends a fragment after all others, or extends the last one.
    fn push(&mut self, fragment: Fragment) {
        invariant!(
            fragment.sequences.is_sorted_by(|a, b| a > b) && !fragment.sequences.is_empty(),
            "sequence numbers of a fragment do not descend: {:?}",
            fragment.sequences
        );
        match self.fragments.last_mut() {
            Some(last) if last.end == fragment.start && last.sequences == fragment.sequences => {
                last.end = fragment.end;
            }
            _ => self.fragments.push(fragment),
        }
    }

    /// The fragments, sorted by start.
    pub(crate) fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The sequence number of the newest tombstone that covers `user_key` and is not newer than
    /// `snapshot`; [`SequenceNumber::ZERO`] if there is none. A binary search.
    pub(crate) fn max_covering(
        &self,
        user_key: &[u8],
        snapshot: SequenceNumber,
        comparator: &InternalKeyComparator,
    ) -> SequenceNumber {
        let ended = |f: &Fragment| comparator.compare_user(&f.end, user_key).is_le();
        match self.fragments.get(self.fragments.partition_point(ended)) {
            Some(fragment) if comparator.compare_user(&fragment.start, user_key).is_le() => {
                fragment.newest_at(snapshot).unwrap_or(SequenceNumber::ZERO)
            }
            _ => SequenceNumber::ZERO,
        }
    }

    /// One tombstone for each fragment and sequence number, sorted as files store them: by start,
    /// then newest first.
    pub(crate) fn iter_tombstones(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            fragment.sequences.iter().map(|&sequence| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                sequence,
            })
        })
    }
}

/// The start or the end of a tombstone.
struct Edge {
    key: Bytes,
    opens: bool,
    sequence: SequenceNumber,
}
