//! Options of one column family.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::require;
use super::settings::{FamilySettings, Stated};
use crate::error::Result;
use crate::format::{BytewiseComparator, Comparator, CompressionType};

/// Options of one column family, given when it is created or opened.
///
/// They are kept with the family. An opening takes them over, except for those that it states anew: all
/// fields that differ from their default, and those that `stated` names. So
/// `ColumnFamilyOptions::default()` takes over everything. If a field that is taken over contradicts
/// one that is stated, such as a trigger that must not be above another, it follows the stated one.
///
/// So a field that is written out with its default, such as `enable_blob_garbage_collection: true`, is
/// not stated by that: the database goes on with the kept value. Name it in `stated`, by
/// `Stated::fields(&["enable_blob_garbage_collection"])`, or state all with `Stated::all()`.
///
/// Options that `serde` reads from a file state what the file mentions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "FamilySettings")]
pub struct ColumnFamilyOptions {
    /// Bytes of memtable after which it is flushed; 64 KiB to 64 GiB. Default: 64 MiB.
    pub write_buffer_size: u64,
    /// Full memtables that wait for their flush from which writes wait; at least 2. Default: 2.
    pub max_write_buffer_number: usize,
    /// Files at level 0 that start a compaction. Default: 4.
    pub level0_file_num_compaction_trigger: usize,
    /// Files at level 0 from which writes are delayed. Default: 20.
    pub level0_slowdown_writes_trigger: usize,
    /// Files at level 0 from which writes are stopped. Default: 36.
    pub level0_stop_writes_trigger: usize,
    /// Bytes of overdue compaction from which writes are delayed. Default: 64 GiB.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes of overdue compaction from which writes are stopped. Default: 256 GiB.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Levels, level 0 included; 2 to 64. Default: 7.
    pub num_levels: usize,
    /// Bytes of the first level below level 0, separated values included. Default: 256 MiB.
    pub max_bytes_for_level_base: u64,
    /// How many times larger each level is than the one above; at least 2. Default: 10.
    pub max_bytes_for_level_multiplier: u64,
    /// Bytes of an SST after which compaction starts another. Default: 64 MiB.
    pub target_file_size_base: u64,
    /// Run compactions only when asked to. Default: false.
    pub disable_auto_compactions: bool,
    /// Uncompressed bytes of a data block; 256 B to 16 MiB. Default: 4 KiB.
    pub block_size: usize,
    /// Keys between two that are stored in full in a data block; 1 to 4096. Default: 16.
    pub block_restart_interval: usize,
    /// Bloom filter bits per key; 0 writes no filters; at most 100. Default: 10.
    pub bloom_bits_per_key: f64,
    /// Compression of SST blocks. Default: LZ4.
    pub compression: CompressionType,
    /// Keep large values in blob files. Turning it off affects new writes only. Default: true.
    pub enable_blob_files: bool,
    /// Bytes from which a value counts as large. Default: 4 KiB.
    pub min_blob_size: u64,
    /// Bytes of a blob file after which another is started; at least 64 KiB. Default: 256 MiB.
    pub blob_file_size: u64,
    /// Compression of new blob files. Default: none.
    pub blob_compression_type: CompressionType,
    /// Give back the space of garbage, by relocating live records out of files with much garbage. If it
    /// is off, only files without any live value are deleted. RocksDB refuses a database in which
    /// values have been relocated, until a
    /// [`downgrade`](fn@crate::tools::downgrade). Default: true; RocksDB's is false.
    pub enable_blob_garbage_collection: bool,
    /// The share of all blob files that may be garbage before some are collected, as far as that
    /// does not disturb users; 0.01 to 0.99. Default: 0.15.
    pub blob_garbage_collection_low_threshold: f64,
    /// The share of garbage in all blob files from which it is collected as fast as possible, if
    /// `max_space_amp` does not require that sooner; at least the low threshold, at most 0.99.
    /// Default: 0.25.
    pub blob_garbage_collection_high_threshold: f64,
    /// Give garbage back in place, as holes, where that frees most of the garbage of a file: for values
    /// of 16 KiB or more. Nothing is copied, but each hole takes the file system about a millisecond,
    /// and on some devices reads of the file wait meanwhile. Files with other links, such as those of
    /// checkpoints, are copied as always. Not for file systems that compress: the space they save would
    /// be taken for holes. Default: false.
    pub blob_garbage_collection_punch_holes: bool,
    /// How many times as large as the family's live data its files may be; 1.1 to 100. In addition the
    /// families of a database share one allowance: 64 MiB and eight times the live data, at most
    /// 256 MiB, or four write buffers if that is more: listeners are notified of it at opening.
    /// If garbage collection is on, garbage is found and collected in time, and in the end writes wait
    /// for it: they are delayed, never stopped. Default: 1.5.
    pub max_space_amp: f64,
    /// The fields that an opening states anew, in addition to those that differ from their default: so
    /// a default can be restored. [`Options::load`](crate::Options::load) returns options that state
    /// every field. Has no effect when a family is created. Default: no others.
    #[serde(skip)]
    pub stated: Stated,
    /// The order of keys. Stored by name; it can never change. Default: bytewise.
    #[serde(skip)]
    pub comparator: Arc<dyn Comparator>,
}

fn bytewise() -> Arc<dyn Comparator> {
    Arc::new(BytewiseComparator)
}

impl Default for ColumnFamilyOptions {
    fn default() -> Self {
        ColumnFamilyOptions {
            write_buffer_size: 64 << 20,
            max_write_buffer_number: 2,
            level0_file_num_compaction_trigger: 4,
            level0_slowdown_writes_trigger: 20,
            level0_stop_writes_trigger: 36,
            soft_pending_compaction_bytes_limit: 64 << 30,
            hard_pending_compaction_bytes_limit: 256 << 30,
            num_levels: 7,
            max_bytes_for_level_base: 256 << 20,
            max_bytes_for_level_multiplier: 10,
            target_file_size_base: 64 << 20,
            disable_auto_compactions: false,
            block_size: 4096,
            block_restart_interval: 16,
            bloom_bits_per_key: 10.0,
            compression: CompressionType::Lz4,
            enable_blob_files: true,
            min_blob_size: 4096,
            blob_file_size: 256 << 20,
            blob_compression_type: CompressionType::None,
            enable_blob_garbage_collection: true,
            blob_garbage_collection_low_threshold: 0.15,
            blob_garbage_collection_high_threshold: 0.25,
            blob_garbage_collection_punch_holes: false,
            max_space_amp: 1.5,
            stated: Stated::default(),
            comparator: bytewise(),
        }
    }
}

impl ColumnFamilyOptions {
    /// Checks every range and that options agree with each other.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        self.stated.validate()?;
        self.validate_ranges()?;
        let trigger = self.level0_file_num_compaction_trigger;
        let slow = self.level0_slowdown_writes_trigger;
        let rule = "at least level0_file_num_compaction_trigger";
        require(
            slow >= trigger,
            "level0_slowdown_writes_trigger",
            rule,
            slow,
        )?;
        let stop = self.level0_stop_writes_trigger;
        let rule = "at least level0_slowdown_writes_trigger";
        require(stop >= slow, "level0_stop_writes_trigger", rule, stop)?;
        let hard = self.hard_pending_compaction_bytes_limit;
        let rule = "at least soft_pending_compaction_bytes_limit";
        let soft = self.soft_pending_compaction_bytes_limit;
        require(
            hard >= soft,
            "hard_pending_compaction_bytes_limit",
            rule,
            hard,
        )?;
        let low = self.blob_garbage_collection_low_threshold;
        let high = self.blob_garbage_collection_high_threshold;
        let rule = "blob_garbage_collection_low_threshold to 0.99";
        require(
            high >= low,
            "blob_garbage_collection_high_threshold",
            rule,
            high,
        )?;
        let compression = self.compression;
        require(
            compression.can_write(),
            "compression",
            "none, snappy, lz4 or zstd; others are only read",
            compression.property_name(),
        )?;
        let compression = self.blob_compression_type;
        require(
            compression.can_write() && compression != CompressionType::Snappy,
            "blob_compression_type",
            "none, lz4 or zstd; others are only read",
            compression.property_name(),
        )
    }

    /// The options that an opening with these options states.
    pub(crate) fn settings_stated(&self) -> FamilySettings {
        FamilySettings::differing(self, |name| self.stated.has(name))
    }

    /// Adjusts fields that must not be above others to those that are `stated`.
    pub(crate) fn agree(&mut self, stated: &FamilySettings) {
        let slow_is_stated = stated.level0_slowdown_writes_trigger.is_some();
        let stop_is_stated = stated.level0_stop_writes_trigger.is_some();
        let trigger = &mut self.level0_file_num_compaction_trigger;
        let slow = &mut self.level0_slowdown_writes_trigger;
        order(trigger, slow, slow_is_stated);
        order(slow, &mut self.level0_stop_writes_trigger, stop_is_stated);
        order(trigger, slow, true);
        order(
            &mut self.soft_pending_compaction_bytes_limit,
            &mut self.hard_pending_compaction_bytes_limit,
            stated.hard_pending_compaction_bytes_limit.is_some(),
        );
        order(
            &mut self.blob_garbage_collection_low_threshold,
            &mut self.blob_garbage_collection_high_threshold,
            stated.blob_garbage_collection_high_threshold.is_some(),
        );
    }

    /// The known garbage that is allowed, as a share of the live data: half of the slack that
    /// `max_space_amp` leaves.
    pub(crate) fn garbage_allowance(&self) -> f64 {
        (self.max_space_amp - 1.0) / 2.0
    }

    /// The shadowed data that is allowed, as a share of the live data: a quarter of the slack that
    /// `max_space_amp` leaves. The rest is for files that are being replaced.
    pub(crate) fn shadowed_data_allowance(&self) -> f64 {
        (self.max_space_amp - 1.0) / 4.0
    }
}

/// Makes `low` no more than `high`: changes `low` if `high_stays`, and `high` otherwise.
fn order<T: PartialOrd + Copy>(low: &mut T, high: &mut T, high_stays: bool) {
    if *low > *high {
        match high_stays {
            true => *low = *high,
            false => *high = *low,
        }
    }
}
