//! The end of a table: the blocks after the data blocks, and the footer.

use super::{TableSummary, TableWriter, bounds};
use crate::error::{Error, Result};
use crate::format::blob_index::BlobRefs;
use crate::format::internal_key::{ValueType, internal_key};
use crate::format::unique_id::{UniqueId, unique_id};
use crate::format::{CompressionType, total};
use crate::sorting;
use crate::table::block::builder::BlockBuilder;
use crate::table::filter::{self, FilterBuilder};
use crate::table::footer::{BLOCK_TRAILER_LEN, BlockHandle, Footer};
use crate::table::output::CHECKSUM;
use crate::table::properties::{EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE, PropertiesBuilder, name};
use crate::table::{META_PROPERTIES, META_RANGE_DEL};

impl TableWriter {
    /// Writes the rest and makes the file durable. The caller syncs its name.
    ///
    /// # Errors
    /// `InvalidArgument` if [`TableWriter::is_empty`]: a version cannot have a table without keys.
    pub fn finish(mut self) -> Result<TableSummary> {
        if self.is_empty() {
            return Err(Error::invalid_argument("table without entries").in_file(&self.output.path));
        }
        self.finish_block(None)?;
        self.sort_tombstones();
        self.check_counts();
        let points = (std::mem::take(&mut self.keys.first), self.keys.last.clone());
        let (smallest, largest) = bounds(points, &self.tombstones, &self.options.comparator);
        self.pointers.liveness.sort();
        let blob_refs = self.pointers.liveness.totals();
        invariant!(
            self.options.comparator.compare(&smallest, &largest).is_le(),
            "a table ends before it begins"
        );
        invariant!(
            total(blob_refs.iter().map(|refs| refs.bytes)) == self.pointers.bytes,
            "the pointers of a table lead to {} bytes, and those of its blob files to others",
            self.pointers.bytes
        );

        let data_size = self.output.position();
        let mut properties = PropertiesBuilder::default();
        // Metaindex entries are added by name: the filter's, then `rocksdb.properties`, then
        // `rocksdb.range_del`. The order of the blocks in the file is free.
        let mut metaindex = BlockBuilder::new(1);
        self.finish_filter(&mut properties, &mut metaindex)?;
        let index = self.finish_index(&mut properties)?;
        let range_del = self.finish_tombstones()?;
        self.finish_liveness(&blob_refs, &mut properties)?;
        properties.number(name::DATA_SIZE, data_size);
        self.describe(&mut properties);
        let properties = self
            .output
            .block(&properties.finish(), CompressionType::None)?;
        metaindex.add(META_PROPERTIES, &encoded(properties));
        if let Some(handle) = range_del {
            metaindex.add(META_RANGE_DEL, &encoded(handle));
        }
        self.finish_file(metaindex, index)?;
        Ok(TableSummary {
            file_size: self.output.position(),
            smallest,
            largest,
            sequences: (self.counts.smallest_seq, self.counts.largest_seq),
            num_entries: self.counts.entries,
            num_deletions: self.counts.deletions,
            num_range_deletions: self.tombstones.len() as u64,
            num_shadowed: self.counts.shadowed,
            raw_key_size: self.counts.raw_key_size,
            raw_value_size: self.counts.raw_value_size,
            unique_id: self.unique_id(),
            blob_refs,
        })
    }

    /// Brings the range tombstones into the order in which they are stored, each once, and counts
    /// them.
    fn sort_tombstones(&mut self) {
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
    }

    /// States what holds of the counts when all entries are in blocks.
    fn check_counts(&self) {
        invariant!(
            self.counts.smallest_seq <= self.counts.largest_seq,
            "a table with operations has none"
        );
        invariant!(
            self.counts.deletions + self.counts.merge_operands <= self.counts.entries,
            "a table has {} entries, and {} deletions and operands",
            self.counts.entries,
            self.counts.deletions + self.counts.merge_operands
        );
        invariant!(
            (self.index.len() > 0) == (self.counts.entries > 0),
            "a table of {} entries has {} data blocks",
            self.counts.entries,
            self.index.len()
        );
        invariant!(
            self.filter.as_ref().is_none_or(|filter| {
                (filter.len() > 0) == (self.counts.entries > 0)
                    && filter.len() as u64 <= 2 * self.counts.entries
            }),
            "the filter of {} entries has another number of keys and prefixes",
            self.counts.entries
        );
    }

    /// Writes the filter, if there is one.
    fn finish_filter(
        &mut self,
        properties: &mut PropertiesBuilder,
        metaindex: &mut BlockBuilder,
    ) -> Result<()> {
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
        properties.number(name::FILTER_SIZE, filter_size);
        Ok(())
    }

    /// Writes the index.
    fn finish_index(&mut self, properties: &mut PropertiesBuilder) -> Result<BlockHandle> {
        let index = std::mem::take(&mut self.index);
        let (user_keys, num_data_blocks) = (index.user_keys(), index.len());
        let index_block = index.finish();
        let index = self.output.block(&index_block, self.options.compression)?;
        properties.number(
            name::INDEX_SIZE,
            (index_block.len() + BLOCK_TRAILER_LEN) as u64,
        );
        properties.number(name::INDEX_KEY_IS_USER_KEY, u64::from(user_keys));
        properties.number(name::NUM_DATA_BLOCKS, num_data_blocks as u64);
        Ok(index)
    }

    /// Writes the range tombstones, if there are any.
    fn finish_tombstones(&mut self) -> Result<Option<BlockHandle>> {
        if self.tombstones.is_empty() {
            return Ok(None);
        }
        let mut block = BlockBuilder::new(1);
        for t in &self.tombstones {
            let key = internal_key(&t.start, t.sequence, ValueType::RangeDeletion as u8);
            block.add(&key, &t.end);
        }
        let handle = self.output.block(block.finish(), CompressionType::None)?;
        Ok(Some(handle))
    }

    /// Writes the liveness block, if there are pointers.
    fn finish_liveness(
        &mut self,
        blob_refs: &[BlobRefs],
        properties: &mut PropertiesBuilder,
    ) -> Result<()> {
        if self.pointers.liveness.is_empty() {
            return Ok(());
        }
        let handle = self
            .output
            .block(&self.pointers.liveness.encode(), self.options.compression)?;
        properties.bytes(name::LIVENESS, encoded(handle));
        properties.number(
            name::LIVENESS_COUNT,
            blob_refs.iter().map(|r| r.count).sum(),
        );
        properties.number(
            name::LIVENESS_BYTES,
            blob_refs.iter().map(|r| r.bytes).sum(),
        );
        Ok(())
    }

    /// Writes the metaindex and the footer, and makes the file durable.
    fn finish_file(&mut self, mut metaindex: BlockBuilder, index: BlockHandle) -> Result<()> {
        let metaindex = self
            .output
            .block(metaindex.finish(), CompressionType::None)?;
        Footer::encode_v5(&mut self.output.buffer, CHECKSUM, metaindex, index);
        self.output.drain()?;
        // ORDER: the table is durable before any version edit names it.
        if !mutant!(table_sync_left_out) {
            self.output.sync()?;
        }
        Ok(())
    }

    fn unique_id(&self) -> Option<UniqueId> {
        let o = &self.options;
        let (db, session) = (o.db_id.as_bytes(), o.db_session_id.as_bytes());
        unique_id(db, session, o.file_number)
    }

    /// The properties that do not depend on how entries were divided into blocks.
    fn describe(&self, p: &mut PropertiesBuilder) {
        let o = &self.options;
        let range_deletions = self.tombstones.len() as u64;
        p.number(name::NUM_ENTRIES, self.counts.entries + range_deletions);
        p.number(name::DELETED_KEYS, self.counts.deletions + range_deletions);
        p.number(name::NUM_RANGE_DELETIONS, range_deletions);
        p.number(name::MERGE_OPERANDS, self.counts.merge_operands);
        p.number(name::RAW_KEY_SIZE, self.counts.raw_key_size);
        p.number(name::RAW_VALUE_SIZE, self.counts.raw_value_size);
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
        p.bytes(name::COLLECTORS, self.collection.names.as_str());
        p.collected(&self.collection.report);
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
        if !self.extras.times.is_empty() {
            p.bytes(name::SEQUENCE_TIMES, self.extras.times.as_slice());
        }
        p.number(name::FIXED_KEY_LEN, 0);
        if self.extras.external {
            let version = EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE;
            p.bytes(name::EXTERNAL_VERSION, version.to_le_bytes());
            // RocksDB up to 7.x overwrites these eight bytes when it ingests the file.
            p.bytes(name::GLOBAL_SEQUENCE, 0u64.to_le_bytes());
        }
        // Not the footer's version: RocksDB writes 0 here, the one for "newest".
        p.number(name::FORMAT_VERSION, 0);
    }
}

fn encoded(handle: BlockHandle) -> Vec<u8> {
    let mut out = Vec::new();
    handle.encode(&mut out);
    out
}
