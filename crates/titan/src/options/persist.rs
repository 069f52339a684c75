//! The options a database runs with, as its OPTIONS file shows them to RocksDB's tools and users.

use std::path::Path;

use super::file::{CF_OPTIONS, DB_OPTIONS, OptionsFile, TABLE_OPTIONS, bloom_filter};
use super::{ColumnFamilyOptions, Options};
use crate::error::Result;
use crate::format::FileNumber;
use crate::format::file_name::FileKind;
use crate::vfs::{Vfs, replace_file};

/// Writes the OPTIONS file `number`, durable, of `families`: their names and those of their
/// comparators.
pub(crate) fn write_options_file<'f>(
    vfs: &dyn Vfs,
    dir: &Path,
    number: FileNumber,
    options: &Options,
    families: impl IntoIterator<Item = (&'f str, &'f str)>,
) -> Result<()> {
    let mut file = OptionsFile::new();
    let db = &options.db;
    let mut set =
        |key: &str, value: &dyn ToString| file.set(DB_OPTIONS, "", key, value.to_string());
    set("create_if_missing", &db.create_if_missing);
    set("error_if_exists", &db.error_if_exists);
    set("max_open_files", &db.max_open_files);
    set("max_background_jobs", &db.max_background_jobs);
    set("max_total_wal_size", &db.max_total_wal_size);
    set("delayed_write_rate", &db.delayed_write_rate);
    set(
        "use_direct_io_for_flush_and_compaction",
        &db.use_direct_io_for_flush_and_compaction,
    );
    set("max_manifest_file_size", &db.max_manifest_file_size);
    for (name, comparator) in families {
        set_family(&mut file, name, comparator, options.family(name));
    }
    let temp = FileKind::Temp(number).path(dir);
    replace_file(
        vfs,
        &temp,
        &FileKind::Options(number).path(dir),
        file.to_text().as_bytes(),
    )
}

fn set_family(file: &mut OptionsFile, name: &str, comparator: &str, options: &ColumnFamilyOptions) {
    let mut set =
        |key: &str, value: &dyn ToString| file.set(CF_OPTIONS, name, key, value.to_string());
    set("comparator", &comparator);
    set("write_buffer_size", &options.write_buffer_size);
    set("max_write_buffer_number", &options.max_write_buffer_number);
    let trigger = options.level0_file_num_compaction_trigger;
    set("level0_file_num_compaction_trigger", &trigger);
    set(
        "level0_slowdown_writes_trigger",
        &options.level0_slowdown_writes_trigger,
    );
    set(
        "level0_stop_writes_trigger",
        &options.level0_stop_writes_trigger,
    );
    let (soft, hard) = (
        options.soft_pending_compaction_bytes_limit,
        options.hard_pending_compaction_bytes_limit,
    );
    set("soft_pending_compaction_bytes_limit", &soft);
    set("hard_pending_compaction_bytes_limit", &hard);
    set("num_levels", &options.num_levels);
    set(
        "max_bytes_for_level_base",
        &options.max_bytes_for_level_base,
    );
    set(
        "max_bytes_for_level_multiplier",
        &options.max_bytes_for_level_multiplier,
    );
    set("target_file_size_base", &options.target_file_size_base);
    set("level_compaction_dynamic_level_bytes", &true);
    set(
        "disable_auto_compactions",
        &options.disable_auto_compactions,
    );
    set("compression", &options.compression.option_name());
    set("enable_blob_files", &options.enable_blob_files);
    set("min_blob_size", &options.min_blob_size);
    set("blob_file_size", &options.blob_file_size);
    set(
        "blob_compression_type",
        &options.blob_compression_type.option_name(),
    );
    set("table_factory", &"BlockBasedTable");
    let mut set =
        |key: &str, value: &dyn ToString| file.set(TABLE_OPTIONS, name, key, value.to_string());
    set("block_size", &options.block_size);
    set("block_restart_interval", &options.block_restart_interval);
    if options.bloom_bits_per_key > 0.0 {
        set("filter_policy", &bloom_filter(options.bloom_bits_per_key));
    }
    set("format_version", &5);
    set("checksum", &"kXXH3");
}
