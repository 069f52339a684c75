//! Writes what survives a flush or compaction: tables, cut to size, and the large values that had
//! been inline, to blob files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::references::ReferenceCounts;
use crate::blob::{BlobFileSummary, BlobSeparator, SeparatorOptions};
use crate::error::Result;
use crate::format::file_name::FileKind;
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, ValueType, append_internal_key, user_key,
};
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::options::ColumnFamilyOptions;
use crate::range_del::{FragmentedTombstones, clip};
use crate::table::{TableSummary, TableWriter, TableWriterOptions};
use crate::version::edit::{BlobFileAddition, NewFile, TableFacts, VersionEdit};
use crate::version::{Counters, TableFile, Version};
use crate::vfs::Vfs;

/// How much larger than an SST's target the values behind its keys may make it, before it is cut.
/// Tables of pointers are far smaller than the data they stand for; were they allowed to grow to
/// the full target, one would cover so many values that compacting a part would mean all.
const LOGICAL_SIZE_FACTOR: u64 = 4;

/// A table overlapping more than this many times its own largest size one level further down is
/// cut, so that compacting it later stays cheap.
const MAX_GRANDPARENT_OVERLAP: u64 = 10;

/// Where files are written: what all jobs of a database share.
#[derive(Clone)]
pub(crate) struct FileFactory {
    pub(crate) vfs: Arc<dyn Vfs>,
    pub(crate) dir: PathBuf,
    pub(crate) counters: Arc<Counters>,
    /// Whether files are written around the kernel's cache.
    pub(crate) direct_io: bool,
    pub(crate) db_id: String,
    pub(crate) session_id: String,
}

impl FileFactory {
    /// Removes files that a failed job left and no MANIFEST can name. What cannot be removed now
    /// is removed when the database is opened.
    pub(crate) fn discard(&self, files: &[FileKind]) {
        for file in files {
            let _ = self.vfs.remove(&file.path(&self.dir));
        }
    }
}

/// What the output belongs to.
#[derive(Clone)]
pub(crate) struct OutputFamily {
    pub(crate) id: ColumnFamilyId,
    pub(crate) name: String,
    pub(crate) comparator: InternalKeyComparator,
    pub(crate) options: Arc<ColumnFamilyOptions>,
}

/// A finished table.
pub(crate) struct OutputTable {
    pub(crate) number: FileNumber,
    pub(crate) summary: TableSummary,
}

/// Everything a job wrote; all of it synced, names included.
pub(crate) struct JobOutput {
    pub(crate) tables: Vec<OutputTable>,
    pub(crate) blob_files: Vec<BlobFileSummary>,
}

impl JobOutput {
    pub(crate) fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.summary.file_size).sum()
    }

    pub(crate) fn blob_bytes(&self) -> u64 {
        self.blob_files.iter().map(|b| b.file_size).sum()
    }

    pub(crate) fn blob_numbers(&self) -> Vec<BlobFileNumber> {
        self.blob_files.iter().map(|b| b.number).collect()
    }

    /// Adds the files to an edit, the tables at `level`.
    pub(crate) fn add_to(&self, edit: &mut VersionEdit, level: usize) {
        let now = unix_seconds();
        for OutputTable { number, summary } in &self.tables {
            edit.new_files.push((
                level,
                NewFile {
                    number: *number,
                    size: summary.file_size,
                    smallest: summary.smallest.clone(),
                    largest: summary.largest.clone(),
                    smallest_seq: summary.smallest_seq,
                    largest_seq: summary.largest_seq,
                    oldest_blob_file: summary.oldest_blob_file,
                    oldest_ancester_time: now,
                    file_creation_time: now,
                    ..NewFile::default()
                },
            ));
            edit.table_facts.push(table_facts(*number, summary));
        }
        for blob in &self.blob_files {
            edit.blob_additions.push(BlobFileAddition {
                number: blob.number,
                count: blob.count,
                total_bytes: blob.total_bytes,
                checksum_method: Vec::new(),
                checksum_value: Vec::new(),
                unknown: Vec::new(),
            });
        }
    }
}

fn table_facts(number: FileNumber, summary: &TableSummary) -> TableFacts {
    TableFacts {
        table: number,
        num_entries: summary.num_entries,
        num_deletions: summary.num_deletions,
        num_range_deletions: summary.num_range_deletions,
        raw_key_bytes: summary.raw_key_size,
        raw_value_bytes: summary.raw_value_size,
        blob_refs: summary.blob_refs.clone(),
    }
}

/// Seconds since 1970, for the times RocksDB keeps in tables.
pub(crate) fn unix_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
}

/// The tables one level below the output, walked along to bound what an output table overlaps.
pub(crate) struct Grandparents {
    files: Vec<Arc<TableFile>>,
    position: usize,
    overlapped: u64,
}

impl Grandparents {
    pub(crate) fn new(version: &Version, output_level: usize) -> Self {
        let files = version.level(output_level + 1).to_vec();
        Grandparents {
            files,
            position: 0,
            overlapped: 0,
        }
    }

    pub(crate) fn none() -> Self {
        Grandparents {
            files: Vec::new(),
            position: 0,
            overlapped: 0,
        }
    }

    /// A table starts at `user_key`: what ends before does not count.
    fn start_at(&mut self, user_key: &[u8], comparator: &InternalKeyComparator) {
        self.overlapped_at(user_key, comparator);
        self.overlapped = 0;
    }

    /// Bytes overlapped since the table was started, once `user_key` is reached.
    fn overlapped_at(&mut self, user_key: &[u8], comparator: &InternalKeyComparator) -> u64 {
        while let Some(file) = self.files.get(self.position)
            && comparator
                .compare_user(file.largest_user_key(), user_key)
                .is_lt()
        {
            self.overlapped += file.logical_size();
            self.position += 1;
        }
        self.overlapped
    }
}

/// Writes surviving entries in order.
pub(crate) struct OutputWriter {
    factory: FileFactory,
    family: OutputFamily,
    /// None once finished.
    separator: Option<BlobSeparator>,
    tombstones: FragmentedTombstones,
    grandparents: Grandparents,
    /// Bytes of file after which a table is cut, and [`LOGICAL_SIZE_FACTOR`] times that with the
    /// values it refers to; `u64::MAX` in a flush, which writes one table.
    max_table_bytes: u64,
    current: Option<(FileNumber, TableWriter)>,
    /// User key that the current table starts at, if it is not the first.
    lower: Option<Vec<u8>>,
    last_user_key: Vec<u8>,
    finished: Vec<OutputTable>,
    created: Vec<FileNumber>,
    /// Blob files created, once the separator is finished.
    created_blobs: Vec<BlobFileNumber>,
    carried_on: ReferenceCounts,
    /// Reused for entries whose value moves out.
    key: Vec<u8>,
    pointer: Vec<u8>,
}

impl OutputWriter {
    /// A writer of one table, however large: for flushes.
    pub(crate) fn uncut(
        factory: FileFactory,
        family: OutputFamily,
        tombstones: FragmentedTombstones,
    ) -> Self {
        let mut this = Self::cut(factory, family, tombstones, Grandparents::none());
        this.max_table_bytes = u64::MAX;
        this
    }

    /// A writer that cuts tables: for compactions. `tombstones` are those that survive.
    pub(crate) fn cut(
        factory: FileFactory,
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
            direct_io: factory.direct_io,
        };
        let counters = Arc::clone(&factory.counters);
        let allocate = Arc::new(move || BlobFileNumber(counters.new_file_number().0));
        let separator = BlobSeparator::new(
            Arc::clone(&factory.vfs),
            factory.dir.clone(),
            options,
            allocate,
        );
        OutputWriter {
            max_table_bytes: family.options.target_file_size_base,
            factory,
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
            key: Vec::new(),
            pointer: Vec::new(),
        }
    }

    /// Adds a survivor.
    pub(crate) fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let parsed = ParsedInternalKey::parse(ikey)?;
        if self.current.is_some()
            && parsed.user_key != self.last_user_key
            && self.should_cut(parsed.user_key)
        {
            let upper = parsed.user_key.to_vec();
            self.finish_table(Some(&upper))?;
            self.lower = Some(upper);
        }
        if self.current.is_none() {
            self.grandparents
                .start_at(parsed.user_key, &self.family.comparator);
        }
        if parsed.user_key != self.last_user_key {
            self.last_user_key.clear();
            self.last_user_key.extend_from_slice(parsed.user_key);
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
            ValueType::BlobIndex => {
                self.carried_on.add(parsed.user_key, value)?;
                self.table()?.add(ikey, value)
            }
            _ => self.table()?.add(ikey, value),
        }
    }

    fn separates(&self, len: usize) -> bool {
        self.separator.as_ref().is_some_and(|s| s.separates(len))
    }

    fn separator(&mut self) -> Result<&mut BlobSeparator> {
        match &mut self.separator {
            Some(separator) => Ok(separator),
            None => Err(crate::Error::corruption(
                "an entry behind the end of a job's output",
            )),
        }
    }

    fn should_cut(&mut self, next_user_key: &[u8]) -> bool {
        if self.max_table_bytes == u64::MAX {
            return false;
        }
        let Some((_, table)) = &self.current else {
            return false;
        };
        let max_logical = self.max_table_bytes.saturating_mul(LOGICAL_SIZE_FACTOR);
        if table.file_size() >= self.max_table_bytes
            || table.file_size() + table.referenced_blob_bytes() >= max_logical
        {
            return true;
        }
        let overlapped = self
            .grandparents
            .overlapped_at(next_user_key, &self.family.comparator);
        overlapped > max_logical.saturating_mul(MAX_GRANDPARENT_OVERLAP)
    }

    fn table(&mut self) -> Result<&mut TableWriter> {
        if self.current.is_none() {
            let number = self.factory.counters.new_file_number();
            let path = FileKind::Table(number).path(&self.factory.dir);
            let file = self
                .factory
                .vfs
                .create_bulk(&path, self.factory.direct_io)?;
            self.created.push(number);
            let options = &self.family.options;
            let writer = TableWriter::new(
                file,
                &path,
                TableWriterOptions {
                    comparator: self.family.comparator.clone(),
                    block_size: options.block_size,
                    restart_interval: options.block_restart_interval,
                    bloom_bits_per_key: options.bloom_bits_per_key,
                    compression: options.compression,
                    column_family_id: self.family.id,
                    column_family_name: self.family.name.clone(),
                    db_id: self.factory.db_id.clone(),
                    db_session_id: self.factory.session_id.clone(),
                    file_number: number,
                    creation_time: unix_seconds(),
                },
            );
            self.current = Some((number, writer));
        }
        match &mut self.current {
            Some((_, writer)) => Ok(writer),
            None => Err(crate::Error::corruption("no table is being written")),
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
        let summary = writer.finish()?;
        self.finished.push(OutputTable { number, summary });
        Ok(())
    }

    /// Finishes the last table and blob file, and makes all names durable.
    pub(crate) fn finish(&mut self) -> Result<JobOutput> {
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
        if !self.created.is_empty() || !blob_files.is_empty() {
            self.factory.vfs.sync_dir(&self.factory.dir)?;
        }
        Ok(JobOutput {
            tables: std::mem::take(&mut self.finished),
            blob_files,
        })
    }

    /// References to blob files that were carried on from the input.
    pub(crate) fn carried_on(&self) -> &ReferenceCounts {
        &self.carried_on
    }

    /// All files created so far, to be discarded if the job fails.
    pub(crate) fn created(&self) -> Vec<FileKind> {
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

/// The smallest and largest user keys of tables, where there are any.
pub(crate) fn key_range(
    tables: &[Arc<TableFile>],
    comparator: &InternalKeyComparator,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let smallest = tables
        .iter()
        .map(|f| user_key(&f.meta.smallest))
        .min_by(|a, b| comparator.compare_user(a, b))?;
    let largest = tables
        .iter()
        .map(|f| user_key(&f.meta.largest))
        .max_by(|a, b| comparator.compare_user(a, b))?;
    Some((smallest.to_vec(), largest.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::internal_key::internal_key;
    use crate::format::{BytewiseComparator, SequenceNumber};
    use crate::version::ObsoleteFiles;

    #[test]
    fn a_table_overlaps_only_what_lies_behind_its_start() {
        let comparator = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let queue = Arc::new(ObsoleteFiles::default());
        let boundary =
            |key: &str| internal_key(key.as_bytes(), SequenceNumber(1), ValueType::Value as u8);
        let file = |number, smallest, largest| {
            let meta = NewFile {
                number: FileNumber(number),
                size: 100,
                smallest: boundary(smallest),
                largest: boundary(largest),
                ..NewFile::default()
            };
            Arc::new(TableFile::new(meta, None, &queue))
        };
        let mut grandparents = Grandparents {
            files: vec![file(1, "a", "b"), file(2, "c", "f"), file(3, "g", "h")],
            ..Grandparents::none()
        };
        grandparents.start_at(b"d", &comparator);
        assert_eq!(grandparents.overlapped_at(b"e", &comparator), 0);
        assert_eq!(grandparents.overlapped_at(b"g", &comparator), 100);
        grandparents.start_at(b"g", &comparator);
        assert_eq!(grandparents.overlapped_at(b"z", &comparator), 100);
    }
}
