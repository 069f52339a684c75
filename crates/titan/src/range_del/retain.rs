//! Which tombstones a compaction must write to its output.
//!
//! Snapshots cut the sequence numbers into *stripes*: two numbers are in one stripe if every
//! snapshot sees both or neither. Within a fragment a tombstone is redundant beside a newer one of
//! its stripe: whoever sees it sees the newer one, which deletes at least as much. And one that
//! every reader sees has done its work once nothing it could delete lies below the output.

use crate::format::SequenceNumber;
use crate::range_del::fragmented::{Fragment, FragmentedTombstones};

/// The part of `tombstones` that must be kept, as fragments.
///
/// `snapshots` are those alive, ascending. `droppable(start, end)` tells that no entry for keys in
/// the range exists below the output level (files of the compaction itself aside: what of theirs a
/// dropped tombstone covers must be dropped by the same compaction). It is asked at most once a
/// fragment, and only where it matters.
pub(crate) fn retain(
    tombstones: &FragmentedTombstones,
    snapshots: &[SequenceNumber],
    mut droppable: impl FnMut(&[u8], &[u8]) -> bool,
) -> FragmentedTombstones {
    debug_assert!(snapshots.is_sorted());
    let seen_by_all = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    FragmentedTombstones::from_fragments(tombstones.fragments().iter().filter_map(|fragment| {
        let mut sequences = newest_per_stripe(&fragment.sequences, snapshots);
        // Newest first, and all that everybody sees are one stripe: at most the last is one.
        let last_seen_by_all = sequences
            .last()
            .is_some_and(|&oldest| oldest <= seen_by_all);
        // MUTANT: a compaction drops range deletions although keys lie below.
        let too_early = mutant!(
            "range-tombstone-dropped-too-early",
            "-p titan-campaigns --test it metamorphic::"
        );
        if last_seen_by_all && (too_early || droppable(&fragment.start, &fragment.end)) {
            sequences.pop();
        }
        let Fragment { start, end, .. } = fragment;
        (!sequences.is_empty()).then(|| Fragment {
            start: start.clone(),
            end: end.clone(),
            sequences,
        })
    }))
}

/// Of `sequences`, newest first, the first of each stripe.
fn newest_per_stripe(
    sequences: &[SequenceNumber],
    snapshots: &[SequenceNumber],
) -> Vec<SequenceNumber> {
    let mut kept = Vec::new();
    let mut last_stripe = None;
    for &sequence in sequences {
        // The number of snapshots that do not see it names the stripe.
        let stripe = snapshots.partition_point(|&snapshot| snapshot < sequence);
        if last_stripe.replace(stripe) != Some(stripe) {
            kept.push(sequence);
        }
    }
    kept
}
