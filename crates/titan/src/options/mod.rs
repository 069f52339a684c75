//! Options that a user may set. One struct per subject, each with a validator; names and meanings
//! are RocksDB's where it has the same option.

mod by_name;
mod changes;
mod column_family;
mod database;
mod declare;
pub(crate) mod file;
pub(crate) mod kept;
pub(crate) mod rocksdb;
mod setting;
mod spelling;
mod stated;

pub(crate) use changes::is_of_database;
pub use column_family::ColumnFamilyOptions;
pub(crate) use column_family::FamilySettings;
pub(crate) use database::DbSettings;
pub use database::{DataInMemory, DbOptions, WalRecoveryMode};
pub use declare::OptionInfo;
pub use kept::{LoadedOptions, TakenOptions};
pub use setting::SettingTexts;
pub use stated::Stated;

use std::collections::BTreeMap;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::format::ColumnFamilyId;

/// All options of an opening.
///
/// As a TOML file: a table `[db]`, a table `[default]`, and a table `[families.NAME]` for each
/// family that differs from `[default]`: options that the table of a family leaves out are as in
/// `[default]`. Options that `[db]` and `[default]` leave out have their defaults. An unknown key
/// is an error.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(from = "OptionsInFile")
)]
pub struct Options {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of the family `default`, and of families that are not in `families` and for which
    /// the database keeps none.
    pub default: ColumnFamilyOptions,
    /// Options of families by name. Those that do not exist yet are created.
    pub families: BTreeMap<String, ColumnFamilyOptions>,
}

/// Options as a file has them.
#[cfg(feature = "serde")]
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OptionsInFile {
    db: DbOptions,
    default: FamilySettings,
    families: BTreeMap<String, FamilySettings>,
}

#[cfg(feature = "serde")]
impl From<OptionsInFile> for Options {
    fn from(file: OptionsInFile) -> Self {
        let on_default = |family: FamilySettings| family.or(&file.default).into();
        let families = file.families.into_iter();
        Options {
            db: file.db,
            families: families
                .map(|(name, own)| (name, on_default(own)))
                .collect(),
            default: file.default.into(),
        }
    }
}

impl Options {
    /// The options that apply to the family of this name.
    pub fn family(&self, name: &str) -> &ColumnFamilyOptions {
        self.families.get(name).unwrap_or(&self.default)
    }

    /// The options that state something for the family of this name if it exists: those of
    /// `default` apply to no other family.
    fn given_for(&self, name: &str) -> Option<&ColumnFamilyOptions> {
        let own = self.families.get(name);
        own.or((name == ColumnFamilyId::DEFAULT_NAME).then_some(&self.default))
    }

    /// Checks every range.
    ///
    /// # Errors
    /// `InvalidOption` naming the family, the option, the rule and the value.
    pub fn validate(&self) -> Result<()> {
        self.db.validate()?;
        self.default.validate()?;
        for (name, options) in &self.families {
            options
                .validate()
                .map_err(|e| e.context(format!("column family {name}")))?;
        }
        Ok(())
    }
}

/// Names and values of a family's options by default.
pub fn family_defaults() -> SettingTexts {
    FamilySettings::defaults()
}

/// Names and values of a database's options by default.
pub fn database_defaults() -> SettingTexts {
    DbSettings::defaults()
}

#[cfg(test)]
mod tests {
    use super::*;
    #[cfg(workspace)]
    use crate::format::CompressionType;

    #[cfg(workspace)]
    #[test]
    fn the_file_in_the_readme_means_what_it_says() {
        let readme = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let (_, file) = readme.split_once("```toml\n").unwrap();
        let (file, _) = file.split_once("```").unwrap();
        let options: Options = toml::from_str(file).unwrap();
        options.validate().unwrap();
        let (default, family) = (options.family("elsewhere"), options.family("thumbnails"));
        assert!(default.enable_blob_files && !family.enable_blob_files);
        for options in [default, family] {
            assert_eq!(options.min_blob_size, 1024);
            assert_eq!(options.compression, CompressionType::Zstd);
        }
        // The family states the options that the file gives for it and for `[default]`, so kept
        // options give way.
        let stated = family.settings_stated();
        assert!(stated.min_blob_size.is_some() && stated.enable_blob_files.is_some());
        assert!(stated.block_size.is_none());
    }

    #[test]
    fn what_was_written_is_read_as_it_was() {
        let mut options = Options::default();
        options.default.min_blob_size = 7;
        let own = ColumnFamilyOptions::default();
        options.families.insert("as by default".to_owned(), own);
        let read: Options = toml::from_str(&toml::to_string(&options).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{options:?}"));
    }
}
