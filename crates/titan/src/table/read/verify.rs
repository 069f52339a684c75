//! Checks that a whole table is consistent.

use crate::error::{Error, Result};
use crate::format::blob_index::BlobRefs;
use crate::format::internal_key::{ParsedInternalKey, TRAILER_LEN, ValueType, shadows_value};
use crate::table::block::Block;
use crate::table::block::io::{BlockKind, Window};
use crate::table::liveness::LivenessBlock;
use crate::table::properties::name;
use crate::table::read::open::read_properties;
use crate::table::read::reader::{SCAN_READAHEAD, TableReader, add_blob_ref};

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableCheck {
    /// Point entries.
    pub entries: u64,
    /// Deletions and single deletions among them.
    pub(crate) deletions: u64,
    /// See [`TableFacts::num_shadowed`](crate::version::edit::TableFacts::num_shadowed).
    pub(crate) shadowed: u64,
    pub(crate) merge_operands: u64,
    pub(crate) range_tombstones: u64,
    /// Bytes of all internal keys, range tombstones' included.
    pub(crate) raw_key_size: u64,
    /// Bytes of all values, range tombstones' ends included.
    pub(crate) raw_value_size: u64,
    pub(crate) data_blocks: u64,
    /// Pointers into blob files, by ascending file.
    pub blob_refs: Vec<BlobRefs>,
    /// Whether no data block was damaged, so that the counts are those of the whole table.
    pub complete: bool,
}

/// Receives the findings of a check of a table.
pub trait TableVisitor {
    /// An entry of a block, which starts at `block_offset` in the file. `ikey` is `key`'s encoding.
    fn entry(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], value: &[u8], block_offset: u64);

    /// A contradiction, with file and offset. The check continues after it.
    fn damage(&mut self, error: Error);
}

impl TableReader {
    /// Reads every block from the file (not the cache) and checks checksums, the order of keys, the
    /// index's separators, range deletions, entry counts, that the filter has every key, and that
    /// the liveness block has the pointers that a scan finds (BLOB-3). After a damaged block the
    /// check continues with the next one.
    ///
    /// Cost: reads the file once, front to back; 24 bytes of memory for each pointer into a blob
    /// file.
    pub fn verify(&self, visitor: &mut impl TableVisitor) -> TableCheck {
        let mut report = |checked: Result<()>| {
            if let Err(e) = checked {
                visitor.damage(e);
            }
        };
        report(
            self.source
                .read(BlockKind::Meta, self.meta.metaindex)
                .map(|_| ()),
        );
        if let Some(handle) = self.meta.properties {
            report(read_properties(&self.source, handle).map(|_| ()));
        }
        for handle in &self.meta.others {
            let stored = self.source.read_stored(*handle);
            let verified = stored.and_then(|stored| self.source.verify(*handle, &stored));
            report(verified.map_err(|e| self.at(e, *handle)));
        }
        let mut state = State::default();
        state.check.complete = true;
        let mut window = Window::new(SCAN_READAHEAD);
        for at in 0..self.index.len() {
            let Some(handle) = self.index.handle(at) else {
                break;
            };
            let verified = self
                .source
                .read_through(&mut window, BlockKind::Data, handle, false)
                .and_then(Block::new)
                .and_then(|block| self.verify_block(block, at, &mut state, visitor));
            if let Err(e) = verified {
                state.check.complete = false;
                visitor.damage(self.at(e, handle));
            }
        }
        if let (Err(e), Some(handle)) = (self.verify_range_tombstones(), self.meta.range_tombstones)
        {
            visitor.damage(self.at(e, handle));
        }
        for tombstone in &self.range_tombstones {
            state.check.raw_key_size += (tombstone.start.len() + TRAILER_LEN) as u64;
            state.check.raw_value_size += tombstone.end.len() as u64;
        }
        state.check.data_blocks = self.index.len() as u64;
        state.check.range_tombstones = self.range_tombstones.len() as u64;
        state.refs.sort();
        state.check.blob_refs = state.refs.totals();
        if state.check.complete {
            for checked in [
                self.verify_counts(&state.check, state.unseen_bytes),
                self.verify_liveness(&state.refs),
            ] {
                if let Err(e) = checked {
                    let at = self.meta.properties.unwrap_or(self.meta.metaindex);
                    visitor.damage(self.at(e, at));
                }
            }
        }
        state.check
    }

    /// Checks that each covers something and that they are sorted by start, newest first.
    fn verify_range_tombstones(&self) -> Result<()> {
        let order = &self.options.comparator;
        for t in &self.range_tombstones {
            if order.compare_user(&t.start, &t.end).is_ge() {
                let text = format!(
                    "range deletion from '{}' ends before it starts",
                    t.start.escape_ascii()
                );
                return Err(Error::corruption(text));
            }
        }
        let sorted = self.range_tombstones.is_sorted_by(|a, b| {
            let starts = order.compare_user(&a.start, &b.start);
            starts.then(b.sequence.cmp(&a.sequence)).is_le()
        });
        match sorted {
            true => Ok(()),
            false => Err(Error::corruption("range deletions are out of order")),
        }
    }

    fn verify_liveness(&self, found: &LivenessBlock) -> Result<()> {
        match (self.liveness()?, self.properties.liveness) {
            (Some(liveness), Some(property)) if liveness != *found => Err(self.at(
                Error::corruption("liveness block does not match the entries"),
                property.handle,
            )),
            _ => Ok(()),
        }
    }

    fn verify_block(
        &self,
        block: Block,
        at: usize,
        state: &mut State,
        visitor: &mut impl TableVisitor,
    ) -> Result<()> {
        block.verify_restarts()?;
        let block_offset = self.index.handle(at).map_or(0, |handle| handle.offset);
        let order = &self.options.comparator;
        let mut iter = self.iter_over(block);
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
                ValueType::Merge => state.check.merge_operands += 1,
                ValueType::RangeDeletion => {
                    return Err(Error::corruption("range tombstone among point entries"));
                }
                _ => {}
            }
            state.check.shadowed += u64::from(shadows_value(&state.last_key, &key));
            add_blob_ref(&mut state.refs, iter.key(), iter.value())?;
            if !self.may_contain(key.user_key) {
                return Err(Error::corruption("filter denies a key that is there"));
            }
            // The bounds of the table are those of the keys that it stores.
            let ikey = match self.may_be_timed {
                true => iter.stored_key(),
                false => iter.key(),
            };
            visitor.entry(key, ikey, iter.value(), block_offset);
            state.check.entries += 1;
            state.check.raw_key_size += iter.key().len() as u64;
            state.check.raw_value_size += iter.value().len() as u64;
            state.unseen_bytes += (iter.stored_value_len() - iter.value().len()) as u64;
            state.last_key.clear();
            state.last_key.extend_from_slice(iter.key());
            iter.next()?;
        }
        let is_shown = self.global_sequence.is_some() || self.may_be_timed;
        let within = if self.index.user_keys() || is_shown {
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

    /// `unseen_bytes` are those of values that are stored and not shown.
    fn verify_counts(&self, check: &TableCheck, unseen_bytes: u64) -> Result<()> {
        let p = &self.properties;
        let found = [
            (
                name::NUM_ENTRIES,
                p.num_entries,
                check.entries + check.range_tombstones,
            ),
            (
                name::DELETED_KEYS,
                p.num_deletions,
                check.deletions + check.range_tombstones,
            ),
            (
                name::NUM_RANGE_DELETIONS,
                p.num_range_deletions,
                check.range_tombstones,
            ),
            (
                name::MERGE_OPERANDS,
                p.num_merge_operands,
                check.merge_operands,
            ),
            (name::NUM_DATA_BLOCKS, p.num_data_blocks, check.data_blocks),
            (name::RAW_KEY_SIZE, p.raw_key_size, check.raw_key_size),
            (
                name::RAW_VALUE_SIZE,
                p.raw_value_size,
                check.raw_value_size + unseen_bytes,
            ),
        ];
        for (what, stored, found) in found {
            // RocksDB does not count the blocks that it buffered to make a dictionary. These may be
            // all blocks of a small table, which may end up without a dictionary.
            let gathered = stored == 0 || self.source.dictionary.is_some();
            let uncounted = what == name::NUM_DATA_BLOCKS && stored < found && gathered;
            // Very old files do not have them all.
            if stored != found && !uncounted && p.get(what).is_some() {
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
    unseen_bytes: u64,
    last_key: Vec<u8>,
    refs: LivenessBlock,
}
