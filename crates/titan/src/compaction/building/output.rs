//! Writes the survivors of a flush or compaction: entries to tables of limited size, and large
//! values that were inline to blob files.

use std::sync::Arc;

use super::filter::FilterCounts;
use super::grandparents::Grandparents;
use super::job_env::{JobEnv, OutputFamily};
use super::job_output::{JobOutput, OutputTable};
use super::references::ReferenceCounts;
use crate::blob::{BlobSeparator, SeparatorOptions};
use crate::collector::{CollectorContext, Collectors};
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::internal_key::{ParsedInternalKey, ValueType, append_internal_key};
use crate::format::sequence_times::SequenceTimes;
use crate::format::{BlobFileNumber, FileNumber, SequenceNumber};
use crate::panics::contain;
use crate::range_del::{FragmentedTombstones, clip};
use crate::table::{TableFamily, TableWriter, TableWriterOptions};

/// A table is cut when it exceeds this many times an SST's target, together with the values to
/// which its keys point. Tables of pointers are far smaller than their data. If they could grow to
/// the full target, one would cover so many values that compacting a part of the data would mean
/// compacting all of it.
const LOGICAL_SIZE_FACTOR: u64 = 4;

/// A table overlapping more than this many times its own largest size one level further down is
/// cut, so that compacting it later stays cheap.
const MAX_GRANDPARENT_OVERLAP: u64 = 10;

/// Writes surviving entries in order.
pub struct OutputWriter {
    env: JobEnv,
    family: OutputFamily,
    /// None once finished.
    separator: Option<BlobSeparator>,
    tombstones: FragmentedTombstones,
    grandparents: Grandparents,
    /// Whether tables are cut; a flush writes one.
    cuts: bool,
    /// Bytes of its file at which a table is cut; with the values to which it points,
    /// [`LOGICAL_SIZE_FACTOR`] times as many.
    max_table_bytes: u64,
    /// Bytes of the level below that a table may overlap.
    max_overlap: u64,
    current: Option<(FileNumber, TableWriter)>,
    /// The user key at which the current table starts, if it is not the first table.
    lower: Option<Vec<u8>>,
    last_user_key: Vec<u8>,
    finished: Vec<OutputTable>,
    created: Vec<FileNumber>,
    /// Blob files created, once the separator is finished.
    created_blobs: Vec<BlobFileNumber>,
    carried_on: ReferenceCounts,
    /// See [`CollectedReport::seen`](crate::collector::CollectedReport::seen).
    seen_moment: Option<u64>,
    collector_failures: Vec<Error>,
    /// When entries had been written, if that is recorded.
    times: Option<Arc<SequenceTimes>>,
    /// A time by which the oldest value of the current table had been written.
    oldest_time: Option<u64>,
    /// Reused for entries whose value is separated.
    key: Vec<u8>,
    pointer: Vec<u8>,
}

impl OutputWriter {
    /// A writer of one table, however large: for flushes.
    pub fn uncut(env: JobEnv, family: OutputFamily, tombstones: FragmentedTombstones) -> Self {
        let mut this = Self::cut(env, family, tombstones, Grandparents::none());
        this.cuts = false;
        this
    }

    /// A writer that cuts tables: for compactions. `tombstones` are those that survive.
    pub fn cut(
        env: JobEnv,
        family: OutputFamily,
        tombstones: FragmentedTombstones,
        grandparents: Grandparents,
    ) -> Self {
        let options = SeparatorOptions {
            cf: family.id,
            enabled: family.options.enable_blob_files,
            min_blob_size: family.options.min_blob_size,
            blob_file_size: family.options.blob_file_size,
            compression: family.options.blob_compression_type,
            direct_io: env.direct_io,
        };
        let counters = Arc::clone(&env.counters);
        let allocate = Arc::new(move || BlobFileNumber(counters.new_file_number().0));
        let separator =
            BlobSeparator::new(Arc::clone(&env.vfs), env.dir.clone(), options, allocate);
        OutputWriter {
            cuts: true,
            max_table_bytes: family.options.target_file_size_base,
            max_overlap: max_overlap(family.options.target_file_size_base),
            seen_moment: None,
            env,
            family,
            separator: Some(separator),
            tombstones,
            grandparents,
            current: None,
            lower: None,
            last_user_key: Vec::new(),
            finished: Vec::new(),
            created: Vec::new(),
            created_blobs: Vec::new(),
            carried_on: ReferenceCounts::default(),
            collector_failures: Vec::new(),
            times: None,
            oldest_time: None,
            key: Vec::new(),
            pointer: Vec::new(),
        }
    }

    /// Records these times in the tables.
    pub(crate) fn recording(mut self, times: Option<Arc<SequenceTimes>>) -> Self {
        self.times = times;
        self
    }

    /// Cuts tables that would overlap more than so many bytes of the level below, if that is fewer
    /// than usual.
    pub(crate) fn overlapping_at_most(mut self, bytes: Option<u64>) -> Self {
        self.max_overlap = self.max_overlap.min(bytes.unwrap_or(u64::MAX));
        self
    }

    /// Starts a new blob file at so many bytes, where they are given, instead of those of the
    /// options. To be called before the first entry.
    pub(crate) fn with_blob_file_size(mut self, bytes: Option<u64>) -> Self {
        if let (Some(separator), Some(bytes)) = (&mut self.separator, bytes) {
            separator.set_blob_file_size(bytes);
        }
        self
    }

    /// The job could drop garbage up to this moment, if any. The rest of it is not waited for.
    pub(crate) fn after_dropping_garbage(mut self, moment: Option<u64>) -> Self {
        self.seen_moment = moment;
        self
    }

    /// Adds a survivor.
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let parsed = ParsedInternalKey::parse(ikey)?;
        let torn = mutant!(key_torn_over_files);
        if self.current.is_some()
            && (torn || parsed.user_key != self.last_user_key)
            && self.should_cut(parsed.user_key)
        {
            let upper = parsed.user_key.to_vec();
            if mutant!(range_deletion_cut_short) {
                let last = self.last_user_key.clone();
                self.finish_table(Some(&last))?;
            } else {
                self.finish_table(Some(&upper))?;
            }
            if !mutant!(range_deletion_not_cut) {
                self.lower = Some(upper);
            }
        }
        if self.current.is_none() {
            self.grandparents
                .start_at(parsed.user_key, &self.family.comparator);
        }
        if parsed.user_key != self.last_user_key {
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(parsed.user_key);
        }
        if let Some(times) = &self.times
            && !parsed.value_type.is_point_deletion()
            // Those of number zero are as old as this table, for the next job.
            && parsed.sequence > SequenceNumber::ZERO
            && let Some(time) = times.written_by(parsed.sequence)
        {
            self.oldest_time = Some(self.oldest_time.map_or(time, |oldest| oldest.min(time)));
        }
        match parsed.value_type {
            ValueType::Value if self.separates(value.len()) => {
                let index = self.separator()?.add(parsed.user_key, value)?;
                let (mut key, mut pointer) = (
                    std::mem::take(&mut self.key),
                    std::mem::take(&mut self.pointer),
                );
                key.clear();
                append_internal_key(
                    &mut key,
                    parsed.user_key,
                    parsed.sequence,
                    ValueType::BlobIndex as u8,
                );
                pointer.clear();
                index.encode(&mut pointer);
                let added = self.table()?.add(&key, &pointer);
                (self.key, self.pointer) = (key, pointer);
                added
            }
            _ => {
                self.carried_on.add(&parsed, value)?;
                self.table()?.add(ikey, value)
            }
        }
    }

    fn separates(&self, len: usize) -> bool {
        self.separator.as_ref().is_some_and(|s| s.separates(len))
    }

    fn separator(&mut self) -> Result<&mut BlobSeparator> {
        match &mut self.separator {
            Some(separator) => Ok(separator),
            None => Err(crate::Error::internal(
                "an entry after the end of a job's output",
            )),
        }
    }

    fn should_cut(&mut self, next_user_key: &[u8]) -> bool {
        if !self.cuts {
            return false;
        }
        let Some((_, table)) = &self.current else {
            return false;
        };
        let max_logical = max_logical_bytes(self.max_table_bytes);
        if self.is_boundary(next_user_key) {
            return true;
        }
        if table.file_size() >= self.max_table_bytes
            || table.file_size() + table.referenced_blob_bytes() >= max_logical
        {
            return true;
        }
        let overlapped = self
            .grandparents
            .overlapped_at(next_user_key, &self.family.comparator);
        overlapped > self.max_overlap
    }

    /// Whether the application has tables cut before a key.
    fn is_boundary(&self, next_user_key: &[u8]) -> bool {
        let Some(partitioner) = &self.family.options.sst_partitioner else {
            return false;
        };
        let asked = contain(|| partitioner.should_partition(&self.last_user_key, next_user_key));
        asked.unwrap_or(false)
    }

    fn table(&mut self) -> Result<&mut TableWriter> {
        if self.current.is_none() {
            let number = self.env.counters.new_file_number();
            let path = FileKind::Table(number).path(&self.env.dir);
            let file = self.env.vfs.create_bulk(&path, self.env.direct_io)?;
            self.created.push(number);
            let options = &self.family.options;
            let operator = options.merge_operator.as_deref();
            let mut writer = TableWriter::new(
                file,
                &path,
                TableWriterOptions {
                    comparator: self.family.comparator.clone(),
                    block_size: options.block_size,
                    restart_interval: options.block_restart_interval,
                    bloom_bits_per_key: options.bloom_bits_per_key,
                    prefix_extractor: options.given_prefix_extractor(),
                    compression: options.compression,
                    family: TableFamily {
                        id: self.family.id,
                        name: self.family.name.clone(),
                        merge_operator: operator.map(|operator| operator.name().to_owned()),
                    },
                    db_id: self.env.db_id.clone(),
                    db_session_id: self.env.session_id.clone(),
                    file_number: number,
                    creation_time: self.env.unix_seconds(),
                },
            );
            if !options.table_properties_collectors.is_empty() {
                let context = CollectorContext {
                    column_family: self.family.id,
                    column_family_name: &self.family.name,
                };
                let factories = &options.table_properties_collectors;
                writer.show_to(Collectors::create(factories, &context, self.seen_moment));
            }
            self.current = Some((number, writer));
        }
        match &mut self.current {
            Some((_, writer)) => Ok(writer),
            None => Err(crate::Error::internal("no table is being written")),
        }
    }

    /// Finishes the current table, which covers `lower..upper` and carries the tombstones there.
    fn finish_table(&mut self, upper: Option<&[u8]>) -> Result<()> {
        let comparator = self.family.comparator.clone();
        let tombstones: Vec<_> = self
            .tombstones
            .iter_tombstones()
            .filter_map(|t| clip(t, self.lower.as_deref(), upper, &comparator))
            .collect();
        if !tombstones.is_empty() {
            self.table()?;
        }
        let Some((number, mut writer)) = self.current.take() else {
            return Ok(());
        };
        for tombstone in &tombstones {
            writer.add_range_tombstone(tombstone)?;
        }
        if let Some(times) = &self.times {
            writer.record_times(times);
        }
        let content = writer.collect();
        self.collector_failures.extend(content.failures);
        let summary = writer.finish()?;
        self.finished.push(OutputTable {
            number,
            summary,
            shadowed_bytes: 0,
            oldest_time: self.oldest_time.take(),
            collected: content.report,
        });
        Ok(())
    }

    /// Finishes the last table and blob file, and makes all names durable.
    pub fn finish(&mut self) -> Result<JobOutput> {
        self.finish_table(None)?;
        // ORDER: tables (synced as they were finished), blob files, then the names of both are
        // durable before any edit names them.
        let blob_files = match self.separator.take() {
            Some(separator) => {
                self.created_blobs = separator.created().to_vec();
                separator.finish()?
            }
            None => Vec::new(),
        };
        let left_out = mutant!(table_names_not_durable);
        if (!self.created.is_empty() || !blob_files.is_empty()) && !left_out {
            self.env.vfs.sync_dir(&self.env.dir)?;
        }
        Ok(JobOutput {
            tables: std::mem::take(&mut self.finished),
            blob_files,
            filtered: FilterCounts::default(),
            collector_failures: std::mem::take(&mut self.collector_failures),
        })
    }

    /// The range tombstones that survive.
    pub(crate) fn tombstones(&self) -> &FragmentedTombstones {
        &self.tombstones
    }

    /// Pointers into blob files that were copied from the input.
    pub(crate) fn carried_on(&self) -> &ReferenceCounts {
        &self.carried_on
    }

    /// All files created so far, to be discarded if the job fails.
    pub fn created(&self) -> Vec<FileKind> {
        let tables = self.created.iter().map(|n| FileKind::Table(*n));
        let separator = self
            .separator
            .as_ref()
            .map_or(&*self.created_blobs, |s| s.created());
        tables
            .chain(separator.iter().map(|n| FileKind::Blob(*n)))
            .collect()
    }
}

/// Bytes that a table may have together with the values to which it points.
fn max_logical_bytes(max_table_bytes: u64) -> u64 {
    max_table_bytes.saturating_mul(LOGICAL_SIZE_FACTOR)
}

/// Bytes of the level below that a table may overlap, values included.
pub(crate) fn max_overlap(max_table_bytes: u64) -> u64 {
    max_logical_bytes(max_table_bytes).saturating_mul(MAX_GRANDPARENT_OVERLAP)
}
