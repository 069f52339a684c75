//! The search for one key: the answers of sources so far.

use std::cell::OnceCell;

use bytes::Bytes;

use super::found::{FoundValue, Merged};
use super::resolve::{Resolver, Step};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::{InternalKeyComparator, ValueType, seek_key};
use crate::merge::Operands;
use crate::range_del::FragmentedTombstones;
use crate::stats::perf_context;

/// Result of a lookup.
#[derive(Clone, Debug)]
pub(crate) struct Lookup {
    /// `None` if the key is deleted, or was never written.
    pub(crate) value: Option<FoundValue>,
    /// The sequence number of the newest write of the key that the snapshot sees and that a source
    /// still has: a value, a tombstone or a range tombstone. `ZERO` if there is none.
    pub(crate) sequence: SequenceNumber,
    /// The kind of the source that decided; `None` if none did.
    pub(crate) place: Option<Place>,
}

/// The place where a lookup ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A memtable.
    Memory,
    /// A table of the level.
    Level(u8),
}

/// A search in progress. Sources, newest first, tell it the range tombstones that cover the key and
/// the versions of the key, until it is done.
pub(super) struct Search<'a> {
    pub(super) user_key: &'a [u8],
    /// Sources need not tell it anything newer.
    pub(super) snapshot: SequenceNumber,
    /// Whether the blocks that it loads are cached.
    pub(super) fill_cache: bool,
    pub(super) comparator: &'a InternalKeyComparator,
    /// Made for the first table that is searched. Memtables do not need it.
    seek_key: OnceCell<Vec<u8>>,
    resolver: Resolver,
    /// The newest range tombstone over the key so far.
    covered: SequenceNumber,
    /// The operands seen so far, newest first.
    operands: Operands,
    /// The sequence number of the newest version seen so far.
    newest: SequenceNumber,
    decided: Option<Option<FoundValue>>,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        user_key: &'a [u8],
        snapshot: SequenceNumber,
        comparator: &'a InternalKeyComparator,
        fill_cache: bool,
    ) -> Self {
        Search {
            user_key,
            snapshot,
            fill_cache,
            comparator,
            seek_key: OnceCell::new(),
            resolver: Resolver::new(snapshot),
            covered: SequenceNumber::ZERO,
            operands: Operands::default(),
            newest: SequenceNumber::ZERO,
            decided: None,
        }
    }

    /// An internal key before every version of the key that the snapshot sees, and after the
    /// others.
    #[inline]
    pub(super) fn seek_key(&self) -> &[u8] {
        self.seek_key
            .get_or_init(|| seek_key(self.user_key, self.snapshot))
    }

    /// Considers range tombstones of the source whose versions come next.
    #[inline]
    pub(super) fn cover_by(&mut self, tombstones: &FragmentedTombstones) {
        let newest = tombstones.max_covering(self.user_key, self.snapshot, self.comparator);
        self.covered = self.covered.max(newest);
    }

    /// Considers the next older version of the key. `value` is called only if it is needed.
    #[inline]
    pub(super) fn see(
        &mut self,
        sequence: SequenceNumber,
        value_type: ValueType,
        value: impl FnOnce() -> Bytes,
    ) -> Result<()> {
        let covered = self.covered;
        let is_covered = || {
            let hidden = mutant!(range_deletion_hides_newer) && covered > SequenceNumber::ZERO;
            // RocksDB gives entries of the last level sequence number 0; ours keep theirs (ADR 6).
            covered > sequence || hidden
        };
        match self.resolver.see(sequence, value_type, is_covered) {
            Step::Done(outcome) => {
                let found = match outcome.stored()? {
                    Some(stored) => Some(FoundValue::of_stored(stored, value())?),
                    None => None,
                };
                self.newest = self.newest.max(sequence);
                self.decided = Some(found);
            }
            Step::Operand => {
                perf_context::add(|running| &running.internal_merge_point_lookup_count, 1);
                self.newest = self.newest.max(sequence);
                self.operands.push(value());
            }
            Step::TooNew => {}
        }
        Ok(())
    }

    /// After a version was told: the bound for the next older one in the same source, if that is
    /// needed, too.
    #[inline]
    pub(super) fn bound_below(&self, sequence: SequenceNumber) -> Option<SequenceNumber> {
        let wanted = !self.is_decided() && !self.operands.is_empty();
        (wanted && sequence > SequenceNumber::ZERO).then(|| SequenceNumber(sequence.0 - 1))
    }

    /// Whether a version has decided, so that no older one is needed.
    #[inline]
    pub(super) fn is_decided(&self) -> bool {
        self.decided.is_some()
    }

    /// Whether the versions in older sources do not matter: a newer one has decided, or a range
    /// tombstone deletes all of them.
    #[inline]
    pub(super) fn is_done(&self) -> bool {
        self.is_decided() || self.covered > SequenceNumber::ZERO
    }

    /// The result; `place` is where the search ended, if a source decided it.
    #[inline]
    pub(super) fn finish(self, place: Option<Place>) -> Lookup {
        let base = self.decided.flatten();
        let value = match self.operands.is_empty() {
            true => base,
            false => {
                let merged = Merged::of_newest_first(base, self.operands);
                Some(FoundValue::Merged(Box::new(merged)))
            }
        };
        Lookup {
            value,
            sequence: self.newest.max(self.covered),
            place,
        }
    }
}
