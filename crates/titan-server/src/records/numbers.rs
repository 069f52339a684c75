//! Numbers in records: eight bytes each, the most significant first.

use titan::{Db, Error, ErrorKind, Result, WriteBatch, WriteOptions};

/// The number of a record, if there is one.
///
/// # Errors
/// `Corruption`; those of the engine.
pub(super) fn get(db: &Db, key: &[u8]) -> Result<Option<u64>> {
    let stored = db.get(key)?;
    stored.map(|stored| decode(&stored, 0, key)).transpose()
}

/// Writes the number of a record durably.
///
/// # Errors
/// Those of the engine.
pub(super) fn set(db: &Db, key: &[u8], number: u64) -> Result<()> {
    let mut batch = WriteBatch::new();
    batch.put(&**db, key, number.to_be_bytes())?;
    db.write(batch, &WriteOptions::synced())
}

/// The number at a position of a record.
///
/// # Errors
/// `Corruption` if the record is too short.
pub(super) fn decode(stored: &[u8], position: usize, key: &[u8]) -> Result<u64> {
    let bytes = stored.get(position * 8..).and_then(<[u8]>::first_chunk);
    let number = bytes.map(|bytes| u64::from_be_bytes(*bytes));
    number.ok_or_else(|| {
        let what = format!("the record \"{}\" is too short", key.escape_ascii());
        Error::new(ErrorKind::Corruption, what)
    })
}
