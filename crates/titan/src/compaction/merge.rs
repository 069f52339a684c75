//! Decides which entries of a sorted input survive.
//!
//! Snapshots cut sequence numbers into *stripes*: no snapshot distinguishes two versions in one
//! stripe, so the older is dropped if the newer shadows it. In detail, for the versions of one user
//! key, newest first:
//!
//! * A value, or a deletion, shadows everything older in its stripe, except that a value does not
//!   shadow a single deletion, which must still meet the one value for which it was written.
//! * A deletion that every snapshot sees is dropped if nothing older can be below.
//! * A single deletion and the next older value of the same stripe annihilate each other.
//! * The newest version of a key is never dropped without a trace if the oldest snapshot does not
//!   see it: that the key was written must be known to conditions. So a single deletion that is the
//!   newest version counts as a deletion then.
//! * An entry that a range tombstone of its own stripe covers is dropped.
//! * Merge operands shadow nothing. Those of one stripe are [combined](super::combine) if the
//!   family has an operator, with the value below them if that is of the same stripe; so is what
//!   nothing lies below.
//! * A [compaction filter](super::filter) decides about the newest version of a key that is here,
//!   if it is a value, or operands that became one, and none of the rules above drops it. A value
//!   that it removes becomes a deletion with the same sequence number, for which the same rules
//!   hold: it stays as long as it may shadow something, and as long as it may be evidence of a
//!   write.

use std::collections::VecDeque;

use bytes::Bytes;

use super::combine::{Below, Combined, Combiner, Entry, Run};
use super::filter::{Effect, FilterCounts, JobFilter};
use super::older_versions::OlderVersions;
use super::references::ReferenceCounts;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{ParsedInternalKey, ValueType, append_internal_key};
use crate::iterator::InternalIterator;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};

/// Versions that the newest one seen so far of the current key shadows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hides {
    Nothing,
    /// Everything but single deletions, in the stripe.
    ValuesIn(SequenceNumber),
    /// Everything in the stripe.
    AllIn(SequenceNumber),
}

/// A single deletion that waits until the next entry shows whether it meets its value.
struct PendingSingleDeletion {
    key: Vec<u8>,
    sequence: SequenceNumber,
    stripe: SequenceNumber,
}

/// Where the current entry of the merge is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Nowhere,
    OnInput,
    OnPending,
    OnCombined,
    OnFiltered,
}

/// An entry of the input as a compaction filter has changed it.
#[derive(Default)]
struct FilteredEntry {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl FilteredEntry {
    /// Becomes the entry that an effect leaves in the place of one of the input. Returns its type;
    /// none if the effect changes nothing.
    fn set(&mut self, effect: Effect, key: &[u8], sequence: SequenceNumber) -> Option<ValueType> {
        self.value.clear();
        // MUTANT: a changed value is newer than the one that was written.
        let later = u64::from(mutant!(
            "changed-value-is-newer",
            "-p titan --lib compaction::tests::filtered"
        ));
        let (value_type, sequence) = match effect {
            Effect::Keep => return None,
            Effect::Remove => (ValueType::Deletion, sequence),
            Effect::Change(value_type, value) => {
                self.value = value;
                (value_type, sequence.plus(later))
            }
        };
        self.key.clear();
        append_internal_key(&mut self.key, key, sequence, value_type as u8);
        Some(value_type)
    }
}

/// Walks a sorted input and stops only at entries that survive.
pub(crate) struct SurvivorIterator<'a, I, B> {
    input: I,
    older: B,
    newest: SequenceNumber,
    /// Ascending.
    snapshots: Vec<SequenceNumber>,
    tombstones: TombstoneCursor,
    user_key: Vec<u8>,
    has_key: bool,
    hides: Hides,
    pending: Option<PendingSingleDeletion>,
    /// Whether the input stands on the newest version of `user_key` in it.
    on_newest: bool,
    position: Position,
    references: ReferenceCounts,
    combiner: Option<Combiner>,
    /// Result of combined operands, to be shown before the input goes on.
    combined: VecDeque<Entry>,
    /// Bytes of the blob records of bases that were combined with operands.
    combined_blob_bytes: u64,
    filter: Option<JobFilter<'a>>,
    filtered: FilteredEntry,
}

impl<'a, I: InternalIterator, B: OlderVersions> SurvivorIterator<'a, I, B> {
    /// Starts at the first survivor. Entries newer than `newest` are skipped as if they did not
    /// exist. `snapshots` ascend; `tombstones` are those of the inputs.
    pub(crate) fn new(
        mut input: I,
        older: B,
        newest: SequenceNumber,
        snapshots: Vec<SequenceNumber>,
        tombstones: TombstoneCursor,
        combiner: Option<Combiner>,
        filter: Option<JobFilter<'a>>,
    ) -> Result<Self> {
        input.seek_to_first()?;
        let mut this = SurvivorIterator {
            input,
            older,
            newest,
            snapshots,
            tombstones,
            user_key: Vec::new(),
            has_key: false,
            hides: Hides::Nothing,
            pending: None,
            on_newest: false,
            position: Position::Nowhere,
            references: ReferenceCounts::default(),
            combiner,
            combined: VecDeque::new(),
            combined_blob_bytes: 0,
            filter,
            filtered: FilteredEntry::default(),
        };
        this.count_references()?;
        this.find_next()?;
        Ok(this)
    }

    pub(crate) fn valid(&self) -> bool {
        self.position != Position::Nowhere
    }

    pub(crate) fn key(&self) -> &[u8] {
        match (self.position, &self.pending) {
            (Position::OnPending, Some(pending)) => &pending.key,
            (Position::OnInput, _) => self.input.key(),
            (Position::OnCombined, _) => self.combined.front().map_or(&[], |(key, _)| key),
            (Position::OnFiltered, _) => &self.filtered.key,
            _ => &[],
        }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match self.position {
            Position::OnInput => self.input.value(),
            Position::OnCombined => self.combined.front().map_or(&[], |(_, value)| value),
            Position::OnFiltered => &self.filtered.value,
            Position::OnPending | Position::Nowhere => &[],
        }
    }

    /// Counts of the filter's decisions so far.
    pub(crate) fn filter_counts(&self) -> FilterCounts {
        self.filter
            .as_ref()
            .map(JobFilter::counts)
            .unwrap_or_default()
    }

    /// Bytes of blob records that were dropped although no newer version shadowed them: the filter
    /// dropped them, or they were combined with operands.
    pub(crate) fn dropped_unshadowed(&self) -> u64 {
        let combined = self.combined_blob_bytes;
        combined.saturating_add(self.filter_counts().dropped_blob_bytes)
    }

    pub(crate) fn next(&mut self) -> Result<()> {
        match self.position {
            Position::Nowhere => return Ok(()),
            Position::OnPending => self.pending = None,
            Position::OnInput | Position::OnFiltered => self.advance()?,
            Position::OnCombined => drop(self.combined.pop_front()),
        }
        self.find_next()
    }

    /// Pointers into blob files that were read so far, surviving or not.
    pub(crate) fn read_references(&self) -> &ReferenceCounts {
        &self.references
    }

    fn advance(&mut self) -> Result<()> {
        self.input.next()?;
        self.count_references()
    }

    fn count_references(&mut self) -> Result<()> {
        if self.input.valid() {
            let parsed = ParsedInternalKey::parse(self.input.key())?;
            self.references.add(&parsed, self.input.value())?;
        }
        Ok(())
    }

    /// The newest sequence number that is seen by exactly the snapshots that see `sequence`.
    fn stripe(&self, sequence: SequenceNumber) -> SequenceNumber {
        // MUTANT: a version of a key that the older of two snapshots sees counts as shadowed.
        let too_many = u64::from(mutant!(
            "stripe-off-by-one",
            "-p titan-campaigns --test it metamorphic::"
        ));
        let end = sequence.plus(too_many);
        let at = self.snapshots.partition_point(|s| *s < end);
        self.snapshots
            .get(at)
            .copied()
            .unwrap_or(SequenceNumber::MAX)
    }

    /// Whether every snapshot sees the entry.
    fn seen_by_all(&self, sequence: SequenceNumber) -> bool {
        // MUTANT: a deletion that is newer than the oldest snapshot counts as seen by it.
        let too_many = u64::from(mutant!(
            "oldest-snapshot-off-by-one",
            "-p titan --lib compaction::tests"
        ));
        self.snapshots
            .first()
            .is_none_or(|oldest| sequence <= oldest.plus(too_many))
    }

    /// Goes forward from the position of the input to the next survivor.
    fn find_next(&mut self) -> Result<()> {
        self.position = Position::Nowhere;
        loop {
            if !self.combined.is_empty() {
                self.position = Position::OnCombined;
                return Ok(());
            }
            if !self.input.valid() {
                if self.release_pending() {
                    self.position = Position::OnPending;
                }
                return Ok(());
            }
            let entry = ParsedInternalKey::parse(self.input.key())?;
            let (sequence, value_type) = (entry.sequence, entry.value_type);
            if sequence > self.newest {
                self.advance()?;
                continue;
            }
            if !self.has_key || entry.user_key != self.user_key {
                if self.pending.is_some() {
                    if self.release_pending() {
                        self.position = Position::OnPending;
                        return Ok(());
                    }
                    continue;
                }
                self.user_key.clear();
                self.user_key.extend_from_slice(entry.user_key);
                self.has_key = true;
                self.hides = Hides::Nothing;
                self.on_newest = true;
            }
            let is_newest = std::mem::take(&mut self.on_newest);
            let stripe = self.stripe(sequence);
            let shadowed = match self.hides {
                Hides::Nothing => false,
                Hides::AllIn(s) => s == stripe,
                // MUTANT: a value shadows an older single deletion, which then meets no value.
                Hides::ValuesIn(s) => {
                    let all = mutant!(
                        "single-deletion-shadowed-by-a-value",
                        "-p titan --lib compaction::tests"
                    );
                    s == stripe && (all || value_type != ValueType::SingleDeletion)
                }
            };
            if shadowed
                || self
                    .tombstones
                    .covering_in_stripe(&self.user_key, sequence, stripe)
            {
                // A shadowed value may still be the one for which a pending single deletion waits.
                if self.meets_pending(value_type, stripe) {
                    self.pending = None;
                }
                self.advance()?;
                continue;
            }
            if let Some(pending) = &self.pending {
                if self.meets_pending(value_type, stripe) {
                    self.pending = None;
                    self.advance()?;
                    continue;
                }
                let superseded = pending.stripe == stripe && value_type.is_point_deletion();
                if superseded {
                    self.pending = None;
                } else if self.release_pending() {
                    self.position = Position::OnPending;
                    return Ok(());
                }
            }
            // MUTANT: a filter is also asked about the versions that only snapshots see.
            let each = mutant!(
                "filter-asked-about-older-versions",
                "-p titan --test it filters::"
            );
            let filtered = match &mut self.filter {
                Some(filter) if is_newest || each => {
                    let value = self.input.value();
                    let effect = filter.decide(&self.user_key, sequence, value_type, value)?;
                    self.filtered.set(effect, &self.user_key, sequence)
                }
                _ => None,
            };
            let value_type = filtered.unwrap_or(value_type);
            // MUTANT: a single deletion and its value are dropped, and with them the only trace of
            // a write that is newer than a snapshot.
            let forgotten = mutant!(
                "single-deletion-leaves-no-evidence",
                "-p titan --lib compaction::tests"
            );
            match value_type {
                ValueType::SingleDeletion
                    if is_newest && !self.seen_by_all(sequence) && !forgotten =>
                {
                    self.hides = Hides::AllIn(stripe);
                }
                ValueType::SingleDeletion => {
                    let key = self.input.key().to_vec();
                    self.pending = Some(PendingSingleDeletion {
                        key,
                        sequence,
                        stripe,
                    });
                    self.advance()?;
                    continue;
                }
                ValueType::Deletion => {
                    self.hides = Hides::AllIn(stripe);
                    if self.needs_no_deletion(sequence, filtered.is_some()) {
                        self.advance()?;
                        continue;
                    }
                }
                ValueType::Merge if self.combiner.is_some() => {
                    self.combine_operands(sequence, stripe, is_newest)?;
                    continue;
                }
                ValueType::Merge => {}
                _ => self.hides = Hides::ValuesIn(stripe),
            }
            self.position = match filtered {
                Some(_) => Position::OnFiltered,
                None => Position::OnInput,
            };
            return Ok(());
        }
    }

    /// Whether a deletion of the current key is dropped: it shadows nothing, and is no evidence.
    fn needs_no_deletion(&mut self, sequence: SequenceNumber, is_by_filter: bool) -> bool {
        // MUTANT: a compaction drops deletions although older versions of the key lie below.
        let too_early = mutant!(
            "tombstone-dropped-too-early",
            "-p titan-campaigns --test it metamorphic::"
        );
        // MUTANT: a value that a filter removes leaves no trace for conditions.
        let no_trace = is_by_filter
            && mutant!(
                "removal-leaves-no-evidence",
                "-p titan --lib compaction::tests::filtered"
            );
        (self.seen_by_all(sequence) || no_trace)
            && (too_early || self.older.nothing_at(&self.user_key))
    }

    /// From the newest operand of a run, goes on to what is below the run and combines it.
    /// `is_newest`: whether that operand is the newest version of the key here.
    #[cold]
    fn combine_operands(
        &mut self,
        newest: SequenceNumber,
        stripe: SequenceNumber,
        is_newest: bool,
    ) -> Result<()> {
        let mut run = Run::default();
        run.push(newest, self.input.value());
        self.advance()?;
        let below = loop {
            let entry = match self.input.valid() {
                true => Some(ParsedInternalKey::parse(self.input.key())?),
                false => None,
            };
            let Some(entry) = entry.filter(|entry| entry.user_key == self.user_key) else {
                // MUTANT: a compaction takes operands for all that a key has although there may be
                // more at lower levels.
                let too_early = mutant!(
                    "operands-without-their-base",
                    "-p titan --lib compaction::tests::merges"
                );
                break match too_early || self.older.nothing_at(&self.user_key) {
                    true => Below::Nothing,
                    false => Below::Unknown,
                };
            };
            // MUTANT: operands are combined with what only older snapshots see.
            let across = mutant!(
                "operands-combined-across-a-snapshot",
                "-p titan --lib compaction::tests::merges"
            );
            if self.stripe(entry.sequence) != stripe && !across {
                break Below::Unknown;
            }
            // MUTANT: operands are combined with what a range deletion has deleted before.
            let overlooked = mutant!(
                "operands-combined-over-a-range-deletion",
                "-p titan --lib compaction::tests::merges"
            );
            let (key, sequence) = (&self.user_key, entry.sequence);
            if self.tombstones.covering_in_stripe(key, sequence, stripe) && !overlooked {
                break Below::Nothing;
            }
            let value = self.input.value();
            match entry.value_type {
                ValueType::Merge => run.push(entry.sequence, value),
                ValueType::Value => break Below::Inline(Bytes::copy_from_slice(value)),
                ValueType::BlobIndex => break Below::Pointer(BlobIndex::decode(value)?),
                ValueType::Deletion | ValueType::SingleDeletion => break Below::Nothing,
                ValueType::WideColumnEntity => {
                    break Below::Entity(Bytes::copy_from_slice(value));
                }
                ValueType::RangeDeletion => break Below::Unknown,
            }
            self.advance()?;
        };
        let Some(combiner) = &self.combiner else {
            return Ok(());
        };
        let Combined { entries, is_value } = combiner.combine(&self.user_key, &run, &below)?;
        self.combined.extend(entries);
        if !is_value {
            return Ok(());
        }
        self.hides = Hides::ValuesIn(stripe);
        if let Some(base) = below.pointer()? {
            let bytes = base.record_len(self.user_key.len());
            self.combined_blob_bytes = self.combined_blob_bytes.saturating_add(bytes);
        }
        // MUTANT: a filter is not asked about what operands became.
        let unasked = mutant!(
            "filter-not-asked-about-merged",
            "-p titan --test it filters::"
        );
        match is_newest && !unasked {
            true => self.filter_combined(newest, stripe),
            false => Ok(()),
        }
    }

    /// Asks the filter about the value that operands became.
    fn filter_combined(&mut self, sequence: SequenceNumber, stripe: SequenceNumber) -> Result<()> {
        let (Some(filter), Some((key, value))) = (&mut self.filter, self.combined.front()) else {
            return Ok(());
        };
        let value_type = ParsedInternalKey::parse(key)?.value_type;
        let effect = filter.decide(&self.user_key, sequence, value_type, value)?;
        let Some(value_type) = self.filtered.set(effect, &self.user_key, sequence) else {
            return Ok(());
        };
        self.combined.clear();
        if value_type == ValueType::Deletion {
            self.hides = Hides::AllIn(stripe);
            if self.needs_no_deletion(sequence, true) {
                return Ok(());
            }
        }
        let FilteredEntry { key, value } = std::mem::take(&mut self.filtered);
        self.combined.push_back((key, value));
        Ok(())
    }

    /// Whether an entry is the value that the pending single deletion deletes.
    fn meets_pending(&self, value_type: ValueType, stripe: SequenceNumber) -> bool {
        let is_value = matches!(
            value_type,
            ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity
        );
        // MUTANT: a single deletion and its value are dropped although a snapshot is between them.
        let across = mutant!(
            "single-deletion-meets-across-a-snapshot",
            "-p titan --lib compaction::tests"
        );
        is_value
            && self
                .pending
                .as_ref()
                .is_some_and(|pending| pending.stripe == stripe || across)
    }

    /// Whether the pending single deletion survives; if not, it is dropped.
    fn release_pending(&mut self) -> bool {
        let Some(pending) = &self.pending else {
            return false;
        };
        let droppable = self.seen_by_all(pending.sequence) && {
            let user_key = crate::format::internal_key::user_key(&pending.key);
            // MUTANT: a compaction drops single deletions that have not met their value.
            mutant!(
                "single-deletion-dropped-too-early",
                "-p titan-campaigns --test it metamorphic::"
            ) || self.older.nothing_at(user_key)
        };
        if droppable {
            self.pending = None;
        }
        !droppable
    }
}

/// The tombstones that must be written to the output: see
/// [`retain`](crate::range_del::retain).
pub(crate) fn surviving_tombstones<B: OlderVersions>(
    all: &FragmentedTombstones,
    snapshots: &[SequenceNumber],
    older: &B,
) -> FragmentedTombstones {
    crate::range_del::retain(all, snapshots, |start, end| older.nothing_in(start, end))
}
