//! Converts our options to those of RocksDB's OPTIONS file, and RocksDB's to ours.
//!
//! An option that RocksDB has with the same meaning has the same name, except for the few named
//! here. Options that RocksDB does not have are not in the file. Those that we do not have become
//! the nearest that we have, with a note: nothing in the file prevents a family from being opened.

use super::column_family::NO_LIMIT;
use super::declare::OptionTraits;
use super::file::{CF_OPTIONS, DB_OPTIONS, OptionsFile, Section, TABLE_OPTIONS, bloom_filter};
use super::setting::Setting;
use super::spelling::{self, never, without_fraction};
use super::{DbSettings, FamilySettings, SettingTexts};
use super::{by_name, setting};
use crate::format::CompressionType;
use crate::format::prefix;
use crate::merge;

/// Traits of the option of this name.
fn traits_of(key: &str) -> OptionTraits {
    let mut infos = FamilySettings::infos().chain(DbSettings::infos());
    let info = infos.find(|info| info.name == key);
    info.map_or(OptionTraits::NONE, |info| info.traits)
}

/// The OPTIONS file of a database: its options and, for each family, its name, the name of its
/// comparator, and its options.
pub(crate) fn options_file<'f>(
    db: &SettingTexts,
    families: impl IntoIterator<Item = (&'f str, &'f str, &'f SettingTexts)>,
) -> OptionsFile {
    let mut file = OptionsFile::new();
    // RocksDB requires the section.
    file.set(DB_OPTIONS, "", "error_if_exists", false);
    for (key, value) in DbSettings::of_texts(db).entries() {
        if !traits_of(key).private {
            file.set(DB_OPTIONS, "", key, as_rocksdb_has_it(key, value));
        }
    }
    for (name, comparator, settings) in families {
        add_family(
            &mut file,
            name,
            comparator,
            &FamilySettings::of_texts(settings),
        );
        by_name::add_to_file(&mut file, name, settings);
    }
    file
}

fn add_family(file: &mut OptionsFile, name: &str, comparator: &str, settings: &FamilySettings) {
    file.set(CF_OPTIONS, name, "comparator", comparator);
    file.set(
        CF_OPTIONS,
        name,
        "level_compaction_dynamic_level_bytes",
        true,
    );
    file.set(CF_OPTIONS, name, "table_factory", "BlockBasedTable");
    for (key, value) in settings.entries() {
        match key {
            _ if traits_of(key).private => {}
            "bloom_bits_per_key" => {
                let bits = settings.bloom_bits_per_key.unwrap_or_default();
                file.set(TABLE_OPTIONS, name, "filter_policy", bloom_filter(bits));
            }
            _ if traits_of(key).of_tables => {
                file.set(TABLE_OPTIONS, name, key, as_rocksdb_has_it(key, value));
            }
            _ => file.set(CF_OPTIONS, name, key, as_rocksdb_has_it(key, value)),
        }
    }
    file.set(TABLE_OPTIONS, name, "format_version", 5);
    file.set(TABLE_OPTIONS, name, "checksum", "kXXH3");
}

fn as_rocksdb_has_it(key: &str, value: String) -> String {
    if let ("compression" | "blob_compression_type", Some(codec)) =
        (key, CompressionType::parse(&value))
    {
        return codec.option_name().to_owned();
    }
    match value.parse::<u64>() {
        Ok(number) if traits_of(key).int => number.min(i32::MAX as u64).to_string(),
        _ => value,
    }
}

/// The options of the database in an OPTIONS file. Those that it does not have, or that RocksDB
/// would choose itself, are absent.
pub(crate) fn db_settings(file: &OptionsFile) -> DbSettings {
    let mut settings = DbSettings::default();
    let Some(section) = file.section(DB_OPTIONS, "") else {
        return settings;
    };
    for key in DbSettings::infos().map(|info| info.name) {
        let text = section.get(key).map(without_fraction);
        // A negative number means as many files as there are; a rate of zero, RocksDB's choice.
        let chosen =
            |text: &&str| !text.starts_with('-') && (key, *text) != ("delayed_write_rate", "0");
        if let Some(text) = text.filter(chosen) {
            // It concerns another process than this one: a value out of range is no loss.
            let _ = settings.set(key, text);
        }
    }
    // RocksDB accepts fewer than 16, and 0 has another meaning here.
    settings.max_open_files = settings.max_open_files.map(|files| files.max(16));
    settings
}

/// The options of a family in an OPTIONS file, and notes on those that are not taken exactly;
/// `None` if the file does not have the family.
pub(crate) fn family_settings(
    file: &OptionsFile,
    family: &str,
) -> Option<(FamilySettings, Vec<String>)> {
    let mut import = Import {
        of_family: file.section(CF_OPTIONS, family)?,
        of_tables: file.section(TABLE_OPTIONS, family),
        settings: FamilySettings::default(),
        notes: Vec::new(),
    };
    if !file.is_ours() {
        // A release that did not have these options did not do this.
        import.settings.enable_blob_files = Some(false);
        import.settings.enable_blob_garbage_collection = Some(false);
    }
    import.numbers();
    import.codecs();
    import.filter();
    if !file.is_ours() {
        import.differences();
    }
    Some((import.settings, import.notes))
}

/// In RocksDB a negative number means never; our triggers have no such value.
const COMPACTION_TRIGGER: &str = "level0_file_num_compaction_trigger";

struct Import<'a> {
    of_family: &'a Section,
    of_tables: Option<&'a Section>,
    settings: FamilySettings,
    notes: Vec<String>,
}

impl Import<'_> {
    /// The text of an option, unless it is set to nothing.
    fn get(&self, key: &str) -> Option<&str> {
        let section = match traits_of(key).of_tables || key == "filter_policy" {
            true => self.of_tables?,
            false => self.of_family,
        };
        section.get(key).filter(|text| !text.is_empty())
    }

    fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Options whose values are the same in both, except for the meaning of zero and negative
    /// numbers.
    fn numbers(&mut self) {
        for info in FamilySettings::infos() {
            let key = info.name;
            let special = ["compression", "blob_compression_type", "bloom_bits_per_key"];
            if info.traits.private || special.contains(&key) {
                continue;
            }
            let Some(text) = self.get(key).map(|text| without_fraction(text).to_owned()) else {
                continue;
            };
            if key == COMPACTION_TRIGGER && text.starts_with('-') {
                continue;
            }
            let text = match never(key, &text) {
                Some(never) => never,
                // The range determines the nearest value; zero is below any range with a lower end.
                None if text.starts_with('-') => "0".to_owned(),
                None => match text.parse::<f64>() {
                    Ok(number) if text.contains('.') => {
                        self.note(format!("{key}={text}: {number:.0} is taken"));
                        format!("{number:.0}")
                    }
                    _ => text,
                },
            };
            if let Err(note) = self.settings.set(key, &text) {
                self.note(note);
            }
        }
        // Never by number of files: the trigger is set as high as it may be.
        if let Some(text) = self.get(COMPACTION_TRIGGER).map(str::to_owned)
            && text.starts_with('-')
        {
            let default = crate::ColumnFamilyOptions::default().level0_slowdown_writes_trigger;
            let slow = self.settings.level0_slowdown_writes_trigger;
            let slow = slow.unwrap_or(default).max(1);
            self.settings.level0_file_num_compaction_trigger = Some(slow);
            self.note(format!(
                "{COMPACTION_TRIGGER}={text}: {slow} is taken, from which writes are slowed down"
            ));
        }
        // Where the hard limit is the lower one, RocksDB uses it for both.
        let hard = self.settings.hard_pending_compaction_bytes_limit;
        let hard = hard.filter(|hard| *hard != NO_LIMIT);
        let soft = &mut self.settings.soft_pending_compaction_bytes_limit;
        *soft = (*soft).min(hard.or(*soft));
    }

    fn codecs(&mut self) {
        // Most data is at the last level.
        let per_level = self.get("compression_per_level").unwrap_or_default();
        let of_last = per_level.rsplit(':').next().filter(|name| !name.is_empty());
        let bottommost = self.get("bottommost_compression");
        let bottommost = bottommost.filter(|name| *name != "kDisableCompressionOption");
        let general = self.get("compression");
        let chosen = bottommost.or(of_last).or(general).map(str::to_owned);
        if bottommost
            .or(of_last)
            .is_some_and(|last| Some(last) != general)
            || of_last.is_some()
        {
            let name = chosen.clone().unwrap_or_default();
            self.note(format!("all levels are compressed as the last one: {name}"));
        }
        self.settings.compression = self.codec("compression", chosen.as_deref());
        let blobs = self.get("blob_compression_type").map(str::to_owned);
        self.settings.blob_compression_type = self.codec("blob_compression_type", blobs.as_deref());
    }

    /// The codec to write files with where RocksDB would use the one of this name.
    fn codec(&mut self, key: &str, name: Option<&str>) -> Option<CompressionType> {
        let name = name?;
        let nearest = spelling::codec(key, name).unwrap_or(CompressionType::OF_TABLES);
        if nearest.option_name() != name {
            let text = nearest.text();
            self.note(format!("{key}={name}: {text} is written instead"));
        }
        Some(nearest)
    }

    fn filter(&mut self) {
        if self.get("filter_policy").is_none() {
            return;
        }
        let tables = self.of_tables;
        let Some(policy) = tables.and_then(|tables| tables.object("filter_policy")) else {
            self.settings.bloom_bits_per_key = Some(0.0);
            return;
        };
        let mut parts = policy.split(':');
        let kind = parts.next().unwrap_or_default();
        let bits = parts.next().unwrap_or_default();
        match bits.parse::<f64>() {
            Ok(_) => {
                if !kind.to_ascii_lowercase().contains("bloom") {
                    self.note(format!(
                        "filter_policy={policy}: Bloom filters are written instead"
                    ));
                }
                if let Err(note) = self.settings.set("bloom_bits_per_key", bits) {
                    self.note(note);
                }
            }
            Err(_) => self.note(format!(
                "filter_policy={policy}: Bloom filters of 10 bits a key"
            )),
        }
    }

    /// Notes the options that we do not have, if they have an effect.
    fn differences(&mut self) {
        // Without blob files it is RocksDB's default, and not a choice of the user.
        if self.settings.enable_blob_files == Some(false) && self.settings.min_blob_size == Some(0)
        {
            self.settings.min_blob_size = None;
        }
        for (key, nothing, instead) in [
            (
                "compaction_style",
                &["kCompactionStyleLevel"][..],
                "levels are compacted leveled",
            ),
            (
                "level_compaction_dynamic_level_bytes",
                &["true"],
                "level sizes follow the last level",
            ),
            (
                "target_file_size_multiplier",
                &["1"],
                "tables are of one size at all levels",
            ),
            (
                "blob_file_starting_level",
                &["0"],
                "large values go to blob files at once",
            ),
            (
                "merge_operator",
                &["nullptr"],
                "keys with merge operands are readable once it is given",
            ),
            ("compaction_filter", &["nullptr"], "it is not applied"),
            (
                "compaction_filter_factory",
                &["nullptr"],
                "it is not applied",
            ),
            (
                "prefix_extractor",
                &["nullptr"],
                "new filters have no prefixes until it is given",
            ),
            (
                "table_factory",
                &["BlockBasedTable"],
                "tables are written block-based",
            ),
            (
                "sst_partitioner_factory",
                &["nullptr"],
                "tables are cut by size alone",
            ),
        ] {
            let Some(text) = self.get(key) else {
                continue;
            };
            let id = self.of_family.object(key).unwrap_or("nullptr");
            let is_built_in = match key {
                setting::MERGE_OPERATOR => merge::builtin::by_name(id).is_some(),
                setting::PREFIX_EXTRACTOR => prefix::by_name(id).is_some(),
                _ => false,
            };
            if !nothing.contains(&id) && !is_built_in {
                self.note(format!("{key}={text}: {instead}"));
            }
        }
        let opts = self.get("compression_opts").unwrap_or_default();
        let opts = opts.trim_matches(['{', '}']).to_owned();
        for (key, nothing, instead) in [
            ("max_dict_bytes=", &["0"][..], "no dictionaries are written"),
            ("level=", &["32767", "3"], "Zstandard writes with level 3"),
        ] {
            let found = opts.split(';').find_map(|opt| opt.strip_prefix(key));
            if let Some(found) = found.filter(|found| !nothing.contains(found)) {
                self.note(format!("compression_opts {key}{found}: {instead}"));
            }
        }
        if self.settings.enable_blob_garbage_collection == Some(true) {
            self.note(
                "enable_blob_garbage_collection=true: values are moved, and RocksDB refuses the \
                 directory from then on, until a downgrade",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Imports an OPTIONS file of RocksDB that has these lines for the family and its tables.
    fn import(of_family: &str, of_tables: &str) -> (FamilySettings, Vec<String>) {
        let text = format!(
            "# This is a RocksDB option file.\n[Version]\noptions_file_version=1.1\n\
             [CFOptions \"default\"]\n{of_family}\n\
             [TableOptions/BlockBasedTable \"default\"]\n{of_tables}\n"
        );
        let file = OptionsFile::parse(text.as_bytes()).unwrap();
        family_settings(&file, "default").unwrap()
    }

    /// An excerpt of the file that RocksDB 9 writes for default options.
    const DEFAULTS: &str = "bottommost_compression=kDisableCompressionOption\n\
        compression=kSnappyCompression\ncompression_per_level=\n\
        compression_opts={checksum=false;level=32767;max_dict_bytes=0;}\n\
        max_bytes_for_level_multiplier=10.000000\nsoft_pending_compaction_bytes_limit=0\n\
        level0_stop_writes_trigger=-1\nenable_blob_files=false\nmin_blob_size=0\n\
        compaction_style=kCompactionStyleLevel\nlevel_compaction_dynamic_level_bytes=true\n\
        merge_operator=nullptr\nprefix_extractor=nullptr\ntable_factory=BlockBasedTable";

    #[test]
    fn default_options_of_rocksdb_are_taken_as_they_are() {
        let (settings, notes) = import(DEFAULTS, "filter_policy=nullptr\nblock_size=4096");
        assert_eq!(notes, [""; 0]);
        let expected = FamilySettings {
            compression: Some(CompressionType::Snappy),
            max_bytes_for_level_multiplier: Some(10),
            soft_pending_compaction_bytes_limit: Some(0),
            level0_stop_writes_trigger: Some(i32::MAX as usize),
            enable_blob_files: Some(false),
            enable_blob_garbage_collection: Some(false),
            bloom_bits_per_key: Some(0.0),
            block_size: Some(4096),
            ..FamilySettings::default()
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn what_there_is_nothing_for_becomes_the_nearest_with_a_note() {
        for (line, option, note) in [
            (
                "compression=kZlibCompression",
                "compression=zstd",
                "zstd is written",
            ),
            (
                "compression=kLZ4HCCompression",
                "compression=lz4",
                "lz4 is written",
            ),
            (
                "compression=kXpressCompression",
                "compression=lz4",
                "lz4 is written",
            ),
            (
                "bottommost_compression=kZSTD",
                "compression=zstd",
                "as the last one",
            ),
            (
                "compression_per_level=kNoCompression:kLZ4Compression:kBZip2Compression",
                "compression=zstd",
                "as the last one",
            ),
            (
                "blob_compression_type=kSnappyCompression",
                "blob_compression_type=lz4",
                "lz4 is written",
            ),
            (
                "write_buffer_size=1024",
                "write_buffer_size=65536",
                "64 KiB to 64 GiB",
            ),
            (
                "level0_file_num_compaction_trigger=-1\nlevel0_slowdown_writes_trigger=30",
                "level0_file_num_compaction_trigger=30",
                "30 is taken",
            ),
            (
                "level0_file_num_compaction_trigger=-1",
                "level0_file_num_compaction_trigger=20",
                "20 is taken",
            ),
            ("num_levels=1", "num_levels=2", "2 to 64"),
            ("num_levels=many", "", "not understood"),
            (
                "max_bytes_for_level_multiplier=4.700000",
                "max_bytes_for_level_multiplier=5",
                "5 is taken",
            ),
            ("compaction_style=kCompactionStyleUniversal", "", "leveled"),
            (
                "compaction_filter_factory={id=Ttl;ttl=5;}",
                "",
                "not applied",
            ),
            ("merge_operator={id=my.Cat;}", "", "once it is given"),
            ("prefix_extractor=my.Prefix", "", "until it is given"),
            (
                "compression_opts={level=19;max_dict_bytes=4096;}",
                "",
                "no dictionaries",
            ),
            (
                "enable_blob_garbage_collection=true",
                "enable_blob_garbage_collection=true",
                "refuses the",
            ),
        ] {
            let (settings, notes) = import(line, "");
            assert!(notes.iter().any(|n| n.contains(note)), "{line}: {notes:?}");
            if let Some((key, value)) = option.split_once('=') {
                let entry = (key, value.to_owned());
                assert!(settings.entries().contains(&entry), "{line}: {settings:?}");
            }
        }
    }

    #[test]
    fn what_is_built_in_needs_no_note() {
        for line in [
            "merge_operator={id=StringAppendOperator;delimiter=,;}",
            "prefix_extractor=rocksdb.FixedPrefix.3",
        ] {
            assert_eq!(import(line, "").1, [""; 0], "{line}");
        }
    }

    #[test]
    fn a_limit_of_zero_is_no_limit_in_both() {
        let name = "pending_compaction_bytes_limit";
        for (soft, hard, expected) in [(0, 0, 0), (8, 0, 8), (0, 8, 0), (9, 8, 8), (7, 8, 7)] {
            let lines = format!("soft_{name}={soft}\nhard_{name}={hard}");
            let (settings, notes) = import(&lines, "");
            assert_eq!(notes, [""; 0]);
            assert_eq!(settings.soft_pending_compaction_bytes_limit, Some(expected));
            assert_eq!(settings.hard_pending_compaction_bytes_limit, Some(hard));
            let mut options = crate::ColumnFamilyOptions::default();
            settings.put_into(&mut options);
            options.validate().unwrap();
            let bytes = |limit: u64| if limit == 0 { u64::MAX } else { limit };
            assert_eq!(options.slowdown_pending_bytes(), bytes(expected));
            assert_eq!(options.stop_pending_bytes(), bytes(hard));
        }
    }

    #[test]
    fn filters_of_all_spellings() {
        for (policy, bits, noted) in [
            ("nullptr", Some(0.0), false),
            ("bloomfilter:9.5:false", Some(9.5), false),
            ("{id=bloomfilter:12:false;}", Some(12.0), false),
            ("ribbonfilter:8:0", Some(8.0), true),
            ("rocksdb.BuiltinBloomFilter", None, true),
            ("bloomfilter:1000:false", Some(100.0), true),
        ] {
            let (settings, notes) = import("", &format!("filter_policy={policy}"));
            assert_eq!(settings.bloom_bits_per_key, bits, "{policy}");
            assert_eq!(!notes.is_empty(), noted, "{policy}: {notes:?}");
        }
    }

    #[test]
    fn what_is_written_is_taken_back() {
        let mut settings = FamilySettings::of(&crate::ColumnFamilyOptions::default());
        for codec in [
            CompressionType::None,
            CompressionType::Snappy,
            CompressionType::Zstd,
        ] {
            settings.compression = Some(codec);
            settings.min_blob_size = Some(0);
            settings.enable_blob_files = Some(codec == CompressionType::None);
            settings.bloom_bits_per_key = Some(0.0);
            let file = options_file(&Vec::new(), [("x", "order", &settings.texts())]);
            let file = OptionsFile::parse(file.to_text().as_bytes()).unwrap();
            assert!(file.is_ours());
            let (taken, notes) = family_settings(&file, "x").unwrap();
            assert_eq!(notes, [""; 0]);
            let mut expected = settings.entries();
            expected.retain(|(key, _)| !traits_of(key).private);
            assert_eq!(taken.entries(), expected);
        }
    }
}
