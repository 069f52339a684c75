//! Every option with its meaning, from which `titan options` is printed.
//!
//! Defaults are not written here: they are taken from `Options::default()`. A test holds the names
//! against the engine's, so an option that comes, goes or changes its name cannot be forgotten.

use std::fmt::Write as _;

use titan::{Error, Options, Result};

use crate::output;

/// How a number is to be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// As it stands.
    Plain,
    /// Bytes.
    Bytes,
}
use Unit::{Bytes, Plain};

struct Entry {
    key: &'static str,
    unit: Unit,
    meaning: &'static str,
}

const fn entry(key: &'static str, unit: Unit, meaning: &'static str) -> Entry {
    Entry { key, unit, meaning }
}

const DB: &[Entry] = &[
    entry(
        "create_if_missing",
        Plain,
        "Create the database if the directory holds none.",
    ),
    entry(
        "error_if_exists",
        Plain,
        "Fail if the directory already holds a database.",
    ),
    entry(
        "max_open_files",
        Plain,
        "SST and blob files kept open between uses; at least 16. Iterators and values in use may\n\
         hold more.",
    ),
    entry(
        "max_background_jobs",
        Plain,
        "Threads for flushes and compactions together, 1 to 256; with 2 or more, one is always\n\
         left for flushes.",
    ),
    entry(
        "block_cache_size",
        Bytes,
        "Bytes of uncompressed SST blocks kept in memory.",
    ),
    entry(
        "max_total_wal_size",
        Bytes,
        "Bytes of WAL after which the oldest column family in it is flushed, so that one idle\n\
         family cannot keep all WAL files alive; 0 means four times the write buffers of all\n\
         families.",
    ),
    entry(
        "use_direct_io_for_flush_and_compaction",
        Plain,
        "Write SST and blob files around the kernel's cache, where the file system can: less\n\
         copying, and no dirty pages for the next sync to wait for; what was just written must be\n\
         read from the device.",
    ),
    entry(
        "blob_garbage_collection_rate",
        Bytes,
        "Bytes per second that collecting garbage may read and write while the database is in use\n\
         and space is within bounds; at least 1 MiB.",
    ),
    entry(
        "delayed_write_rate",
        Bytes,
        "Bytes per second that writes are slowed down to while compaction is behind; at least\n\
         1024.",
    ),
    entry(
        "max_manifest_file_size",
        Bytes,
        "Bytes after which a new MANIFEST is started; at least 4096.",
    ),
];

const FAMILY: &[Entry] = &[
    entry(
        "write_buffer_size",
        Bytes,
        "Bytes of memtable after which it is flushed; 64 KiB to 64 GiB.",
    ),
    entry(
        "max_write_buffer_number",
        Plain,
        "Full memtables waiting for their flush from which writes wait; at least 2.",
    ),
    entry(
        "level0_file_num_compaction_trigger",
        Plain,
        "Files at level 0 that start a compaction; at least 1.",
    ),
    entry(
        "level0_slowdown_writes_trigger",
        Plain,
        "Files at level 0 from which writes are slowed down.",
    ),
    entry(
        "level0_stop_writes_trigger",
        Plain,
        "Files at level 0 from which writes stop.",
    ),
    entry(
        "soft_pending_compaction_bytes_limit",
        Bytes,
        "Bytes of overdue compaction from which writes are slowed down.",
    ),
    entry(
        "hard_pending_compaction_bytes_limit",
        Bytes,
        "Bytes of overdue compaction from which writes stop.",
    ),
    entry("num_levels", Plain, "Levels, level 0 included; 2 to 64."),
    entry(
        "max_bytes_for_level_base",
        Bytes,
        "Bytes the first level below 0 may hold, values in blob files counted; at least 1024.",
    ),
    entry(
        "max_bytes_for_level_multiplier",
        Plain,
        "How many times larger each level is than the one above; at least 2.",
    ),
    entry(
        "target_file_size_base",
        Bytes,
        "Bytes of an SST after which compaction starts another; at least 1024.",
    ),
    entry(
        "disable_auto_compactions",
        Plain,
        "Run compactions only when asked to.",
    ),
    entry(
        "block_size",
        Bytes,
        "Uncompressed bytes of a data block; 256 B to 16 MiB.",
    ),
    entry(
        "block_restart_interval",
        Plain,
        "Keys between two that are stored whole in a data block; 1 to 4096.",
    ),
    entry(
        "bloom_bits_per_key",
        Plain,
        "Bloom filter bits per key; 0 writes no filters; at most 100.",
    ),
    entry(
        "compression",
        Plain,
        "Compression of SST blocks: \"none\", \"snappy\", \"lz4\" or \"zstd\".",
    ),
    entry(
        "enable_blob_files",
        Plain,
        "Keep large values in blob files. Turning it off affects new writes only.",
    ),
    entry(
        "min_blob_size",
        Bytes,
        "Bytes from which a value counts as large.",
    ),
    entry(
        "blob_file_size",
        Bytes,
        "Bytes of a blob file after which another is started; at least 64 KiB.",
    ),
    entry(
        "blob_compression_type",
        Plain,
        "Compression of new blob files: \"none\", \"lz4\" or \"zstd\".",
    ),
    entry(
        "enable_blob_garbage_collection",
        Plain,
        "Move what lives out of blob files with much garbage. RocksDB refuses the database then, until \
         titan downgrade.",
    ),
    entry(
        "blob_garbage_collection_low_threshold",
        Plain,
        "The part of all blob files that may be garbage before some are collected as far as that\n\
         does not disturb; 0.01 to 0.99.",
    ),
    entry(
        "blob_garbage_collection_high_threshold",
        Plain,
        "The part of all blob files from which garbage is collected as fast as possible; from the\n\
         low threshold to 0.99.",
    ),
    entry(
        "blob_garbage_collection_punch_holes",
        Plain,
        "Give garbage back in its place, as holes, where that frees most of what a file has of it:\n\
         for values of 16 KiB or more.",
    ),
    entry(
        "max_space_amp",
        Plain,
        "How many times what lives all files may measure, beside 256 MiB; 1.1 to 100.",
    ),
];

const HEAD: &str = "\
# Options of a Titan database with their defaults. Keep the lines that are to differ and give the
# file to --config; an option that is not mentioned has its default, in a table [families.NAME] the
# value of [default].
";

const TAIL: &str = "
# A table of this form for each column family that is to differ from [default], with the same
# options; what it does not mention is as in [default]. A family that does not exist yet is created
# by commands that write.
#
# [families.NAME]
# min_blob_size = 1024
";

/// All options with their meanings and defaults, as a file for `--config`.
pub(crate) fn document() -> Result<String> {
    let defaults = toml::Table::try_from(Options::default())
        .map_err(|e| Error::invalid_option(e.to_string()))?;
    let mut text = HEAD.to_owned();
    section(&mut text, "db", "The whole database.", DB, &defaults)?;
    let about = "Column family `default`, and those that have no table of their own.";
    section(&mut text, "default", about, FAMILY, &defaults)?;
    text.push_str(TAIL);
    Ok(text)
}

fn section(
    text: &mut String,
    name: &str,
    about: &str,
    entries: &[Entry],
    defaults: &toml::Table,
) -> Result<()> {
    let _ = write!(text, "\n# {about}\n[{name}]\n");
    for Entry { key, unit, meaning } in entries {
        let value = defaults
            .get(name)
            .and_then(|table| table.get(key))
            .ok_or_else(|| Error::invalid_option(format!("no option {name}.{key}")))?;
        text.push('\n');
        for line in meaning.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let _ = write!(text, "# Default: {value}");
        match value.as_integer().map(u64::try_from) {
            Some(Ok(n)) if *unit == Bytes && n >= 1024 => {
                let _ = writeln!(text, " ({})", output::size(n));
            }
            _ => text.push('\n'),
        }
        let _ = writeln!(text, "{key} = {value}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_the_defaults_and_names_every_option() {
        let text = document().unwrap();
        let defaults = toml::Table::try_from(Options::default()).unwrap();
        let parsed: Options = toml::from_str(&text).unwrap();
        assert_eq!(toml::Table::try_from(parsed).unwrap(), defaults);

        let written: toml::Table = text.parse().unwrap();
        for name in ["db", "default"] {
            let keys = |table: &toml::Table| -> Vec<String> {
                let mut keys: Vec<_> = table[name].as_table().unwrap().keys().cloned().collect();
                keys.sort();
                keys
            };
            assert_eq!(keys(&written), keys(&defaults), "options of [{name}]");
        }
    }

    #[test]
    fn sizes_are_told_in_units() {
        let text = document().unwrap();
        assert!(text.contains("# Default: 67108864 (64 MiB)\nwrite_buffer_size = 67108864\n"));
    }
}
