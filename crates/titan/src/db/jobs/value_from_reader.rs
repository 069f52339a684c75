//! Putting a pointer to a value into a table: the end of
//! [`put_reader`](crate::ColumnFamily::put_reader).
//!
//! The value is in a blob file that no version names. One edit adds that file and a table of level
//! 0 with the pointer, as that of a flush would. Assumes that the caller leads the commit queue,
//! and that the family's memtables are empty: readers search them before tables.

use std::sync::Arc;

use super::bypass::{UnlistedFiles, replace_empty_memtable};
use super::job::Job;
use super::survivors::{FlushFilter, write_memtables};
use crate::blob::BlobFileSummary;
use crate::compaction::building::job_output::JobOutput;
use crate::compaction::building::shadows::OlderTables;
use crate::db::core::family::Family;
use crate::db::core::running_jobs::RunningJob;
use crate::db::core::shared::Shared;
use crate::db::core::state::{FamilyState, State};
use crate::db::core::write_times::rounded_up;
use crate::error::Result;
use crate::filter::FilterReason;
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::ValueType;
use crate::memtable::Memtable;
use crate::stats;
use crate::version::VersionSet;
use crate::write::queue::Lead;

/// Bytes of the memtable of one pointer.
const MEMTABLE: u64 = 64 << 10;

/// A value in a blob file of its own, and the key that gets it.
pub(crate) struct NewValue<'a> {
    pub(crate) family: Arc<Family>,
    pub(crate) key: &'a [u8],
    pub(crate) sequence: SequenceNumber,
    pub(crate) index: BlobIndex,
    pub(crate) summary: BlobFileSummary,
    pub(crate) unlisted: UnlistedFiles<'a>,
}

impl Shared {
    /// Does a step of writing a value to a blob file, unless the database has been closed, writes
    /// have stopped, or the family has been dropped. Closing waits for it.
    pub(crate) fn step_of_value<T>(
        &self,
        family: &Family,
        step: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        self.step_of(RunningJob::ValueFromReader, family, step)
    }

    /// Installs a value. It is visible once its sequence number is published.
    ///
    /// # Errors
    /// As those of a flush: any but `NoSpace`, `TooManyOpenFiles` and that of a dropped family
    /// stops writes.
    pub(crate) fn install_value(&self, _: &Lead<'_>, value: NewValue<'_>) -> Result<()> {
        self.state.lock().begin(value.kind(), value.family.id);
        self.run_job(value)
    }

    /// Writes the table with the pointer, as a flush would write that of an entry.
    fn write_pointer(&self, value: &NewValue<'_>) -> Result<JobOutput> {
        let family = &*value.family;
        let memtable = Memtable::new(family.comparator.clone(), MEMTABLE);
        let mut pointer = Vec::new();
        value.index.encode(&mut pointer);
        memtable.add(value.sequence, ValueType::BlobIndex, value.key, &pointer)?;
        let version = Arc::clone(&family.super_version.load().version);
        let older = OlderTables {
            version: &version,
            open_files: &self.files.open,
        };
        let mut filtering = self.filtering(family, FilterReason::Flush);
        // It would have to read the value.
        filtering.asks = false;
        if family.revisit.is_some() {
            let now = rounded_up(self.files.env.clock.latest());
            filtering.recent.push((value.sequence, now));
        }
        let filter = FlushFilter {
            filtering: &filtering,
            version: &version,
            open_files: &self.files.open,
        };
        let snapshots = self.pins.snapshots.sequences();
        let (env, output) = (&self.files.env, family.output());
        // ORDER: it syncs the directory, so that the names of both files are durable before the
        // edit.
        let written = write_memtables(
            &[memtable],
            env,
            output,
            snapshots,
            Some(older),
            Some(filter),
        );
        let mut output = written?;
        output.blob_files.push(value.summary);
        self.report_collectors(&output);
        let statistics = &self.opening.statistics;
        stats::add(&statistics.flush_sst_bytes, output.table_bytes());
        stats::add(&statistics.flush_blob_bytes, output.blob_bytes());
        Ok(output)
    }
}

impl Job for NewValue<'_> {
    const DOING: &'static str = "putting a value from a reader into";
    type Done = ();
    type Claim = ();

    fn kind(&self) -> RunningJob {
        RunningJob::ValueFromReader
    }

    fn family(&self) -> &Arc<Family> {
        &self.family
    }

    fn run(mut self, shared: &Shared) -> (Result<()>, ()) {
        let synced = shared.sync_wal_of_bypass();
        let output = match synced.and_then(|()| shared.write_pointer(&self)) {
            Ok(output) => output,
            Err(e) => return (Err(e), ()),
        };
        gate!("value: table written");
        let files = output.files();
        let mut edit = shared.edit_of_bypass(&self.family, [self.sequence]);
        output.add_to(&mut edit, 0, shared.files.env.unix_seconds());
        // Its blob file is one of `files`.
        self.unlisted.hand_over();
        let prepare = |_: &VersionSet| Some((vec![edit], ()));
        let replace = |family: &mut FamilyState, (): &mut ()| replace_empty_memtable(family);
        let installed = shared.install(&[&self.family], &files, prepare, replace);
        gate!("value: installed");
        (installed.map(drop), ())
    }

    fn release((): (), _: &Result<()>, _: &mut State) {}
}
