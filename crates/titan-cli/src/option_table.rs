//! Every option with its meaning, for `titan options` to print.
//!
//! Defaults are not written here: they are taken from `Options::default()`. A test compares the
//! names with the engine's, so that an option cannot be added, removed or renamed without an
//! update here.

use std::fmt::Write as _;

use titan::{Error, Options, Result};

use crate::output;

/// The unit of a number.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// Without a unit.
    Plain,
    /// Bytes.
    Bytes,
}
use Unit::{Bytes, Plain};

struct Entry {
    key: &'static str,
    unit: Unit,
    meaning: &'static str,
    /// An example value, for an option without a default.
    example: Option<&'static str>,
}

const fn entry(key: &'static str, unit: Unit, meaning: &'static str) -> Entry {
    Entry {
        key,
        unit,
        meaning,
        example: None,
    }
}

/// An option without a default.
const fn unset(key: &'static str, example: &'static str, meaning: &'static str) -> Entry {
    Entry {
        key,
        unit: Plain,
        meaning,
        example: Some(example),
    }
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
        "keep_options",
        Plain,
        "Store the options that are set for families in the database, so that they apply to later\n\
         openings too.",
    ),
    entry(
        "max_open_files",
        Plain,
        "SST and blob files kept open between uses; at least 16. Iterators and values in use may\n\
         keep more open. 0 means three quarters of what the process may open, for each database: a\n\
         process that opens several should set it.",
    ),
    entry(
        "max_open_files_memory",
        Bytes,
        "Bytes of memory that open files may take, indexes and filters of SSTs above all; at least\n\
         1 MiB. 0 means a quarter of the process's memory, for each database: a process that opens\n\
         several should set it.",
    ),
    entry(
        "max_background_jobs",
        Plain,
        "Threads for flushes and compactions together, 1 to 256; with 2 or more, one is\n\
         reserved for flushes.",
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
        "data_in_memory",
        Plain,
        "Whether to assume that the database fits in memory: auto (all its files take no more than\n\
         half of the memory left), always or never. If it does, it is read into the kernel's\n\
         cache when it is opened, and compactions write through that cache.",
    ),
    entry(
        "use_direct_io_for_flush_and_compaction",
        Plain,
        "Write all SST and blob files around the kernel's cache, if the file system can: less\n\
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
        "Bytes per second to which writes are delayed while compactions lag; at least 1024.",
    ),
    entry(
        "max_manifest_file_size",
        Bytes,
        "Bytes after which a new MANIFEST is started; at least 4096.",
    ),
    unset(
        "wal_dir",
        "\"/fast/photos.wal\"",
        "The directory of the WAL files, if it is not the database's. It must be given at each opening\n\
         for writing; two databases must not share one.",
    ),
    entry(
        "comparator_aliases",
        Plain,
        "Names under which other programs recorded a built-in order of keys, each with \"bytewise\" or\n\
         \"reverse\".",
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
        "Number of full memtables waiting for a flush at which writes wait; at least 2.",
    ),
    entry(
        "level0_file_num_compaction_trigger",
        Plain,
        "Files at level 0 that start a compaction; at least 1.",
    ),
    entry(
        "level0_slowdown_writes_trigger",
        Plain,
        "Files at level 0 at which writes are delayed.",
    ),
    entry(
        "level0_stop_writes_trigger",
        Plain,
        "Files at level 0 at which writes are stopped.",
    ),
    entry(
        "soft_pending_compaction_bytes_limit",
        Bytes,
        "Bytes of overdue compaction at which writes are delayed.",
    ),
    entry(
        "hard_pending_compaction_bytes_limit",
        Bytes,
        "Bytes of overdue compaction at which writes are stopped.",
    ),
    entry("num_levels", Plain, "Levels, level 0 included; 2 to 64."),
    entry(
        "max_bytes_for_level_base",
        Bytes,
        "Bytes of the first level below 0, including values in blob files; at least 1024.",
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
        "Run compactions only on request.",
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
        "Move live values out of blob files with much garbage. RocksDB then refuses the database until \
         titan downgrade.",
    ),
    entry(
        "blob_garbage_collection_low_threshold",
        Plain,
        "The share of garbage in all blob files from which some are collected, as far as that does\n\
         not disturb reads and writes; 0.01 to 0.99.",
    ),
    entry(
        "blob_garbage_collection_high_threshold",
        Plain,
        "The share of garbage in all blob files from which it is collected as fast as possible; from\n\
         the low threshold to 0.99.",
    ),
    entry(
        "blob_garbage_collection_punch_holes",
        Plain,
        "Free garbage by punching holes, if that frees most of the garbage of a file: for values of\n\
         16 KiB or more.",
    ),
    entry(
        "max_space_amp",
        Plain,
        "The size of the family's files may be at most this multiple of its live data; 1.1 to 100.\n\
         All families together may use up to 256 MiB in addition.",
    ),
];

const HEAD: &str = "\
# Options of a Titan database with their defaults. Keep the lines that should differ, and pass
# the file to --config. An option of a family that is not mentioned has the value that the database
# keeps, for a new family its default; in a table [families.NAME] it has the value in [default].
";

const TAIL: &str = "
# A table of this form for each column family that differs from [default], with the same options;
# those it does not mention have the values in [default]. A family that does not exist yet is created
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
    let about = "Column family `default`, and new ones that have no table of their own.";
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
    for Entry {
        key,
        unit,
        meaning,
        example,
    } in entries
    {
        text.push('\n');
        for line in meaning.lines() {
            let _ = writeln!(text, "# {line}");
        }
        let value = defaults.get(name).and_then(|table| table.get(key));
        let Some(value) = value else {
            let example =
                example.ok_or_else(|| Error::invalid_option(format!("no option {name}.{key}")))?;
            let _ = writeln!(text, "# Default: none\n# {key} = {example}");
            continue;
        };
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

        // Includes those without a default.
        let all = text.replace("\n# wal_dir =", "\nwal_dir =");
        let written: toml::Table = all.parse().unwrap();
        toml::from_str::<Options>(&all).unwrap();
        for name in ["db", "default"] {
            let table = written[name].as_table().unwrap();
            let mut keys: Vec<_> = table.keys().cloned().collect();
            keys.sort();
            assert_eq!(keys, names_of_options(name), "options of [{name}]");
        }
    }

    /// All options of a section: an error about an unknown option lists them.
    fn names_of_options(section: &str) -> Vec<String> {
        let error = toml::from_str::<Options>(&format!("[{section}]\nno_such = 1\n"));
        let error = error.unwrap_err().to_string();
        let (_, names) = error.split_once("expected one of").unwrap();
        let mut names: Vec<_> = names
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        names.sort();
        names
    }

    #[test]
    fn sizes_are_told_in_units() {
        let text = document().unwrap();
        assert!(text.contains("# Default: 67108864 (64 MiB)\nwrite_buffer_size = 67108864\n"));
    }
}
