//! Collects entries into batches, commits them, and counts.

use indicatif::ProgressBar;
use serde::Serialize;
use titan::{ColumnFamily, Db, Error, Result, WriteBatch, WriteOptions};

use super::bulk::{self, Bulk};
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
    /// Takes rows that go to tables, if any do; the others go past the log then.
    bulk: Option<Bulk<'a>>,
    /// Entries that were committed.
    committed: u64,
    /// Bytes of input by which the bar has not advanced: those of the batch, which are yet to be
    /// committed.
    pending: u64,
    progress: ProgressBar,
    tally: Tally,
}

impl<'a> Loader<'a> {
    pub(super) fn new(
        db: &'a Db,
        family: &'a ColumnFamily,
        bulk: Option<Bulk<'a>>,
        progress: ProgressBar,
    ) -> Self {
        let tally = Tally::default();
        Loader {
            db,
            family,
            batch: WriteBatch::new(),
            bulk,
            committed: 0,
            pending: 0,
            progress,
            tally,
        }
    }

    /// Adds an entry that came from `input` bytes of a file. Returns only errors of the
    /// database.
    pub(super) fn add(&mut self, key: &[u8], value: &[u8], input: u64) -> Result<()> {
        if let Some(bulk) = &mut self.bulk
            && bulk.takes(key, value)?
        {
            self.count(key, value);
            self.pending += input;
            if self.pending >= BATCH_BYTES as u64 {
                self.progress.inc(std::mem::take(&mut self.pending));
            }
            return Ok(());
        }
        if value.len() >= BATCH_BYTES {
            // A batch has room for the largest value, and not for others with it.
            self.commit()?;
        }
        self.batch.put(self.family, key, value)?;
        self.pending += input;
        self.count(key, value);
        if self.batch.size_bytes() >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn count(&mut self, key: &[u8], value: &[u8]) {
        self.tally.entries += 1;
        self.tally.bytes += (key.len() + value.len()) as u64;
    }

    fn commit(&mut self) -> Result<()> {
        let count = self.batch.count();
        if count == 0 {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.batch);
        let options = WriteOptions {
            disable_wal: self.bulk.is_some(),
            ..WriteOptions::default()
        };
        self.db.write(batch, &options)?;
        self.committed += u64::from(count);
        self.progress.inc(std::mem::take(&mut self.pending));
        Ok(())
    }

    /// Counts a file that was read to its end.
    pub(super) fn file_done(&mut self) {
        self.tally.files += 1;
    }

    /// Reports something that cannot be loaded; the load continues.
    ///
    /// # Errors
    /// `Closed` after the signal, which may be why it cannot.
    pub(super) fn failed(&mut self, error: &Error) -> Result<()> {
        if self.bulk.is_some() {
            bulk::check_signal()?;
        }
        self.tally.failed += 1;
        self.progress.suspend(|| output::complain(error));
        Ok(())
    }

    /// Counts a file of a kind that is not loaded.
    pub(super) fn skipped(&mut self) {
        self.tally.skipped += 1;
    }

    /// Commits the rest.
    pub(super) fn finish(&mut self) -> Result<Tally> {
        self.commit()?;
        self.progress.finish_and_clear();
        if let Some(bulk) = &mut self.bulk {
            if self.committed > 0 {
                // No log has them.
                self.family.flush()?;
            }
            bulk.finish()?;
        }
        Ok(self.tally)
    }

    /// Whether entries are in the database.
    pub(super) fn has_committed(&self) -> bool {
        self.committed > 0
    }

    /// Ends a load that failed. Adds to the error of a load in bulk which entries are in the
    /// database.
    pub(super) fn give_up(self, error: Error) -> Error {
        self.progress.finish_and_clear();
        let Some(bulk) = self.bulk else {
            return error;
        };
        // Its tables are removed before the error is told.
        drop(bulk);
        if self.committed == 0 {
            return error.context("nothing was loaded");
        }
        let count = output::count(self.committed);
        match self.family.flush() {
            Ok(()) => error.context(format_args!(
                "{count} large values were loaded, and nothing else"
            )),
            Err(e) => {
                // Flushing may be what failed before.
                if e.to_string() != error.to_string() {
                    output::complain(&e);
                }
                error.context("large values may have been loaded, and nothing else")
            }
        }
    }
}
