//! A snapshot for a report, a checkpoint for a backup, and the way back from it.
//!
//! A checkpoint shares files with the database by hard links: it outlives a mistake, and not the
//! disk. Once its directory is copied to another machine, it is a backup.
//!
//! `cargo run -p titandb --example backup`

use std::fs;
use std::path::Path;

use titan::{
    Db, Error, ErrorKind, Options, Result, Snapshot, Transaction, WriteBatch, WriteOptions, prefix,
};

const ACCOUNTS: u64 = 100;

fn account(number: u64) -> String {
    format!("account/{number:04}")
}

fn balance(value: &[u8]) -> Result<u64> {
    let number = value.try_into().map(u64::from_le_bytes);
    number.map_err(|_| Error::corruption("a balance is no number"))
}

/// Moves money; a crash, a snapshot and a checkpoint see both sides or none.
fn transfer(db: &Db, from: u64, to: u64, amount: u64) -> Result<()> {
    let refused = |why: &str| Error::invalid_argument(why);
    let read = |t: &Transaction, number| {
        let value = t.get_for_update(db, account(number))?;
        balance(&value.ok_or_else(|| refused("there is no such account"))?)
    };
    db.transaction(|t| {
        let left = read(t, from)?.checked_sub(amount);
        let left = left.ok_or_else(|| refused("the account has less"))?;
        t.put(db, account(from), left.to_le_bytes())?;
        let more = read(t, to)?.checked_add(amount);
        let more = more.ok_or_else(|| refused("the account would have too much"))?;
        t.put(db, account(to), more.to_le_bytes())
    })
}

/// The sum of all accounts as of a moment.
fn total(db: &Db, at: &Snapshot) -> Result<u64> {
    let rows = at.prefix(db, "account/");
    rows.map(|row| balance(&row?.1)).sum()
}

/// Makes `live` in `dir` what `monday` is, which stays. The old database goes last: until then
/// every failure leaves it, as `live` or as `old`.
fn restore(dir: &Path) -> Result<()> {
    let [monday, new, live, old] = ["monday", "new", "live", "old"].map(|name| dir.join(name));
    Db::open(monday, &Options::default())?.checkpoint(&new)?;

    // A look before the swap. This changes nothing.
    let look = Db::open_read_only(&new, &Options::default())?;
    let sum = total(&look, &look.snapshot())?;
    if sum != ACCOUNTS * 100 {
        return Err(Error::corruption("the accounts do not add up").in_file(&new));
    }
    drop(look);

    fs::rename(&live, &old)?;
    fs::rename(&new, &live)?;
    fs::File::open(dir)?.sync_all()?; // the names
    Db::destroy(&old, &Options::default())
}

pub(crate) fn main() -> Result<()> {
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

    // The report adds up, also if others write meanwhile.
    let morning = db.snapshot();
    transfer(&db, 1, 2, 30)?;
    let overdrawn = transfer(&db, 1, 2, 71).map_err(|e| e.kind());
    assert_eq!(overdrawn, Err(ErrorKind::InvalidArgument));
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
    let end = prefix::end("account/").ok_or_else(|| Error::internal("no end"))?;
    db.delete_range("account/", end)?;
    db.drop_column_family(&letters)?;
    db.close()?;
    drop((letters, db));
    restore(dir.path())?;

    let db = Db::open(&live, &Options::default())?;
    assert_eq!(total(&db, &db.snapshot())?, ACCOUNTS * 100);
    let second = db.get(account(2))?;
    assert_eq!(second.map(|value| balance(&value)), Some(Ok(130)));
    let letters = db.column_family("letters");
    let letter = letters.map(|letters| letters.get("to ann")).transpose()?;
    assert_eq!(letter.flatten().map(|letter| letter.len()), Some(100_000));
    assert!(backup.exists());
    db.close()
}
