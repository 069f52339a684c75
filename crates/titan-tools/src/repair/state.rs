//! A repair in progress: the damaged database, and what was found and written so far.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use titan::internals::blob::BlobFileSummary;
use titan::internals::compaction::JobEnv;
use titan::internals::format::FileKind;
use titan::vfs::Vfs;
use titan::{BlobFileNumber, ColumnFamilyId, FileNumber, Options, SequenceNumber};

use super::blob_file::Blobs;
use super::family::Family;
use super::hint::Hint;
use super::report::RepairReport;
use super::table::{Placed, Table};
use crate::progress::Progress;

/// The damaged database.
pub(super) struct Damaged<'r> {
    pub(super) vfs: Arc<dyn Vfs>,
    pub(super) dir: &'r Path,
    pub(super) options: &'r Options,
    /// All files in the directory, those of a kind by number.
    pub(super) files: Vec<FileKind>,
    pub(super) hint: Hint,
}

/// The tables of the damaged database.
#[derive(Default)]
pub(super) struct FoundTables {
    /// Those that are taken to be part of the database.
    pub(super) listed: BTreeMap<FileNumber, Table>,
    /// Those that the MANIFEST does not name.
    pub(super) unlisted: BTreeMap<FileNumber, Table>,
    /// Those that the MANIFEST names and that are missing.
    pub(super) missing: Vec<FileNumber>,
    /// The sequence numbers that ingested tables get whose own only a MANIFEST had.
    pub(super) ingested: BTreeMap<FileNumber, SequenceNumber>,
    /// The newest operation of the tables so far.
    pub(super) newest: SequenceNumber,
    /// The identity of the database that wrote them.
    pub(super) db_id: Option<String>,
}

/// Entries that were replayed from WAL files.
#[derive(Default)]
pub(super) struct ReplayedWals {
    /// The newest operation, by family.
    pub(super) newest: BTreeMap<ColumnFamilyId, SequenceNumber>,
    /// The oldest operation of any family.
    pub(super) first: Option<SequenceNumber>,
    pub(super) damaged: bool,
}

/// Progress of a repair, in bytes of files.
pub(super) struct RepairProgress<'r> {
    pub(super) report: &'r mut dyn FnMut(Progress),
    pub(super) done_bytes: u64,
    pub(super) total_bytes: u64,
}

impl RepairProgress<'_> {
    /// A file is done.
    pub(super) fn add(&mut self, file: FileKind, size: u64) {
        self.done_bytes += size;
        (self.report)(Progress {
            done_bytes: self.done_bytes.min(self.total_bytes),
            total_bytes: self.total_bytes,
            file: file.name(),
        });
    }

    pub(super) fn finish(&mut self) {
        (self.report)(Progress {
            done_bytes: self.total_bytes,
            total_bytes: self.total_bytes,
            file: String::new(),
        });
    }
}

/// A repair in progress.
pub(super) struct Repair<'r> {
    pub(super) from: Damaged<'r>,
    /// Writes new files, in the directory where they are prepared.
    pub(super) env: JobEnv,
    pub(super) families: BTreeMap<ColumnFamilyId, Family>,
    pub(super) found: FoundTables,
    pub(super) wals: ReplayedWals,
    /// The tables of the repaired database.
    pub(super) placed: Vec<Placed>,
    /// Blob files written by the repair.
    pub(super) new_blob_files: Vec<(ColumnFamilyId, BlobFileSummary)>,
    /// The existing blob files, once surveyed.
    pub(super) blob_files: BTreeMap<BlobFileNumber, Blobs>,
    pub(super) report: RepairReport,
    pub(super) progress: RepairProgress<'r>,
}
