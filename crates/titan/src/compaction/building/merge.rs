//! Walks a sorted input and stops at the entries that survive.
//!
//! [`survival`](super::survival) decides which entries survive, one version after the other. This
//! reads the versions, obeys the decisions (asks the filter, combines operands), and counts the
//! pointers into blob files that it reads.

use std::collections::VecDeque;

use bytes::Bytes;

use super::combine::{Below, Combined, Combiner, Entry, Run};
use super::filter::{Effect, FilterCounts, JobFilter};
use super::older_versions::OlderVersions;
use super::references::ReferenceCounts;
use super::survival::{Follows, Step, Survival};
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{ParsedInternalKey, ValueType, append_internal_key, user_key};
use crate::format::pointers::may_point;
use crate::iterator::InternalIterator;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};

/// Where the current entry of the merge is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    Nowhere,
    OnInput,
    /// On a single deletion that has waited in vain.
    OnWaiting,
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
        let later = u64::from(mutant!(changed_value_is_newer));
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
    /// The sequence number and the type of the input's entry.
    version: Option<(SequenceNumber, ValueType)>,
    older: B,
    newest: SequenceNumber,
    tombstones: TombstoneCursor,
    rule: Survival,
    user_key: Vec<u8>,
    has_key: bool,
    /// The internal key of the single deletion that waits, or waited last.
    waiting: Vec<u8>,
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
            version: None,
            older,
            newest,
            tombstones,
            rule: Survival::new(snapshots, combiner.is_some(), filter.is_some()),
            user_key: Vec::new(),
            has_key: false,
            waiting: Vec::new(),
            position: Position::Nowhere,
            references: ReferenceCounts::default(),
            combiner,
            combined: VecDeque::new(),
            combined_blob_bytes: 0,
            filter,
            filtered: FilteredEntry::default(),
        };
        this.read_version()?;
        this.find_next()?;
        Ok(this)
    }

    pub(crate) fn valid(&self) -> bool {
        self.position != Position::Nowhere
    }

    pub(crate) fn key(&self) -> &[u8] {
        match self.position {
            Position::OnInput => self.input.key(),
            Position::OnWaiting => &self.waiting,
            Position::OnCombined => self.combined.front().map_or(&[], |(key, _)| key),
            Position::OnFiltered => &self.filtered.key,
            Position::Nowhere => &[],
        }
    }

    pub(crate) fn value(&self) -> &[u8] {
        match self.position {
            Position::OnInput => self.input.value(),
            Position::OnCombined => self.combined.front().map_or(&[], |(_, value)| value),
            Position::OnFiltered => &self.filtered.value,
            Position::OnWaiting | Position::Nowhere => &[],
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
            Position::OnWaiting => {}
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
        self.read_version()
    }

    /// Reads the version at the position of the input, and counts its pointers.
    fn read_version(&mut self) -> Result<()> {
        self.version = None;
        if self.input.valid() {
            let parsed = ParsedInternalKey::parse(self.input.key())?;
            if may_point(parsed.value_type) {
                self.references.add(&parsed, self.input.value())?;
            }
            self.version = Some((parsed.sequence, parsed.value_type));
        }
        Ok(())
    }

    /// Goes forward from the position of the input to the next survivor.
    fn find_next(&mut self) -> Result<()> {
        loop {
            self.position = Position::Nowhere;
            if !self.combined.is_empty() {
                self.position = Position::OnCombined;
                return Ok(());
            }
            let Some((sequence, value_type)) = self.version else {
                self.end_wait();
                return Ok(());
            };
            if sequence > self.newest {
                self.advance()?;
                continue;
            }
            let key = user_key(self.input.key());
            if !self.has_key || key != self.user_key {
                if self.rule.is_waiting() {
                    if self.end_wait() {
                        return Ok(());
                    }
                    continue;
                }
                self.user_key.clear();
                self.user_key.extend_from_slice(key);
                self.has_key = true;
                self.rule.begin_key();
            }
            let (key, tombstones, older) = (&*self.user_key, &mut self.tombstones, &mut self.older);
            let step = self.rule.see(
                sequence,
                value_type,
                |stripe| tombstones.covering_in_stripe(key, sequence, stripe),
                || older.nothing_at(key),
            );
            self.position = Position::OnInput;
            let step = match step {
                Step::Filter => self.ask_filter(sequence, value_type)?,
                step => step,
            };
            match step {
                Step::Keep | Step::Filter => return Ok(()),
                Step::Drop => self.advance()?,
                Step::Wait => {
                    self.waiting.clear();
                    self.waiting.extend_from_slice(self.input.key());
                    self.advance()?;
                }
                Step::EndWait => {
                    if self.end_wait() {
                        return Ok(());
                    }
                }
                Step::Combine => self.combine_operands(sequence)?,
            }
        }
    }

    /// Ends the wait of a single deletion. Stops at it and returns `true` if it survives.
    fn end_wait(&mut self) -> bool {
        let (key, older) = (user_key(&self.waiting), &mut self.older);
        let survives = self.rule.end_wait(|| older.nothing_at(key));
        if survives {
            self.position = Position::OnWaiting;
        }
        survives
    }

    /// Asks the filter about the input's entry, and stands on the entry that the filter left.
    fn ask_filter(&mut self, sequence: SequenceNumber, value_type: ValueType) -> Result<Step> {
        let mut left = None;
        if let Some(filter) = &mut self.filter {
            let value = self.input.value();
            let effect = filter.decide(&self.user_key, sequence, value_type, value)?;
            left = self.filtered.set(effect, &self.user_key, sequence);
        }
        if left.is_some() {
            self.position = Position::OnFiltered;
        }
        let (key, older) = (&*self.user_key, &mut self.older);
        let value_type = left.unwrap_or(value_type);
        let below = || older.nothing_at(key);
        Ok(self.rule.filtered(value_type, left.is_some(), below))
    }

    /// From the newest operand of a run, goes on to the version below the run and combines it.
    #[cold]
    fn combine_operands(&mut self, newest: SequenceNumber) -> Result<()> {
        let mut run = Run::default();
        run.push(newest, self.input.value());
        self.advance()?;
        let below = self.find_below(&mut run)?;
        let Some(combiner) = &self.combiner else {
            return Ok(());
        };
        let Combined { entries, is_value } = combiner.combine(&self.user_key, &run, &below)?;
        self.combined.extend(entries);
        if !is_value {
            return Ok(());
        }
        if let Some(base) = below.pointer()? {
            let bytes = base.record_len(self.user_key.len());
            self.combined_blob_bytes = self.combined_blob_bytes.saturating_add(bytes);
        }
        match self.rule.combined() {
            true => self.filter_combined(newest),
            false => Ok(()),
        }
    }

    /// Adds the operands of a run that follow its newest one, and finds the version below them.
    fn find_below(&mut self, run: &mut Run) -> Result<Below> {
        loop {
            let same_key = |_: &_| user_key(self.input.key()) == self.user_key;
            let Some((sequence, value_type)) = self.version.filter(same_key) else {
                let too_early = mutant!(operands_without_their_base);
                return Ok(match too_early || self.older.nothing_at(&self.user_key) {
                    true => Below::Nothing,
                    false => Below::Unknown,
                });
            };
            let (key, tombstones) = (&self.user_key, &mut self.tombstones);
            let covered = |stripe| tombstones.covering_in_stripe(key, sequence, stripe);
            let value = self.input.value();
            match (self.rule.follow(sequence, value_type, covered), value_type) {
                (Follows::Operand, _) => run.push(sequence, value),
                (Follows::Base, ValueType::BlobIndex) => {
                    return Ok(Below::Pointer(BlobIndex::decode(value)?));
                }
                (Follows::Base, ValueType::WideColumnEntity) => {
                    return Ok(Below::Entity(Bytes::copy_from_slice(value)));
                }
                (Follows::Base, _) => return Ok(Below::Inline(Bytes::copy_from_slice(value))),
                (Follows::Nothing, _) => return Ok(Below::Nothing),
                (Follows::Unknown, _) => return Ok(Below::Unknown),
            }
            self.advance()?;
        }
    }

    /// Asks the filter about the value that operands became.
    fn filter_combined(&mut self, sequence: SequenceNumber) -> Result<()> {
        let (Some(filter), Some((key, value))) = (&mut self.filter, self.combined.front()) else {
            return Ok(());
        };
        let value_type = ParsedInternalKey::parse(key)?.value_type;
        let effect = filter.decide(&self.user_key, sequence, value_type, value)?;
        let Some(value_type) = self.filtered.set(effect, &self.user_key, sequence) else {
            return Ok(());
        };
        self.combined.clear();
        let (key, older) = (&*self.user_key, &mut self.older);
        let below = || older.nothing_at(key);
        if self.rule.filtered(value_type, true, below) != Step::Drop {
            let FilteredEntry { key, value } = std::mem::take(&mut self.filtered);
            self.combined.push_back((key, value));
        }
        Ok(())
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
