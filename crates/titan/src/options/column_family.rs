//! Options of one column family.

use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use super::declare::{OptionInfo, OptionTraits, options};
use super::setting::{NAMED, Setting, SettingTexts};
use super::stated::Stated;
use crate::collector::TablePropertiesCollectorFactory;
use crate::error::{Error, Result, require};
use crate::filter::CompactionFilterFactory;
use crate::format::prefix::PrefixExtractor;
use crate::format::{BytewiseComparator, Comparator, CompressionType};
use crate::merge::MergeOperator;
use crate::partitioner::SstPartitioner;

options! {
    /// Options of one column family, given when it is created or opened.
    ///
    /// They are kept with the family. An opening takes them over, except for those that it states
    /// anew: all fields that differ from their default, and those that `stated` names. So
    /// `ColumnFamilyOptions::default()` takes over everything. If a field that is taken over
    /// contradicts one that is stated, such as a trigger that must not be above another, it follows
    /// the stated one.
    ///
    /// So a field that is written out with its default, such as
    /// `enable_blob_garbage_collection: true`, is not stated by that: the database goes on with the
    /// kept value. Name it in `stated`, by `Stated::fields(&["enable_blob_garbage_collection"])`,
    /// or state all with `Stated::all()`.
    ///
    /// Options that `serde` reads from a file state the fields that the file mentions.
    #[derive(Clone, Debug)]
    #[cfg_attr(feature = "serde", derive(Serialize, Deserialize), serde(from = "FamilySettings"))]
    pub struct ColumnFamilyOptions;

    /// Some of the options of a column family.
    settings FamilySettings;

    kept {
        /// Bytes of memtable after which it is flushed.
        write_buffer_size: u64 = 64 << 20, [64 << 10, 64 << 30, "64 KiB to 64 GiB"], is bytes;
        /// Full memtables that wait for their flush from which writes wait.
        max_write_buffer_number: usize = 2, [2, usize::MAX, "at least 2"], is int;
        /// Files at level 0 that start a compaction.
        level0_file_num_compaction_trigger: usize = 4, [1, usize::MAX, "at least 1"], is int;
        /// Files at level 0 from which writes are delayed.
        level0_slowdown_writes_trigger: usize = 20, is int;
        /// Files at level 0 from which writes are stopped.
        level0_stop_writes_trigger: usize = 36, is int;
        /// Bytes of overdue compaction from which writes are delayed; 0 means no limit.
        soft_pending_compaction_bytes_limit: u64 = 64 << 30, is bytes;
        /// Bytes of overdue compaction from which writes are stopped; 0 means no limit.
        hard_pending_compaction_bytes_limit: u64 = 256 << 30, is bytes;
        /// Levels, level 0 included.
        num_levels: usize = 7, [2, 64, "2 to 64"];
        /// Bytes of the first level below level 0, separated values included.
        max_bytes_for_level_base: u64 = 256 << 20, [1024, u64::MAX, "at least 1024"], is bytes;
        /// Size of each level as a multiple of the one above.
        max_bytes_for_level_multiplier: u64 = 10, [2, u64::MAX, "at least 2"];
        /// Bytes of an SST after which compaction starts another.
        target_file_size_base: u64 = 64 << 20, [1024, u64::MAX, "at least 1024"], is bytes;
        /// Run compactions only when asked to.
        disable_auto_compactions: bool = false;
        /// Uncompressed bytes of a data block.
        block_size: usize = 4096, [256, 16 << 20, "256 B to 16 MiB"], is bytes of_tables;
        /// Keys between two that are stored in full in a data block.
        block_restart_interval: usize = 16, [1, 4096, "1 to 4096"], is of_tables int;
        /// Bloom filter bits per key; 0 writes no filters.
        bloom_bits_per_key: f64 = 10.0, [0.0, 100.0, "0 to 100"];
        /// Compression of SST blocks: `none`, `snappy`, `lz4` or `zstd`. The default is `none` in a
        /// program that was built without the feature `lz4`.
        compression: CompressionType = CompressionType::OF_TABLES;
        /// Keep large values in blob files. If it is off, flushes write values inline, and
        /// compactions bring the values of tables that they rewrite back inline.
        /// [`compact_range`](crate::ColumnFamily::compact_range) rewrites all tables in its range
        /// that have separated values.
        enable_blob_files: bool = true;
        /// Bytes from which a value counts as large.
        min_blob_size: u64 = 4096, is bytes;
        /// Bytes of a blob file after which another is started.
        blob_file_size: u64 = 256 << 20, [64 << 10, u64::MAX, "at least 64 KiB"], is bytes;
        /// Compression of new blob files: `none`, `lz4` or `zstd`.
        blob_compression_type: CompressionType = CompressionType::None;
        /// Give back the space of garbage, by relocating live records out of files with much
        /// garbage. If it is off, only files without any live value are deleted. RocksDB refuses a
        /// database in which values have been relocated, until a
        /// `titan downgrade`.
        enable_blob_garbage_collection: bool = true;
        /// The share of all blob files that may be garbage before some are collected, as far as
        /// that does not disturb users.
        blob_garbage_collection_low_threshold: f64 = 0.15, [0.01, 0.99, "0.01 to 0.99"], is private;
        /// The share of garbage in all blob files from which it is collected as fast as possible,
        /// if `max_space_amp` does not require that sooner.
        blob_garbage_collection_high_threshold: f64 =
            0.25, [0.01, 0.99, "blob_garbage_collection_low_threshold to 0.99"], is private;
        /// Give garbage back in place, as holes, where that frees most of the garbage of a file:
        /// for values of 16 KiB or more. Nothing is copied, but each hole takes the file system
        /// about a millisecond, and on some devices reads of the file wait meanwhile. Files with
        /// other links, such as those of checkpoints, are copied as always. Not for file systems
        /// that compress: the space they save would be taken for holes.
        blob_garbage_collection_punch_holes: bool = false, is private;
        /// Largest size of the family's files as a multiple of its live data. In addition the
        /// families of a database share one allowance: a quarter of the live data, at least 32 MiB
        /// or three times the data that their memtables may shadow before they are flushed (8 MiB
        /// each in small families), at most 256 MiB, or four write buffers if that is more:
        /// listeners are notified of it at opening. If garbage collection is on, garbage is found
        /// and collected in time, and in the end writes wait for it: they are delayed, never
        /// stopped.
        max_space_amp: f64 = 1.5, [1.1, 100.0, "1.1 to 100"], is private;
    }

    of_an_opening {
    }

    of_a_program {
        /// The fields that an opening states anew, in addition to those that differ from their
        /// default: so a default can be restored. [`Options::load`](crate::Options::load) returns
        /// options that state every field. Has no effect when a family is created. Default: no
        /// others.
        #[cfg_attr(feature = "serde", serde(skip))]
        stated: Stated = Stated::default();
        /// The order of keys. Stored by name; it can never change. Default: bytewise.
        #[cfg_attr(feature = "serde", serde(skip))]
        comparator: Arc<dyn Comparator> = bytewise();
        /// Says which part of a key is its prefix, so that the filters of new tables have prefixes,
        /// too, and reads within a prefix can use them. A family that has recorded one of
        /// [`prefix`](crate::prefix) is opened with it; one that has recorded another is opened
        /// without it. Another than the recorded one is refused, unless `stated` names the field.
        /// Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        prefix_extractor: Option<Arc<dyn PrefixExtractor>> = None;
        /// Combines merge operands with values. A family that has recorded a built-in operator
        /// ([`merge::builtin`](crate::merge::builtin)) is opened with it; one that has recorded
        /// another is opened without it, and reads of keys with operands fail. Another than the
        /// recorded one is refused, unless `stated` names the field. Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        merge_operator: Option<Arc<dyn MergeOperator>> = None;
        /// Decides in flushes and compactions which values stay. Its name is recorded in OPTIONS;
        /// the database opens without it too, and then nothing is filtered. Applies only to a
        /// family for which each opening gives these options by its name, in
        /// [`Options::families`](crate::Options). Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        compaction_filter: Option<Arc<dyn CompactionFilterFactory>> = None;
        /// Describe the tables that are written. Their names are written into the tables. Apply
        /// only to a family for which an opening gives these options by its name. Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        table_properties_collectors: Vec<Arc<dyn TablePropertiesCollectorFactory>> = Vec::new();
        /// Says where compactions begin a new table. Applies only to a family for which an opening
        /// gives these options by its name. Default: none.
        #[cfg_attr(feature = "serde", serde(skip))]
        sst_partitioner: Option<Arc<dyn SstPartitioner>> = None;
    }
}

fn bytewise() -> Arc<dyn Comparator> {
    Arc::new(BytewiseComparator)
}

impl ColumnFamilyOptions {
    /// The prefix extractor, unless it stands for one that was not given.
    pub(crate) fn given_prefix_extractor(&self) -> Option<Arc<dyn PrefixExtractor>> {
        let extractor = self.prefix_extractor.as_ref();
        extractor.filter(|extractor| extractor.is_given()).cloned()
    }

    /// Checks every range and that options agree with each other.
    ///
    /// # Errors
    /// `InvalidOption` naming the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        let known = |name: &&str| {
            let mut kept = Self::ALL.iter().map(|info| info.name).chain(NAMED);
            kept.any(|kept| kept == *name)
        };
        self.stated.validate(known)?;
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
        let rule = "0 or at least soft_pending_compaction_bytes_limit";
        require(
            // A soft limit of 0 is below all others: writes are stopped without being delayed
            // before.
            limit(hard) >= self.soft_pending_compaction_bytes_limit,
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
        require_codec("compression", compression)?;
        let compression = self.blob_compression_type;
        require(
            compression.can_write() && compression != CompressionType::Snappy,
            "blob_compression_type",
            "none, lz4 or zstd; others are only read",
            compression.property_name(),
        )?;
        require_codec("blob_compression_type", compression)
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
        if self.hard_pending_compaction_bytes_limit != NO_LIMIT {
            order(
                &mut self.soft_pending_compaction_bytes_limit,
                &mut self.hard_pending_compaction_bytes_limit,
                stated.hard_pending_compaction_bytes_limit.is_some(),
            );
        }
        order(
            &mut self.blob_garbage_collection_low_threshold,
            &mut self.blob_garbage_collection_high_threshold,
            stated.blob_garbage_collection_high_threshold.is_some(),
        );
    }

    /// Bytes of overdue compaction from which writes are delayed.
    pub(crate) fn slowdown_pending_bytes(&self) -> u64 {
        limit(self.soft_pending_compaction_bytes_limit)
    }

    /// Bytes of overdue compaction from which writes are stopped.
    pub(crate) fn stop_pending_bytes(&self) -> u64 {
        limit(self.hard_pending_compaction_bytes_limit)
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

    /// Bytes of separated values that a memtable may shadow before it is flushed, where so many
    /// bytes are live: until a compaction and a collection follow, files take as much more. A write
    /// buffer where 16 times as much is live; less where less is, but at least 8 MiB.
    pub(crate) fn shadowing_flush(&self, live: u64) -> u64 {
        let largest = self.write_buffer_size;
        let smallest = MIN_SHADOWING_FLUSH.min(largest);
        (live / LIVE_PER_FLUSH).clamp(smallest, largest).max(1)
    }
}

/// Flushes of less would be too many: each syncs several files.
const MIN_SHADOWING_FLUSH: u64 = 8 << 20;
/// The part of the live bytes that a flush may shadow.
const LIVE_PER_FLUSH: u64 = 16;

/// The value with which an option of bytes sets no limit.
pub(super) const NO_LIMIT: u64 = 0;

/// The bytes at which a limit applies.
fn limit(option: u64) -> u64 {
    match option {
        NO_LIMIT => u64::MAX,
        limit => limit,
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

impl FamilySettings {
    /// The options that differ from their default, and those whose name `named` accepts.
    pub(super) fn differing(options: &ColumnFamilyOptions, named: impl Fn(&str) -> bool) -> Self {
        let default = FamilySettings::of(&ColumnFamilyOptions::default()).entries();
        let all = FamilySettings::of(options).entries();
        let mut differing = FamilySettings::default();
        for ((name, value), (_, default)) in all.into_iter().zip(default) {
            if value != default || named(name) {
                // Cannot fail: the option exists, and the text is that of its value.
                let _ = differing.set(name, &value);
            }
        }
        differing
    }
}

impl From<FamilySettings> for ColumnFamilyOptions {
    /// The options that are present are stated.
    fn from(settings: FamilySettings) -> Self {
        let mut options = ColumnFamilyOptions::default();
        settings.put_into(&mut options);
        let named = settings.entries().into_iter().map(|(name, _)| name);
        options.stated = Stated::these(named);
        options
    }
}

/// Fails with `InvalidOption` for a codec that this build does not have.
fn require_codec(option: &str, codec: CompressionType) -> Result<()> {
    let refused = |e: Error| Error::invalid_option(format!("{option}: {}", e.message()));
    codec.require().map_err(refused)
}
