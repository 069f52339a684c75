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
        // Numbers only: holding versions would keep files that compactions replace meanwhile.
        let mut wanted = Vec::new();
        let mut bytes = 0;
        for family in self.state.lock().families.values() {
            for (_, table) in family.version.tables() {
                bytes += table.size();
                if table.meta.oldest_blob_file.is_some() {
                    wanted.push((table.number(), table.size()));
                }
            }
        }
        if bytes > self.options.block_cache_size / CACHE_PART {
            return;
        }
        for (number, size) in wanted {
            if self.is_closing() {
                return;
            }
            let path = FileKind::Table(number).path(&self.dir);
            if let Ok(file) = self.vfs.open(&path, Access::Sequential) {
                file.prefetch(0, size as usize);
            }
        }
    }
}
