//! Applies operations to a database.
//!
//! There is one [`Applier`] for all campaigns. It performs an [`Op`] by calls of the engine and
//! returns its [`Outcome`]; what an outcome should be, what was promised and what may be found
//! later is for its callers to say, with a [`Reference`](crate::reference::Reference) or a
//! [`Ledger`](crate::ledger::Ledger). In what campaigns differ is their [`Manner`].
//!
//! An `Err` is a failed call, or says that two ways to ask the same question gave different
//! results.

mod calls;
mod cursor;
mod entity;
mod keys;
mod transaction;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use titan::merge::MergeOperator;
use titan::{
    ColumnFamily, Db, ErrorKind, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};

use self::calls::{batch, checkpoint, collect, compact};
use self::cursor::Cursor;
use self::keys::{is_reversed, stored};
use crate::failure::{CheckFailure, Checked, ensure};
use crate::ops::{Bounds, Durability, Op, Step, Value, Write, stamp};
use crate::reference::{Outcome, Sum};

/// Options that [`Manner::changes_options`] sets, one after the other.
const CHANGES: [(&str, &str); 12] = [
    ("min_blob_size", "1"),
    ("compression", "zstd"),
    ("enable_blob_files", "false"),
    ("block_size", "256"),
    ("level0_file_num_compaction_trigger", "2"),
    ("enable_blob_files", "true"),
    ("min_blob_size", "1000"),
    ("bloom_bits_per_key", "0"),
    ("write_buffer_size", "128K"),
    ("compression", "none"),
    ("bloom_bits_per_key", "12"),
    ("enable_blob_garbage_collection", "true"),
];

/// The merge operator of all families in tests with merges: it does what [`Write::Merge`] says.
pub fn merge_operator() -> Option<Arc<dyn MergeOperator>> {
    titan::merge::builtin::by_name("stringappend")
}

/// Logging of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Logging {
    /// As in the operation.
    #[default]
    AsAsked,
    /// All of them, and synced.
    Synced,
    /// None.
    Unlogged,
    /// As in the operation, but every fourth of those not synced is not logged.
    Mixed,
}

/// Way in which operations are performed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Logging of writes.
    pub logging: Logging,
    /// Reads ask in several ways, and choices that an operation leaves open, such as readahead and
    /// caching, change from one operation to the next. Where an operation permits it, forbidden
    /// calls are tried too.
    pub thorough: bool,
    /// Values describe themselves; see [`stamp`].
    pub stamped: bool,
    /// Writes fail instead of waiting for a stall to end.
    pub no_slowdown: bool,
    /// Writes go through transactions, in turn optimistic and pessimistic, except for those that
    /// transactions cannot do.
    pub transactions: bool,
    /// Every second put writes an entity: the value is its default column, beside another one.
    pub entities: bool,
    /// Options of families change now and then, as operations go on.
    pub changes_options: bool,
}

/// The snapshots and iterators that operations have opened in a database, and how to apply more.
pub struct Applier {
    dir: PathBuf,
    options: Options,
    /// Callers may change it between operations.
    pub manner: Manner,
    snapshots: BTreeMap<u32, Snapshot>,
    iterators: BTreeMap<u32, Cursor>,
    operations: usize,
}

impl Applier {
    /// For a database in `dir`. The options are for families that are created, and for
    /// checkpoints.
    pub fn new(dir: impl Into<PathBuf>, options: &Options, manner: Manner) -> Applier {
        Applier {
            dir: dir.into(),
            options: options.clone(),
            manner,
            snapshots: BTreeMap::new(),
            iterators: BTreeMap::new(),
            operations: 0,
        }
    }

    /// Whether a snapshot or an iterator may see entries that no longer exist.
    pub fn looks_back(&self) -> bool {
        !self.snapshots.is_empty() || !self.iterators.is_empty()
    }

    /// Whether the snapshot that an operation needs is open, if it needs one.
    pub fn can_apply(&self, op: &Op) -> bool {
        match op {
            Op::Get { at, .. } | Op::MultiGet { at, .. } | Op::Scan { at, .. } => {
                at.is_none_or(|id| self.snapshots.contains_key(&id))
            }
            _ => true,
        }
    }

    /// Drops snapshots and iterators.
    pub fn release(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
    }

    /// Performs any legal operation on `db` except reopening it.
    pub fn apply(&mut self, db: &Db, op: &Op) -> Checked<Outcome> {
        self.operations += 1;
        self.change_options(db)?;
        match op {
            Op::Write { writes, durability } => self.write(db, writes, *durability)?,
            Op::Get { family, key, at } => return self.get(&named(db, family)?, key, *at),
            Op::MultiGet { family, keys, at } => {
                let (family, options) = (named(db, family)?, self.read_options(*at)?);
                let keys: Vec<Vec<u8>> = keys.iter().map(|key| stored(&family, key)).collect();
                let found = family.multi_get_with(&keys, &options).into_iter();
                let found = found.map(|found| Ok(found?.as_deref().map(Sum::of)));
                return found.collect::<Checked<_>>().map(Outcome::Values);
            }
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => {
                let (from, to, prefix) = (from.clone(), to.clone(), None);
                let mut cursor = self.cursor(db, family, &Bounds { from, to, prefix }, *at)?;
                let (start, on) = match reverse {
                    true => (Step::Last, Step::Prev(u32::MAX)),
                    false => (Step::First, Step::Next(u32::MAX)),
                };
                let mut found = cursor.step(&start)?;
                found.extend(cursor.step(&on)?);
                return Ok(Outcome::Pairs(found));
            }
            Op::Iter {
                id,
                family,
                bounds,
                at,
            } => {
                let cursor = self.cursor(db, family, bounds, *at)?;
                self.iterators.insert(*id, cursor);
            }
            Op::Move { id, step } => {
                let cursor = self.iterators.get_mut(id);
                let cursor = cursor.ok_or_else(|| CheckFailure::wrong("no such iterator"))?;
                return cursor.step(step).map(Outcome::Pairs);
            }
            Op::DropIter { id } => drop(self.iterators.remove(id)),
            Op::Snapshot { id } => drop(self.snapshots.insert(*id, db.snapshot())),
            Op::DropSnapshot { id } => drop(self.snapshots.remove(id)),
            Op::Flush { family } => named(db, family)?.flush()?,
            Op::FlushAll => db.flush_all()?,
            Op::SyncWal => db.sync_wal()?,
            Op::Compact {
                family,
                from,
                to,
                bottommost,
            } => {
                let family = named(db, family)?;
                let [from, to] = [from, to].map(|key| key.as_ref().map(|k| stored(&family, k)));
                compact(&family, from.as_deref(), to.as_deref(), *bottommost)?;
            }
            Op::Collect { family } => collect(&named(db, family)?)?,
            Op::Checkpoint => checkpoint(db, &self.dir, &self.options)?,
            Op::CreateCf { family } => return self.create(db, family),
            Op::DropCf { family } => return self.drop_family(db, family),
            Op::Close => {
                self.release();
                db.close()?;
            }
            Op::Reopen => return Err(CheckFailure::wrong("the caller opens the database")),
        }
        Ok(Outcome::Done)
    }

    fn write(&self, db: &Db, writes: &[Write], asked: Durability) -> Checked<()> {
        let fourth = self.operations.is_multiple_of(4);
        let durability = match self.manner.logging {
            Logging::Synced => Durability::Synced,
            Logging::Unlogged => Durability::Unlogged,
            Logging::Mixed if fourth && asked == Durability::Logged => Durability::Unlogged,
            Logging::AsAsked | Logging::Mixed => asked,
        };
        let options = WriteOptions {
            sync: durability == Durability::Synced,
            disable_wal: durability == Durability::Unlogged,
            no_slowdown: self.manner.no_slowdown,
        };
        let bytes = |family: &str, key: &[u8], value: Value| match self.manner.stamped {
            true => stamp::bytes(family, key, value),
            false => value.bytes(),
        };
        let is_entity = |value: Value| self.manner.entities && value.seed.is_multiple_of(2);
        if self.manner.transactions && transaction::can_do(writes) {
            let options = transaction::options(self.operations, options);
            return transaction::commit(db, writes, bytes, is_entity, &options);
        }
        Ok(db.write(batch(db, writes, bytes, is_entity)?, &options)?)
    }

    /// Changes an option of a family, now and then.
    fn change_options(&self, db: &Db) -> Checked<()> {
        if !self.manner.changes_options || !self.operations.is_multiple_of(8) {
            return Ok(());
        }
        let n = self.operations / 8;
        let families = db.column_families();
        let (Some(family), Some(change)) = (
            families.get(n % families.len().max(1)),
            CHANGES.get(n % CHANGES.len()),
        ) else {
            return Ok(());
        };
        Ok(family.set_options(&[*change])?)
    }

    fn read_options(&self, at: Option<u32>) -> Checked<ReadOptions> {
        let snapshot = at.map(|id| {
            let snapshot = self.snapshots.get(&id);
            snapshot.ok_or_else(|| CheckFailure::wrong("no such snapshot"))
        });
        let options = ReadOptions {
            snapshot: snapshot.transpose()?.cloned(),
            ..ReadOptions::default()
        };
        Ok(match self.manner.thorough {
            true => ReadOptions {
                fill_cache: self.operations.is_multiple_of(2),
                prefetch_values: match self.operations % 5 {
                    0 => 0,
                    1 => 1,
                    2 => 7,
                    _ => options.prefetch_values,
                },
                ..options
            },
            false => options,
        })
    }

    fn get(&self, family: &ColumnFamily, key: &[u8], at: Option<u32>) -> Checked<Outcome> {
        let options = self.read_options(at)?;
        let key = stored(family, key);
        let found = family.get_with(&key, &options)?;
        let sum = found.as_deref().map(Sum::of);
        if self.manner.thorough {
            let contains = family.contains_key_with(&key, &options)?;
            ensure!(
                contains == found.is_some(),
                "get says {sum:?}, contains_key {contains}"
            );
            let lazy = family.get_lazy_with(&key, &options)?;
            if let (Some(lazy), Some(found)) = (&lazy, &found) {
                let len = lazy.len().unwrap_or(found.len() as u64);
                ensure!(len == found.len() as u64, "get_lazy: length {len}");
            }
            let lazy = lazy.map(|lazy| lazy.fetch()).transpose()?;
            ensure!(
                lazy == found,
                "get_lazy: {:?}",
                lazy.as_deref().map(Sum::of)
            );
            let columns = family.get_entity_with(&key, &options)?;
            let columns = columns.map(|columns| entity::read(&columns)).transpose()?;
            let default = columns.map(|columns| columns.into_iter().next());
            ensure!(
                default.flatten().as_deref() == found.as_deref(),
                "get says {sum:?}, and the default column is another one"
            );
            self.first_in_prefixes(family, &key, &options)?;
        }
        Ok(Outcome::Values(vec![sum]))
    }

    /// Compares the point read within prefixes of a stored key with an iterator.
    fn first_in_prefixes(
        &self,
        family: &ColumnFamily,
        key: &[u8],
        options: &ReadOptions,
    ) -> Checked<()> {
        if is_reversed(family) {
            return Ok(());
        }
        for len in [0, 2, key.len()] {
            let prefix = key.get(..len).unwrap_or(key);
            let found = family.first_in_prefix_with(key, prefix, options)?;
            let found = found.map(|(key, value)| Ok::<_, titan::Error>((key, value.fetch()?)));
            let found = found.transpose()?;
            let mut iter = family.iter(&ReadOptions {
                lower_bound: Some(key.to_vec()),
                prefix: Some(prefix.to_vec()),
                ..options.clone()
            })?;
            iter.seek_to_first()?;
            let expected = match iter.valid() {
                true => Some((iter.key().to_vec(), iter.value()?.to_vec())),
                false => None,
            };
            let same = match (&found, &expected) {
                (Some((key, value)), Some(expected)) => *key == expected.0 && *value == expected.1,
                (found, expected) => found.is_none() && expected.is_none(),
            };
            let found = found.map(|(key, _)| key.escape_ascii().to_string());
            let expected = expected.map(|(key, _)| key.escape_ascii().to_string());
            ensure!(
                same,
                "first in prefix {len}: {found:?}, an iterator says {expected:?}"
            );
        }
        Ok(())
    }

    fn cursor(&self, db: &Db, family: &str, bounds: &Bounds, at: Option<u32>) -> Checked<Cursor> {
        Cursor::new(&named(db, family)?, bounds, self.read_options(at)?)
    }

    fn create(&self, db: &Db, name: &str) -> Checked<Outcome> {
        let create = || db.create_column_family(name, self.options.family(name).clone());
        create()?;
        Ok(match self.manner.thorough {
            true => Outcome::Refused(vec![refused("creating a family twice", create())?]),
            false => Outcome::Done,
        })
    }

    fn drop_family(&self, db: &Db, name: &str) -> Checked<Outcome> {
        let family = named(db, name)?;
        db.drop_column_family(&family)?;
        if !self.manner.thorough {
            return Ok(Outcome::Done);
        }
        let mut batch = WriteBatch::new();
        batch.put(&**db, "not to be", "seen")?;
        batch.put(&family, "k", "")?;
        let write = db.write(batch, &WriteOptions::default());
        let again = db.drop_column_family(&family);
        Ok(Outcome::Refused(vec![
            refused("reading a dropped family", family.get(b"k"))?,
            refused("writing to a dropped family", write)?,
            refused("dropping a family twice", again)?,
        ]))
    }
}

/// A family that must exist.
pub fn named(db: &Db, name: &str) -> Checked<ColumnFamily> {
    let family = db.column_family(name);
    family.ok_or_else(|| CheckFailure::wrong(format!("family {name} is missing")))
}

/// The kind of the error that must occur.
pub fn refused<T>(what: &str, result: titan::Result<T>) -> Checked<ErrorKind> {
    match result {
        Ok(_) => Err(CheckFailure::wrong(format!("{what} is possible"))),
        Err(e) => Ok(e.kind()),
    }
}
