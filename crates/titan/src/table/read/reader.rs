//! A table open for reading.
//!
//! Index, filter, properties and range tombstones stay in memory while it is open; data blocks go
//! through the block cache. A point lookup that the filter does not rule out costs one binary
//! search in the index and one in a block, and at most one read of the file.

use std::sync::Arc;

use bytes::Bytes;

use crate::block_cache::BlockCache;
use crate::error::{Error, Result};
use crate::format::compression::Dictionary;
use crate::format::internal_key::{InternalKeyComparator, ParsedInternalKey, ValueType, user_key};
use crate::format::pointers::each_pointer;
use crate::format::range_tombstone::RangeTombstone;
use crate::format::unique_id::UniqueId;
use crate::format::{FileNumber, SequenceNumber, total};
use crate::stats::perf_context;
use crate::table::block::Block;
use crate::table::block::io::{BlockKind, BlockSource, Window};
use crate::table::block::iter::BlockIter;
use crate::table::filter::Filter;
use crate::table::footer::BlockHandle;
use crate::table::index::Index;
use crate::table::liveness::LivenessBlock;
use crate::table::properties::TableProperties;
use crate::table::read::read_ahead::ReadAhead;

/// Bytes that a scan of the whole table reads at once.
pub(in crate::table) const SCAN_READAHEAD: usize = 1 << 20;

/// Identity of a table in the MANIFEST. The file must agree with it.
#[derive(Clone, Copy)]
pub struct TableIdentity {
    /// The key of its blocks in the cache.
    pub number: FileNumber,
    /// Bytes.
    pub size: u64,
    /// The sequence number of an ingested file that does not contain it. `None` if there is no
    /// MANIFEST.
    pub largest_seq: Option<SequenceNumber>,
    /// `None` accepts any table.
    pub unique_id: Option<UniqueId>,
}

/// Options for opening a table.
pub struct TableReaderOptions {
    pub identity: TableIdentity,
    pub comparator: InternalKeyComparator,
    pub block_cache: Arc<BlockCache>,
}

/// Result of a point lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableEntry {
    pub(crate) sequence: SequenceNumber,
    pub(crate) value_type: ValueType,
    /// Shares the block's memory.
    pub(crate) value: Bytes,
}

/// Where the blocks other than data blocks are, so that a later check can read them again.
#[derive(Default)]
pub struct MetaBlocks {
    pub(in crate::table) metaindex: BlockHandle,
    /// Tables of LevelDB have none.
    pub(in crate::table) properties: Option<BlockHandle>,
    pub(in crate::table) range_tombstones: Option<BlockHandle>,
    /// Index, its partitions, filters, range tombstones.
    pub(in crate::table) others: Vec<BlockHandle>,
}

/// An open table. Immutable; share it by `Arc`.
pub struct TableReader {
    pub(in crate::table) source: BlockSource,
    pub(in crate::table) options: TableReaderOptions,
    pub(in crate::table) index: Index,
    pub(in crate::table) filter: Option<Filter>,
    pub(in crate::table) properties: TableProperties,
    pub(in crate::table) range_tombstones: Vec<RangeTombstone>,
    pub(in crate::table) global_sequence: Option<SequenceNumber>,
    /// Whether there may be timed values.
    pub(in crate::table) may_be_timed: bool,
    pub(in crate::table) meta: MetaBlocks,
}

impl TableReader {
    /// The file's number.
    pub(crate) fn number(&self) -> FileNumber {
        self.options.identity.number
    }

    /// The first entry at or after `seek_key`, an internal key, if it has the same user key: the
    /// filter is asked first. `fill_cache` says whether a block that had to be read from the file
    /// goes to the cache.
    pub(crate) fn get(&self, seek_key: &[u8], fill_cache: bool) -> Result<Option<TableEntry>> {
        let filter = self.key_filter();
        if filter.is_some_and(|filter| !filter.may_contain(user_key(seek_key))) {
            perf_context::add(|running| &running.bloom_sst_miss_count, 1);
            return Ok(None);
        }
        let found = self.get_unfiltered(seek_key, fill_cache)?;
        if filter.is_some() {
            let has = u64::from(found.is_some());
            perf_context::add(|running| &running.bloom_sst_hit_count, 1);
            perf_context::add(|running| &running.bloom_filter_full_true_positive, has);
        }
        Ok(found)
    }

    /// The same without the filter: for further entries of a key that the table has.
    #[inline]
    pub(crate) fn get_unfiltered(
        &self,
        seek_key: &[u8],
        fill_cache: bool,
    ) -> Result<Option<TableEntry>> {
        let target = user_key(seek_key);
        let order = &self.options.comparator;
        let at = self.index.find(order, seek_key);
        let Some(handle) = self.index.handle(at) else {
            return Ok(None);
        };
        let mut iter = self.block_iter(handle, fill_cache)?;
        iter.seek(order, seek_key).map_err(|e| self.at(e, handle))?;
        if !iter.valid() {
            // The next block starts after the separator. It can start with the same user key only
            // if the separator has it too. Separators that are user keys never split a user key's
            // entries.
            if self.index.user_keys() || self.index.user_key(at) != target {
                return Ok(None);
            }
            let Some(handle) = self.index.handle(at + 1) else {
                return Ok(None);
            };
            iter.reset(self.block(handle, fill_cache)?);
            iter.seek(order, seek_key).map_err(|e| self.at(e, handle))?;
        }
        if !iter.valid() || user_key(iter.key()) != target {
            return Ok(None);
        }
        let found = ParsedInternalKey::parse(iter.key()).map_err(|e| self.at(e, handle))?;
        Ok(Some(TableEntry {
            sequence: found.sequence,
            value_type: found.value_type,
            value: iter.value_bytes(),
        }))
    }

    /// Whether the table may have point entries of a user key; `false` is certain. No I/O.
    #[inline]
    pub(crate) fn may_contain(&self, user_key: &[u8]) -> bool {
        self.key_filter()
            .is_none_or(|filter| filter.may_contain(user_key))
    }

    /// Whether [`TableReader::may_contain`] can rule out a key.
    pub(crate) fn has_filter(&self) -> bool {
        self.key_filter().is_some()
    }

    /// The filter, if it has user keys.
    #[inline]
    fn key_filter(&self) -> Option<&Filter> {
        self.filter
            .as_ref()
            .filter(|_| self.properties.whole_key_filtering)
    }

    /// Whether the table may have point entries of keys whose prefix, by the extractor of this
    /// name, is `prefix`; `false` is certain, and `None` says that the table cannot tell. No I/O.
    #[inline]
    pub(crate) fn may_contain_prefix(&self, extractor: &str, prefix: &[u8]) -> Option<bool> {
        let filter = self.filter.as_ref()?;
        let of_extractor = self.properties.prefix_extractor.as_deref() == Some(extractor);
        of_extractor.then(|| filter.may_contain(prefix))
    }

    /// The first entry, not newer than `snapshot`, of a user key at or after that of `seek_key`, an
    /// internal key, and its user key, if that starts with `prefix`. Looks no further than to the
    /// first key that does not. `fill_cache` as for [`TableReader::get`].
    pub(crate) fn first_from(
        &self,
        seek_key: &[u8],
        prefix: &[u8],
        snapshot: SequenceNumber,
        fill_cache: bool,
    ) -> Result<Option<(Bytes, TableEntry)>> {
        let order = &self.options.comparator;
        let mut at = self.index.find(order, seek_key);
        let Some(mut handle) = self.index.handle(at) else {
            return Ok(None);
        };
        let mut iter = self.block_iter(handle, fill_cache)?;
        iter.seek(order, seek_key).map_err(|e| self.at(e, handle))?;
        loop {
            if !iter.valid() {
                at += 1;
                handle = match self.index.handle(at) {
                    Some(handle) => handle,
                    None => return Ok(None),
                };
                iter.reset(self.block(handle, fill_cache)?);
                iter.seek_to_first().map_err(|e| self.at(e, handle))?;
                continue;
            }
            let found = ParsedInternalKey::parse(iter.key()).map_err(|e| self.at(e, handle))?;
            if !found.user_key.starts_with(prefix) {
                return Ok(None);
            }
            if found.sequence <= snapshot {
                let entry = TableEntry {
                    sequence: found.sequence,
                    value_type: found.value_type,
                    value: iter.value_bytes(),
                };
                return Ok(Some((Bytes::copy_from_slice(found.user_key), entry)));
            }
            iter.next().map_err(|e| self.at(e, handle))?;
        }
    }

    /// All range tombstones, as stored: by start, newest first, possibly overlapping.
    pub fn range_tombstones(&self) -> &[RangeTombstone] {
        &self.range_tombstones
    }

    pub fn properties(&self) -> &TableProperties {
        &self.properties
    }

    /// The liveness block, read from the file; `None` if the table has none: either it has no
    /// pointers, or another program wrote it.
    ///
    /// # Errors
    /// `Corruption` if its totals are not those in the properties.
    pub(crate) fn liveness(&self) -> Result<Option<LivenessBlock>> {
        let Some(property) = self.properties.liveness else {
            return Ok(None);
        };
        let data = self.source.read(BlockKind::Meta, property.handle)?;
        let block = LivenessBlock::decode(&data).map_err(|e| self.at(e, property.handle))?;
        let totals = block.totals();
        let count = total(totals.iter().map(|t| t.count));
        let bytes = total(totals.iter().map(|t| t.bytes));
        if (count, bytes) != (property.count, property.bytes) {
            let text = format!(
                "liveness block has {count} references to {bytes} bytes, its properties say {} \
                 to {}",
                property.count, property.bytes
            );
            return Err(self.at(Error::corruption(text), property.handle));
        }
        Ok(Some(block))
    }

    /// Bytes of memory that the open table uses, cached blocks not included.
    pub(crate) fn memory_usage(&self) -> usize {
        let tombstones = self
            .range_tombstones
            .iter()
            .map(|t| t.start.len() + t.end.len() + 72);
        size_of::<Self>()
            + self.index.memory_usage()
            + self.filter.as_ref().map_or(0, Filter::memory_usage)
            + self.properties.memory_usage()
            + self
                .source
                .dictionary
                .as_ref()
                .map_or(0, Dictionary::memory_usage)
            + tombstones.sum::<usize>()
    }

    /// A data block, from the cache or the file.
    pub(in crate::table) fn block(&self, handle: BlockHandle, fill_cache: bool) -> Result<Block> {
        self.cached_or(handle, fill_cache, |source| {
            source.read(BlockKind::Data, handle)
        })
    }

    /// [`TableReader::block`] for a cursor that may be walking.
    pub(in crate::table) fn block_ahead(
        &self,
        ahead: &mut ReadAhead,
        handle: BlockHandle,
        fill_cache: bool,
    ) -> Result<Block> {
        self.cached_or(handle, fill_cache, |source| {
            let last = self.index.handle(self.index.len().saturating_sub(1));
            let data_end = last.map_or(0, |last| last.offset.saturating_add(last.size));
            ahead.prefetch(source, handle, data_end);
            source.read(BlockKind::Data, handle)
        })
    }

    /// [`TableReader::block`] for a walk through neighbouring blocks.
    pub(in crate::table) fn block_through(
        &self,
        window: &mut Window,
        handle: BlockHandle,
        backward: bool,
        fill_cache: bool,
    ) -> Result<Block> {
        self.cached_or(handle, fill_cache, |source| {
            let data = source.read_through(window, BlockKind::Data, handle, backward)?;
            // A slice would keep the whole window alive in the cache.
            Ok(if fill_cache {
                Bytes::copy_from_slice(&data)
            } else {
                data
            })
        })
    }

    fn cached_or(
        &self,
        handle: BlockHandle,
        fill_cache: bool,
        read: impl FnOnce(&BlockSource) -> Result<Bytes>,
    ) -> Result<Block> {
        let (cache, number) = (&self.options.block_cache, self.options.identity.number);
        if let Some(data) = cache.get(number, handle.offset) {
            perf_context::add(|running| &running.block_cache_hit_count, 1);
            return Block::new(data).map_err(|e| self.at(e, handle));
        }
        let data = perf_context::timed(|running| &running.block_read_time, || read(&self.source))?;
        perf_context::add(|running| &running.block_read_count, 1);
        perf_context::add(|running| &running.block_read_byte, handle.size);
        let block = Block::new(data).map_err(|e| self.at(e, handle))?;
        if fill_cache {
            cache.insert(number, handle.offset, block.data().clone());
        }
        Ok(block)
    }

    pub(in crate::table) fn block_iter(
        &self,
        handle: BlockHandle,
        fill_cache: bool,
    ) -> Result<BlockIter> {
        Ok(self.iter_over(self.block(handle, fill_cache)?))
    }

    /// A cursor over one of its data blocks.
    pub(in crate::table) fn iter_over(&self, block: Block) -> BlockIter {
        let iter = BlockIter::over_data(block, self.global_sequence);
        match self.may_be_timed {
            true => iter.untimed(),
            false => iter,
        }
    }

    /// Adds the file and the offset of a block to an error.
    pub(in crate::table) fn at(&self, e: Error, handle: BlockHandle) -> Error {
        e.at(self.source.path(), handle.offset)
    }
}

impl std::fmt::Debug for TableReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TableReader({})", self.source.path().display())
    }
}

/// Adds the pointers of an entry.
pub(in crate::table) fn add_blob_ref(
    refs: &mut LivenessBlock,
    ikey: &[u8],
    value: &[u8],
) -> Result<()> {
    let key = ParsedInternalKey::parse(ikey)?;
    each_pointer(key.value_type, value, |index| {
        refs.add(key.user_key.len(), &index)
    })
}
