//! Opening a database, and reading and writing single keys.

use titan::{ColumnFamilyOptions, Db, Options};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;

    db.put("greeting", "hello")?;
    assert_eq!(db.get("greeting")?.ok_or("no greeting")?, "hello");
    for entry in db.range("a".."z") {
        let (key, value) = entry?;
        println!("{key:?}: {value:?}");
    }
    db.delete("greeting")?;
    assert!(!db.contains_key("greeting")?);

    // A large value goes to a blob file. Whether it is there and its size are known without a read.
    db.put("picture", vec![7; 100_000])?;
    db.flush()?;
    let picture = db.get_lazy("picture")?.ok_or("no picture")?;
    assert_eq!(picture.stored_len(), 100_000);
    assert_eq!(picture.fetch()?.len(), 100_000);

    // Each column family has keys and options of its own.
    let pages = db.create_column_family("pages", ColumnFamilyOptions::default())?;
    pages.put("home", "<html>")?;
    assert_eq!(db.get("home")?, None);

    db.close()?;
    Ok(())
}
