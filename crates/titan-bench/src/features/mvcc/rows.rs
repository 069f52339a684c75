//! The rows of the comparisons, in a store of versions and in a database without versions.

use std::path::Path;

use anyhow::Result;
use titan::{
    ColumnFamilyOptions, CompressionType, Db, DbOptions, Options, WriteBatch, WriteOptions,
};
use titan_mvcc::{Store, StoreOptions};

/// Rows that are loaded in one transaction or batch.
const BATCH: u64 = 500;
/// All blocks fit.
const CACHE: u64 = 8 << 30;

/// A key of 16 bytes.
pub(super) type Key = [u8; 16];

/// The key `n`, in the order of numbers.
pub(super) fn key(n: u64) -> Key {
    let mut key = *b"row-............";
    key[8..].copy_from_slice(&n.to_be_bytes());
    key
}

fn db() -> DbOptions {
    DbOptions {
        block_cache_size: CACHE,
        ..DbOptions::default()
    }
}

fn family() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        compression: CompressionType::None,
        bloom_bits_per_key: 10.0,
        ..ColumnFamilyOptions::default()
    }
}

/// A store of versions.
pub(super) fn store(dir: &Path) -> Result<Store> {
    std::fs::create_dir_all(dir)?;
    let options = StoreOptions {
        db: db(),
        versions: family(),
        ..StoreOptions::default()
    };
    Ok(Store::open(dir, &options)?)
}

/// A database without versions, with the same options.
pub(super) fn plain(dir: &Path) -> Result<Db> {
    std::fs::create_dir_all(dir)?;
    let options = Options {
        db: db(),
        default: family(),
        ..Options::default()
    };
    Ok(Db::open(dir, &options)?)
}

/// Puts all rows, so many times one after the other, and leaves them compacted.
pub(super) fn load(store: &Store, rows: u64, versions: u64, value: &[u8]) -> Result<()> {
    for _ in 0..versions {
        each_batch(rows, |keys| {
            let mut transaction = store.begin();
            for n in keys {
                transaction.put(&key(n), value);
            }
            transaction.commit()?;
            Ok(())
        })?;
    }
    compact(store)
}

/// Deletes all rows, and leaves them compacted.
pub(super) fn delete(store: &Store, rows: u64) -> Result<()> {
    each_batch(rows, |keys| {
        let mut transaction = store.begin();
        for n in keys {
            transaction.delete(&key(n));
        }
        transaction.commit()?;
        Ok(())
    })?;
    compact(store)
}

fn compact(store: &Store) -> Result<()> {
    for family in store.db().column_families() {
        family.compact_range(None, None, &Default::default())?;
    }
    Ok(store.db().wait_idle()?)
}

/// The same rows without versions.
pub(super) fn load_plain(db: &Db, rows: u64, value: &[u8]) -> Result<()> {
    each_batch(rows, |keys| {
        let mut batch = WriteBatch::new();
        for n in keys {
            batch.put(&**db, key(n), value)?;
        }
        Ok(db.write(batch, &WriteOptions::default())?)
    })?;
    db.compact_range(None, None, &Default::default())?;
    Ok(db.wait_idle()?)
}

fn each_batch(rows: u64, mut write: impl FnMut(std::ops::Range<u64>) -> Result<()>) -> Result<()> {
    for from in (0..rows).step_by(BATCH as usize) {
        write(from..(from + BATCH).min(rows))?;
    }
    Ok(())
}
