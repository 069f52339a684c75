//! Dropping whole tables, without reading them: the end of
//! [`delete_files_in_range`](crate::ColumnFamily::delete_files_in_range).
//!
//! A range tombstone in a table covers all entries of the tables that go. So readers miss nothing
//! that they could see, and the edit is like that of a compaction whose inputs are all dead.
//! Assumes that the caller has claimed the family as for a manual compaction: no table is an input
//! of another job.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::job::Job;
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::State;
use crate::error::Result;
use crate::format::{BlobFileNumber, SequenceNumber, total};
use crate::version::edit::{BlobFileGarbage, VersionEdit};
use crate::version::{TableFile, Version, VersionSet};

/// Tables that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DeletedFiles {
    /// Number of tables.
    pub tables: usize,
    /// Their bytes.
    pub table_bytes: u64,
    /// Bytes of the records in blob files to which they pointed. A blob file without live records
    /// is deleted; others have so much more garbage.
    pub blob_bytes: u64,
}

/// The tables that a deletion of a range makes superfluous.
#[derive(Clone, Copy)]
pub(crate) struct DeletableFiles<'a> {
    pub(crate) begin: &'a [u8],
    /// The end of the range, which is not in it.
    pub(crate) end: &'a [u8],
    /// A sequence number of the time before the deletion.
    pub(crate) before: SequenceNumber,
    /// One that sees the deletion.
    pub(crate) after: SequenceNumber,
}

impl DeletableFiles<'_> {
    /// The tables of a version that no reader needs, with their levels.
    fn of(&self, version: &Version, oldest_snapshot: Option<SequenceNumber>) -> Picked {
        // An older snapshot sees the keys, and conditions look for their writes.
        if oldest_snapshot.is_some_and(|oldest| oldest < self.after)
            && !mutant!(files_deleted_under_a_snapshot)
        {
            return Picked::default();
        }
        let is_within = |table: &TableFile| version.lies_within(table, self.begin, self.end);
        // Compactions keep the sequence numbers of entries.
        let is_older = |table: &TableFile| {
            table.meta.largest_seq <= self.before || mutant!(newer_files_deleted)
        };
        // Of a table of RocksDB it may be unknown to how many values it points.
        let is_counted =
            |table: &TableFile| table.facts().is_some() || table.meta.oldest_blob_file.is_none();
        let tables = version.tables().filter(|(_, table)| {
            is_within(table) && is_older(table) && is_counted(table) && !table.is_compacting()
        });
        Picked(
            tables
                .map(|(level, table)| (level, Arc::clone(table)))
                .collect(),
        )
    }
}

/// Tables to be dropped, with their levels.
#[derive(Default)]
struct Picked(Vec<(usize, Arc<TableFile>)>);

impl Picked {
    fn summary(&self, edit: &VersionEdit) -> DeletedFiles {
        DeletedFiles {
            tables: self.0.len(),
            table_bytes: total(self.0.iter().map(|(_, table)| table.size())),
            blob_bytes: total(edit.blob_garbage.iter().map(|garbage| garbage.bytes)),
        }
    }

    fn edit(&self, family: &Family) -> VersionEdit {
        let mut garbage: BTreeMap<BlobFileNumber, BlobFileGarbage> = BTreeMap::new();
        let facts = self.0.iter().filter_map(|(_, table)| table.facts());
        for refs in facts.flat_map(|facts| &facts.blob_refs) {
            let of_file = garbage.entry(refs.file).or_insert_with(|| BlobFileGarbage {
                number: refs.file,
                count: 0,
                bytes: 0,
                unknown: Vec::new(),
            });
            of_file.count += refs.count;
            of_file.bytes = of_file.bytes.saturating_add(refs.bytes);
        }
        VersionEdit {
            column_family: family.id,
            deleted_files: self
                .0
                .iter()
                .map(|(level, table)| (*level, table.number()))
                .collect(),
            blob_garbage: match mutant!(deleted_files_keep_their_values) {
                true => Vec::new(),
                false => garbage.into_values().collect(),
            },
            ..VersionEdit::default()
        }
    }
}

/// A job that drops tables.
struct FileDeletion<'a> {
    family: Arc<Family>,
    files: DeletableFiles<'a>,
}

impl Shared {
    /// Drops the tables that the deletion of a range has made superfluous.
    ///
    /// # Errors
    /// As those of a compaction.
    pub(crate) fn delete_files(
        &self,
        family: &Arc<Family>,
        files: DeletableFiles<'_>,
    ) -> Result<DeletedFiles> {
        {
            let mut state = self.state.lock();
            // Under the lock: closing and resuming wait for the jobs that they find counted.
            self.check_open()?;
            self.check_not_stopped()?;
            state.begin(RunningJob::ManualCompaction, family.id);
        }
        self.run_job(FileDeletion {
            family: Arc::clone(family),
            files,
        })
    }
}

impl Job for FileDeletion<'_> {
    const DOING: &'static str = "deleting files of";
    type Done = DeletedFiles;
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::ManualCompaction
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(self, shared: &Shared) -> (Result<DeletedFiles>, ()) {
        let prepare = |versions: &VersionSet| {
            let version = versions.current(self.family.id)?;
            // Later snapshots see the deletion.
            let picked = self.files.of(&version, shared.pins.snapshots.oldest());
            let edit = picked.edit(&self.family);
            let summary = picked.summary(&edit);
            (summary.tables > 0).then(|| (vec![edit], summary))
        };
        let installed = shared.install(&[&self.family], &[], prepare, |_, _| {});
        (installed.map(Option::unwrap_or_default), ())
    }

    fn release((): (), _: &Result<DeletedFiles>, _: &mut State) {}
}
