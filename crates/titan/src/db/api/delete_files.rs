//! Deleting a range together with the tables that lie in it.

use super::column_family::ColumnFamily;
use crate::db::jobs::file_deletion::{DeletableFiles, DeletedFiles};
use crate::error::Result;
use crate::filter::check_may_wait_for_jobs;

impl ColumnFamily {
    /// Deletes the keys from `begin` to before `end`, as [`ColumnFamily::delete_range`] does, and
    /// drops at once the tables whose keys are all in the range: the room of the tables, and of the
    /// values in blob files to which only they point, is given back without a compaction that reads
    /// them. The rest of the range goes with later compactions. RocksDB needs two calls for that,
    /// `DeleteFilesInRange` and `DeleteRange`, and snapshots lose the keys.
    ///
    /// A table stays while a snapshot may read it, an open transaction or conditions included;
    /// while no call counts the pointers of a table that RocksDB wrote; and if it was written
    /// meanwhile. Compactions drop these later; so does another call. To all readers and writers
    /// this is a deletion of the range and nothing else: snapshots, conditions, transactions, a
    /// [commit hook](crate::CommitHook), secondary instances.
    ///
    /// Cost: a write, a flush, a wait for running compactions of the family, a look at each table,
    /// and a sync of the MANIFEST. No table is read.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::delete_range`], before anything has changed; those of
    /// [`ColumnFamily::flush`] and [`ColumnFamily::compact_range`], after the range was deleted:
    /// the tables are left to compactions then.
    pub fn delete_files_in_range(
        &self,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<DeletedFiles> {
        check_may_wait_for_jobs()?;
        let (shared, family) = (&*self.core.shared, &self.family);
        let (begin, end) = (begin.as_ref(), end.as_ref());
        // ORDER: before the deletion, so that all entries up to this sequence number are older.
        let before = shared.counters.last_sequence();
        self.delete_range(begin, end)?;
        let after = shared.counters.last_sequence();
        // ORDER: the deletion is in a table before the tables go that it covers: neither a crash, a
        // checkpoint nor a follower can have one without the other.
        if !mutant!(files_deleted_before_their_tombstone) {
            shared.flush(&[family.id])?;
        }
        gate!("file deletion: range deleted");
        let files = DeletableFiles {
            begin,
            end,
            before,
            after,
        };
        let claim = shared.claim_for_manual(family)?;
        let deleted = shared.delete_files(family, files);
        shared.purge();
        drop(claim);
        deleted
    }
}
