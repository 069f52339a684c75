//! The options that a directory keeps, and how an opening combines them with those it is given.
//!
//! Titan's MANIFEST has the options of the database and of each family; the edit that adds a family
//! includes them. So they exist whenever the family does, after any crash. OPTIONS has those that
//! RocksDB knows, for RocksDB, and takes precedence if RocksDB wrote to the directory last: it
//! starts a MANIFEST without ours, or appends to the existing one and then writes a newer OPTIONS.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

#[cfg(feature = "serde")]
use serde::Serialize;

use super::by_name::{KeptNames, Named};
use super::file::{CF_OPTIONS, OptionsFile};
use super::rocksdb;
use super::{
    ColumnFamilyOptions, DbOptions, DbSettings, FamilySettings, Options, SettingTexts, Stated,
};
use crate::error::{Error, Result};
use crate::format::file_name::FileKind;
use crate::format::{ColumnFamilyId, FileNumber};
use crate::vfs::Vfs;

/// The options that an opening took over for a family.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct TakenOptions {
    /// The family.
    pub family: String,
    /// The file that had the options.
    pub file: String,
    /// The options that were taken over and differ from their default: name and value.
    pub options: BTreeMap<String, String>,
    /// Options of the file that Titan treats differently.
    pub notes: Vec<String>,
}

/// The options that are kept for a family.
#[derive(Debug)]
struct KeptFamily {
    settings: FamilySettings,
    names: KeptNames,
    file: String,
    notes: Vec<String>,
    /// RocksDB's options say that there is one level.
    is_single_level: bool,
}

/// The options that a directory keeps.
#[derive(Debug, Default)]
pub struct Kept {
    db: DbSettings,
    families: BTreeMap<String, KeptFamily>,
}

/// The options that an opening runs with, and those that it keeps for the next one.
pub struct Resolved {
    /// Complete: with every family of the database by its name.
    pub options: Options,
    /// To be kept for these families. Others keep the options that they run with.
    pub families: BTreeMap<String, SettingTexts>,
    /// To be kept for the database.
    pub db: SettingTexts,
    pub(crate) taken: Vec<TakenOptions>,
}

impl Kept {
    /// Reads the options that the MANIFEST and the newest OPTIONS of `dir` keep. An OPTIONS that
    /// cannot be parsed is ignored.
    pub fn read<'f>(
        vfs: &dyn Vfs,
        dir: &Path,
        manifest: FileNumber,
        settings: &BTreeMap<Option<ColumnFamilyId>, SettingTexts>,
        families: impl IntoIterator<Item = (ColumnFamilyId, &'f str)>,
    ) -> Result<Self> {
        let options_file = newest_options_file(vfs, dir)?;
        let texts = |of| settings.get(&of).map(Vec::as_slice).unwrap_or_default();
        let mut kept = Kept::default();
        if let Some(texts) = settings.get(&None) {
            kept.db = DbSettings::of_texts(texts);
        }
        for (id, name) in families {
            let mut family = KeptFamily {
                settings: FamilySettings::default(),
                names: KeptNames::default(),
                file: FileKind::Manifest(manifest).name(),
                notes: Vec::new(),
                is_single_level: false,
            };
            for (name, value) in texts(Some(id)) {
                if !family.names.set(name, value) {
                    family.notes.extend(family.settings.set(name, value).err());
                }
            }
            kept.families.insert(name.to_owned(), family);
        }
        if let Some((number, file)) = options_file {
            kept.heed_options_file(&file, number, manifest);
        }
        kept.families.retain(|_, family| {
            !family.settings.is_empty() || family.names != KeptNames::default()
        });
        Ok(kept)
    }

    /// Applies an OPTIONS file. One that RocksDB wrote after the MANIFEST takes precedence; any
    /// other only applies where the MANIFEST has no options.
    fn heed_options_file(&mut self, file: &OptionsFile, number: FileNumber, manifest: FileNumber) {
        let is_newer = !file.is_ours() && number > manifest;
        let db = rocksdb::db_settings(file);
        if is_newer || self.db.is_empty() {
            self.db = db.or(&self.db);
        }
        for (name, family) in &mut self.families {
            if (is_newer || family.settings.is_empty())
                && let Some((settings, notes)) = rocksdb::family_settings(file, name)
            {
                family.settings = settings.or(&family.settings);
                family.names = KeptNames::of_file(file, name);
                family.file = FileKind::Options(number).name();
                family.notes = notes;
                let levels = file
                    .section(CF_OPTIONS, name)
                    .and_then(|s| s.get("num_levels"));
                family.is_single_level = !file.is_ours() && levels == Some("1");
            }
        }
    }

    /// Refuses to write to a database of RocksDB with a family of one level: compactions need two,
    /// and RocksDB, if the program opens the database with the same options again, could not read
    /// the second.
    ///
    /// # Errors
    /// `InvalidOption` that names the family, unless `given` states its levels.
    pub(crate) fn refuse_single_levels(&self, given: &Options) -> Result<()> {
        let states_levels = |name: &str| {
            let own = given.given_for(name);
            own.is_some_and(|own| own.settings_stated().num_levels.is_some())
        };
        let mut single = self.families.iter().filter(|(_, f)| f.is_single_level);
        match single.find(|(name, _)| !states_levels(name)) {
            Some((name, family)) => Err(Error::invalid_option(format!(
                "RocksDB's options of column family {name} say num_levels=1 ({}): compactions of this \
                 engine need two levels, and RocksDB with these options refuses a database that has \
                 them. It can be read; to write to it, state num_levels (2 to 64), and have the program \
                 do the same when it opens the database with RocksDB again",
                family.file
            ))),
            None => Ok(()),
        }
    }

    /// The options of the database.
    pub(crate) fn db(&self) -> &DbSettings {
        &self.db
    }

    /// The names of objects that are kept: see [`LoadedOptions::recorded`].
    pub(crate) fn recorded(&self) -> BTreeMap<String, BTreeMap<&'static str, String>> {
        let families = self.families.iter();
        let names = families.map(|(name, family)| (name.clone(), family.names.recorded()));
        names.filter(|(_, names)| !names.is_empty()).collect()
    }

    /// Combines the kept options with `given`, for a database that has families of these names.
    ///
    /// # Errors
    /// `InvalidOption` if options that are stated are out of range or contradict each other;
    /// `InvalidArgument` for another merge operator or prefix extractor than the recorded one.
    pub fn resolve(&self, given: &Options, names: &[String]) -> Result<Resolved> {
        let given = &given.with_named_objects()?;
        let mut options = given.clone();
        let mut families = BTreeMap::new();
        let mut taken = Vec::new();
        for name in names {
            let own = given.given_for(name);
            let stated = own.map(ColumnFamilyOptions::settings_stated);
            let stated = stated.unwrap_or_default();
            // Not that of other families: it would delete entries for which it was not written.
            let filter = own.and_then(|own| own.compaction_filter.clone());
            let collectors = own.map(|own| own.table_properties_collectors.clone());
            let partitioner = own.and_then(|own| own.sst_partitioner.clone());
            let complete = match self.families.get(name) {
                Some(kept) => {
                    let mut complete = ColumnFamilyOptions {
                        comparator: Arc::clone(&given.family(name).comparator),
                        ..ColumnFamilyOptions::default()
                    };
                    kept.settings.put_into(&mut complete);
                    stated.put_into(&mut complete);
                    complete.agree(&stated);
                    taken.extend(kept.taken(name, &stated, &complete));
                    complete
                }
                None => given.family(name).clone(),
            };
            let kept = self.families.get(name);
            let names = kept.map(|kept| kept.names.clone()).unwrap_or_default();
            let Named {
                merge_operator,
                prefix_extractor,
            } = names.resolve(name, own)?;
            let complete = ColumnFamilyOptions {
                stated: Stated::all(),
                merge_operator,
                prefix_extractor,
                compaction_filter: filter,
                table_properties_collectors: collectors.unwrap_or_default(),
                sst_partitioner: partitioner,
                ..complete
            };
            let mut texts = match kept {
                _ if given.db.keep_options => FamilySettings::of(&complete),
                Some(kept) => {
                    let mut unchanged = ColumnFamilyOptions::default();
                    kept.settings.put_into(&mut unchanged);
                    FamilySettings::of(&unchanged)
                }
                // Nothing is kept, and that does not change.
                None => FamilySettings::default(),
            }
            .texts();
            texts.extend(complete.kept_names());
            families.insert(name.clone(), texts);
            match name.as_str() {
                ColumnFamilyId::DEFAULT_NAME => options.default = complete,
                _ => drop(options.families.insert(name.clone(), complete)),
            }
        }
        options.families.remove(ColumnFamilyId::DEFAULT_NAME);
        options.validate()?;
        let db = match given.db.keep_options {
            true => DbSettings::of(&given.db),
            false => self.db.clone(),
        };
        let db = worth_keeping(&db);
        Ok(Resolved {
            options,
            families,
            db,
            taken,
        })
    }
}

/// The texts of options without defaults: on the next machine these may be different.
fn worth_keeping(settings: &DbSettings) -> SettingTexts {
    let mut texts = settings.texts();
    let defaults = DbSettings::defaults();
    texts.retain(|kept| !defaults.contains(kept));
    texts
}

impl DbOptions {
    /// Texts that are kept with the database.
    pub(crate) fn kept_texts(&self) -> SettingTexts {
        worth_keeping(&DbSettings::of(self))
    }
}

impl KeptFamily {
    /// The options that an opening takes over if it states `stated` and runs with `complete`.
    fn taken(
        &self,
        name: &str,
        stated: &FamilySettings,
        complete: &ColumnFamilyOptions,
    ) -> Option<TakenOptions> {
        let stated: Vec<_> = stated.entries().into_iter().map(|(name, _)| name).collect();
        let options = FamilySettings::differing(complete, |_| false).entries();
        let options = options
            .into_iter()
            .filter(|(name, _)| !stated.contains(name));
        let taken = TakenOptions {
            family: name.to_owned(),
            file: self.file.clone(),
            options: options
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            notes: self.notes.clone(),
        };
        (!taken.options.is_empty() || !taken.notes.is_empty()).then_some(taken)
    }
}

/// The newest OPTIONS file in `dir`. It is not part of the data: if it cannot be parsed the result
/// is `None`, and older ones are not tried.
fn newest_options_file(vfs: &dyn Vfs, dir: &Path) -> Result<Option<(FileNumber, OptionsFile)>> {
    let newest = OptionsFile::read_newest(vfs, dir)?;
    Ok(newest.and_then(|(number, content)| Some((number, OptionsFile::parse(&content).ok()?))))
}

/// The options that a database keeps.
#[derive(Debug)]
pub struct LoadedOptions {
    /// They state every field. Comparators are not included: add those that are not built in.
    pub options: Options,
    /// The options that are not the default, the file that has them, and the differences in Titan's
    /// behaviour.
    pub taken: Vec<TakenOptions>,
    /// Objects of each family that are recorded by name: the name of the field, such as
    /// `merge_operator`, and that of the object. Those that are not built in are not in `options`:
    /// set them.
    pub recorded: BTreeMap<String, BTreeMap<&'static str, String>>,
}
