//! A store of versions as the target of a step: what its users would write.
//!
//! Each call that reads takes a snapshot, as a client does that is to see the newest commits. Each
//! call that writes is a transaction, which is repeated if another thread committed one of its keys
//! meanwhile.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use titan::{Error, ErrorKind, Result};
use titan_mvcc::{Direction, Scan, Store, Transaction};

use crate::keys::Key;
use crate::target::{Batch, Fill, OnEach, OnValue, Target, Visitor, hand_over, hand_over_each};

/// An open store of versions.
pub struct Versions {
    store: Store,
    next: AtomicU64,
    processed: AtomicU64,
}

/// Cost of reads, as TiKV counts it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCounters {
    /// Steps from entry to entry.
    pub next: u64,
    /// Rows that were found.
    pub processed: u64,
}

impl ReadCounters {
    /// Counts since an earlier time.
    pub fn since(self, before: ReadCounters) -> ReadCounters {
        ReadCounters {
            next: self.next - before.next,
            processed: self.processed - before.processed,
        }
    }
}

impl Versions {
    /// For this store.
    pub fn new(store: Store) -> Self {
        Versions {
            store,
            next: AtomicU64::new(0),
            processed: AtomicU64::new(0),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The sum over all reads so far.
    pub fn counters(&self) -> ReadCounters {
        ReadCounters {
            next: self.next.load(Relaxed),
            processed: self.processed.load(Relaxed),
        }
    }

    /// Closes the store.
    pub fn close(self) -> Result<()> {
        self.store.close().map_err(engine_error)
    }

    /// Passes rows on until there are no more, or `entry` stops.
    fn pass(&self, scan: &mut Scan, entry: Visitor<'_, Error>) -> Result<()> {
        while let Some(row) = scan.next().transpose().map_err(engine_error)? {
            if !entry(&row.key, &row.value.fetch()?)? {
                break;
            }
        }
        let stats = scan.stats();
        self.next.fetch_add(stats.next, Relaxed);
        self.processed.fetch_add(stats.processed, Relaxed);
        Ok(())
    }

    /// Commits what `fill` writes; again and again if that conflicts.
    fn commit(&self, mut fill: impl FnMut(&mut Transaction) -> Result<()>) -> Result<()> {
        loop {
            let mut transaction = self.store.begin();
            fill(&mut transaction)?;
            match transaction.commit() {
                Ok(_) => return Ok(()),
                Err(titan_mvcc::Error::Conflict { .. }) => {}
                Err(e) => return Err(engine_error(e)),
            }
        }
    }
}

/// An error of the store as one of the engine, which steps report.
pub fn engine_error(error: titan_mvcc::Error) -> Error {
    match error {
        titan_mvcc::Error::Engine(error) => error,
        titan_mvcc::Error::Corruption { .. } => Error::corruption(error.to_string()),
        titan_mvcc::Error::NotVersioned { .. } => Error::invalid_argument(error.to_string()),
        _ => Error::new(ErrorKind::Busy, error.to_string()),
    }
}

/// Entries that a transaction puts and deletes. They are kept, so that a repeated transaction has
/// the same.
#[derive(Default)]
struct Entries(Vec<(Key, Option<Vec<u8>>)>);

impl Batch<Error> for Entries {
    fn put(&mut self, key: &Key, value: &[u8]) -> Result<()> {
        self.0.push((*key, Some(value.to_vec())));
        Ok(())
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        self.0.push((*key, None));
        Ok(())
    }
}

impl Target for Versions {
    type Error = Error;

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.commit(|transaction| {
            transaction.put(key, value);
            Ok(())
        })
    }

    fn get(&self, key: &Key, value: OnValue<'_, Error>) -> Result<bool> {
        let found = self.store.snapshot().get(key).map_err(engine_error)?;
        self.processed
            .fetch_add(u64::from(found.is_some()), Relaxed);
        hand_over(found.as_deref(), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_, Error>) -> Result<()> {
        let found = self.store.snapshot().batch_get(keys);
        let found = found.map_err(engine_error)?;
        let there = found.iter().flatten().count() as u64;
        self.processed.fetch_add(there, Relaxed);
        hand_over_each(found.into_iter().map(Ok::<_, Error>), value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_, Error>) -> Result<()> {
        let snapshot = self.store.snapshot();
        let scan = snapshot.scan(Some(from), None, Direction::Forward);
        self.pass(&mut scan.map_err(engine_error)?, entry)
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.commit(|transaction| {
            transaction.delete(key);
            Ok(())
        })
    }

    /// A store of versions has no deletion of ranges: this deletes each row.
    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        self.commit(|transaction| {
            let rows = transaction.scan(Some(from), Some(to), Direction::Forward);
            let rows: Vec<_> = rows.and_then(Iterator::collect).map_err(engine_error)?;
            for row in rows {
                transaction.delete(&row.key);
            }
            Ok(())
        })
    }

    fn write(&self, fill: Fill<'_, Error>) -> Result<()> {
        let mut entries = Entries::default();
        fill(&mut entries)?;
        self.commit(|transaction| {
            for (key, value) in &entries.0 {
                match value {
                    Some(value) => transaction.put(key, value),
                    None => transaction.delete(key),
                }
            }
            Ok(())
        })
    }
}
