//! The engine calls that operations stand for.

use std::path::Path;

use titan::{CollectGarbageOptions, ColumnFamily, CompactRangeOptions, Db, Options, WriteBatch};

use crate::failure::{CheckFailure, Checked};
use crate::ops::{Value, Write};
use crate::reads::{contents, look};

use super::entity;
use super::keys::stored;
use super::named;

/// The batch of an operation, with the bytes that `bytes` makes of values. Those for which
/// `is_entity` is true are put as entities.
pub(super) fn batch(
    db: &Db,
    writes: &[Write],
    bytes: impl Fn(&str, &[u8], Value) -> Vec<u8>,
    is_entity: impl Fn(Value) -> bool,
) -> Checked<WriteBatch> {
    let mut batch = WriteBatch::new();
    for write in writes {
        let family = named(db, write.family())?;
        let stored = |key: &[u8]| stored(&family, key);
        match write {
            Write::Put { key, value, .. } => {
                let content = bytes(family.name(), key, *value);
                match is_entity(*value) {
                    true => batch.put_entity(&family, stored(key), entity::columns(&content)),
                    false => batch.put(&family, stored(key), content),
                }
            }
            Write::Merge { key, value, .. } => {
                let operand = bytes(family.name(), key, *value);
                batch.merge(&family, stored(key), operand)
            }
            Write::Delete { key, .. } => batch.delete(&family, stored(key)),
            Write::SingleDelete { key, .. } => batch.single_delete(&family, stored(key)),
            Write::DeleteRange { from, to, .. } => {
                batch.delete_range(&family, stored(from), stored(to))
            }
        }?;
    }
    Ok(batch)
}

/// Compacts a family and collects its garbage; afterwards there is none left.
pub(super) fn collect(family: &ColumnFamily) -> Checked<()> {
    let summary = family.collect_garbage(None, None, &CollectGarbageOptions::default())?;
    match summary.damaged.first() {
        None => Ok(()),
        Some(damaged) => Err(CheckFailure::wrong(format!(
            "a file cannot be collected: {}",
            damaged.error
        ))),
    }
}

/// Makes a checkpoint of the database in `dir` next to it, compares the two, and deletes it.
pub(super) fn checkpoint(db: &Db, dir: &Path, options: &Options) -> Checked<()> {
    let mut copy = dir.as_os_str().to_owned();
    copy.push(".copy");
    let vfs = &*options.db.vfs;
    let destroy = || match Db::destroy(&copy, options) {
        // The last file was deleted, and the call failed nevertheless.
        Err(e) if e.is_not_found() && vfs.exists(Path::new(&copy))? => {
            Ok(vfs.remove_dir(Path::new(&copy))?)
        }
        Err(e) if e.is_not_found() => Ok(()),
        destroyed => destroyed,
    };
    // A checkpoint that could not be deleted after a failure.
    destroy()?;
    db.checkpoint(&copy)?;
    if look(Path::new(&copy), options)? != contents(db)? {
        return Err(CheckFailure::wrong("a checkpoint has something else"));
    }
    Ok(destroy()?)
}

/// Compacts a range of stored keys.
pub(super) fn compact(
    family: &ColumnFamily,
    from: Option<&[u8]>,
    to: Option<&[u8]>,
    bottommost: bool,
) -> titan::Result<()> {
    let options = CompactRangeOptions {
        force_bottommost: bottommost,
    };
    family.compact_range(from, to, &options)
}
