//! LMDB: a copy-on-write B-tree in a memory map.

use std::ops::Bound;
use std::path::Path;

use anyhow::Result;
use heed::types::Bytes;
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use titan_workload::keys::Key;
use titan_workload::target::{Target, hand_over, hand_over_each};

use super::contract::{Engine, Held, OnEach, OnValue, Store, Visitor};
use crate::results::AboutEngine;
use crate::settings::{Durability, Settings};

pub(super) struct Lmdb;

/// Address space; files are only as large as their contents.
const MAP_BYTES: usize = 1 << 40;

/// As its documentation advises: no readahead if the data does not fit in memory.
fn flags(settings: &Settings) -> EnvFlags {
    let mut flags = EnvFlags::empty();
    flags.set(
        EnvFlags::NO_SYNC,
        settings.durability == Durability::Buffered,
    );
    flags.set(EnvFlags::NO_READ_AHEAD, settings.data_exceeds_memory);
    flags
}

impl Engine for Lmdb {
    fn name(&self) -> &'static str {
        "lmdb"
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let flags: Vec<_> = flags(settings).iter_names().map(|(name, _)| name).collect();
        let mut notes = vec![
            "one transaction a write; no compression, no cache of its own, no background threads"
                .to_owned(),
            "deletes of ranges walk over the keys, in one transaction".to_owned(),
            "a value too large for a page of 4 KiB has whole pages, with 16 bytes of LMDB's own: \
             one of 4 KiB has two, and one of a few bytes less one"
                .to_owned(),
        ];
        if settings.durability == Durability::Buffered {
            notes.push(
                "promises less here than the others: a loss of power may damage it".to_owned(),
            );
        }
        AboutEngine::new(
            self.name(),
            "0.9, of the crate heed 0.22",
            [
                ("flags", flags.join(", ")),
                ("mapsize", MAP_BYTES.to_string()),
            ],
            notes,
        )
    }

    #[allow(unsafe_code)]
    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let mut options = EnvOpenOptions::new();
        options.map_size(MAP_BYTES);
        // SAFETY: NO_SYNC is unsafe because of the state after a power failure; no step of a
        // benchmark continues after one.
        unsafe { options.flags(flags(settings)) };
        // SAFETY: the directory was made by the driver for this process alone, so that no other
        // process changes the mapped file.
        let env = unsafe { options.open(dir)? };
        let mut transaction = env.write_txn()?;
        let table = env.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Box::new(Opened { env, table }))
    }
}

struct Opened {
    env: Env,
    table: Database<Bytes, Bytes>,
}

impl Target for Opened {
    type Error = anyhow::Error;

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.table.put(&mut transaction, key, value)?;
        Ok(transaction.commit()?)
    }

    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool> {
        let transaction = self.env.read_txn()?;
        hand_over(self.table.get(&transaction, key)?, value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()> {
        let transaction = self.env.read_txn()?;
        let found = keys.iter().map(|key| self.table.get(&transaction, key));
        hand_over_each(found, value)
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()> {
        let transaction = self.env.read_txn()?;
        // LMDB has no empty keys.
        let from = if from.is_empty() { &[0][..] } else { from };
        let from = (Bound::Included(from), Bound::Unbounded);
        for found in self.table.range(&transaction, &from)? {
            let (key, value) = found?;
            if !entry(key, value)? {
                break;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        self.table.delete(&mut transaction, key)?;
        Ok(transaction.commit()?)
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        let mut transaction = self.env.write_txn()?;
        let range = (
            Bound::Included(from.as_slice()),
            Bound::Excluded(to.as_slice()),
        );
        self.table.delete_range(&mut transaction, &range)?;
        Ok(transaction.commit()?)
    }
}

impl Store for Opened {
    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.env.read_txn()?))
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.env.force_sync()?;
        self.env.prepare_for_closing().wait();
        Ok(())
    }
}
