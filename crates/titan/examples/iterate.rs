//! Reading ranges of keys, forward and backward, as of one moment.

use titan::{Db, Options, ReadOptions};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path(), &Options::default())?;
    for day in 1..=9 {
        db.put(format!("2026-11-0{day}"), format!("entry {day}"))?;
    }

    // A range sees the moment at which it is made.
    let mut days = db.range("2026-11-03".."2026-11-06");
    db.delete("2026-11-04")?;
    let (day, entry) = days.next_back().ok_or("no entry")??;
    assert_eq!((&*day, &*entry), (&b"2026-11-05"[..], &b"entry 5"[..]));
    let days = days.into_keys().collect::<titan::Result<Vec<_>>>()?;
    assert_eq!(days, ["2026-11-03", "2026-11-04"]);

    // So do the reads by a snapshot.
    let before = db.snapshot();
    db.delete("2026-11-09")?;
    assert_eq!(before.prefix(&db, "2026-11-").count(), 8);
    let last = db.last_key_value()?.ok_or("no entry")?;
    assert_eq!(last.0, "2026-11-08");

    // A cursor copies nothing, and goes where it is told.
    let mut cursor = db.iter(&ReadOptions::default())?;
    cursor.seek("2026-11-04")?;
    assert_eq!(cursor.key(), b"2026-11-05");
    cursor.prev()?;
    // Values are read when they are asked for.
    assert_eq!(cursor.value()?, "entry 3");
    Ok(())
}
