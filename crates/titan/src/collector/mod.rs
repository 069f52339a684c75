//! Collectors of table properties: code of the application that sees every entry of a table while
//! the table is written, and describes the table.
//!
//! Owns the view and the possible reports of a collector, the form in which reports are kept, and
//! the rule that a collector which fails harms nothing but its own report. The tables keep the
//! properties under their names, as RocksDB does; the MANIFEST keeps a copy, so that
//! [`ColumnFamily::table_properties`](crate::ColumnFamily::table_properties) opens no tables.

mod garbage;
mod report;
mod run;

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Result;
use crate::format::{ColumnFamilyId, SequenceNumber};

pub use garbage::{GarbageByMoment, GarbageFrom};
pub use report::CollectedReport;
pub(crate) use run::{Collectors, TableContent};

/// Makes the collectors of a family, one for each table that is written. Given in
/// [`ColumnFamilyOptions::table_properties_collectors`](crate::ColumnFamilyOptions::table_properties_collectors).
///
/// **When it runs.** In flushes, compactions, recovery and repair: wherever the engine writes a
/// table of the family. Tables that a compaction only moves keep their properties.
///
/// **Failures.** If a collector fails or panics, the table is written without the report of that
/// collector, and listeners are
/// [notified](crate::EventListener::table_properties_collector_failed). Nothing else changes.
pub trait TablePropertiesCollectorFactory: Send + Sync + 'static {
    /// Names the collector in tables and in errors. Always the same.
    fn name(&self) -> &str;

    /// The collector for a table, or none if this table is not to be described.
    fn create(&self, context: &CollectorContext<'_>) -> Option<Box<dyn TablePropertiesCollector>>;
}

impl fmt::Debug for dyn TablePropertiesCollectorFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TablePropertiesCollectorFactory")
    }
}

/// Describes one table.
pub trait TablePropertiesCollector: Send {
    /// Called for each entry, in the order of the table: keys ascending, and the versions of a key
    /// from the newest to the oldest. Range deletions come after all other entries.
    ///
    /// # Errors
    /// Those that the application reports: see [`TablePropertiesCollectorFactory`].
    fn add(&mut self, entry: &TableEntry<'_>) -> Result<()>;

    /// Returns the report on the table. Called once, after the last entry.
    ///
    /// # Errors
    /// The same.
    fn finish(&mut self) -> Result<TableReport>;
}

/// Report of a collector on a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Properties by name. Names that begin with `rocksdb.` or `titan.` are reserved: a report with
    /// one is dropped whole, and listeners are notified. If two collectors report the same name,
    /// the later one in the list is kept. The MANIFEST keeps a copy in memory and on disk: a few
    /// KiB for each table are fine.
    pub properties: BTreeMap<String, Vec<u8>>,
    /// Garbage among the table's entries, in bytes, by the moment from which on it counts. Bytes
    /// are those of keys and values, separated values included. See
    /// [`ColumnFamily::advance_garbage_moment`](crate::ColumnFamily::advance_garbage_moment).
    pub garbage: GarbageByMoment,
}

/// The table that a collector is made for.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CollectorContext<'a> {
    /// The family.
    pub column_family: ColumnFamilyId,
    /// Its name.
    pub column_family_name: &'a str,
}

/// The kind of an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryKind {
    /// A value, in the table or in a blob file.
    Value,
    /// The deletion of a key.
    Deletion,
    /// A deletion that ends at the first value that it meets.
    SingleDeletion,
    /// A merge operand.
    Merge,
    /// A value with named columns.
    WideColumns,
    /// The deletion of all keys from [`TableEntry::key`] to before [`TableEntry::value`].
    RangeDeletion,
}

/// An entry of a table, as a collector sees it. Reads no file.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TableEntry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Kind of the entry.
    pub kind: EntryKind,
    /// The position of the write in the order of all writes.
    pub sequence: SequenceNumber,
    /// The value as the table has it; `None` if it is in a blob file. Of wide columns, RocksDB's
    /// encoding.
    pub value: Option<&'a [u8]>,
    /// Bytes of the value as stored: after compression, where its blob file is compressed. Of wide
    /// columns, with those that are in blob files.
    pub stored_len: u64,
}
