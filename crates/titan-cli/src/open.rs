//! Opening a database for what a command is about to do with it.

use std::path::Path;

use titan::{ColumnFamily, Db, Error, ErrorKind, Options, Result};

use crate::{Global, config};

/// What a command does with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only reads: the database must exist, and no compaction is started on its behalf.
    Read,
    /// Changes it: the database must exist.
    Write,
    /// Changes it, and creates the database and its families where they are missing.
    Create,
}

/// Opens the database with the user's options, adjusted to what the command does.
pub(crate) fn open(path: &Path, global: &Global, access: Access) -> Result<Db> {
    let mut options = config::options(global)?;
    if access != Access::Create {
        options.db.create_if_missing = false;
    }
    if access == Access::Read {
        only_read(path, &mut options)?;
    }
    Db::open(path, &options)
}

fn only_read(path: &Path, options: &mut Options) -> Result<()> {
    if !options.families.is_empty() {
        // Opening would create the families that are configured but missing.
        let present = Db::list_column_families(path, options)?;
        options.families.retain(|name, _| present.contains(name));
    }
    options.default.disable_auto_compactions = true;
    for family in options.families.values_mut() {
        family.disable_auto_compactions = true;
    }
    Ok(())
}

/// The family of this name, the default one if none is named.
pub(crate) fn family(db: &Db, name: Option<&str>) -> Result<ColumnFamily> {
    let Some(name) = name else {
        return Ok((**db).clone());
    };
    db.column_family(name).ok_or_else(|| {
        let there: Vec<String> = db
            .column_families()
            .iter()
            .map(|f| f.name().to_owned())
            .collect();
        let message = format!("column family {name}; there are: {}", there.join(", "));
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The family of this name, all of them if none is named.
pub(crate) fn family_or_all(db: &Db, name: Option<&str>) -> Result<Vec<ColumnFamily>> {
    match name {
        Some(_) => Ok(vec![family(db, name)?]),
        None => Ok(db.column_families()),
    }
}

/// The family of this name, created with the options configured for it if it is missing.
pub(crate) fn family_or_new(db: &Db, name: Option<&str>, global: &Global) -> Result<ColumnFamily> {
    match name {
        Some(name) if db.column_family(name).is_none() => {
            db.create_column_family(name, config::options(global)?.family(name).clone())
        }
        _ => family(db, name),
    }
}
