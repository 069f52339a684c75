//! Decides which versions of one user key survive a flush or a compaction.
//!
//! This is the only place with the rule. Snapshots cut sequence numbers into *stripes*: no snapshot
//! distinguishes two versions in one stripe, so the older is dropped if the newer shadows it. In
//! detail, for the versions of one user key, newest first:
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
//!   family has an operator, with the value below them if that is of the same stripe; so are
//!   operands below which nothing lies.
//! * A [compaction filter](super::filter) decides about the newest version of a key that is here,
//!   if it is a value, or operands that became one, and none of the rules above drops it. A value
//!   that it removes becomes a deletion with the same sequence number, for which the same rules
//!   hold: it stays as long as it may shadow something, and as long as it may be evidence of a
//!   write.
//!
//! A job feeds the versions of each key, newest first, to [`Survival::see`], which returns a
//! [`Step`]. Nothing here reads or allocates: the caller is asked whether anything lies below a
//! key, and which range tombstones cover it, and only if it matters.

use crate::format::SequenceNumber;
use crate::format::internal_key::ValueType;

/// The reach of the newest version seen so far of a key: the versions that it shadows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hides {
    Nothing,
    /// Everything but single deletions, in the stripe.
    ValuesIn(SequenceNumber),
    /// Everything in the stripe.
    AllIn(SequenceNumber),
}

/// A version of a key.
#[derive(Clone, Copy, Debug)]
struct Version {
    sequence: SequenceNumber,
    stripe: SequenceNumber,
    /// Whether it is the newest one here.
    is_newest: bool,
}

/// The fate of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It survives.
    Keep,
    /// It is dropped.
    Drop,
    /// It is a single deletion, and waits until the next version shows whether it meets its value.
    Wait,
    /// The single deletion that waits has not met its value: it [ends](Survival::end_wait), and
    /// then this version is seen again.
    EndWait,
    /// It is the newest operand of a run. [`Survival::follow`] says how far the run goes.
    Combine,
    /// A compaction filter is to be asked about it. [`Survival::filtered`] then decides its fate.
    Filter,
}

/// The part of a version in the run of operands above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    /// It is the next operand.
    Operand,
    /// The operands change its value.
    Base,
    /// It says that the key had no value.
    Nothing,
    /// It is not of the run, and snapshots see it without the run.
    Unknown,
}

/// The rule, for the keys of one job.
pub(crate) struct Survival {
    /// Ascending.
    snapshots: Vec<SequenceNumber>,
    /// Whether operands are combined.
    combines: bool,
    /// Whether there is a compaction filter.
    filters: bool,
    hides: Hides,
    /// Whether no version of the key has been seen.
    is_first: bool,
    /// The last version seen.
    last: Version,
    /// The single deletion that waits.
    waiting: Option<Version>,
}

impl Survival {
    /// The rule of a job while these snapshots exist, which ascend. `combines`: the family has a
    /// merge operator. `filters`: the job has a compaction filter.
    pub(crate) fn new(snapshots: Vec<SequenceNumber>, combines: bool, filters: bool) -> Self {
        let none = Version {
            sequence: SequenceNumber::ZERO,
            stripe: SequenceNumber::ZERO,
            is_newest: false,
        };
        Survival {
            snapshots,
            combines,
            filters,
            hides: Hides::Nothing,
            is_first: true,
            last: none,
            waiting: None,
        }
    }

    /// Begins another key. The single deletion that waited has ended.
    #[inline]
    pub(crate) fn begin_key(&mut self) {
        self.hides = Hides::Nothing;
        self.is_first = true;
    }

    /// Decides about the next older version of the key, or of the same one after
    /// [`Step::EndWait`]. `covered` returns whether a range tombstone of the stripe that it is
    /// given covers the version, `nothing_below` whether nothing of the key is below the output of
    /// the job. Each is called at most once.
    #[inline]
    pub(crate) fn see(
        &mut self,
        sequence: SequenceNumber,
        value_type: ValueType,
        covered: impl FnOnce(SequenceNumber) -> bool,
        nothing_below: impl FnOnce() -> bool,
    ) -> Step {
        let stripe = self.stripe(sequence);
        let is_newest = std::mem::take(&mut self.is_first);
        self.last = Version {
            sequence,
            stripe,
            is_newest,
        };
        if self.is_shadowed(value_type) || covered(stripe) {
            // It may still be the value for which a single deletion waits.
            if self.meets_waiting(value_type) {
                self.waiting = None;
            }
            return Step::Drop;
        }
        if let Some(waiting) = &self.waiting {
            if self.meets_waiting(value_type) {
                self.waiting = None;
                return Step::Drop;
            }
            let superseded = waiting.stripe == stripe && value_type.is_point_deletion();
            if !superseded {
                return Step::EndWait;
            }
            self.waiting = None;
        }
        let each = mutant!(filter_asked_about_older_versions);
        if self.filters && (is_newest || each) {
            return Step::Filter;
        }
        self.keep_or_drop(value_type, false, nothing_below)
    }

    /// Decides about the last version, which a filter has left with this type. `is_changed`: it
    /// did something to the version.
    pub(crate) fn filtered(
        &mut self,
        value_type: ValueType,
        is_changed: bool,
        nothing_below: impl FnOnce() -> bool,
    ) -> Step {
        self.keep_or_drop(value_type, is_changed, nothing_below)
    }

    /// Decides about the last version, which is not shadowed.
    #[inline]
    fn keep_or_drop(
        &mut self,
        value_type: ValueType,
        is_filtered: bool,
        nothing_below: impl FnOnce() -> bool,
    ) -> Step {
        let version = self.last;
        match value_type {
            ValueType::SingleDeletion => {
                let forgotten = mutant!(single_deletion_leaves_no_evidence);
                let is_evidence = version.is_newest && !self.seen_by_all(version.sequence);
                if !is_evidence || forgotten {
                    self.waiting = Some(version);
                    return Step::Wait;
                }
                self.hides = Hides::AllIn(version.stripe);
            }
            ValueType::Deletion => {
                self.hides = Hides::AllIn(version.stripe);
                if self.needs_no_deletion(version.sequence, is_filtered, nothing_below) {
                    return Step::Drop;
                }
            }
            ValueType::Merge if self.combines => return Step::Combine,
            ValueType::Merge => {}
            _ => self.hides = Hides::ValuesIn(version.stripe),
        }
        Step::Keep
    }

    /// Whether a single deletion waits.
    #[inline]
    pub(crate) fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Ends the wait of a single deletion that has not met its value. Returns whether it survives;
    /// `false` also if none waits.
    pub(crate) fn end_wait(&mut self, nothing_below: impl FnOnce() -> bool) -> bool {
        let too_early = mutant!(single_deletion_dropped_too_early);
        self.waiting.take().is_some_and(|waiting| {
            !self.seen_by_all(waiting.sequence) || !(too_early || nothing_below())
        })
    }

    /// The part of the next older version in the run of operands that began with [`Step::Combine`].
    /// `covered` is as for [`Survival::see`].
    pub(crate) fn follow(
        &self,
        sequence: SequenceNumber,
        value_type: ValueType,
        covered: impl FnOnce(SequenceNumber) -> bool,
    ) -> Follows {
        let stripe = self.last.stripe;
        let across = mutant!(operands_combined_across_a_snapshot);
        if self.stripe(sequence) != stripe && !across {
            return Follows::Unknown;
        }
        let overlooked = mutant!(operands_combined_over_a_range_deletion);
        if covered(stripe) && !overlooked {
            return Follows::Nothing;
        }
        match value_type {
            ValueType::Merge => Follows::Operand,
            ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity => Follows::Base,
            ValueType::Deletion | ValueType::SingleDeletion => Follows::Nothing,
            ValueType::RangeDeletion => Follows::Unknown,
        }
    }

    /// The run has become a value. Returns whether a filter is to be asked about it.
    pub(crate) fn combined(&mut self) -> bool {
        self.hides = Hides::ValuesIn(self.last.stripe);
        let unasked = mutant!(filter_not_asked_about_merged);
        self.filters && self.last.is_newest && !unasked
    }

    /// The newest sequence number that is seen by exactly the snapshots that see `sequence`.
    #[inline]
    fn stripe(&self, sequence: SequenceNumber) -> SequenceNumber {
        let too_many = u64::from(mutant!(stripe_off_by_one));
        let end = sequence.plus(too_many);
        let at = self.snapshots.partition_point(|s| *s < end);
        self.snapshots
            .get(at)
            .copied()
            .unwrap_or(SequenceNumber::MAX)
    }

    /// Whether every snapshot sees the version.
    fn seen_by_all(&self, sequence: SequenceNumber) -> bool {
        let too_many = u64::from(mutant!(oldest_snapshot_off_by_one));
        self.snapshots
            .first()
            .is_none_or(|oldest| sequence <= oldest.plus(too_many))
    }

    /// Whether a newer version shadows the last one.
    #[inline]
    fn is_shadowed(&self, value_type: ValueType) -> bool {
        match self.hides {
            Hides::Nothing => false,
            Hides::AllIn(stripe) => stripe == self.last.stripe,
            Hides::ValuesIn(stripe) => {
                let all = mutant!(single_deletion_shadowed_by_a_value);
                stripe == self.last.stripe && (all || value_type != ValueType::SingleDeletion)
            }
        }
    }

    /// Whether the last version is the value that the single deletion deletes which waits.
    #[inline]
    fn meets_waiting(&self, value_type: ValueType) -> bool {
        let Some(waiting) = &self.waiting else {
            return false;
        };
        let is_value = matches!(
            value_type,
            ValueType::Value | ValueType::BlobIndex | ValueType::WideColumnEntity
        );
        let across = mutant!(single_deletion_meets_across_a_snapshot);
        is_value && (waiting.stripe == self.last.stripe || across)
    }

    /// Whether a deletion is dropped: it shadows nothing, and is no evidence.
    fn needs_no_deletion(
        &self,
        sequence: SequenceNumber,
        is_by_filter: bool,
        nothing_below: impl FnOnce() -> bool,
    ) -> bool {
        let too_early = mutant!(tombstone_dropped_too_early);
        let no_trace = is_by_filter && mutant!(removal_leaves_no_evidence);
        (self.seen_by_all(sequence) || no_trace) && (too_early || nothing_below())
    }
}

#[cfg(test)]
mod tests;
