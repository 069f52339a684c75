//! Rows that go to tables, and with these to the database in one step, past its log and memtables.
//!
//! Rows are sorted in memory, a *part* of them at a time, and each part is written to tables: a
//! *run*. If runs overlap, they are merged to tables that do not. So each table goes to the last
//! level, if the database has nothing in its range.
//!
//! A table cannot point to values in blob files before it is in the database. So values for blob
//! files are written by the caller, as they come and past the log; a run has their keys only, in
//! tables of their own, as deletions: they end older rows of the load, and never reach the
//! database.
//!
//! Promises: of rows with the same key, the last one counts. Nothing of the rows that this took is
//! in the database if anything fails, and no file is left.

mod part;
mod tables;
mod workplace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use titan::vfs::{StdVfs, Vfs};
use titan::{
    ColumnFamily, ColumnFamilyOptions, Comparator, Db, Error, ErrorKind, FileTransfer,
    IngestOptions, Options, ReadOptions, Result, SstFileInfo,
};

use crate::{interrupt, progress};

use part::Part;
use tables::{Tables, paths};
use workplace::Workplace;

/// Most bytes of rows that are sorted in memory.
const PART_BYTES: u64 = 256 << 20;
/// The same, where little memory is left.
const LEAST_PART_BYTES: u64 = 1 << 20;
/// Rows between two looks for the signal, and two moves of the bar.
const ROWS_A_LOOK: u64 = 1024;

/// Options for tables that this process has just written. Each block has a checksum, for readers.
const JUST_WRITTEN: IngestOptions = IngestOptions {
    transfer: FileTransfer::Move,
    allow_global_seqno: true,
    allow_blocking_flush: true,
    fail_if_not_bottommost_level: false,
    verify_checksums: false,
};

/// The tables of a part.
struct Run {
    values: Vec<SstFileInfo>,
    /// Keys of values that were written elsewhere, as deletions.
    keys: Vec<SstFileInfo>,
    /// The first key of all tables, and the last.
    range: (Vec<u8>, Vec<u8>),
}

impl Run {
    /// Of tables of which each kind has its smallest keys first. None has no tables.
    fn new(
        values: Vec<SstFileInfo>,
        keys: Vec<SstFileInfo>,
        order: &dyn Comparator,
    ) -> Option<Self> {
        let firsts = [values.first(), keys.first()].into_iter().flatten();
        let lasts = [values.last(), keys.last()].into_iter().flatten();
        let first = firsts
            .map(|table| &table.smallest_key)
            .min_by(|a, b| order.compare(a, b))?;
        let last = lasts
            .map(|table| &table.largest_key)
            .max_by(|a, b| order.compare(a, b))?;
        Some(Run {
            range: (first.clone(), last.clone()),
            values,
            keys,
        })
    }

    fn tables(&self) -> impl Iterator<Item = &SstFileInfo> {
        self.values.iter().chain(&self.keys)
    }

    /// Whether both have keys of one range.
    fn overlaps(&self, other: &Run, order: &dyn Comparator) -> bool {
        let ((first, last), (others_first, others_last)) = (&self.range, &other.range);
        order.compare(last, others_first).is_ge() && order.compare(others_last, first).is_ge()
    }
}

/// Collects rows for a family. Nothing is in the database before [`Bulk::finish`].
pub(super) struct Bulk<'a> {
    family: &'a ColumnFamily,
    /// Options of tables.
    options: Options,
    /// The least length of a value for a blob file.
    min_blob_size: u64,
    part: Part,
    part_bytes: u64,
    /// The oldest first.
    runs: Vec<Run>,
    runs_overlap: bool,
    workplace: Workplace,
}

impl<'a> Bulk<'a> {
    /// Prepares to load into a family of the database in the directory `database`, with tables in
    /// the directory `temp` for the time being. Sorts up to `memory` bytes at a time, if that is
    /// given.
    pub(super) fn new(
        database: &Path,
        family: &'a ColumnFamily,
        temp: Option<&Path>,
        memory: Option<u64>,
    ) -> Result<Self> {
        let options = Options {
            default: family.options(),
            ..Options::default()
        };
        let spare = StdVfs.resources().memory;
        let spare = spare.map_or(PART_BYTES, |memory| PART_BYTES.min(memory.left / 4));
        Ok(Bulk {
            family,
            min_blob_size: match options.default.enable_blob_files {
                true => options.default.min_blob_size,
                false => u64::MAX,
            },
            part: Part::new(Arc::clone(&options.default.comparator)),
            part_bytes: memory.unwrap_or(spare.max(LEAST_PART_BYTES)),
            options,
            runs: Vec::new(),
            runs_overlap: false,
            workplace: Workplace::new(database, temp)?,
        })
    }

    /// The directory for tables.
    pub(super) fn place(&self) -> &Path {
        self.workplace.path()
    }

    /// Takes a row. Returns false if the value is for a blob file: the caller writes it to the
    /// database then, before the next row of the same key.
    ///
    /// # Errors
    /// `Closed` after the signal; those of writing tables.
    pub(super) fn takes(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        check_signal()?;
        let is_taken = (value.len() as u64) < self.min_blob_size;
        self.part.push(key, is_taken.then_some(value));
        if self.part.size() as u64 >= self.part_bytes {
            self.write_run()?;
        }
        Ok(is_taken)
    }

    fn write_run(&mut self) -> Result<()> {
        if self.part.is_empty() {
            return Ok(());
        }
        let (mut values, mut keys) = (Tables::default(), Tables::default());
        let mut rows = 0;
        self.part.drain(|key, value| {
            rows += 1;
            if rows % ROWS_A_LOOK == 0 {
                check_signal()?;
            }
            let tables = match value {
                Some(_) => &mut values,
                None => &mut keys,
            };
            tables.add(key, value, &self.options, &mut self.workplace)
        })?;
        let order = &*self.options.default.comparator;
        let Some(run) = Run::new(values.finish()?, keys.finish()?, order) else {
            return Ok(());
        };
        if !self.runs_overlap && self.runs.iter().any(|other| run.overlaps(other, order)) {
            self.runs_overlap = true;
            // The tables of a run are written once more: nobody looks for single keys in them.
            self.options.default.bloom_bits_per_key = 0.0;
        }
        self.runs.push(run);
        Ok(())
    }

    /// Adds all rows to the family, in one step.
    ///
    /// # Errors
    /// `Closed` after the signal, if it came before that step.
    pub(super) fn finish(&mut self) -> Result<()> {
        check_signal()?;
        self.write_run()?;
        // Its memory is not needed any more.
        self.part = Part::new(Arc::clone(&self.options.default.comparator));
        let mut values = self.runs.iter().flat_map(|run| &run.values).peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let tables = match self.runs_overlap {
            true => self.merge()?,
            false => paths(values),
        };
        check_signal()?;
        self.family.ingest(&tables, &JUST_WRITTEN)
    }

    /// Merges the runs. A database of its own does it: the runs are its tables.
    fn merge(&mut self) -> Result<Vec<PathBuf>> {
        let of_runs = Options {
            default: ColumnFamilyOptions {
                disable_auto_compactions: true,
                ..self.options.default.clone()
            },
            ..Options::default()
        };
        self.options.default = self.family.options();
        let runs = Db::open(self.workplace.path().join("runs"), &of_runs)?;
        let merged = self.merge_in(&runs);
        // Also after an error: its directory is removed after that.
        let closed = runs.close();
        let merged = merged?;
        closed.map(|()| paths(&merged))
    }

    fn merge_in(&mut self, runs: &Db) -> Result<Vec<SstFileInfo>> {
        // The oldest first.
        let tables = self.runs.iter().flat_map(Run::tables);
        runs.ingest(&paths(tables), &JUST_WRITTEN)?;
        let rows = self.runs.iter().flat_map(|run| &run.values);
        let rows = rows.map(|table| table.entries).sum();
        let bar = progress::operations("merge", Some(rows));
        let mut merged = Tables::default();
        let mut read = runs.iter(&ReadOptions {
            fill_cache: false,
            ..ReadOptions::default()
        })?;
        read.seek_to_first()?;
        let mut rows = 0;
        while read.valid() {
            rows += 1;
            if rows % ROWS_A_LOOK == 0 {
                check_signal()?;
                bar.inc(ROWS_A_LOOK);
            }
            let (options, place) = (&self.options, &mut self.workplace);
            match read.value_in_place() {
                Some(value) => merged.add(read.key(), Some(value), options, place)?,
                None => merged.add(read.key(), Some(&read.value()?), options, place)?,
            }
            read.next()?;
        }
        bar.finish_and_clear();
        merged.finish()
    }
}

/// # Errors
/// `Closed` after the signal.
pub(super) fn check_signal() -> Result<()> {
    match interrupt::has_come() {
        true => Err(Error::new(ErrorKind::Closed, "interrupted")),
        false => Ok(()),
    }
}
