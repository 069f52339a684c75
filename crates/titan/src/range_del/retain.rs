//! Which tombstones a compaction must write to its output.
//!
//! Snapshots cut the sequence numbers into *stripes*: two numbers are in one stripe if every
//! snapshot sees both or neither. Within a fragment a tombstone is redundant if its stripe has a
//! newer one: a reader that sees it sees the newer one, which deletes at least as much. A tombstone
//! that every reader sees is not needed once nothing it could delete is below the output level.

use crate::format::SequenceNumber;
use crate::range_del::fragmented::{Fragment, FragmentedTombstones};

/// The part of `tombstones` that must be kept, as fragments.
///
/// `snapshots` are the live ones, ascending. `droppable(start, end)` returns whether no entry for
/// keys in the range exists below the output level (apart from the files of the compaction itself:
/// the same compaction must drop the entries that a dropped tombstone covers in them). It is called
/// at most once per fragment, and only where it matters.
pub(crate) fn retain(
    tombstones: &FragmentedTombstones,
    snapshots: &[SequenceNumber],
    mut droppable: impl FnMut(&[u8], &[u8]) -> bool,
) -> FragmentedTombstones {
    debug_assert!(snapshots.is_sorted());
    let seen_by_all = snapshots.first().copied().unwrap_or(SequenceNumber::MAX);
    FragmentedTombstones::from_fragments(tombstones.fragments().iter().filter_map(|fragment| {
        let mut sequences = newest_per_stripe(&fragment.sequences, snapshots);
        // Newest first, and the tombstones that every reader sees are in one stripe: at most the
        // last is in it.
        let last_seen_by_all = sequences
            .last()
            .is_some_and(|&oldest| oldest <= seen_by_all);
        let too_early = mutant!(range_tombstone_dropped_too_early);
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

/// The first number of each stripe in `sequences`, which are newest first.
fn newest_per_stripe(
    sequences: &[SequenceNumber],
    snapshots: &[SequenceNumber],
) -> Vec<SequenceNumber> {
    let mut kept = Vec::new();
    let mut last_stripe = None;
    for &sequence in sequences {
        // The number of snapshots that do not see it identifies the stripe.
        let too_many = u64::from(mutant!(range_deletion_stripe_off_by_one));
        let stripe = snapshots.partition_point(|&snapshot| snapshot < sequence.plus(too_many));
        if last_stripe.replace(stripe) != Some(stripe) {
            kept.push(sequence);
        }
    }
    kept
}
