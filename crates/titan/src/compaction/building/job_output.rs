//! Output of a flush or compaction, and the edit that records it.

use super::filter::FilterCounts;
use crate::blob::BlobFileSummary;
use crate::collector::CollectedReport;
use crate::error::Error;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, FileNumber};
use crate::table::TableSummary;
use crate::version::edit::{BlobFileAddition, NewFile, TableFacts, VersionEdit};

/// A finished table.
pub struct OutputTable {
    pub(crate) number: FileNumber,
    pub summary: TableSummary,
    /// See [`TableFacts::shadowed_bytes`].
    pub(crate) shadowed_bytes: u64,
    /// A time by which its oldest value had been written, in seconds since 1970, if times are
    /// recorded.
    pub(crate) oldest_time: Option<u64>,
    /// Reports of collectors on it.
    pub(crate) collected: CollectedReport,
}

/// Everything a job wrote; all of it synced, names included.
pub struct JobOutput {
    pub tables: Vec<OutputTable>,
    pub blob_files: Vec<BlobFileSummary>,
    /// Counts of the compaction filter's decisions.
    pub(crate) filtered: FilterCounts,
    /// Why collectors reported nothing about a table.
    pub(crate) collector_failures: Vec<Error>,
}

impl JobOutput {
    pub fn table_bytes(&self) -> u64 {
        self.tables.iter().map(|t| t.summary.file_size).sum()
    }

    pub(crate) fn blob_bytes(&self) -> u64 {
        self.blob_files.iter().map(|b| b.file_size).sum()
    }

    pub(crate) fn blob_numbers(&self) -> Vec<BlobFileNumber> {
        self.blob_files.iter().map(|b| b.number).collect()
    }

    /// The names of all files, to be discarded if they are not installed.
    pub fn files(&self) -> Vec<FileKind> {
        let tables = self.tables.iter().map(|t| FileKind::Table(t.number));
        let blob_files = self.blob_files.iter().map(|b| FileKind::Blob(b.number));
        tables.chain(blob_files).collect()
    }

    /// Adds the files to an edit, the tables at `level`; `now` is in seconds since 1970.
    pub fn add_to(&self, edit: &mut VersionEdit, level: usize, now: u64) {
        for table in &self.tables {
            let OutputTable {
                number, summary, ..
            } = table;
            edit.new_files.push((
                level,
                NewFile {
                    number: *number,
                    size: summary.file_size,
                    smallest: summary.smallest.clone(),
                    largest: summary.largest.clone(),
                    smallest_seq: summary.sequences.0,
                    largest_seq: summary.sequences.1,
                    oldest_blob_file: summary.oldest_blob_file(),
                    unique_id: summary.unique_id,
                    oldest_ancester_time: table.oldest_time.unwrap_or(now),
                    file_creation_time: now,
                    ..NewFile::default()
                },
            ));
            edit.table_facts.push(table_facts(table));
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

fn table_facts(table: &OutputTable) -> TableFacts {
    let summary = &table.summary;
    TableFacts {
        table: table.number,
        shadowed_bytes: table.shadowed_bytes,
        num_entries: summary.num_entries,
        num_deletions: summary.num_deletions,
        num_range_deletions: summary.num_range_deletions,
        num_shadowed: summary.num_shadowed,
        raw_key_bytes: summary.raw_key_size,
        raw_value_bytes: summary.raw_value_size,
        blob_refs: summary.blob_refs.clone(),
        collected: table.collected.clone(),
        foreign: false,
    }
}
