//! Opening a database for what a command is about to do with it.

use std::path::Path;

use titan::{ColumnFamily, Db, Error, ErrorKind, Result};

use crate::{Global, config};

/// What a command does with the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Only reads: the database must exist, and nothing in its directory is changed.
    Read,
    /// Copies it: the database must exist, and is changed by nothing but a flush.
    Copy,
    /// Changes it: the database must exist.
    Write,
    /// Changes it, and creates the database and its families where they are missing.
    Create,
}

/// Opens the database with the user's options, adjusted to what the command does.
pub(crate) fn open(path: &Path, global: &Global, access: Access) -> Result<Db> {
    let mut options = config::options(global)?;
    options.db.create_if_missing = access == Access::Create;
    match access {
        Access::Read => Db::open_read_only(path, &options),
        Access::Copy => {
            let families = options.families.values_mut();
            for family in families.chain([&mut options.default]) {
                family.disable_auto_compactions = true;
                family.enable_blob_garbage_collection = false;
            }
            Db::open(path, &options)
        }
        Access::Write | Access::Create => Db::open(path, &options),
    }
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
