//! The entries of memtables that a flush writes, and writing them.

use std::sync::Arc;

use crate::compaction::building::combine::Combiner;
use crate::compaction::building::filter::{FilteredJob, Filtering, JobFilter};
use crate::compaction::building::job_env::{JobEnv, OutputFamily};
use crate::compaction::building::job_output::JobOutput;
use crate::compaction::building::merge::{SurvivorIterator, surviving_tombstones};
use crate::compaction::building::older_versions::UnknownOlderVersions;
use crate::compaction::building::output::OutputWriter;
use crate::compaction::building::shadows::{Effort, OlderTables, Shadows};
use crate::db::core::family::Family;
use crate::error::Result;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::sequence_times::SequenceTimes;
use crate::format::{SequenceNumber, total};
use crate::gc::space::flushed_blob_file_size;
use crate::iterator::InternalIterator;
use crate::iterator::merging::MergingIterator;
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::version::Version;

/// The entries that a flush writes of memtables: not the entries of failed commits.
struct Survivors<'a> {
    entries: SurvivorIterator<'a, MergingIterator, UnknownOlderVersions>,
    /// All range deletions.
    tombstones: Arc<FragmentedTombstones>,
}

impl<'a> Survivors<'a> {
    /// Of memtables, newest last.
    fn of(
        memtables: &[Arc<Memtable>],
        comparator: &InternalKeyComparator,
        snapshots: Vec<SequenceNumber>,
        combiner: Option<Combiner>,
        filter: Option<JobFilter<'a>>,
    ) -> Result<Self> {
        let accepted_to = memtables.iter().map(|m| m.accepted_to()).min();
        let accepted_to = accepted_to.unwrap_or(SequenceNumber::MAX);
        let tombstones = memtables
            .iter()
            .filter(|m| m.has_range_tombstones())
            .flat_map(|m| m.range_tombstones().iter_tombstones().collect::<Vec<_>>())
            .filter(|tombstone| tombstone.sequence <= accepted_to);
        let tombstones = Arc::new(FragmentedTombstones::build(tombstones, comparator));
        let newest = SequenceNumber::MAX;
        let cursor = TombstoneCursor::new(Arc::clone(&tombstones), comparator.clone(), newest);
        let children = memtables
            .iter()
            .rev()
            .map(|m| Box::new(m.iter()) as Box<dyn InternalIterator>)
            .collect();
        let merged = MergingIterator::new(children, comparator.clone());
        let entries = SurvivorIterator::new(
            merged,
            UnknownOlderVersions,
            accepted_to,
            snapshots,
            cursor,
            combiner,
            filter,
        )?;
        Ok(Survivors {
            entries,
            tombstones,
        })
    }
}

/// The compaction filter of a flush, to be made.
#[derive(Clone, Copy)]
pub(crate) struct FlushFilter<'a> {
    pub(super) filtering: &'a Filtering,
    pub(super) version: &'a Arc<Version>,
    pub(super) open_files: &'a Arc<OpenFiles>,
}

impl<'j> FlushFilter<'j> {
    /// Makes it.
    fn start(
        self,
        family: &'j OutputFamily,
        snapshots: &'j [SequenceNumber],
        times: Option<&'j Arc<SequenceTimes>>,
    ) -> Result<Option<JobFilter<'j>>> {
        let job = FilteredJob {
            family,
            level: 0,
            is_bottommost: false,
            snapshots,
            version: self.version,
            open_files: self.open_files,
            times,
            // The memtables take memory until they are flushed.
            pause: &|| Ok(()),
        };
        JobFilter::create(self.filtering, &job, &UnknownOlderVersions)
    }
}

/// Writes memtables, newest last, to one table and its blob files, all of it durable. On an error
/// every file written is removed: the memtables still have the data. Estimates and records the data
/// that the table shadows in `older` ones, if they are known. A flush that `filters` does so with
/// the values of the version that it is given.
pub(crate) fn write_memtables(
    memtables: &[Arc<Memtable>],
    env: &JobEnv,
    family: OutputFamily,
    snapshots: Vec<SequenceNumber>,
    older: Option<OlderTables<'_>>,
    filters: Option<FlushFilter<'_>>,
) -> Result<JobOutput> {
    let combiner = Combiner::of_inline_values(family.options.merge_operator.as_ref());
    let times = filters.and_then(|f| f.filtering.times(Vec::new(), None));
    let filtered_family = family.clone();
    let filter = match filters {
        Some(filters) => filters.start(&filtered_family, &snapshots, times.as_ref())?,
        None => None,
    };
    let survivors = Survivors::of(
        memtables,
        &family.comparator,
        snapshots.clone(),
        combiner,
        filter,
    )?;
    let Survivors {
        mut entries,
        tombstones,
    } = survivors;
    let min_blob_size = family.options.min_blob_size;
    let blob_file_size = older.as_ref().map(|older| {
        let live = older.version.blob_files.live_bytes();
        let flushed = total(memtables.iter().map(|m| m.approximate_memory_usage()));
        flushed_blob_file_size(live.saturating_add(flushed), &family.options)
    });
    let mut shadows = older
        .and_then(|older| Shadows::of(memtables, &tombstones, older, min_blob_size, Effort::FLUSH));
    let surviving = surviving_tombstones(&tombstones, &snapshots, &UnknownOlderVersions);
    let mut writer = OutputWriter::uncut(env.clone(), family, surviving)
        .recording(times.clone())
        .with_blob_file_size(blob_file_size);
    let written = (|| {
        while entries.valid() {
            writer.add(entries.key(), entries.value())?;
            if let Some(shadows) = &mut shadows {
                shadows.see(entries.key(), entries.value())?;
            }
            entries.next()?;
        }
        let mut output = writer.finish()?;
        output.filtered = entries.filter_counts();
        // A flush writes one.
        if let (Some(table), Some(shadows)) = (output.tables.first_mut(), &shadows) {
            table.shadowed_bytes = if mutant!(shadowed_data_of_a_flush_not_recorded) {
                0
            } else {
                shadows.bytes()
            };
        }
        Ok(output)
    })();
    written.inspect_err(|_| env.discard(&writer.created()))
}

/// An estimate of the bytes of separated values that memtables, newest last, shadow in older
/// tables. Cost: a walk through all entries, and a lookup for some of them.
pub(super) fn shadowed_by_memtables(
    memtables: &[Arc<Memtable>],
    family: &Family,
    older: OlderTables<'_>,
) -> Result<u64> {
    let survivors = Survivors::of(memtables, &family.comparator, Vec::new(), None, None)?;
    let Survivors {
        mut entries,
        tombstones,
    } = survivors;
    let min_blob_size = family.options().min_blob_size;
    let shadows = Shadows::of(
        memtables,
        &tombstones,
        older,
        min_blob_size,
        Effort::ESTIMATE,
    );
    let Some(mut shadows) = shadows else {
        return Ok(0);
    };
    while entries.valid() {
        shadows.see(entries.key(), entries.value())?;
        entries.next()?;
    }
    Ok(shadows.bytes())
}

/// Bytes of entries in files, each with the bytes that a table or a blob file adds to it, at most.
fn bytes_of(
    entries: &mut SurvivorIterator<'_, MergingIterator, UnknownOlderVersions>,
    separated_from: u64,
) -> Result<u64> {
    let mut bytes = 0;
    while entries.valid() {
        let (key, value) = (entries.key().len() as u64, entries.value().len() as u64);
        bytes += key + value + ENTRY_OVERHEAD;
        if value >= separated_from {
            // A value in a blob file has its key there, too, and a header.
            bytes += key + SEPARATED_OVERHEAD;
        }
        entries.next()?;
    }
    Ok(bytes)
}

/// The bytes that each entry takes in a table beside its key and its value: lengths, its
/// part of the filter and of the index.
const ENTRY_OVERHEAD: u64 = 8;

/// The bytes that each separated value takes beside that: a pointer, and the header of
/// its record.
const SEPARATED_OVERHEAD: u64 = 64;

/// The bytes that a flush of memtables, newest last, would write, before compression. Cost: a walk
/// through all entries.
pub(super) fn bytes_of_flush(
    family: &Family,
    memtables: &[Arc<Memtable>],
    snapshots: Vec<SequenceNumber>,
) -> Result<u64> {
    let mut survivors = Survivors::of(memtables, &family.comparator, snapshots, None, None)?;
    let ranges =
        total(
            survivors.tombstones.fragments().iter().map(|fragment| {
                (fragment.start.len() + fragment.end.len()) as u64 + ENTRY_OVERHEAD
            }),
        );
    let options = family.options();
    let separated_from = match options.enable_blob_files {
        true => options.min_blob_size,
        false => u64::MAX,
    };
    let entries = bytes_of(&mut survivors.entries, separated_from)?;
    Ok(entries.saturating_add(ranges))
}
