//! Where a scan can go on after a damaged block.

use super::column_family::ColumnFamily;
use crate::error::Error;
use crate::format::file_name::FileKind;

impl ColumnFamily {
    /// The last key that a scan cannot read because of `error`, which a read of this family
    /// returned. A forward scan that seeks the key after it gets past the damage. Up to it are the
    /// keys that a damaged block of a table may have, or all keys of a table that cannot be opened.
    /// `None` if the error is about no table of the family: then no seek gets past it.
    ///
    /// Cost: opens the table; reads no data.
    pub fn last_unreadable_key(&self, error: &Error) -> Option<Vec<u8>> {
        let path = error.path().filter(|_| error.is_corruption())?;
        let files = &self.core.shared.files;
        let version = &self.family.super_version.load().version;
        let comparator = &version.comparator;
        let mut tables = version.tables().map(|(_, table)| table);
        let table =
            tables.find(|table| FileKind::Table(table.number()).path(&files.dir) == path)?;
        let largest = table.largest_user_key();
        let reader = files.open.table(table.meta.identity(), comparator).ok();
        let of_block = reader
            .as_ref()
            .zip(error.offset())
            .and_then(|(reader, offset)| reader.end_of_block(offset))
            // After the last block it may be later than all keys.
            .filter(|end| comparator.compare_user(end, largest).is_lt());
        Some(of_block.unwrap_or(largest).to_vec())
    }
}
