//! Whether a table points to a blob file.

use std::sync::Arc;

use crate::error::Result;
use crate::format::BlobFileNumber;
use crate::format::internal_key::ParsedInternalKey;
use crate::format::pointers::each_pointer;
use crate::iterator::InternalIterator;
use crate::table::read::iterator::TableIterOptions;
use crate::table::read::reader::TableReader;

/// Bytes that are read at once.
const READAHEAD: usize = 256 << 10;

impl TableReader {
    /// Whether an entry points to the blob file. Cost: reads all data blocks, because every entry
    /// must be understood.
    ///
    /// # Errors
    /// `Corruption` and `Unsupported` with the place, for an entry that is not understood.
    pub(crate) fn points_to(self: &Arc<Self>, file: BlobFileNumber) -> Result<bool> {
        let mut iter = self.iter(TableIterOptions {
            fill_cache: false,
            readahead: READAHEAD,
        });
        iter.seek_to_first()?;
        let mut found = false;
        while iter.valid() && !(found && mutant!(entries_after_a_pointer_unread)) {
            let pointers = ParsedInternalKey::parse(iter.key()).and_then(|key| {
                each_pointer(key.value_type, iter.value(), |index| {
                    found |= index.file == file;
                    Ok(())
                })
            });
            pointers.map_err(|e| e.at(self.source.path(), iter.block_offset()))?;
            iter.next()?;
        }
        Ok(found)
    }
}
