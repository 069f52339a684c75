//! The engine calls that operations stand for.

use std::path::Path;

use titan::{CollectGarbageOptions, ColumnFamily, CompactRangeOptions, Db, Options, WriteBatch};
use titan_testkit::ops::Write;

use crate::failure::{CheckFailure, Checked};
use crate::reads::{contents, look};

/// A family that must exist.
pub fn family(db: &Db, name: &str) -> Checked<ColumnFamily> {
    let family = db.column_family(name);
    family.ok_or_else(|| CheckFailure::wrong(format!("family {name} is missing")))
}

/// The batch of an operation. `stored` returns the key under which a family stores a key of it.
pub(crate) fn batch(
    db: &Db,
    writes: &[Write],
    stored: impl Fn(&ColumnFamily, &[u8]) -> Vec<u8>,
) -> Checked<WriteBatch> {
    let mut batch = WriteBatch::new();
    for write in writes {
        let family = family(db, write.family())?;
        let stored = |key: &[u8]| stored(&family, key);
        match write {
            Write::Put { key, value, .. } => batch.put(&family, stored(key), value.bytes()),
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
pub(crate) fn collect(family: &ColumnFamily) -> Checked<()> {
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
pub(crate) fn checkpoint(db: &Db, dir: &Path, options: &Options) -> Checked<()> {
    let mut copy = dir.as_os_str().to_owned();
    copy.push(".copy");
    let destroy = || match Db::destroy(&copy, options) {
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
pub(crate) fn compact(
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
