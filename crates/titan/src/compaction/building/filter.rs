//! Runs the compaction filter of a family in one job.
//!
//! Promises that a filter that fails or panics costs an error of the kind `CompactionFilter` and
//! nothing else. Assumes that the job discards its output when it gets that error.
//! [`merge`](super::merge) says what a decision means for entries: a removed value becomes a
//! deletion with the same sequence number.

use std::sync::Arc;
use std::time::Duration;

use super::job_env::OutputFamily;
use crate::blob::ValueFetcher;
use crate::error::{Error, ErrorKind, Result};
use crate::filter::{
    self, CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry,
    FilterReason, KeysBelow, Revisit, StoredValue,
};
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::entity::{ColumnValue, default_value, with_default_value};
use crate::format::internal_key::{InternalKeyComparator, ValueType, is_storable};
use crate::format::key_text::KeyText;
use crate::format::pointers::referenced_bytes;
use crate::format::sequence_times::{SequenceTime, SequenceTimes};
use crate::lazy_value::ValueSource;
use crate::open_files::OpenFiles;
use crate::panics::{self, name_of};
use crate::stats::Statistics;
use crate::version::{StoredValues, Version};

/// Recorded times are so many to the age after which tables are revisited.
const TIMES_PER_AGE: u64 = 64;

/// Entries that a filter drops between two points at which its job may yield to reads.
const PAUSE_EVERY: u64 = 32;

/// Filtering by a job.
#[derive(Clone)]
pub(crate) struct Filtering {
    pub(crate) reason: FilterReason,
    /// See [`FilterContext::now`].
    pub(crate) now: Duration,
    /// Answer of the factory.
    pub(crate) revisit: Option<Revisit>,
    /// Whether the job asks the filter. Not if it has failed in the same job already.
    pub(crate) asks: bool,
    /// The moment up to which the job can drop data that collectors report as garbage.
    pub(crate) garbage_moment: u64,
    /// When recent entries had been written, for a flush.
    pub(crate) recent: Vec<SequenceTime>,
}

/// The seconds between two recorded times of writes.
pub(crate) fn spacing(revisit: Revisit) -> u64 {
    (revisit.age.as_secs() / TIMES_PER_AGE).max(1)
}

impl Filtering {
    /// The times of writes from these pairs and those of the flush, if they are recorded.
    /// `zero` is that of entries with the sequence number zero.
    pub(crate) fn times(
        &self,
        mut pairs: Vec<SequenceTime>,
        zero: Option<u64>,
    ) -> Option<Arc<SequenceTimes>> {
        let spacing = spacing(self.revisit?);
        pairs.extend(&self.recent);
        let times = SequenceTimes::of(pairs).thinned(spacing);
        Some(Arc::new(times.with_zero(zero)))
    }
}

/// Counts of a filter's decisions in a job.
#[derive(Clone, Copy, Default)]
pub(crate) struct FilterCounts {
    /// Entries about which it was asked.
    pub(crate) asked: u64,
    pub(crate) removed: u64,
    pub(crate) changed: u64,
    /// Entries that were removed without asking.
    pub(crate) skipped: u64,
    /// Bytes of the blob records to which dropped and changed entries pointed.
    pub(crate) dropped_blob_bytes: u64,
    pub(crate) blob_reads: u64,
    pub(crate) blob_read_bytes: u64,
}

/// Decides on an entry.
pub(crate) enum Effect {
    Keep,
    Remove,
    /// The entry has this type and value.
    Change(ValueType, Vec<u8>),
}

/// The job that a filter is made for.
pub(crate) struct FilteredJob<'a> {
    pub(crate) family: &'a OutputFamily,
    pub(crate) level: usize,
    pub(crate) is_bottommost: bool,
    pub(crate) snapshots: &'a [SequenceNumber],
    /// The version that has the values to which entries point.
    pub(crate) version: &'a Arc<Version>,
    pub(crate) open_files: &'a Arc<OpenFiles>,
    pub(crate) times: Option<&'a Arc<SequenceTimes>>,
    /// Called now and then while entries are dropped.
    pub(crate) pause: &'a dyn Fn() -> Result<()>,
}

/// See the module.
pub(crate) struct JobFilter<'a> {
    /// None while this is dropped.
    filter: Option<Box<dyn CompactionFilter>>,
    name: String,
    family: &'a OutputFamily,
    comparator: InternalKeyComparator,
    times: Option<&'a Arc<SequenceTimes>>,
    source: Arc<dyn ValueSource>,
    /// Of the filter alone: it counts the values that the filter fetches.
    statistics: Arc<Statistics>,
    pause: &'a dyn Fn() -> Result<()>,
    /// Keys before this one are removed without asking.
    skip_until: Option<Vec<u8>>,
    counts: FilterCounts,
}

impl<'a> JobFilter<'a> {
    /// The filter of the family for a job; `None` if it has none, or none for this job.
    ///
    /// # Errors
    /// `CompactionFilter` if the factory panics.
    pub(crate) fn create(
        filtering: &Filtering,
        job: &FilteredJob<'a>,
        below: &dyn KeysBelow,
    ) -> Result<Option<Self>> {
        let factory = job.family.options.compaction_filter.as_deref();
        let Some(factory) = factory.filter(|_| filtering.asks) else {
            return Ok(None);
        };
        let Some(filter) = make(factory, filtering, job, below)? else {
            return Ok(None);
        };
        let statistics = Arc::new(Statistics::default());
        let readers = Arc::clone(job.open_files) as Arc<_>;
        let fetcher = ValueFetcher::new(readers, Arc::clone(&statistics));
        Ok(Some(JobFilter {
            filter: Some(filter),
            name: name_of(|| factory.name()),
            family: job.family,
            comparator: job.family.comparator.clone(),
            times: job.times,
            source: StoredValues::of(job.version, &fetcher),
            statistics,
            pause: job.pause,
            skip_until: None,
            counts: FilterCounts::default(),
        }))
    }

    /// Decides about the newest version of a key.
    ///
    /// # Errors
    /// `CompactionFilter` if the filter fails or panics; `Corruption`; those of the pause.
    pub(crate) fn decide(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        value_type: ValueType,
        value: &[u8],
    ) -> Result<Effect> {
        let tombstones = mutant!(filter_asked_about_tombstones);
        if value_type.is_point_deletion() && !tombstones {
            return Ok(Effect::Keep);
        }
        let stored = match value_type {
            ValueType::BlobIndex => Some(StoredValue::Blob(BlobIndex::decode(value)?)),
            // Damage to an entity is its readers' concern.
            ValueType::WideColumnEntity => default_value(value).ok().map(|value| match value {
                ColumnValue::Inline(value) => StoredValue::Inline(value),
                ColumnValue::Pointer(index) => StoredValue::Blob(index),
            }),
            ValueType::Merge => None,
            _ => Some(StoredValue::Inline(value)),
        };
        let effect = if self.skips(key) {
            self.counts.skipped += 1;
            Effect::Remove
        } else if let Some(stored) = stored {
            match self.ask(key, sequence, stored)? {
                Effect::Change(_, default) if value_type == ValueType::WideColumnEntity => {
                    let entity = with_default_value(value, &default)?;
                    self.require_storable(key, &entity)?;
                    Effect::Change(value_type, entity)
                }
                effect => effect,
            }
        } else {
            Effect::Keep
        };
        let dropped = match (&effect, stored) {
            (Effect::Remove, _) => referenced_bytes(key, value_type, value)?,
            (Effect::Change(..), Some(StoredValue::Blob(index))) => index.record_len(key.len()),
            _ => 0,
        };
        let all = &mut self.counts.dropped_blob_bytes;
        *all = all.saturating_add(dropped);
        let counts = &self.counts;
        if matches!(effect, Effect::Remove)
            && (counts.removed + counts.skipped).is_multiple_of(PAUSE_EVERY)
        {
            (self.pause)()?;
        }
        Ok(effect)
    }

    /// Whether the key is before the one to which the filter has skipped.
    fn skips(&mut self, key: &[u8]) -> bool {
        let Some(until) = &self.skip_until else {
            return false;
        };
        let order = self.comparator.compare_user(key, until);
        let too_far = order.is_eq() && mutant!(skips_one_key_too_far);
        if order.is_lt() || too_far {
            return true;
        }
        self.skip_until = None;
        false
    }

    fn ask(
        &mut self,
        key: &[u8],
        sequence: SequenceNumber,
        stored: StoredValue<'_>,
    ) -> Result<Effect> {
        let written_by = self.times.and_then(|times| times.written_by(sequence));
        let entry = FilterEntry {
            key,
            sequence,
            stored,
            written_by: written_by.map(Duration::from_secs),
            source: &self.source,
        };
        let Some(filter) = &mut self.filter else {
            return Err(Error::internal("a filter that is gone is asked"));
        };
        let decision = match filter::run(|| filter.filter(&entry)) {
            Ok(Ok(decision)) => decision,
            Ok(Err(e)) => return Err(self.failed("failed", key).with_source(e)),
            Err(panicked) => return Err(self.failed(&panicked.to_string(), key)),
        };
        let counts = &mut self.counts;
        counts.asked += 1;
        Ok(match decision {
            Decision::Keep => Effect::Keep,
            Decision::Remove => {
                counts.removed += 1;
                Effect::Remove
            }
            Decision::ChangeValue(value) => {
                counts.changed += 1;
                self.require_storable(key, &value)?;
                Effect::Change(ValueType::Value, value)
            }
            Decision::SkipUntil(until) if self.comparator.compare_user(key, &until).is_lt() => {
                counts.removed += 1;
                self.skip_until = Some(until);
                Effect::Remove
            }
            Decision::SkipUntil(_) => Effect::Keep,
        })
    }

    fn require_storable(&self, key: &[u8], value: &[u8]) -> Result<()> {
        if is_storable(key, value) {
            return Ok(());
        }
        let doing = format!("made a value of {} bytes, which is too large", value.len());
        Err(self.failed(&doing, key))
    }

    fn failed(&self, doing: &str, key: &[u8]) -> Error {
        let JobFilter { name, family, .. } = self;
        Error::new(
            ErrorKind::CompactionFilter,
            format!(
                "the compaction filter {name} of column family {} {doing}, at the key {}",
                family.name,
                KeyText(key)
            ),
        )
    }

    /// Counts of the filter's decisions so far.
    pub(crate) fn counts(&self) -> FilterCounts {
        FilterCounts {
            blob_reads: self.statistics.blob_reads(),
            blob_read_bytes: self.statistics.blob_read_bytes(),
            ..self.counts
        }
    }
}

impl Drop for JobFilter<'_> {
    /// A panic in the destructor of the application's filter changes nothing.
    fn drop(&mut self) {
        panics::end(self.filter.take());
    }
}

fn make(
    factory: &dyn CompactionFilterFactory,
    filtering: &Filtering,
    job: &FilteredJob<'_>,
    below: &dyn KeysBelow,
) -> Result<Option<Box<dyn CompactionFilter>>> {
    let context = FilterContext {
        level: job.level,
        reason: filtering.reason,
        column_family: job.family.id,
        column_family_name: &job.family.name,
        oldest_snapshot: job.snapshots.first().copied(),
        is_bottommost: job.is_bottommost,
        now: filtering.now,
        below,
    };
    let is_flush = filtering.reason == FilterReason::Flush;
    let create = || (!is_flush || factory.at_flush()).then(|| factory.create(&context));
    match filter::run(create) {
        Ok(filter) => Ok(filter.flatten()),
        Err(panicked) => Err(Error::new(
            ErrorKind::CompactionFilter,
            format!(
                "the factory of the compaction filter {} of column family {} {panicked}",
                name_of(|| factory.name()),
                job.family.name,
            ),
        )),
    }
}
