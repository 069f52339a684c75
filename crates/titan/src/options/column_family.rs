//! Options of one column family.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::require;
use super::settings::{FamilySettings, Stated};
use crate::error::Result;
use crate::format::{BytewiseComparator, Comparator, CompressionType};

/// Options of one column family, given when it is created or opened.
///
/// They are kept with the family. An opening takes them over, but for those that it states anew: all
/// fields that differ from their default, and those that `stated` names. So
/// `ColumnFamilyOptions::default()` takes over everything. Where a field that is taken over
/// contradicts one that is stated, as a trigger that must not be above another, it follows that one.
///
/// So a field that is written out with its default, as `enable_blob_garbage_collection: true`, is
/// not stated by that: the database goes on with what it keeps. Name it in `stated`, by
/// `Stated::fields(&["enable_blob_garbage_collection"])`, or state all with `Stated::all()`.
///
/// Read from a file by `serde`, options state what the file mentions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "FamilySettings")]
pub struct ColumnFamilyOptions {
    /// Bytes of memtable after which it is flushed; 64 KiB to 64 GiB. Default: 64 MiB.
    pub write_buffer_size: u64,
    /// Full memtables waiting for their flush from which writes wait; at least 2. Default: 2.
    pub max_write_buffer_number: usize,
    /// Files at level 0 that start a compaction. Default: 4.
    pub level0_file_num_compaction_trigger: usize,
    /// Files at level 0 from which writes are slowed down. Default: 20.
    pub level0_slowdown_writes_trigger: usize,
    /// Files at level 0 from which writes stop. Default: 36.
    pub level0_stop_writes_trigger: usize,
    /// Bytes of overdue compaction from which writes are slowed down. Default: 64 GiB.
    pub soft_pending_compaction_bytes_limit: u64,
    /// Bytes of overdue compaction from which writes stop. Default: 256 GiB.
    pub hard_pending_compaction_bytes_limit: u64,
    /// Levels, level 0 included; 2 to 64. Default: 7.
    pub num_levels: usize,
    /// Bytes the first level below 0 may hold, values in blob files counted. Default: 256 MiB.
    pub max_bytes_for_level_base: u64,
    /// How many times larger each level is than the one above; at least 2. Default: 10.
    pub max_bytes_for_level_multiplier: u64,
    /// Bytes of an SST after which compaction starts another. Default: 64 MiB.
    pub target_file_size_base: u64,
    /// Run compactions only when asked to. Default: false.
    pub disable_auto_compactions: bool,
    /// Uncompressed bytes of a data block; 256 B to 16 MiB. Default: 4 KiB.
    pub block_size: usize,
    /// Keys between two that are stored whole in a data block; 1 to 4096. Default: 16.
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
    /// Give the space of values that nothing refers to back, by moving what lives out of files with
    /// much garbage. Where it is off, only files without any live value are deleted. RocksDB
    /// refuses a database in which values have been moved, until a
    /// [`downgrade`](fn@crate::tools::downgrade). Default: true; RocksDB's is false.
    pub enable_blob_garbage_collection: bool,
    /// The part of all blob files that may be garbage before some are collected as far as that
    /// does not disturb; 0.01 to 0.99. Default: 0.15.
    pub blob_garbage_collection_low_threshold: f64,
    /// The part of all blob files from which garbage is collected as fast as possible, if
    /// `max_space_amp` does not ask for it sooner; at least the low threshold, to 0.99.
    /// Default: 0.25.
    pub blob_garbage_collection_high_threshold: f64,
    /// Give garbage back in its place, as holes, where that frees most of what a file has of it:
    /// for values of 16 KiB or more. Nothing is copied, but each hole takes the file system about a
    /// millisecond, and on some devices reads of the file wait meanwhile. Files that others link
    /// to, as checkpoints do, are copied as always. Not for file systems that compress: what they
    /// save would be taken for holes. Default: false.
    pub blob_garbage_collection_punch_holes: bool,
    /// How many times what lives in the family its files may measure; 1.1 to 100. Beside that the
    /// families of a database have one allowance together: 64 MiB and eight times what lives, at most
    /// 256 MiB, or four write buffers if that is more: listeners are told at opening.
    /// Where garbage is collected, it is found, collected and in the end waited for in time: writes
    /// are slowed down, never stopped. Default: 1.5.
    pub max_space_amp: f64,
    /// Which fields an opening states anew, beyond those that differ from their default: so a
    /// default can be restored. [`Options::load`](crate::Options::load) gives options that state
    /// every field. Of no meaning where a family is created. Default: no others.
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

    /// What an opening with these options states.
    pub(crate) fn settings_stated(&self) -> FamilySettings {
        FamilySettings::differing(self, |name| self.stated.has(name))
    }

    /// Lets fields that must not be above others follow those that are `stated`.
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

    /// How large a part of what lives known garbage may be: half of the slack that `max_space_amp`
    /// leaves.
    pub(crate) fn garbage_allowance(&self) -> f64 {
        (self.max_space_amp - 1.0) / 2.0
    }

    /// How large a part of what lives garbage may be that compaction has not found: a quarter of
    /// the slack that `max_space_amp` leaves. The rest is for files that are being replaced.
    pub(crate) fn hidden_garbage_allowance(&self) -> f64 {
        (self.max_space_amp - 1.0) / 4.0
    }
}

/// Makes `low` no more than `high`: the one that need not stay follows the other.
fn order<T: PartialOrd + Copy>(low: &mut T, high: &mut T, high_stays: bool) {
    if *low > *high {
        match high_stays {
            true => *low = *high,
            false => *high = *low,
        }
    }
}
