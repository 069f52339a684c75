//! The calls of the engine that operations stand for.

use titan::{ColumnFamily, CompactRangeOptions, Db, WriteBatch};
use titan_testkit::ops::Write;

use crate::trouble::{Checked, Trouble};

/// A family that must exist.
pub fn family(db: &Db, name: &str) -> Checked<ColumnFamily> {
    let family = db.column_family(name);
    family.ok_or_else(|| Trouble::wrong(format!("family {name} is missing")))
}

/// The batch of an operation. `stored` gives the key under which a family stores a key of it.
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
