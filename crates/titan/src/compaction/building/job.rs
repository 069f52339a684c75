//! Runs a compaction.

use std::sync::Arc;

use super::combine::Combiner;
use super::filter::{FilterCounts, FilteredJob, Filtering, JobFilter};
use super::grandparents::Grandparents;
use super::inlining::Inliner;
use super::inputs::Compaction;
use super::job_env::{JobEnv, OutputFamily};
use super::job_output::JobOutput;
use super::merge::{SurvivorIterator, surviving_tombstones};
use super::older_versions::{LevelsBelow, OlderVersions};
use super::output::OutputWriter;
use super::shadows::OlderTables;
use super::shadows::outputs::hand_on;
use crate::error::{Error, ErrorKind, Result};
use crate::format::sequence_times::SequenceTimes;
use crate::format::{SequenceNumber, total};
use crate::iterator::InternalIterator;
use crate::iterator::merging::MergingIterator;
use crate::open_files::{Holder, OpenFiles};
use crate::range_del::{FragmentedTombstones, TombstoneCursor};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::table::TableIterOptions;
use crate::version::TableFile;
use crate::version::edit::{BlobFileGarbage, VersionEdit};
use crate::version::state::level_iterator::{LevelIterator, open_table_iter};
use crate::version::state::tombstones::table_tombstones;

/// The readahead of a compaction in the tables that it reads, in bytes.
const READAHEAD: usize = 2 << 20;

/// Entries between two points at which a compaction may yield to reads.
const YIELD_EVERY: u64 = 32;

/// A compaction that has run: the edit that installs it, and its output.
pub(crate) struct CompactionResult {
    pub(crate) edit: VersionEdit,
    pub(crate) output: JobOutput,
    pub(crate) bytes_read: u64,
    pub(crate) trivial_move: bool,
}

/// Environment of a job.
pub(crate) struct JobContext<'a> {
    pub(crate) env: &'a JobEnv,
    pub(crate) family: &'a OutputFamily,
    pub(crate) open_files: &'a Arc<OpenFiles>,
    /// Sequence numbers of the live snapshots, ascending.
    pub(crate) snapshots: Vec<SequenceNumber>,
    /// Set when the database closes: the job stops.
    pub(crate) cancel: &'a AtomicBool,
    /// Called every few entries: the job may sleep here to yield to reads.
    pub(crate) yield_to_reads: &'a dyn Fn(),
    /// Filtering by the job, if it may.
    pub(crate) filtering: Option<&'a Filtering>,
}

impl JobContext<'_> {
    /// Yields to reads, unless the job is to stop.
    fn pause(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::Closed,
                "the compaction was cancelled",
            ));
        }
        (self.yield_to_reads)();
        Ok(())
    }
}

/// Runs a compaction. Nothing is installed; on an error every file written is removed.
pub(crate) fn run(compaction: &Compaction, context: JobContext<'_>) -> Result<CompactionResult> {
    let mut edit = VersionEdit {
        column_family: context.family.id,
        deleted_files: compaction.input_numbers(),
        ..VersionEdit::default()
    };
    if compaction.is_trivial_move() {
        return Ok(moved(compaction, edit));
    }
    let comparator = &context.family.comparator;
    let tombstones = input_tombstones(compaction, &context)?;
    let newest = SequenceNumber::MAX;
    let cursor = TombstoneCursor::new(Arc::clone(&tombstones), comparator.clone(), newest);
    let older = LevelsBelow::new(Arc::clone(&compaction.version), compaction.output_level);
    let surviving = surviving_tombstones(&tombstones, &context.snapshots, &older);
    let input = input_iterator(compaction, &context)?;
    let times = input_times(compaction, &context)?;
    let pause = || context.pause();
    let filter = job_filter(compaction, &context, times.as_ref(), &older, &pause)?;
    let operator = context.family.options.merge_operator.as_ref();
    let combiner = Combiner::new(operator, &compaction.version, context.open_files);
    let snapshots = context.snapshots.clone();
    let mut survivors =
        SurvivorIterator::new(input, older, newest, snapshots, cursor, combiner, filter)?;
    let mut writer = OutputWriter::cut(
        context.env.clone(),
        context.family.clone(),
        surviving,
        Grandparents::new(&compaction.version, compaction.output_level),
    )
    .overlapping_at_most(compaction.max_overlap)
    .recording(times.clone())
    .after_dropping_garbage(context.filtering.map(|f| f.garbage_moment));
    let Written {
        mut output,
        garbage,
        unshadowed,
    } = match write(compaction, &context, &mut survivors, &mut writer) {
        Ok(written) => written,
        Err(e) => {
            context.env.discard(&writer.created());
            return Err(e);
        }
    };
    let still_shadowed = still_shadowed(compaction, &context, &garbage, unshadowed);
    let older = OlderTables {
        version: &compaction.version,
        open_files: context.open_files,
    };
    hand_on(
        still_shadowed,
        compaction,
        older,
        writer.tombstones(),
        &mut output.tables,
    );
    let now = context.env.unix_seconds();
    output.add_to(&mut edit, compaction.output_level, now);
    invariant!(
        edit.new_files
            .iter()
            .all(|(level, _)| *level == compaction.output_level),
        "a compaction writes to another level than {}",
        compaction.output_level
    );
    invariant!(
        !edit
            .new_files
            .iter()
            .any(|(_, file)| edit.deleted_files.iter().any(|(_, n)| *n == file.number)),
        "a compaction writes a table that it deletes"
    );
    edit.blob_garbage = garbage;
    let bytes_read = compaction.all_inputs().map(|(_, f)| f.size()).sum();
    Ok(CompactionResult {
        edit,
        output,
        bytes_read,
        trivial_move: false,
    })
}

/// The result of a compaction that only moves its inputs to the output level.
fn moved(compaction: &Compaction, mut edit: VersionEdit) -> CompactionResult {
    let moved = |file: &Arc<TableFile>| (compaction.output_level, file.meta.clone());
    edit.new_files.extend(compaction.inputs.iter().map(moved));
    CompactionResult {
        edit,
        output: JobOutput {
            tables: Vec::new(),
            blob_files: Vec::new(),
            filtered: FilterCounts::default(),
            collector_failures: Vec::new(),
        },
        bytes_read: 0,
        trivial_move: true,
    }
}

/// The compaction filter of the job, if there is one.
fn job_filter<'a>(
    compaction: &'a Compaction,
    context: &'a JobContext<'a>,
    times: Option<&'a Arc<SequenceTimes>>,
    older: &LevelsBelow,
    pause: &'a dyn Fn() -> Result<()>,
) -> Result<Option<JobFilter<'a>>> {
    let Some(filtering) = context.filtering else {
        return Ok(None);
    };
    let job = FilteredJob {
        family: context.family,
        level: compaction.output_level,
        is_bottommost: compaction.is_bottommost(),
        snapshots: &context.snapshots,
        version: &compaction.version,
        open_files: context.open_files,
        times,
        pause,
    };
    JobFilter::create(filtering, &job, older)
}

/// The survivors of a compaction, on disk.
struct Written {
    output: JobOutput,
    /// The blob records to which the inputs pointed and the output does not.
    garbage: Vec<BlobFileGarbage>,
    /// The bytes of those that no newer version shadowed.
    unshadowed: u64,
}

/// Writes the survivors.
fn write<I: InternalIterator, B: OlderVersions>(
    compaction: &Compaction,
    context: &JobContext<'_>,
    survivors: &mut SurvivorIterator<'_, I, B>,
    writer: &mut OutputWriter,
) -> Result<Written> {
    let options = &context.family.options;
    let mut inliner = Inliner::new(options, &compaction.version, context.open_files);
    let mut entries = 0_u64;
    while survivors.valid() {
        if entries.is_multiple_of(YIELD_EVERY) {
            context.pause()?;
        }
        entries += 1;
        let (key, value) = (survivors.key(), survivors.value());
        match &mut inliner {
            Some(inliner) => inliner.add(key, value, writer)?,
            None => writer.add(key, value)?,
        }
        survivors.next()?;
    }
    let mut unshadowed = survivors.dropped_unshadowed();
    if let Some(inliner) = &mut inliner {
        inliner.write(writer)?;
        unshadowed = unshadowed.saturating_add(inliner.brought_back());
    }
    let read = survivors.read_references();
    for (_, file) in compaction.all_inputs() {
        file.require_pointer(|oldest| read.has(oldest))?;
    }
    let mut output = writer.finish()?;
    let mut garbage = read.garbage(writer.carried_on())?;
    output.filtered = survivors.filter_counts();
    if output.filtered.removed > 0 && mutant!(filtered_not_booked) {
        garbage.clear();
    }
    Ok(Written {
        output,
        garbage,
        unshadowed,
    })
}

/// The bytes that the inputs shadowed and the compaction did not drop: they are at lower levels, if
/// there is anything, or snapshots see them. `found` has the records that the compaction dropped,
/// `unshadowed` the bytes of those that nothing shadowed.
fn still_shadowed(
    compaction: &Compaction,
    context: &JobContext<'_>,
    found: &[BlobFileGarbage],
    unshadowed: u64,
) -> u64 {
    let version = &compaction.version;
    let deepest = (compaction.output_level + 1..version.num_levels())
        .all(|level| version.level(level).is_empty());
    let oldest = context.snapshots.first().copied();
    let newest = compaction
        .all_inputs()
        .map(|(_, f)| f.meta.largest_seq)
        .max();
    if deepest && (oldest.is_none() || oldest >= newest) {
        return 0;
    }
    let shadowed = total(compaction.all_inputs().map(|(_, f)| f.shadowed_bytes()));
    let found = total(found.iter().map(|garbage| garbage.bytes));
    shadowed.saturating_sub(found.saturating_sub(unshadowed))
}

/// When the entries of the inputs had been written, as far as it is recorded.
fn input_times(
    compaction: &Compaction,
    context: &JobContext<'_>,
) -> Result<Option<Arc<SequenceTimes>>> {
    let filtering = context.filtering.filter(|f| f.revisit.is_some());
    let Some(filtering) = filtering else {
        return Ok(None);
    };
    let comparator = &context.family.comparator;
    let mut pairs = Vec::new();
    // When each table with such entries was written, if it is known.
    let mut zero = Vec::new();
    for (_, file) in compaction.all_inputs() {
        let table = context.open_files.table(file.meta.identity(), comparator)?;
        if let Some(times) = table.properties().sequence_times() {
            pairs.extend(times.pairs());
        }
        // The entries of a table were written before the table.
        let made = file.meta.file_creation_time;
        if file.meta.smallest_seq == SequenceNumber::ZERO {
            zero.push((made > 0).then_some(made.saturating_add(1)));
        }
        if made > 0 {
            pairs.push((file.meta.largest_seq, made.saturating_add(1)));
        }
    }
    let zero: Option<Vec<u64>> = zero.into_iter().collect();
    let latest = zero.and_then(|times| times.into_iter().max());
    Ok(filtering.times(pairs, latest))
}

fn input_iterator(compaction: &Compaction, context: &JobContext<'_>) -> Result<MergingIterator> {
    let options = TableIterOptions {
        fill_cache: false,
        readahead: READAHEAD,
    };
    let comparator = &context.family.comparator;
    let mut children: Vec<Box<dyn InternalIterator>> = Vec::new();
    let level = |files: &Vec<_>| {
        LevelIterator::new(
            files.as_slice().into(),
            Arc::clone(context.open_files),
            comparator.clone(),
            options,
            Holder::Engine,
        )
    };
    if compaction.start_level == 0 {
        for file in &compaction.inputs {
            children.push(Box::new(open_table_iter(
                context.open_files,
                file,
                comparator,
                options,
                Holder::Engine,
            )?));
        }
    } else {
        children.push(Box::new(level(&compaction.inputs)));
    }
    if !compaction.output_level_inputs.is_empty() {
        children.push(Box::new(level(&compaction.output_level_inputs)));
    }
    Ok(MergingIterator::new(children, comparator.clone()))
}

fn input_tombstones(
    compaction: &Compaction,
    context: &JobContext<'_>,
) -> Result<Arc<FragmentedTombstones>> {
    let comparator = &context.family.comparator;
    let mut all = Vec::new();
    for (_, file) in compaction.all_inputs() {
        let tombstones = table_tombstones(context.open_files, file, comparator)?;
        all.extend(tombstones.iter_tombstones());
    }
    Ok(Arc::new(FragmentedTombstones::build(all, comparator)))
}
