//! The disk usage of a database by kind of file, and its live part.

use std::path::Path;

use serde::Serialize;
use titan::vfs::StdVfs;
use titan::{ColumnFamily, Db, DiskUsage, ReadOptions, Result};

use crate::output::{self, Table};

/// Bytes of the files in a directory, by kind.
pub(crate) fn disk_usage(directory: &Path) -> Result<DiskUsage> {
    DiskUsage::of(&StdVfs, directory)
}

/// The disk usage before and after a command.
pub(crate) fn before_and_after(before: &DiskUsage, after: &DiskUsage) -> Table {
    let mut table = Table::new(&["on disk", "before", "after"]);
    for (kind, before, after) in [
        ("SST", before.sst_bytes, after.sst_bytes),
        ("blob", before.blob_bytes, after.blob_bytes),
        ("blob maps", before.map_bytes, after.map_bytes),
    ] {
        table.row([kind.to_owned(), output::size(before), output::size(after)]);
    }
    table
}

/// The number of existing keys, and their bytes with those of their values as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Live {
    pub(crate) keys: u64,
    pub(crate) bytes: u64,
}

impl Live {
    /// Counts by scanning all keys of all families; values in blob files are not read.
    pub(crate) fn count(db: &Db) -> Result<Live> {
        let mut live = Live::default();
        for family in db.column_families() {
            for_each_key(&family, |key, stored| {
                live.keys += 1;
                live.bytes += key.len() as u64 + stored;
            })?;
        }
        Ok(live)
    }
}

/// Calls `f` with every key of a family and the stored length of its value. Reads no values
/// and displaces nothing from the block cache.
pub(crate) fn for_each_key(family: &ColumnFamily, mut f: impl FnMut(&[u8], u64)) -> Result<()> {
    let options = ReadOptions {
        fill_cache: false,
        prefetch_values: 0,
        ..ReadOptions::default()
    };
    let mut iterator = family.iter(&options)?;
    iterator.seek_to_first()?;
    while iterator.valid() {
        f(iterator.key(), iterator.lazy_value()?.stored_len());
        iterator.next()?;
    }
    Ok(())
}
