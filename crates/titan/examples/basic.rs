//! Opening a database, and reading and writing single keys.

use titan::{ColumnFamilyOptions, Db, Options};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;

    db.put(b"greeting", b"hello")?;
    assert_eq!(db.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
    db.delete(b"greeting")?;
    assert!(!db.contains_key(b"greeting")?);

    // A large value goes to a blob file. Whether it is there and its size are known without a read.
    db.put(b"picture", &vec![7; 100_000])?;
    db.flush()?;
    let picture = db.get_lazy(b"picture")?;
    assert_eq!(
        picture
            .map(|value| value.fetch())
            .transpose()?
            .map(|value| value.len()),
        Some(100_000)
    );

    // Each column family has keys and options of its own.
    let pages = db.create_column_family("pages", ColumnFamilyOptions::default())?;
    pages.put(b"home", b"<html>")?;
    assert_eq!(db.get(b"home")?, None);

    db.close()?;
    Ok(())
}
