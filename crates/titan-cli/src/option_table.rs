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
    /// A value, for an option that has none by default.
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

/// An option that is nothing by default.
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
        "Keep the options that are stated for families with the database, so that they hold for\n\
         later openings, too.",
    ),
    entry(
        "max_open_files",
        Plain,
        "SST and blob files kept open between uses; at least 16. Iterators and values in use may\n\
         hold more. 0 means three quarters of what the process may open: each database takes so\n\
         many, and a process that opens several states it.",
    ),
    entry(
        "max_open_files_memory",
        Bytes,
        "Bytes of memory that open files may take, indexes and filters of SSTs above all; at least\n\
         1 MiB. 0 means a quarter of the process's memory: each database takes so much, and a process\n\
         that opens several states it.",
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
        "data_in_memory",
        Plain,
        "Whether the database is taken to fit in memory: auto (all its files take no more than\n\
         half of the memory left), always or never. Where it does, it is read into the kernel's\n\
         cache when it is opened, and compactions write through that cache, not around it.",
    ),
    entry(
        "use_direct_io_for_flush_and_compaction",
        Plain,
        "Write all SST and blob files around the kernel's cache, where the file system can: less\n\
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
    unset(
        "wal_dir",
        "\"/fast/photos.wal\"",
        "The directory of the WAL files, where it is not the database's. It is stated at each opening\n\
         to write; two databases must not share one.",
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
        "How many times what lives the files of the family may measure; 1.1 to 100. All families\n\
         together have up to 256 MiB beside that.",
    ),
];

const HEAD: &str = "\
# Options of a Titan database with their defaults. Keep the lines that are to differ and give the
# file to --config. An option of a family that is not mentioned is as the database keeps it, for a new
# family its default; in a table [families.NAME] it is as in [default].
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

        // Those that are nothing by default, too.
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

    /// All options of a section: whoever names one that there is not is told of all.
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
