//! Checking a whole table against itself.

use std::sync::Arc;

use super::block::Block;
use super::block_io::Window;
use super::block_iter::BlockIter;
use super::footer::BlockHandle;
use super::liveness::LivenessBlock;
use super::open::read_properties;
use super::properties::name;
use super::reader::{SCAN_READAHEAD, TableReader, add_blob_ref};
use crate::error::{Error, Result};
use crate::format::internal_key::{ParsedInternalKey, ValueType};

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableCheck {
    /// Point entries.
    pub(crate) entries: u64,
    /// Deletions and single deletions among them.
    pub(crate) deletions: u64,
    pub(crate) range_tombstones: u64,
    /// References into blob files.
    pub(crate) blob_refs: u64,
    pub(crate) data_blocks: u64,
}

impl TableReader {
    /// Reads every block from the file (not the cache) and checks checksums, the order of keys,
    /// the index's separators, entry counts, that the filter has every key, and that the liveness
    /// block is what a scan finds (BLOB-3).
    ///
    /// # Errors
    /// `Corruption` naming the first contradiction.
    pub(crate) fn verify(self: &Arc<Self>) -> Result<TableCheck> {
        self.source.read(self.meta.metaindex)?;
        read_properties(&self.source, self.meta.properties)?;
        for handle in &self.meta.others {
            let stored = self.source.read_stored(*handle);
            stored
                .and_then(|stored| self.source.verify(*handle, &stored))
                .map_err(|e| self.at(e, *handle))?;
        }
        let mut state = State::default();
        let mut window = Window::new(SCAN_READAHEAD);
        for at in 0..self.index.len() {
            let Some(handle) = self.index.handle(at) else {
                break;
            };
            let data = self.source.read_through(&mut window, handle, false)?;
            Block::new(data)
                .and_then(|block| self.verify_block(block, at, &mut state))
                .map_err(|e| self.at(e, handle))?;
        }
        state.check.data_blocks = self.index.len() as u64;
        state.check.range_tombstones = self.range_tombstones.len() as u64;
        state.refs.sort();
        state.check.blob_refs = state.refs.totals().iter().map(|t| t.count).sum();
        self.verify_counts(&state.check)
            .map_err(|e| self.at(e, self.meta.properties))?;
        if let Some(liveness) = self.liveness()?
            && liveness != state.refs
        {
            let at = self
                .properties
                .liveness
                .map_or(BlockHandle::default(), |l| l.handle);
            return Err(self.at(
                Error::corruption("liveness block is not what the entries refer to"),
                at,
            ));
        }
        Ok(state.check)
    }

    fn verify_block(&self, block: Block, at: usize, state: &mut State) -> Result<()> {
        let order = &self.options.comparator;
        let mut iter = BlockIter::over_data(block, self.global_sequence);
        iter.seek_to_first()?;
        if !iter.valid() {
            return Err(Error::corruption("empty data block"));
        }
        if let Some(before) = at.checked_sub(1) {
            let ordered = if self.index.user_keys() {
                let first = ParsedInternalKey::parse(iter.key())?.user_key;
                order.compare_user(self.index.key(before), first).is_lt()
            } else if self.global_sequence.is_some() {
                true // separators have the stored sequence numbers
            } else {
                order.compare(self.index.key(before), iter.key()).is_lt()
            };
            if !ordered {
                return Err(Error::corruption(
                    "block starts before its index entry says",
                ));
            }
        }
        while iter.valid() {
            let key = ParsedInternalKey::parse(iter.key())?;
            if !state.last_key.is_empty() && order.compare(&state.last_key, iter.key()).is_ge() {
                return Err(Error::corruption("entries are out of order"));
            }
            match key.value_type {
                ValueType::Deletion | ValueType::SingleDeletion => state.check.deletions += 1,
                ValueType::RangeDeletion => {
                    return Err(Error::corruption("range tombstone among point entries"));
                }
                _ => {}
            }
            add_blob_ref(&mut state.refs, iter.key(), iter.value())?;
            if !self.may_contain(key.user_key) {
                return Err(Error::corruption("filter denies a key that is there"));
            }
            state.check.entries += 1;
            state.last_key.clear();
            state.last_key.extend_from_slice(iter.key());
            iter.next()?;
        }
        let within = if self.index.user_keys() || self.global_sequence.is_some() {
            let last = ParsedInternalKey::parse(&state.last_key)?.user_key;
            order.compare_user(last, self.index.user_key(at)).is_le()
        } else {
            order.compare(&state.last_key, self.index.key(at)).is_le()
        };
        if !within {
            return Err(Error::corruption("block ends after its index entry says"));
        }
        Ok(())
    }

    fn verify_counts(&self, check: &TableCheck) -> Result<()> {
        let p = &self.properties;
        let found = [
            (
                name::NUM_ENTRIES,
                p.num_entries,
                check.entries + check.range_tombstones,
            ),
            (
                name::NUM_RANGE_DELETIONS,
                p.num_range_deletions,
                check.range_tombstones,
            ),
        ];
        for (what, stored, found) in found {
            // Very old files do not have them all.
            if stored != found && p.get(what).is_some() {
                return Err(Error::corruption(format!(
                    "{what} is {stored}, the table has {found}"
                )));
            }
        }
        Ok(())
    }
}

#[derive(Default)]
struct State {
    check: TableCheck,
    last_key: Vec<u8>,
    refs: LivenessBlock,
}
