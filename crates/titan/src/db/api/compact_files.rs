//! Compacting tables by their numbers.

use super::column_family::ColumnFamily;
use crate::error::Result;
use crate::format::FileNumber;

impl ColumnFamily {
    /// Merges tables of one level, with the tables of `output_level` that overlap them, into new
    /// tables there. [`table_properties`](ColumnFamily::table_properties) has the numbers of tables
    /// with their levels and keys. With the level of the tables themselves, they are rewritten
    /// where they are.
    ///
    /// More tables of that level are compacted with them: of level 0 all older ones, of other
    /// levels those between them and those that share a key with them. Name neighbours, then.
    /// Nothing is flushed. Waits for running compactions of the family, and no other starts
    /// meanwhile. Returns when it is done. Cost: reads and writes all these tables, on the caller's
    /// thread. Tables that it puts above the base level are soon compacted down, unless
    /// `disable_auto_compactions` is set.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no table of a number, which an earlier compaction may have
    /// replaced, if the tables are of several levels, or `output_level` does not exist, is above
    /// theirs, is 0, or is below a level that has keys of their range; if the family was dropped;
    /// within a compaction filter. `Closed`; `ReadOnly`; `WritesStopped`; `CompactionFilter`; the
    /// failure of the compaction, which stops writes unless it is `NoSpace`.
    pub fn compact_files(&self, files: &[FileNumber], output_level: usize) -> Result<()> {
        let shared = &self.core.shared;
        shared.compact_files(&self.family, files, output_level)
    }
}
