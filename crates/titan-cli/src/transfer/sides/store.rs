//! A store in a directory.

use std::path::Path;

use bytes::Bytes;
use titan::{Error, Result};
use titan_mvcc::{Direction, Hold, Store, Timestamp};

use super::place::Access;
use super::side::{Pairs, Side, Transaction};
use crate::global::Global;
use crate::store::{self, translated};
use crate::transfer::pairs::{KeyRange, Pair};

/// A store in a directory.
pub(super) struct Directory {
    store: Store,
    /// The identity of its database.
    identity: String,
    hold: Option<Hold>,
}

impl Directory {
    /// Opens a store: read-only, also beside the process that writes it, or to change it.
    ///
    /// # Errors
    /// Those of the store.
    pub(super) fn open(dir: &Path, access: Access<'_>, global: &Global) -> Result<Self> {
        let store = match access {
            Access::Read => store::read(dir, global)?,
            Access::Write(clock) => store::write(dir, global, true, clock)?,
        };
        let file = dir.join("IDENTITY");
        let identity = std::fs::read_to_string(&file);
        let identity = identity.map_err(|e| Error::io(e, "read the identity", &file))?;
        Ok(Directory {
            store,
            identity: identity.trim().to_owned(),
            hold: None,
        })
    }
}

impl Side for Directory {
    fn name(&self) -> String {
        format!("store {}", self.identity)
    }

    fn age(&self) -> u64 {
        self.store.db().latest_sequence_number().0
    }

    /// A view of a store that another process has open may lack commits at its timestamp, and a
    /// client may yet commit at it the keys that it has locked.
    fn is_resumable(&self) -> bool {
        let locks = self.store.percolator().scan_locks(Timestamp::MAX, b"", 1);
        self.store.db().moment().is_none() && locks.is_empty()
    }

    fn timestamp(&self, at: Option<Timestamp>) -> Result<Timestamp> {
        Ok(store::snapshot(&self.store, at)?.timestamp())
    }

    fn hold(&mut self, at: Timestamp) -> Result<()> {
        self.hold = Some(self.store.hold("transfer", at).map_err(translated)?);
        Ok(())
    }

    /// The hold lasts as long as the store is open.
    fn check_hold(&self) -> Result<()> {
        Ok(())
    }

    fn scan<'a>(&'a self, at: Timestamp, range: KeyRange) -> Result<Pairs<'a>> {
        let snapshot = self.store.snapshot_at(at).map_err(translated)?;
        let KeyRange { from, to } = &range;
        let scan = snapshot.scan(Some(from), to.as_deref(), Direction::Forward);
        let pairs = scan.map_err(translated)?.map(|row| {
            let row = row.map_err(translated)?;
            Ok(Pair {
                value: row.value.fetch()?,
                key: row.key.into(),
            })
        });
        Ok(Box::new(pairs))
    }

    fn begin<'a>(&'a self) -> Result<Box<dyn Transaction + 'a>> {
        Ok(Box::new(self.store.begin()))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.hold = None;
        self.store.close().map_err(translated)
    }
}

impl Transaction for titan_mvcc::Transaction {
    fn start(&self) -> Timestamp {
        titan_mvcc::Transaction::start(self)
    }

    fn put(&mut self, pair: &Pair) -> Result<()> {
        titan_mvcc::Transaction::put(self, &pair.key, &pair.value);
        Ok(())
    }

    fn delete(&mut self, key: &Bytes) -> Result<()> {
        titan_mvcc::Transaction::delete(self, key);
        Ok(())
    }

    fn commit(self: Box<Self>) -> Result<()> {
        (*self).commit().map_err(translated)?;
        Ok(())
    }
}
