//! redb: a copy-on-write B-tree in one file.

use std::path::Path;

use anyhow::Result;
use redb::{Database, Durability as Commit, ReadableDatabase, Table, TableDefinition};
use titan_workload::keys::Key;
use titan_workload::target::{Target, hand_over};

use super::contract::{Engine, Held, OnEach, OnValue, Store, Visitor};
use crate::results::AboutEngine;
use crate::settings::{Durability, Settings};

pub(super) struct Redb;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("default");

impl Engine for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn about(&self, settings: &Settings) -> AboutEngine {
        let commit = match settings.durability {
            Durability::Buffered => "None",
            Durability::Synced => "Immediate",
        };
        let options = [
            ("cache_size", settings.block_cache.to_string()),
            ("durability", commit.to_owned()),
        ];
        let mut notes = vec![
            "one transaction a write; no compression, no background threads".to_owned(),
            "deletes of ranges walk over the keys, in one transaction".to_owned(),
        ];
        if settings.durability == Durability::Buffered {
            notes.push(
                "promises less here than the others: unsynced commits do not survive the end of \
                 the process"
                    .to_owned(),
            );
        }
        AboutEngine::new(self.name(), "4.6.0", options, notes)
    }

    fn survives_kill(&self, settings: &Settings) -> bool {
        settings.durability == Durability::Synced
    }

    fn open(&self, dir: &Path, settings: &Settings) -> Result<Box<dyn Store>> {
        let mut builder = Database::builder();
        builder.set_cache_size(settings.block_cache as usize);
        let db = builder.create(dir.join("data.redb"))?;
        let opened = Opened {
            db,
            commit: match settings.durability {
                Durability::Buffered => Commit::None,
                Durability::Synced => Commit::Immediate,
            },
        };
        // Readers need the table to exist.
        opened.write(Commit::Immediate, |_| Ok(()))?;
        Ok(Box::new(opened))
    }
}

struct Opened {
    db: Database,
    commit: Commit,
}

impl Opened {
    fn write(
        &self,
        commit: Commit,
        change: impl FnOnce(&mut Table<'_, &[u8], &[u8]>) -> Result<()>,
    ) -> Result<()> {
        let mut transaction = self.db.begin_write()?;
        transaction.set_durability(commit)?;
        change(&mut transaction.open_table(TABLE)?)?;
        Ok(transaction.commit()?)
    }
}

impl Target for Opened {
    type Error = anyhow::Error;

    fn put(&self, key: &Key, value: &[u8]) -> Result<()> {
        self.write(self.commit, |table| {
            table.insert(key.as_slice(), value)?;
            Ok(())
        })
    }

    fn get(&self, key: &Key, value: OnValue<'_>) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        let found = table.get(key.as_slice())?;
        hand_over(found.as_ref().map(|found| found.value()), value)
    }

    fn multi_get(&self, keys: &[Key], value: OnEach<'_>) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for (at, key) in keys.iter().enumerate() {
            let found = table.get(key.as_slice())?;
            found.map(|found| value(at, found.value())).transpose()?;
        }
        Ok(())
    }

    fn scan(&self, from: &[u8], entry: Visitor<'_>) -> Result<()> {
        let table = self.db.begin_read()?.open_table(TABLE)?;
        for found in table.range(from..)? {
            let (key, value) = found?;
            if !entry(key.value(), value.value())? {
                break;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &Key) -> Result<()> {
        self.write(self.commit, |table| {
            table.remove(key.as_slice())?;
            Ok(())
        })
    }

    fn delete_range(&self, from: &Key, to: &Key) -> Result<()> {
        self.write(self.commit, |table| {
            Ok(table.retain_in(from.as_slice()..to.as_slice(), |_, _| false)?)
        })
    }
}

impl Store for Opened {
    fn snapshot(&self) -> Result<Box<dyn Held + '_>> {
        Ok(Box::new(self.db.begin_read()?))
    }

    fn close(self: Box<Self>) -> Result<()> {
        // Unsynced commits become durable with one synced commit.
        self.write(Commit::Immediate, |_| Ok(()))
    }
}
