//! Sets of options in which each may be absent: what an opening states, what a database keeps.
//!
//! There is one list of names, types and ranges per struct of options. From it come the ranges that
//! [`validate`](super::Options::validate) checks, the keys of configuration files, and the text in
//! which options are kept. A list without one of the fields does not compile.

use std::fmt;

use serde::Deserialize;

use super::kept::SettingTexts;
use super::{ColumnFamilyOptions, DataInMemory, DbOptions, require};
use crate::error::{Error, Result};
use crate::format::CompressionType;

/// The value of an option.
pub(crate) trait Setting: Copy + PartialEq {
    /// Its text, which [`Setting::parse`] reads back exactly.
    fn text(self) -> String;
    fn parse(text: &str) -> Option<Self>;
}

macro_rules! plain_setting {
    ($($type:ty)*) => {$(
        impl Setting for $type {
            fn text(self) -> String {
                self.to_string()
            }

            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        }
    )*};
}
plain_setting!(bool usize u64 f64);

/// The codecs that files can be written with, by their names in options.
const CODECS: [(CompressionType, &str); 4] = [
    (CompressionType::None, "none"),
    (CompressionType::Snappy, "snappy"),
    (CompressionType::Lz4, "lz4"),
    (CompressionType::Zstd, "zstd"),
];

impl Setting for CompressionType {
    fn text(self) -> String {
        let name = CODECS.iter().find(|(codec, _)| *codec == self);
        name.map_or_else(|| format!("{self:?}"), |(_, name)| (*name).to_owned())
    }

    fn parse(text: &str) -> Option<Self> {
        let codec = CODECS.iter().find(|(_, name)| *name == text);
        codec.map(|(codec, _)| *codec)
    }
}

impl Setting for DataInMemory {
    fn text(self) -> String {
        match self {
            DataInMemory::Auto => "auto",
            DataInMemory::Always => "always",
            DataInMemory::Never => "never",
        }
        .to_owned()
    }

    fn parse(text: &str) -> Option<Self> {
        let all = [
            DataInMemory::Auto,
            DataInMemory::Always,
            DataInMemory::Never,
        ];
        all.into_iter().find(|value| value.text() == text)
    }
}

macro_rules! settings {
    (
        $(#[$doc:meta])*
        $settings:ident of $options:ident {
            $($field:ident: $type:ty $(, $low:expr, $high:expr, $rule:literal)?;)*
        }
        besides $($besides:ident)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct $settings {
            $(pub(crate) $field: Option<$type>,)*
        }

        impl $settings {
            /// The names of all options.
            pub(crate) const NAMES: &[&str] = &[$(stringify!($field)),*];

            /// Every option.
            pub(crate) fn of(options: &$options) -> Self {
                let $options { $($field,)* $($besides: _,)* } = options;
                $settings { $($field: Some(*$field),)* }
            }

            /// Sets the options that are present here in `options`.
            pub(crate) fn put_into(&self, options: &mut $options) {
                $(if let Some(value) = self.$field {
                    options.$field = value;
                })*
            }

            /// These options, and those of `others` where these are absent.
            pub(crate) fn or(self, others: &Self) -> Self {
                $settings { $($field: self.$field.or(others.$field),)* }
            }

            /// The options that are present: names and values.
            pub(crate) fn entries(&self) -> Vec<(&'static str, String)> {
                let mut entries = Vec::new();
                $(if let Some(value) = self.$field {
                    entries.push((stringify!($field), Setting::text(value)));
                })*
                entries
            }

            /// The same, as the MANIFEST has it.
            pub(crate) fn texts(&self) -> SettingTexts {
                let entries = self.entries().into_iter();
                entries.map(|(name, value)| (name.to_owned(), value)).collect()
            }

            /// The defaults, as the MANIFEST has them.
            pub(crate) fn defaults() -> SettingTexts {
                $settings::of(&$options::default()).texts()
            }

            /// Parses the texts, as far as they are understood.
            pub(crate) fn of_texts(texts: &SettingTexts) -> Self {
                let mut settings = $settings::default();
                for (name, value) in texts {
                    let _ = settings.set(name, value);
                }
                settings
            }

            /// Sets an option by its name, to the nearest value in its range. The error says what was
            /// wrong with the name or the value.
            pub(crate) fn set(&mut self, name: &str, text: &str) -> std::result::Result<(), String> {
                match name {
                    $(stringify!($field) => {
                        let Some(value) = <$type as Setting>::parse(text) else {
                            return Err(format!("{name}={text} is not understood"));
                        };
                        self.$field = Some(value);
                        $(if !($low..=$high).contains(&value) {
                            let nearest = if value > $high { $high } else { $low };
                            self.$field = Some(nearest);
                            return Err(format!(
                                "{name}={text} is not {}: {nearest} is taken", $rule
                            ));
                        })?
                        Ok(())
                    })*
                    _ => Err(format!("{name} is no option")),
                }
            }
        }

        impl $options {
            /// Checks the range of each field by itself.
            pub(super) fn validate_ranges(&self) -> Result<()> {
                $($(require(
                    ($low..=$high).contains(&self.$field),
                    stringify!($field),
                    $rule,
                    self.$field,
                )?;)?)*
                Ok(())
            }
        }
    };
}

settings! {
    /// Some of the options of a column family.
    FamilySettings of ColumnFamilyOptions {
        write_buffer_size: u64, 64 << 10, 64 << 30, "64 KiB to 64 GiB";
        max_write_buffer_number: usize, 2, usize::MAX, "at least 2";
        level0_file_num_compaction_trigger: usize, 1, usize::MAX, "at least 1";
        level0_slowdown_writes_trigger: usize;
        level0_stop_writes_trigger: usize;
        soft_pending_compaction_bytes_limit: u64;
        hard_pending_compaction_bytes_limit: u64;
        num_levels: usize, 2, 64, "2 to 64";
        max_bytes_for_level_base: u64, 1024, u64::MAX, "at least 1024";
        max_bytes_for_level_multiplier: u64, 2, u64::MAX, "at least 2";
        target_file_size_base: u64, 1024, u64::MAX, "at least 1024";
        disable_auto_compactions: bool;
        block_size: usize, 256, 16 << 20, "256 B to 16 MiB";
        block_restart_interval: usize, 1, 4096, "1 to 4096";
        bloom_bits_per_key: f64, 0.0, 100.0, "0 to 100";
        compression: CompressionType;
        enable_blob_files: bool;
        min_blob_size: u64;
        blob_file_size: u64, 64 << 10, u64::MAX, "at least 64 KiB";
        blob_compression_type: CompressionType;
        enable_blob_garbage_collection: bool;
        blob_garbage_collection_low_threshold: f64, 0.01, 0.99, "0.01 to 0.99";
        blob_garbage_collection_high_threshold: f64, 0.01, 0.99,
            "blob_garbage_collection_low_threshold to 0.99";
        blob_garbage_collection_punch_holes: bool;
        max_space_amp: f64, 1.1, 100.0, "1.1 to 100";
    }
    besides stated comparator
}

settings! {
    /// Some of the options of a database: those that do not concern a single opening only.
    DbSettings of DbOptions {
        max_open_files: usize;
        max_open_files_memory: u64;
        max_background_jobs: usize, 1, 256, "1 to 256";
        block_cache_size: u64;
        max_total_wal_size: u64;
        data_in_memory: DataInMemory;
        use_direct_io_for_flush_and_compaction: bool;
        delayed_write_rate: u64, 1024, u64::MAX, "at least 1024";
        blob_garbage_collection_rate: u64, 1 << 20, u64::MAX, "at least 1 MiB";
        max_manifest_file_size: u64, 4096, u64::MAX, "at least 4096";
    }
    besides create_if_missing error_if_exists keep_options wal_dir comparator_aliases vfs clock listeners
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
        options.stated = Stated {
            all: false,
            names: named.collect(),
        };
        options
    }
}

/// Which fields of [`ColumnFamilyOptions`] are stated, beyond those that differ from their default:
/// see [`ColumnFamilyOptions::stated`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Stated {
    all: bool,
    names: Vec<&'static str>,
}

/// Leaves out how a value came about: options of the same values look the same.
impl fmt::Debug for Stated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stated").finish_non_exhaustive()
    }
}

impl Stated {
    /// Every field.
    pub fn all() -> Self {
        Stated {
            all: true,
            names: Vec::new(),
        }
    }

    /// These fields, by their names: `Stated::fields(&["compression"])`.
    pub fn fields(names: &[&'static str]) -> Self {
        Stated {
            all: false,
            names: names.to_vec(),
        }
    }

    /// Whether the field of this name is stated, whatever its value.
    pub(super) fn has(&self, name: &str) -> bool {
        self.all || self.names.contains(&name)
    }

    /// Fails with `InvalidOption` for a name that no field has.
    pub(super) fn validate(&self) -> Result<()> {
        let known = |name: &&str| FamilySettings::NAMES.contains(name);
        match self.names.iter().find(|name| !known(name)) {
            None => Ok(()),
            Some(name) => Err(Error::invalid_option(format!(
                "stated names {name}, which is no option of a column family"
            ))),
        }
    }
}
