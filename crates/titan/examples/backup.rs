//! A snapshot for a report, a checkpoint for a backup, and the way back from it.
//!
//! `cargo run -p titandb --example backup`

use titan::{Db, Options, Result, Snapshot, WriteBatch, WriteOptions, prefix};

const ACCOUNTS: u64 = 100;

fn account(number: u64) -> String {
    format!("account/{number:04}")
}

fn balance(value: &[u8]) -> u64 {
    value.first_chunk().copied().map_or(0, u64::from_le_bytes)
}

/// Moves money; a crash, a snapshot and a checkpoint see both sides or none.
fn transfer(db: &Db, from: u64, to: u64, amount: u64) -> Result<()> {
    db.transaction(|t| {
        for (number, add, subtract) in [(from, 0, amount), (to, amount, 0)] {
            let value = t.get_for_update(db, account(number))?;
            let balance = value.map_or(0, |value| balance(&value)) + add - subtract;
            t.put(db, account(number), balance.to_le_bytes())?;
        }
        Ok(())
    })
}

/// The sum of all accounts as of a moment.
fn total(db: &Db, at: &Snapshot) -> Result<u64> {
    let rows = at.prefix(db, "account/");
    rows.map(|row| Ok(balance(&row?.1))).sum()
}

pub(crate) fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let (live, backup) = (dir.path().join("live"), dir.path().join("monday"));
    let db = Db::open(&live, &Options::default())?;
    let mut batch = WriteBatch::new();
    for number in 0..ACCOUNTS {
        batch.put(&db, account(number), 100_u64.to_le_bytes())?;
    }
    db.write(batch, &WriteOptions::synced())?;
    let letters = db.create_column_family("letters", Default::default())?;
    letters.put("to ann", vec![b'x'; 100_000])?;

    // The report adds up, whatever is written meanwhile.
    let morning = db.snapshot();
    transfer(&db, 1, 2, 30)?;
    assert_eq!(total(&db, &morning)?, ACCOUNTS * 100);
    assert_eq!(
        morning.get(&db, account(1))?.as_deref(),
        Some(&100_u64.to_le_bytes()[..])
    );
    drop(morning); // compactions need not keep anything for it any more

    // A checkpoint costs a flush and hard links; writes go on. It is a database of its own.
    let made = db.checkpoint(&backup)?;
    assert!(made.files > 0);

    // An accident.
    db.delete_range("account/", prefix::end("account/").ok_or("no end")?)?;
    db.drop_column_family(&letters)?;
    db.close()?;
    drop((letters, db));

    // First look at the backup: this changes nothing in it.
    let look = Db::open_read_only(&backup, &Options::default())?;
    assert_eq!(total(&look, &look.snapshot())?, ACCOUNTS * 100);
    drop(look);

    // Then make it the live database. Another checkpoint, since the backup shall stay.
    Db::destroy(&live, &Options::default())?;
    let monday = Db::open(&backup, &Options::default())?;
    monday.checkpoint(&live)?;
    monday.close()?;
    drop(monday);

    let db = Db::open(&live, &Options::default())?;
    assert_eq!(total(&db, &db.snapshot())?, ACCOUNTS * 100);
    assert_eq!(db.get(account(2))?.as_deref().map(balance), Some(130));
    let letters = db.column_family("letters").ok_or("no letters")?;
    assert_eq!(
        letters.get("to ann")?.map(|letter| letter.len()),
        Some(100_000)
    );
    db.close()?;
    Ok(())
}
