//! Reading ranges of keys, forward and backward, as of one moment.

use titan::{Db, Options, ReadOptions};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    for day in 1..=9 {
        db.put(
            format!("2026-11-0{day}").as_bytes(),
            format!("entry {day}").as_bytes(),
        )?;
    }

    let options = ReadOptions {
        // A later write is not seen.
        snapshot: Some(db.snapshot()),
        lower_bound: Some(b"2026-11-03".to_vec()),
        upper_bound: Some(b"2026-11-06".to_vec()),
        ..ReadOptions::default()
    };
    db.delete(b"2026-11-04")?;

    let mut keys = Vec::new();
    let mut entries = db.iter(&options)?;
    entries.seek_to_first()?;
    while entries.valid() {
        keys.push(String::from_utf8(entries.key().to_vec())?);
        // Values are read when they are asked for.
        assert!(entries.value()?.starts_with(b"entry"));
        entries.next()?;
    }
    assert_eq!(keys, ["2026-11-03", "2026-11-04", "2026-11-05"]);

    entries.seek_to_last()?;
    assert_eq!(entries.key(), b"2026-11-05");
    entries.prev()?;
    assert_eq!(entries.key(), b"2026-11-04");
    Ok(())
}
