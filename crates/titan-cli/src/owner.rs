//! Databases whose entries are the records of another program of this project: a store of versions,
//! or a volume of TiFS.

use titan::{Db, Error, Result};
use titan_mvcc::codec;

/// Fails unless the entries of a database are for its user to write.
///
/// # Errors
/// `InvalidArgument` that names the owner of the database's entries.
pub(crate) fn refuse_owned(db: &Db, force: bool) -> Result<()> {
    if force {
        return Ok(());
    }
    match owner(db)? {
        None => Ok(()),
        Some(owner) => Err(Error::invalid_argument(format!(
            "the database has {owner}. Other writes damage it; --force writes all the same"
        ))),
    }
}

/// The program that owns the entries of a database, and the command for them.
pub(crate) fn owner(db: &Db) -> Result<Option<&'static str>> {
    let has_family = |name| db.column_family(name).is_some();
    let has_value = |key: &[u8], len| {
        let value = db.get(key)?;
        Ok::<_, Error>(value.is_some_and(|value| value.len() == len))
    };
    if has_family(codec::FAMILY) && has_family("locks") && has_value(b"format", 8)? {
        Ok(Some("a store of versions: titan mvcc get and put use it"))
    } else if has_family("data") && has_value(b"S", SUPERBLOCK)? {
        Ok(Some("a volume of TiFS: tifs mount shows its files"))
    } else {
        Ok(None)
    }
}

/// Bytes of a volume's superblock, as `docs/tifs.md` says.
const SUPERBLOCK: usize = 25;
