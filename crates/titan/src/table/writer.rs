//! Writes a table.
//!
//! Data blocks are written as they fill up; filter, index, range tombstones, liveness and
//! properties follow in [`TableWriter::finish`]. Nothing names the file before that returns, so an
//! error leaves a file that is never opened; the caller drops the writer and removes the file.

use std::path::Path;
use std::sync::Arc;

use super::{META_PROPERTIES, META_RANGE_DEL};
use crate::collector::{CollectedReport, Collectors, TableContent};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobRefs;
use crate::format::internal_key::{
    InternalKeyComparator, MAX_ENTRY, ParsedInternalKey, ValueType, internal_key, user_key,
};
use crate::format::pointers::each_pointer;
use crate::format::prefix::PrefixExtractor;
use crate::format::range_tombstone::RangeTombstone;
use crate::format::sequence_times::SequenceTimes;
use crate::format::unique_id::{UniqueId, unique_id};
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType, FileNumber, SequenceNumber};
use crate::sorting;
use crate::table::block::builder::BlockBuilder;
use crate::table::filter::{self, FilterBuilder};
use crate::table::footer::{BLOCK_TRAILER_LEN, BlockHandle, Footer};
use crate::table::index::IndexBuilder;
use crate::table::liveness::LivenessBlock;
use crate::table::output::{CHECKSUM, Output};
use crate::table::prefix_run::PrefixRun;
use crate::table::properties::{PropertiesBuilder, name};
use crate::vfs::WritableFile;

/// A block that is this full (in percent) is closed if the next entry would exceed its size.
const NEARLY_FULL_PERCENT: usize = 90;
/// Options for writing a table.
pub struct TableWriterOptions {
    pub comparator: InternalKeyComparator,
    /// Uncompressed bytes of a data block, approximately.
    pub block_size: usize,
    /// Entries of a data block from one restart point to the next.
    pub restart_interval: usize,
    /// 0 writes no filter.
    pub bloom_bits_per_key: f64,
    /// The filter has prefixes, too.
    pub prefix_extractor: Option<Arc<dyn PrefixExtractor>>,
    /// For data, index and liveness blocks, where it saves at least an eighth.
    pub compression: CompressionType,
    pub family: TableFamily,
    /// The database's IDENTITY; with session and number, it makes the file unique.
    pub db_id: String,
    pub db_session_id: String,
    pub file_number: FileNumber,
    /// Seconds since 1970.
    pub creation_time: u64,
}

/// Whose table it is, for its properties.
pub struct TableFamily {
    pub id: ColumnFamilyId,
    pub name: String,
    /// The name of the merge operator, if the family has one.
    pub merge_operator: Option<String>,
}

/// Summary of a table that was written, with the facts that a version edit needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// Bytes of the file.
    pub(crate) file_size: u64,
    /// The smallest internal key, range tombstones' starts included.
    pub(crate) smallest: Vec<u8>,
    /// The largest internal key. If a range tombstone ends after the points, its end with the
    /// largest sequence number, as the end itself is not covered.
    pub(crate) largest: Vec<u8>,
    pub(crate) smallest_seq: SequenceNumber,
    pub(crate) largest_seq: SequenceNumber,
    /// Point entries.
    pub(crate) num_entries: u64,
    /// Deletions and single deletions.
    pub(crate) num_deletions: u64,
    pub(crate) num_range_deletions: u64,
    /// Bytes of all internal keys, range tombstones' included.
    pub(crate) raw_key_size: u64,
    /// Bytes of all values, range tombstones' ends included.
    pub(crate) raw_value_size: u64,
    /// References of the table to blob files, by ascending file.
    pub blob_refs: Vec<BlobRefs>,
    pub(crate) unique_id: Option<UniqueId>,
}

impl TableSummary {
    /// The smallest file to which the table points.
    pub(crate) fn oldest_blob_file(&self) -> Option<BlobFileNumber> {
        self.blob_refs.first().map(|refs| refs.file)
    }
}

/// Writes one table, entries in ascending order.
pub struct TableWriter {
    options: TableWriterOptions,
    output: Output,
    data: BlockBuilder,
    index: IndexBuilder,
    filter: Option<FilterBuilder>,
    tombstones: Vec<RangeTombstone>,
    liveness: LivenessBlock,
    referenced_blob_bytes: u64,
    /// The first internal key; empty before it.
    first_key: Vec<u8>,
    /// The internal key added last; empty before the first.
    last_key: Vec<u8>,
    run: PrefixRun,
    smallest_seq: SequenceNumber,
    largest_seq: SequenceNumber,
    num_entries: u64,
    num_deletions: u64,
    num_merge_operands: u64,
    raw_key_size: u64,
    raw_value_size: u64,
    /// The property about times; empty if they are not recorded.
    times: Vec<u8>,
    /// Until [`TableWriter::collect`].
    collectors: Option<Collectors>,
    /// The names of the collectors, as the property has them.
    collector_names: String,
    collected: CollectedReport,
}

impl TableWriter {
    /// Starts a table in `file`, which must be empty; `path` is for errors.
    pub fn new(file: Box<dyn WritableFile>, path: &Path, options: TableWriterOptions) -> Self {
        let output = Output::new(file, path, options.block_size);
        TableWriter {
            output,
            data: BlockBuilder::new(options.restart_interval),
            index: IndexBuilder::default(),
            filter: FilterBuilder::new(options.bloom_bits_per_key),
            tombstones: Vec::new(),
            liveness: LivenessBlock::default(),
            referenced_blob_bytes: 0,
            first_key: Vec::new(),
            last_key: Vec::new(),
            run: PrefixRun::default(),
            smallest_seq: SequenceNumber::MAX,
            largest_seq: SequenceNumber::ZERO,
            num_entries: 0,
            num_deletions: 0,
            num_merge_operands: 0,
            raw_key_size: 0,
            raw_value_size: 0,
            times: Vec::new(),
            collectors: None,
            collector_names: "[]".to_owned(),
            collected: CollectedReport::default(),
            options,
        }
    }

    /// Shows all entries to these collectors. To be called before the first.
    pub(crate) fn show_to(&mut self, collectors: Collectors) {
        self.collector_names = collectors.names();
        self.collectors = Some(collectors);
    }

    /// Takes the reports of the collectors, which the table will have. To be called after the last
    /// entry.
    pub(crate) fn collect(&mut self) -> TableContent {
        let collectors = self.collectors.take();
        let content = collectors.map(Collectors::finish).unwrap_or_default();
        self.collected.clone_from(&content.report);
        content
    }

    /// Adds a point entry.
    ///
    /// # Errors
    /// `Corruption` if the key is not after the one before it, if it is not an internal key of a
    /// point, or if a pointer does not decode: a table written must be readable. `InvalidArgument`
    /// if the entry is too large for a block.
    pub fn add(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let parsed = ParsedInternalKey::parse(ikey)?;
        if ikey.len().saturating_add(value.len()) > MAX_ENTRY {
            return Err(Error::invalid_argument("entry too large for a table"));
        }
        let first = self.last_key.is_empty();
        if !first
            && self
                .options
                .comparator
                .compare(&self.last_key, ikey)
                .is_ge()
        {
            return Err(Error::corruption("table entries are out of order")
                .at(&self.output.path, self.output.position()));
        }
        match parsed.value_type {
            ValueType::Deletion | ValueType::SingleDeletion => self.num_deletions += 1,
            ValueType::Merge => self.num_merge_operands += 1,
            ValueType::BlobIndex | ValueType::WideColumnEntity => {
                let key_len = parsed.user_key.len();
                each_pointer(parsed.value_type, value, |index| {
                    self.liveness.add(key_len, &index)?;
                    self.referenced_blob_bytes += index.record_len(key_len);
                    Ok(())
                })?;
            }
            ValueType::RangeDeletion => {
                return Err(Error::corruption("range tombstone among point entries"));
            }
            ValueType::Value => {}
        }
        let is_new_key = first || user_key(&self.last_key) != parsed.user_key;
        let begins = is_new_key && self.options.prefix_extractor.is_some();
        let prefix = if begins {
            self.new_prefix(parsed.user_key)
        } else {
            None
        };
        let (size, full) = (self.data.size(), self.options.block_size);
        let ends_block = prefix.is_some() && self.run.ends_block(size, full);
        if ends_block || self.block_is_full_for(ikey, value) {
            self.finish_block(Some(ikey))?;
        }
        if first {
            self.first_key.extend_from_slice(ikey);
        }
        if let Some(prefix) = prefix {
            self.run.begin(prefix);
        }
        if let Some(filter) = &mut self.filter
            && is_new_key
        {
            filter.add(parsed.user_key);
            if prefix.is_some() {
                filter.add_prefix(self.run.prefix());
            }
        }
        if let Some(collectors) = &mut self.collectors {
            collectors.add(&parsed, value)?;
        }
        self.data.add(ikey, value);
        self.last_key.clear();
        self.last_key.extend_from_slice(ikey);
        self.count(parsed.sequence, ikey.len(), value.len());
        self.num_entries += 1;
        Ok(())
    }

    /// The prefix of a key, if it is another than that of the key before it.
    #[inline(never)]
    fn new_prefix<'k>(&mut self, user_key: &'k [u8]) -> Option<&'k [u8]> {
        let extractor = self.options.prefix_extractor.as_ref()?;
        let extracted = extractor.prefix(user_key);
        let ignored = mutant!(panicking_extractor_ignored);
        let Ok(prefix) = extracted.or_else(|e| if ignored { Ok(None) } else { Err(e) }) else {
            // A filter without this prefix must not be asked about it: the table names no
            // extractor.
            self.options.prefix_extractor = None;
            return None;
        };
        prefix.filter(|prefix| self.run.ends_before(prefix))
    }

    /// Adds a range tombstone; any time, in any order.
    ///
    /// # Errors
    /// `InvalidArgument` if it covers nothing.
    pub(crate) fn add_range_tombstone(&mut self, t: &RangeTombstone) -> Result<()> {
        if self
            .options
            .comparator
            .compare_user(&t.start, &t.end)
            .is_ge()
        {
            return Err(Error::invalid_argument(
                "range tombstone that ends before it starts",
            ));
        }
        if let Some(collectors) = &mut self.collectors {
            collectors.add_range_tombstone(t);
        }
        self.tombstones.push(t.clone());
        Ok(())
    }

    /// Records when the entries so far had been written.
    pub(crate) fn record_times(&mut self, times: &SequenceTimes) {
        let times = times.between(self.smallest_seq, self.largest_seq);
        if !times.is_empty() && self.num_entries > 0 {
            self.times = times.encode();
        }
    }

    /// Bytes so far, the block in progress and an estimate of the index included.
    pub(crate) fn file_size(&self) -> u64 {
        self.output.position() + self.data.size() as u64 + self.index.size() as u64
    }

    /// Bytes of the blob records (header, key, stored value) that the entries so far point to.
    pub(crate) fn referenced_blob_bytes(&self) -> u64 {
        self.referenced_blob_bytes
    }

    /// Whether there is nothing to write, neither points nor range tombstones.
    pub(crate) fn is_empty(&self) -> bool {
        self.num_entries == 0 && self.tombstones.is_empty()
    }

    /// Writes the rest and makes the file durable. The caller syncs its name.
    ///
    /// # Errors
    /// `InvalidArgument` if [`TableWriter::is_empty`]: a version cannot have a table without keys.
    pub fn finish(mut self) -> Result<TableSummary> {
        if self.is_empty() {
            return Err(Error::invalid_argument("table without entries").in_file(&self.output.path));
        }
        self.finish_block(None)?;
        let order = self.options.comparator.clone();
        sorting::sort_by(&mut self.tombstones, |a, b| {
            order
                .compare_user(&a.start, &b.start)
                .then(b.sequence.cmp(&a.sequence))
                .then_with(|| order.compare_user(&a.end, &b.end))
        });
        self.tombstones.dedup();
        for i in 0..self.tombstones.len() {
            if let Some(t) = self.tombstones.get(i) {
                let (sequence, key_len, end_len) = (t.sequence, t.start.len() + 8, t.end.len());
                self.count(sequence, key_len, end_len);
            }
        }
        invariant!(
            self.smallest_seq <= self.largest_seq,
            "a table with operations has none"
        );
        invariant!(
            self.num_deletions + self.num_merge_operands <= self.num_entries,
            "a table has {} entries, and {} deletions and operands",
            self.num_entries,
            self.num_deletions + self.num_merge_operands
        );
        let points = (std::mem::take(&mut self.first_key), self.last_key.clone());
        let (smallest, largest) = bounds(points, &self.tombstones, &self.options.comparator);
        self.liveness.sort();
        let blob_refs = self.liveness.totals();

        let data_size = self.output.position();
        let mut properties = PropertiesBuilder::default();
        let mut metaindex = BlockBuilder::new(1);
        // Metaindex entries are added by name: the filter's, then `rocksdb.properties`, then
        // `rocksdb.range_del`. The order of the blocks in the file is free.
        let mut range_del = None;
        properties.number(
            name::NUM_FILTER_ENTRIES,
            self.filter.as_ref().map_or(0, |f| f.len()) as u64,
        );
        let mut filter_size = 0;
        if let Some(block) = self.filter.take().and_then(FilterBuilder::finish) {
            let handle = self.output.block(&block, CompressionType::None)?;
            metaindex.add(filter::META_KEY, &encoded(handle));
            properties.bytes(name::FILTER_POLICY, filter::POLICY_NAME);
            filter_size = handle.size;
        }
        let index = std::mem::take(&mut self.index);
        let (user_keys, num_data_blocks) = (index.user_keys(), index.len());
        let index_block = index.finish();
        let index = self.output.block(&index_block, self.options.compression)?;
        if !self.tombstones.is_empty() {
            let mut block = BlockBuilder::new(1);
            for t in &self.tombstones {
                let key = internal_key(&t.start, t.sequence, ValueType::RangeDeletion as u8);
                block.add(&key, &t.end);
            }
            range_del = Some(self.output.block(block.finish(), CompressionType::None)?);
        }
        if !self.liveness.is_empty() {
            let handle = self
                .output
                .block(&self.liveness.encode(), self.options.compression)?;
            properties.bytes(name::LIVENESS, encoded(handle));
            properties.number(
                name::LIVENESS_COUNT,
                blob_refs.iter().map(|r| r.count).sum(),
            );
            properties.number(
                name::LIVENESS_BYTES,
                blob_refs.iter().map(|r| r.bytes).sum(),
            );
        }
        properties.number(name::DATA_SIZE, data_size);
        properties.number(name::FILTER_SIZE, filter_size);
        properties.number(
            name::INDEX_SIZE,
            (index_block.len() + BLOCK_TRAILER_LEN) as u64,
        );
        properties.number(name::INDEX_KEY_IS_USER_KEY, u64::from(user_keys));
        properties.number(name::NUM_DATA_BLOCKS, num_data_blocks as u64);
        self.describe(&mut properties);
        let properties = self
            .output
            .block(&properties.finish(), CompressionType::None)?;
        metaindex.add(META_PROPERTIES, &encoded(properties));
        if let Some(handle) = range_del {
            metaindex.add(META_RANGE_DEL, &encoded(handle));
        }
        let metaindex = self
            .output
            .block(metaindex.finish(), CompressionType::None)?;
        Footer::encode_v5(&mut self.output.buffer, CHECKSUM, metaindex, index);
        self.output.drain()?;
        // ORDER: the table is durable before any version edit names it.
        if !mutant!(table_sync_left_out) {
            self.output.sync()?;
        }
        Ok(TableSummary {
            file_size: self.output.position(),
            smallest,
            largest,
            smallest_seq: self.smallest_seq,
            largest_seq: self.largest_seq,
            num_entries: self.num_entries,
            num_deletions: self.num_deletions,
            num_range_deletions: self.tombstones.len() as u64,
            raw_key_size: self.raw_key_size,
            raw_value_size: self.raw_value_size,
            unique_id: self.unique_id(),
            blob_refs,
        })
    }

    fn unique_id(&self) -> Option<UniqueId> {
        let o = &self.options;
        let (db, session) = (o.db_id.as_bytes(), o.db_session_id.as_bytes());
        unique_id(db, session, o.file_number)
    }

    fn count(&mut self, sequence: SequenceNumber, key_len: usize, value_len: usize) {
        self.smallest_seq = self.smallest_seq.min(sequence);
        self.largest_seq = self.largest_seq.max(sequence);
        self.raw_key_size += key_len as u64;
        self.raw_value_size += value_len as u64;
    }

    fn block_is_full_for(&self, ikey: &[u8], value: &[u8]) -> bool {
        let (size, limit) = (self.data.size(), self.options.block_size);
        !self.data.is_empty()
            && (size >= limit
                || (size + BlockBuilder::cost_of(ikey, value) > limit
                    && size * 100 > limit * NEARLY_FULL_PERCENT))
    }

    /// Writes the data block in progress; `next` is the key that follows.
    fn finish_block(&mut self, next: Option<&[u8]>) -> Result<()> {
        if self.data.is_empty() {
            return Ok(());
        }
        let handle = self
            .output
            .block(self.data.finish(), self.options.compression)?;
        let mut separator = self.last_key.clone();
        if let Some(next) = next {
            if user_key(&self.last_key) == user_key(next) {
                self.index.note_straddling();
            }
            self.options
                .comparator
                .shorten_separator(&mut separator, next);
        } else {
            self.options.comparator.shorten_successor(&mut separator);
        }
        self.index.add(&separator, handle);
        self.data.reset();
        self.run.end_block();
        Ok(())
    }

    /// The properties that do not depend on how entries were divided into blocks.
    fn describe(&self, p: &mut PropertiesBuilder) {
        let o = &self.options;
        let range_deletions = self.tombstones.len() as u64;
        p.number(name::NUM_ENTRIES, self.num_entries + range_deletions);
        p.number(name::DELETED_KEYS, self.num_deletions + range_deletions);
        p.number(name::NUM_RANGE_DELETIONS, range_deletions);
        p.number(name::MERGE_OPERANDS, self.num_merge_operands);
        p.number(name::RAW_KEY_SIZE, self.raw_key_size);
        p.number(name::RAW_VALUE_SIZE, self.raw_value_size);
        p.bytes(name::INDEX_TYPE, 0u32.to_le_bytes());
        p.number(name::INDEX_DELTA_ENCODED, 1);
        p.bytes(name::WHOLE_KEY_FILTERING, "1");
        let extractor = self.options.prefix_extractor.as_deref();
        p.bytes(
            name::PREFIX_FILTERING,
            if extractor.is_some() { "1" } else { "0" },
        );
        p.number(name::COLUMN_FAMILY_ID, u64::from(o.family.id.0));
        p.bytes(name::COLUMN_FAMILY_NAME, o.family.name.as_str());
        p.bytes(name::COMPARATOR, o.comparator.user().name());
        let operator = o.family.merge_operator.as_deref();
        p.bytes(name::MERGE_OPERATOR, operator.unwrap_or("nullptr"));
        let extractor = extractor.map_or("nullptr", |extractor| extractor.name());
        p.bytes(name::PREFIX_EXTRACTOR, extractor);
        p.bytes(name::COLLECTORS, self.collector_names.as_str());
        p.collected(&self.collected);
        p.bytes(name::COMPRESSION, o.compression.property_name());
        // RocksDB's text for its default options; nothing reads it back.
        p.bytes(
            name::COMPRESSION_OPTIONS,
            "window_bits=-14; level=32767; strategy=0; max_dict_bytes=0; \
             zstd_max_train_bytes=0; enabled=0; max_dict_buffer_bytes=0; \
             use_zstd_dict_trainer=1; ",
        );
        p.bytes(name::DB_ID, o.db_id.as_str());
        p.bytes(name::DB_SESSION_ID, o.db_session_id.as_str());
        p.bytes(name::HOST_ID, "");
        p.number(name::ORIGINAL_FILE_NUMBER, o.file_number.0);
        p.number(name::CREATION_TIME, o.creation_time);
        p.number(name::FILE_CREATION_TIME, o.creation_time);
        p.number(name::OLDEST_KEY_TIME, 0);
        if !self.times.is_empty() {
            p.bytes(name::SEQUENCE_TIMES, self.times.as_slice());
        }
        p.number(name::FIXED_KEY_LEN, 0);
        // Not the footer's version: RocksDB writes 0 here, the one for "newest".
        p.number(name::FORMAT_VERSION, 0);
    }
}

/// The smallest and largest internal key of a table: those of its points (empty if there are none)
/// and of its range tombstones. If a tombstone ends after everything else, its end is the largest
/// key, with the largest sequence number, as the end itself is not covered.
pub fn bounds(
    points: (Vec<u8>, Vec<u8>),
    tombstones: &[RangeTombstone],
    order: &InternalKeyComparator,
) -> (Vec<u8>, Vec<u8>) {
    let (mut smallest, mut largest) = points;
    for t in tombstones {
        let start = internal_key(&t.start, t.sequence, ValueType::RangeDeletion as u8);
        let end = internal_key(&t.end, SequenceNumber::MAX, ValueType::RangeDeletion as u8);
        if smallest.is_empty() || order.compare(&start, &smallest).is_lt() {
            smallest = start;
        }
        if largest.is_empty() || order.compare(&end, &largest).is_gt() {
            largest = end;
        }
    }
    (smallest, largest)
}

fn encoded(handle: BlockHandle) -> Vec<u8> {
    let mut out = Vec::new();
    handle.encode(&mut out);
    out
}
