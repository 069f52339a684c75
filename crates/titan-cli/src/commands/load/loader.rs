//! Collects entries into batches, commits them, and counts.

use indicatif::ProgressBar;
use serde::Serialize;
use titan::{ColumnFamily, Db, Error, Result, WriteBatch, WriteOptions};

use crate::output;

/// A batch is committed once it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Counts of files that were loaded and of those that were not.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Tally {
    /// Files read completely.
    pub(super) files: u64,
    /// Entries stored.
    pub(super) entries: u64,
    /// Bytes of their keys and values.
    pub(super) bytes: u64,
    /// Files or records that could not be loaded; each was reported.
    pub(super) failed: u64,
    /// Symbolic links and special files.
    pub(super) skipped: u64,
}

/// Writes entries to one family in batches.
pub(super) struct Loader<'a> {
    db: &'a Db,
    family: &'a ColumnFamily,
    batch: WriteBatch,
    /// Bytes of input in the batch; the bar advances when they are committed.
    pending: u64,
    progress: ProgressBar,
    tally: Tally,
}

impl<'a> Loader<'a> {
    pub(super) fn new(db: &'a Db, family: &'a ColumnFamily, progress: ProgressBar) -> Self {
        let tally = Tally::default();
        Loader {
            db,
            family,
            batch: WriteBatch::new(),
            pending: 0,
            progress,
            tally,
        }
    }

    /// Adds an entry that came from `input` bytes of a file. Returns only errors of the
    /// database.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], input: u64) -> Result<()> {
        if value.len() >= BATCH_BYTES {
            // A batch has room for the largest value, and not for others with it.
            self.commit()?;
        }
        self.batch.put(self.family, key, value)?;
        self.pending += input;
        self.tally.entries += 1;
        self.tally.bytes += (key.len() + value.len()) as u64;
        if self.batch.size_bytes() >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        if self.batch.count() == 0 {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        self.db.write(batch, &WriteOptions::default())?;
        self.progress.inc(std::mem::take(&mut self.pending));
        Ok(())
    }

    /// Counts a file that was read to its end.
    pub(super) fn file_done(&mut self) {
        self.tally.files += 1;
    }

    /// Reports something that cannot be loaded; the load continues.
    pub(super) fn failed(&mut self, error: &Error) {
        self.tally.failed += 1;
        self.progress.suspend(|| output::complain(error));
    }

    /// Counts a file of a kind that is not loaded.
    pub(super) fn skipped(&mut self) {
        self.tally.skipped += 1;
    }

    /// Commits the rest.
    pub(super) fn finish(mut self) -> Result<Tally> {
        self.commit()?;
        self.progress.finish_and_clear();
        Ok(self.tally)
    }
}
