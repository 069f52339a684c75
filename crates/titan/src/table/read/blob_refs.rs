//! The pointers of a table, by its liveness block or by a scan.

use std::sync::Arc;

use crate::error::Result;
use crate::iterator::InternalIterator;
use crate::table::liveness::LivenessBlock;
use crate::table::read::iterator::TableIterOptions;
use crate::table::read::reader::{SCAN_READAHEAD, TableReader, add_blob_ref};

impl TableReader {
    /// The pointers of the table: those of the liveness block or, if another program wrote the
    /// table, those that a scan of all entries finds.
    pub fn blob_refs(self: &Arc<Self>) -> Result<LivenessBlock> {
        match self.liveness()? {
            Some(references) => Ok(references),
            None => self.scan_blob_refs(),
        }
    }

    /// The liveness block that a scan of all entries gives, whether or not the table has one.
    pub(crate) fn scan_blob_refs(self: &Arc<Self>) -> Result<LivenessBlock> {
        let mut refs = LivenessBlock::default();
        let mut iter = self.iter(TableIterOptions {
            fill_cache: false,
            readahead: SCAN_READAHEAD,
        });
        iter.seek_to_first()?;
        while iter.valid() {
            add_blob_ref(&mut refs, iter.key(), iter.value())
                .map_err(|e| e.at(self.source.path(), iter.block_offset()))?;
            iter.next()?;
        }
        refs.sort();
        Ok(refs)
    }
}
