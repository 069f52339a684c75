//! Asking for the tree before it is used.
//!
//! Where values lie in blob files, the tables are small beside what they stand for, and the first
//! reads of a database touch them all over: each would wait for the device once for the table and
//! once for the value. So a database that is opened asks the kernel for those tables, if all of
//! them fit a part of the block cache, where they will end up anyway.

use super::core::Shared;
use crate::format::file_name::FileKind;
use crate::vfs::Access;

/// The part of the block cache, as a divisor, that the tables of the database may be as large as.
const CACHE_PART: u64 = 2;

impl Shared {
    /// Asks for the tables that refer to blob files. Only hints: failures are met again, and told,
    /// by whoever needs the table.
    pub(super) fn warm_up(&self) {
        let versions: Vec<_> = {
            let state = self.state.lock();
            state.families.values().map(|f| f.version.clone()).collect()
        };
        let tables = || versions.iter().flat_map(|v| v.tables());
        let bytes: u64 = tables().map(|(_, t)| t.size()).sum();
        if bytes > self.options.block_cache_size / CACHE_PART {
            return;
        }
        for (_, table) in tables().filter(|(_, t)| t.meta.oldest_blob_file.is_some()) {
            if self.is_closing() {
                return;
            }
            let path = FileKind::Table(table.number()).path(&self.dir);
            if let Ok(file) = self.vfs.open(&path, Access::Sequential) {
                file.prefetch(0, table.size() as usize);
            }
        }
    }
}
