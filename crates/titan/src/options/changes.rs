//! Changes to the options of a family or a database that is open, as names and texts.
//!
//! Names and values are those of configuration files, or [RocksDB's](super::spelling), with
//! `block_based_table_factory={...}` around the options of tables, and `filter_policy`. All changes
//! of a call are checked together: each by its range, and the result as a whole.

use super::file::COMPACTION_FILTER;
use super::setting::NAMED;
use super::spelling::as_titan_has_it;
use super::{ColumnFamilyOptions, DbOptions, DbSettings, FamilySettings};
use crate::error::{Error, Result};

/// Options on which a family is built.
const FIXED: [&str; 1] = ["num_levels"];

/// The parts of a database that can change. The rest concerns the opening.
const CHANGEABLE: [&str; 10] = [
    "blob_garbage_collection_rate",
    "block_cache_size",
    "data_in_memory",
    "delayed_write_rate",
    "max_background_jobs",
    "max_manifest_file_size",
    "max_open_files",
    "max_total_wal_size",
    "slow_operation_micros",
    "stats_level",
];

impl ColumnFamilyOptions {
    /// These options with some of them changed.
    ///
    /// # Errors
    /// `InvalidOption` for a name that is unknown, given twice, or fixed while the family is open;
    /// for a value that is not understood or out of range; and for options that contradict each
    /// other.
    pub(crate) fn changed(&self, changes: &[(&str, &str)]) -> Result<Self> {
        let mut flat = Vec::new();
        for (name, value) in changes {
            match *name {
                "block_based_table_factory" | "table_factory" => flat.extend(nested(name, value)?),
                name => flat.push((name, *value)),
            }
        }
        let mut settings = FamilySettings::default();
        each_once(&flat, |name, value| {
            if is_of_database(name) {
                return Err(Error::invalid_option(format!(
                    "{name} is an option of the database: Db::set_options changes it"
                )));
            }
            refuse_fixed(is_fixed_of_family(name), name, "column family")?;
            if name == "ttl" {
                return Err(Error::invalid_option(
                    "ttl is no option: set ColumnFamilyOptions::compaction_filter to a TimeToLive",
                ));
            }
            let parsed = settings.parse(name, &as_titan_has_it(name, value));
            parsed.map_err(Error::invalid_option)
        })?;
        let mut changed = self.clone();
        settings.put_into(&mut changed);
        changed.validate()?;
        Ok(changed)
    }
}

impl DbOptions {
    /// These options with some of them changed.
    ///
    /// # Errors
    /// As those of [`ColumnFamilyOptions::changed`].
    pub(crate) fn changed(&self, changes: &[(&str, &str)]) -> Result<Self> {
        let mut settings = DbSettings::default();
        each_once(changes, |name, value| {
            refuse_fixed(is_fixed_of_database(name), name, "database")?;
            let parsed = settings.parse(name, &as_titan_has_it(name, value));
            parsed.map_err(Error::invalid_option)
        })?;
        let mut changed = self.clone();
        settings.put_into(&mut changed);
        changed.validate()?;
        Ok(changed)
    }
}

/// Applies `change` to each name, as Titan calls it, and value.
fn each_once(
    changes: &[(&str, &str)],
    mut change: impl FnMut(&str, &str) -> Result<()>,
) -> Result<()> {
    let mut seen = Vec::new();
    for (name, value) in changes {
        let (name, value) = translated(name.trim(), value.trim())?;
        if seen.contains(&name) {
            return Err(Error::invalid_option(format!("{name} is given twice")));
        }
        change(name, &value)?;
        seen.push(name);
    }
    Ok(())
}

/// The entries of `{a=1;b=2;}`.
fn nested<'a>(name: &str, text: &'a str) -> Result<Vec<(&'a str, &'a str)>> {
    let inside = text.trim().strip_prefix('{');
    let inside = inside.and_then(|inside| inside.strip_suffix('}'));
    let entries = inside.map(|inside| {
        let entries = inside.split(';').map(str::trim);
        let entries = entries.filter(|entry| !entry.is_empty());
        entries.map(|entry| entry.split_once('=')).collect()
    });
    entries.flatten().ok_or_else(|| {
        let form = "{option=value;option=value}";
        Error::invalid_option(format!("{name}={text} is not of the form {form}"))
    })
}

/// An option that RocksDB calls otherwise.
fn translated<'a>(name: &'a str, value: &str) -> Result<(&'a str, String)> {
    if name != "filter_policy" {
        return Ok((name, value.to_owned()));
    }
    let bits = match value.split(':').collect::<Vec<_>>()[..] {
        ["nullptr" | ""] => Some("0"),
        ["bloomfilter" | "rocksdb.BuiltinBloomFilter", bits]
        | ["bloomfilter", bits, "true" | "false"] => Some(bits),
        _ => None,
    };
    let bits = bits.ok_or_else(|| {
        let text = format!("filter_policy={value} is neither bloomfilter:BITS:false nor nullptr");
        Error::invalid_option(text)
    })?;
    Ok(("bloom_bits_per_key", bits.to_owned()))
}

fn is_fixed_of_family(name: &str) -> bool {
    let given_by_programs = [
        "comparator",
        "compaction_filter",
        COMPACTION_FILTER,
        "table_properties_collectors",
        "sst_partitioner",
        "stated",
    ];
    let mut fixed = FIXED.into_iter().chain(NAMED).chain(given_by_programs);
    fixed.any(|fixed| fixed == name)
}

/// Whether an option is one of the database, not of a family.
pub(crate) fn is_of_database(name: &str) -> bool {
    let given_by_programs = ["vfs", "clock", "listeners", "commit_hook", "env"];
    let all = DbOptions::ALL.iter().map(|info| info.name);
    all.chain(given_by_programs).any(|known| known == name)
}

fn is_fixed_of_database(name: &str) -> bool {
    is_of_database(name) && !CHANGEABLE.contains(&name)
}

fn refuse_fixed(is_fixed: bool, name: &str, what: &str) -> Result<()> {
    match is_fixed {
        true => Err(Error::invalid_option(format!(
            "{name} cannot change while the {what} is open"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;
    use crate::format::CompressionType;

    #[test]
    fn names_and_values_of_both_are_understood() {
        let options = ColumnFamilyOptions::default();
        let changed = options
            .changed(&[
                ("write_buffer_size", "1M"),
                ("min_blob_size", " 512 "),
                ("compression", "kZSTD"),
                ("blob_compression_type", "lz4"),
                ("disable_auto_compactions", "true"),
                (
                    "block_based_table_factory",
                    "{block_size=8K; filter_policy=bloomfilter:12.5:false;}",
                ),
            ])
            .unwrap();
        assert_eq!(changed.write_buffer_size, 1 << 20);
        assert_eq!(changed.min_blob_size, 512);
        assert_eq!(changed.compression, CompressionType::Zstd);
        assert_eq!(changed.blob_compression_type, CompressionType::Lz4);
        assert!(changed.disable_auto_compactions);
        assert_eq!(changed.block_size, 8192);
        assert_eq!(changed.bloom_bits_per_key, 12.5);
        let changed = changed.changed(&[("filter_policy", "nullptr")]).unwrap();
        assert_eq!(changed.bloom_bits_per_key, 0.0);
        assert_eq!(changed.block_size, 8192);
        assert_eq!(changed.changed(&[]).unwrap().block_size, 8192);
    }

    #[test]
    fn every_spelling_of_rocksdb_is_understood() {
        let options = ColumnFamilyOptions::default();
        let changed = options
            .changed(&[
                ("disable_auto_compactions", "1"),
                ("enable_blob_files", "0"),
                ("max_bytes_for_level_multiplier", "8.000000"),
                ("level0_slowdown_writes_trigger", "-1"),
                ("level0_stop_writes_trigger", "-1"),
                ("compression", "kBZip2Compression"),
                ("blob_compression_type", "kLZ4HCCompression"),
            ])
            .unwrap();
        assert!(changed.disable_auto_compactions && !changed.enable_blob_files);
        assert_eq!(changed.max_bytes_for_level_multiplier, 8);
        assert_eq!(changed.level0_slowdown_writes_trigger, i32::MAX as usize);
        assert_eq!(changed.level0_stop_writes_trigger, i32::MAX as usize);
        assert_eq!(changed.compression, CompressionType::Zstd);
        assert_eq!(changed.blob_compression_type, CompressionType::Lz4);
        for (name, codec) in [
            ("kZlibCompression", CompressionType::Zstd),
            ("kSnappyCompression", CompressionType::Snappy),
            ("kNoCompression", CompressionType::None),
        ] {
            let changed = options.changed(&[("compression", name)]).unwrap();
            assert_eq!(changed.compression, codec, "{name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_with_what_would_be() {
        let options = ColumnFamilyOptions::default();
        for (name, value, form) in [
            ("compression", "gzip", "none, snappy, lz4 or zstd"),
            ("disable_auto_compactions", "yes", "true or false"),
            (
                "write_buffer_size",
                "much",
                "a whole number, 64 KiB to 64 GiB",
            ),
            ("min_blob_size", "-1", "a whole number"),
            ("max_space_amp", "much", "a number, 1.1 to 100"),
            ("max_bytes_for_level_multiplier", "8.5", "a whole number"),
            ("ttl", "60", "TimeToLive"),
        ] {
            let e = options.changed(&[(name, value)]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidOption, "{e}");
            assert!(
                e.message().contains(name) && e.message().contains(form),
                "{e}"
            );
        }
        let database = DbOptions::default();
        let e = database.changed(&[("data_in_memory", "yes")]).unwrap_err();
        assert!(e.message().contains("be auto, always or never"), "{e}");
    }

    #[test]
    fn every_kept_option_can_be_given_by_its_text() {
        let options = ColumnFamilyOptions::default();
        for (name, value) in FamilySettings::of(&options).entries() {
            let changed = options.changed(&[(name, &value)]);
            assert_eq!(changed.is_err(), FIXED.contains(&name), "{name}={value}");
        }
    }

    #[test]
    fn what_cannot_be_changed_is_refused_by_name() {
        let options = ColumnFamilyOptions::default();
        let cases: [(&[(&str, &str)], &str); 13] = [
            (&[("block_cache_size", "1")], "Db::set_options"),
            (&[("no_such", "1")], "no_such"),
            (&[("write_buffer_size", "many")], "write_buffer_size=many"),
            (&[("write_buffer_size", "1")], "64 KiB to 64 GiB"),
            (&[("write_buffer_size", "-1")], "write_buffer_size=-1"),
            (
                &[("write_buffer_size", "99999999999T")],
                "write_buffer_size",
            ),
            (&[("write_buffer_size", "\u{e9}")], "write_buffer_size"),
            (&[("num_levels", "7")], "cannot change while"),
            (&[("merge_operator", "put")], "cannot change while"),
            (&[("min_blob_size", "1"), ("min_blob_size", "2")], "twice"),
            (&[("level0_stop_writes_trigger", "1")], "at least"),
            (&[("compression", "kXpressCompression")], "compression"),
            (&[("block_based_table_factory", "block_size=1")], "form"),
        ];
        for (changes, text) in cases {
            let e = options.changed(changes).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidOption, "{changes:?}: {e}");
            assert!(e.message().contains(text), "{changes:?}: {e}");
        }
        // Contradictions are those of the result.
        let all = [
            ("level0_stop_writes_trigger", "3"),
            ("level0_slowdown_writes_trigger", "2"),
            ("level0_file_num_compaction_trigger", "1"),
        ];
        options.changed(&all).unwrap();
    }
}
