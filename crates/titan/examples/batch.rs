//! A batch: several writes that take effect together or not at all.

use titan::{ColumnFamilyOptions, Db, Options, WriteBatch, WriteOptions};

pub(crate) fn main() -> titan::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    let by_name = db.open_or_create_column_family("by name", ColumnFamilyOptions::default())?;

    let mut batch = WriteBatch::new();
    batch.put(&db, "17", "alice")?;
    batch.put(&by_name, "alice", "17")?;
    // The batch survives a power failure once this has returned.
    db.write(batch, &WriteOptions::synced())?;

    assert_eq!(db.get("17")?.as_deref(), Some(&b"alice"[..]));
    assert_eq!(by_name.get("alice")?.as_deref(), Some(&b"17"[..]));
    db.close()?;
    Ok(())
}
