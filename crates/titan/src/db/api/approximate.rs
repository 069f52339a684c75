//! Answers that may be inexact and cost little: how large a range is, whether a key may exist.

use std::ops::Bound;

use super::column_family::ColumnFamily;
use crate::db::core::family::dropped;
use crate::error::Result;
use crate::version::{TableFile, Version};

impl ColumnFamily {
    /// About how many bytes the keys from `begin` to before `end` take in files: of each table, the
    /// share of its blocks that are in the range, and the same share of the values in blob files to
    /// which it points. Values that newer tables shadow count, as they take space; memtables do
    /// not. Tables that the range covers whole count exactly; at the ends of the range, blocks
    /// count whole, with all values to which they point. So each end of the range adds up to a
    /// block of each table and its values: half a megabyte if keys have 16 bytes and values in blob
    /// files 5 KB. Cost: opens the tables at the two ends of the range that are not open; reads no
    /// data.
    ///
    /// `end` is left out, as in [`ColumnFamily::delete_range`] and unlike in
    /// [`ColumnFamily::compact_range`]; a range whose end does not come after its beginning is
    /// empty, where both of these refuse one whose end comes before it.
    ///
    /// # Errors
    /// Those of reads.
    pub fn approximate_size(&self, begin: impl AsRef<[u8]>, end: impl AsRef<[u8]>) -> Result<u64> {
        let (begin, end) = (begin.as_ref(), end.as_ref());
        self.check_usable()?;
        let version = &self.family.super_version.load().version;
        let comparator = &version.comparator;
        if comparator.compare_user(begin, end).is_ge() {
            return Ok(0);
        }
        let mut bytes = 0_u64;
        for (_, table) in version.tables() {
            bytes = bytes.saturating_add(self.size_within(table, version, (begin, end))?);
        }
        Ok(bytes)
    }

    fn size_within(
        &self,
        table: &TableFile,
        version: &Version,
        (begin, end): (&[u8], &[u8]),
    ) -> Result<u64> {
        if !version.overlaps(table, Some(begin), Bound::Excluded(end)) {
            return Ok(0);
        }
        let size = match mutant!(values_not_in_approximate_sizes) {
            true => table.size(),
            false => table.logical_size(),
        };
        if version.lies_within(table, begin, end) {
            return Ok(size);
        }
        let files = &self.core.shared.files;
        let identity = table.meta.identity();
        let reader = files.open.table(identity, &version.comparator)?;
        Ok((size as f64 * reader.share_between(begin, end)) as u64)
    }

    /// Whether `key` may have a value: false only if it certainly has none. Looks at memtables and
    /// at the filters of tables; cheaper than [`contains_key`](Self::contains_key), which reads a
    /// block of a table where the filter admits the key. Without filters it says only whether a
    /// table's range has the key. Cost: opens tables that are not open; reads no data.
    ///
    /// # Errors
    /// Those of reads.
    pub fn key_may_exist(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.check_usable()?;
        let super_version = self.family.super_version.load();
        let last = self.core.shared.counters.last_sequence();
        for memtable in super_version.memtables() {
            if let Some(entry) = memtable.get(key, last) {
                // Older versions do not count, except below a merge operand.
                return Ok(!entry.value_type.is_point_deletion());
            }
        }
        let version = &super_version.version;
        let missed = usize::from(mutant!(last_level_not_asked));
        for level in 0..version.num_levels() - missed {
            let near = match level {
                0 => version.level0_files(key).map(|table| &**table).collect(),
                _ => {
                    let found = version.overlapping(level, Some(key), Bound::Included(key));
                    found.iter().map(|table| &**table).collect::<Vec<_>>()
                }
            };
            for table in near {
                let files = &self.core.shared.files;
                let reader = files
                    .open
                    .table(table.meta.identity(), &version.comparator)?;
                if reader.may_contain(key) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    pub(super) fn check_usable(&self) -> Result<()> {
        self.core.shared.check_open()?;
        match self.family.is_dropped() {
            true => Err(dropped(&self.family.name)),
            false => Ok(()),
        }
    }
}
