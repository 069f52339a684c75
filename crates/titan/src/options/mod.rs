//! Options that a user may set. One struct per subject, each with a validator; names and meanings are
//! RocksDB's where it has the same option.

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
pub(crate) use setting::SettingTexts;
pub use stated::Stated;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::ColumnFamilyId;

/// All options of an opening.
///
/// As a TOML file: a table `[db]`, a table `[default]`, and a table `[families.NAME]` for each
/// family with options of its own. An unknown key is an error. What a table leaves out has its
/// default: the table of a family does not inherit from `[default]`. (The `titan` command applies the
/// tables of families on top of `[default]` before it reads them.)
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Options of the database.
    pub db: DbOptions,
    /// Options of the family `default`, and of families that are not in `families` and for which the
    /// database keeps none.
    pub default: ColumnFamilyOptions,
    /// Options of families by name. Those that do not exist yet are created.
    pub families: BTreeMap<String, ColumnFamilyOptions>,
}

impl Options {
    /// The options that apply to the family of this name.
    pub fn family(&self, name: &str) -> &ColumnFamilyOptions {
        self.families.get(name).unwrap_or(&self.default)
    }

    /// The options that state something for the family of this name if it exists: those of `default`
    /// apply to no other family.
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

/// Fails with `InvalidOption` unless `ok`.
pub(crate) fn require(
    ok: bool,
    option: &str,
    rule: &str,
    value: impl std::fmt::Display,
) -> Result<()> {
    if ok {
        return Ok(());
    }
    Err(Error::invalid_option(format!(
        "{option} must be {rule}, not {value}"
    )))
}
