//! The engine's database below a store: its families, their options, and its format.
//!
//! Promises that a database of another program is refused, and not changed if it lacks a family of
//! a store. A store is known by its format, which is written before anything else.

use std::path::Path;
use std::sync::Arc;

use titan::{
    ColumnFamily, ColumnFamilyOptions, Db, DbOptions, ErrorKind, Options, ReadOptions, Secondary,
};

use crate::error::{Error, Result};
use crate::format::prefix::EncodedKey;
use crate::format::{LOCKS, VERSIONS};
use crate::meta::{FORMAT, Meta};
use crate::old_versions::{CollectorFactory, FilterFactory};

/// The format of entries that this version reads and writes.
const CURRENT_FORMAT: u64 = 1;
/// WAL files may take as many bytes as this number of memtables of versions, unless the caller sets
/// a limit. The engine's own limit suits families that all are written: with it the few entries of
/// the other families, which hardly ever fill a memtable, would keep up to six times as much.
const LOGS_OF_MEMTABLES: u64 = 2;

/// An open database and its families.
pub(crate) struct Database {
    pub(crate) db: Db,
    pub(crate) versions: ColumnFamily,
    pub(crate) locks: ColumnFamily,
}

impl Database {
    /// Opens the database of the store in `dir`, or creates it. Cost: that of [`Db::open`]. A
    /// database that lacks a family of a store is first opened read-only.
    ///
    /// # Errors
    /// `NotVersioned` if the database is not a store; those of [`Db::open`].
    pub(crate) fn open(
        dir: &Path,
        db: &DbOptions,
        versions: ColumnFamilyOptions,
        locks: ColumnFamilyOptions,
    ) -> Result<Self> {
        let mut options = Options {
            db: db.clone(),
            ..Options::default()
        };
        if options.db.max_total_wal_size == 0 {
            options.db.max_total_wal_size =
                LOGS_OF_MEMTABLES.saturating_mul(versions.write_buffer_size);
        }
        let names = match Db::list_column_families(dir, &options) {
            Ok(names) => names,
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            Err(e) => return Err(e.into()),
        };
        refuse_foreign_families(dir, &names)?;
        let is_there = |family: &str| names.iter().any(|name| name == family);
        let may_be_foreign = !is_there(VERSIONS) || !is_there(LOCKS);
        if !names.is_empty() && may_be_foreign {
            // An opening for writes would replace the MANIFEST and the log.
            let looked_at = Db::open_read_only(dir, &options)?;
            refuse_entries_without_format(dir, &looked_at)?;
        }
        // Missing families are created after the database is known to be a store or empty.
        options.families = [(VERSIONS, &versions), (LOCKS, &locks)]
            .into_iter()
            .filter(|(family, _)| is_there(family))
            .map(|(family, options)| (family.to_owned(), options.clone()))
            .collect();
        let db = Db::open(dir, &options)?;
        refuse_entries_without_format(dir, &db)?;
        let family = |name, options| match db.column_family(name) {
            Some(family) => Ok(family),
            None => db.create_column_family(name, options),
        };
        let versions = family(VERSIONS, versions)?;
        let locks = family(LOCKS, locks)?;
        let meta = Meta(db.clone());
        if meta.get(FORMAT)?.is_none() {
            // ORDER: after the families exist, and before anything is written to them.
            meta.set(FORMAT, CURRENT_FORMAT)?;
        }
        Ok(Database {
            db,
            versions,
            locks,
        })
    }

    /// Opens the database of the store in `dir` read-only. If another process has it open, the
    /// database is read as of one moment.
    ///
    /// # Errors
    /// `NotVersioned` if the database is not a store; those of [`Db::open_read_only`] and of
    /// [`Secondary::open`].
    pub(crate) fn open_read_only(
        dir: &Path,
        db: &DbOptions,
        versions: ColumnFamilyOptions,
    ) -> Result<Self> {
        let mut options = Options {
            db: db.clone(),
            ..Options::default()
        };
        options.families.insert(VERSIONS.to_owned(), versions);
        let db = match Db::open_read_only(dir, &options) {
            Err(e) if e.kind() == ErrorKind::Locked => Secondary::open(dir, &options)?.db(),
            opened => opened?,
        };
        let names = db.column_families().into_iter();
        let names: Vec<String> = names.map(|family| family.name().to_owned()).collect();
        refuse_foreign_families(dir, &names)?;
        let family = |name| {
            let missing = || Error::not_versioned(dir, format!("no column family {name}"));
            db.column_family(name).ok_or_else(missing)
        };
        let (versions, locks) = (family(VERSIONS)?, family(LOCKS)?);
        match has_format(&Meta(db.clone()))? {
            true => Ok(Database {
                db,
                versions,
                locks,
            }),
            false => Err(Error::not_versioned(dir, "no format is recorded")),
        }
    }
}

/// The options of the family of versions: those given, and the parts that the store adds.
///
/// # Errors
/// `InvalidOption` if the caller set a prefix extractor or a compaction filter.
pub(crate) fn family_options(
    given: &ColumnFamilyOptions,
    filter: FilterFactory,
) -> Result<ColumnFamilyOptions> {
    if given.prefix_extractor.is_some() || given.compaction_filter.is_some() {
        let what =
            "the store sets the prefix extractor and the compaction filter of versions itself";
        return Err(titan::Error::new(ErrorKind::InvalidOption, what).into());
    }
    let mut collectors = given.table_properties_collectors.clone();
    collectors.push(Arc::new(CollectorFactory));
    Ok(ColumnFamilyOptions {
        prefix_extractor: Some(Arc::new(EncodedKey)),
        compaction_filter: Some(Arc::new(filter)),
        table_properties_collectors: collectors,
        ..given.clone()
    })
}

/// # Errors
/// `NotVersioned` for a family that stores do not have.
fn refuse_foreign_families(dir: &Path, names: &[String]) -> Result<()> {
    let is_own = |name: &&String| ["default", VERSIONS, LOCKS].contains(&name.as_str());
    match names.iter().find(|name| !is_own(name)) {
        None => Ok(()),
        Some(name) => {
            let found = format!("unknown column family {name}");
            Err(Error::not_versioned(dir, found))
        }
    }
}

/// Refuses a database that has entries and is not a store.
///
/// # Errors
/// `NotVersioned` if it has entries and no format; `Unsupported` if its format is another one.
fn refuse_entries_without_format(dir: &Path, db: &Db) -> Result<()> {
    if has_format(&Meta(db.clone()))? {
        return Ok(());
    }
    for family in &db.column_families() {
        let mut entries = family.iter(&ReadOptions::default())?;
        entries.seek_to_first()?;
        if entries.valid() {
            let name = family.name();
            let found = format!("column family {name} has entries, but no format is recorded");
            return Err(Error::not_versioned(dir, found));
        }
    }
    Ok(())
}

/// Returns true if the database has the format of stores.
///
/// # Errors
/// `Unsupported` if its format is another one.
fn has_format(meta: &Meta) -> Result<bool> {
    match meta.get(FORMAT)? {
        None => Ok(false),
        Some(CURRENT_FORMAT) => Ok(true),
        Some(format) => {
            let what = format!(
                "the store has format {format}; this version reads format {CURRENT_FORMAT}"
            );
            Err(titan::Error::new(ErrorKind::Unsupported, what).into())
        }
    }
}
