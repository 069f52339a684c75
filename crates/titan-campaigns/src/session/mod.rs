//! An open database to which operations are applied, each with its [`Outcome`].
//!
//! Choices that an operation leaves open, such as readahead and caching, change from one operation
//! to the next. Where an operation permits it, forbidden calls are tried too. An `Err` is text for
//! people: something failed that must not, or two ways to ask the same question gave different
//! results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use titan::{
    ColumnFamily, Db, ErrorKind, Options, ReadOptions, Snapshot, WriteBatch, WriteOptions,
};
use titan_testkit::ops::{Bounds, Op, Step, Write};
use titan_testkit::reference::{Outcome, Sum};

mod cursor;
mod keys;

use self::cursor::Cursor;
use self::keys::stored;
use crate::calls::{batch, checkpoint, collect, compact, family};
use crate::failure::{CheckFailure, Checked, Doing, ensure};

/// How writes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// As in the operation.
    AsAsked,
    /// All of them synced.
    Synced,
    /// None synced, none logged.
    Unlogged,
    /// As in the operation, but every fourth of those not synced is not logged.
    Mixed,
}

/// An open database with its snapshots and iterators.
pub struct Session {
    dir: PathBuf,
    options: Options,
    durability: Durability,
    db: Db,
    snapshots: BTreeMap<u32, Snapshot>,
    iterators: BTreeMap<u32, Cursor>,
    operations: usize,
}

impl Session {
    /// Opens the database in `dir`. Options of families that do not exist apply when they are
    /// created.
    pub fn open(dir: &Path, options: Options, durability: Durability) -> Checked<Session> {
        let there = match Db::list_column_families(dir, &options) {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            there => there.doing("open")?,
        };
        let mut existing = options.clone();
        existing.families.retain(|name, _| there.contains(name));
        let db = Db::open(dir, &existing).doing("open")?;
        Ok(Session {
            dir: dir.to_owned(),
            options,
            durability,
            db,
            snapshots: BTreeMap::new(),
            iterators: BTreeMap::new(),
            operations: 0,
        })
    }

    /// The database.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The options it was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Whether a snapshot or an iterator may see entries that no longer exist.
    pub fn looks_back(&self) -> bool {
        !self.snapshots.is_empty() || !self.iterators.is_empty()
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Checked<ColumnFamily> {
        family(&self.db, name)
    }

    /// Ends the session: by `Db::close`, or by dropping the last handle.
    pub fn end(mut self, by_close: bool) -> Checked<Outcome> {
        self.release();
        let locked = Db::open(&self.dir, &self.options);
        let locked = refused("opening it twice", locked)?;
        if by_close {
            self.db.close()?;
            let closed = refused("a write after the end", self.db.put(b"k", b""))?;
            ensure!(
                closed == ErrorKind::Closed,
                "a write after the end: {closed:?}"
            );
        }
        Ok(Outcome::Refused(vec![locked]))
    }

    /// Drops snapshots and iterators.
    pub fn release(&mut self) {
        self.snapshots.clear();
        self.iterators.clear();
    }

    /// Performs any legal operation except reopening.
    pub fn apply(&mut self, op: &Op) -> Checked<Outcome> {
        self.operations += 1;
        match op {
            Op::Write { writes, sync } => self.write(writes, *sync)?,
            Op::Get { family, key, at } => return self.get(family, key, *at),
            Op::MultiGet { family, keys, at } => return self.multi_get(family, keys, *at),
            Op::Scan {
                family,
                from,
                to,
                reverse,
                at,
            } => return self.scan(family, from.as_deref(), to.as_deref(), *reverse, *at),
            Op::Iter {
                id,
                family,
                bounds,
                at,
            } => {
                let cursor = self.cursor(family, bounds, *at)?;
                self.iterators.insert(*id, cursor);
            }
            Op::Move { id, step } => {
                let cursor = self
                    .iterators
                    .get_mut(id)
                    .ok_or_else(|| CheckFailure::wrong("no such iterator"))?;
                return cursor.step(step).map(Outcome::Pairs);
            }
            Op::DropIter { id } => drop(self.iterators.remove(id)),
            Op::Snapshot { id } => drop(self.snapshots.insert(*id, self.db.snapshot())),
            Op::DropSnapshot { id } => drop(self.snapshots.remove(id)),
            Op::Flush { family } => self.family(family)?.flush()?,
            Op::Compact {
                family,
                from,
                to,
                bottommost,
            } => self.compact(family, from.as_deref(), to.as_deref(), *bottommost)?,
            Op::Collect { family } => collect(&self.family(family)?)?,
            Op::Checkpoint => checkpoint(&self.db, &self.dir, &self.options)?,
            Op::CreateCf { family } => return self.create(family),
            Op::DropCf { family } => return self.drop_family(family),
            Op::Reopen => return Err(CheckFailure::wrong("a session does not reopen itself")),
        }
        Ok(Outcome::Done)
    }

    fn write(&self, writes: &[Write], sync: bool) -> Checked<()> {
        let fourth = self.operations.is_multiple_of(4);
        let (sync, disable_wal) = match self.durability {
            Durability::AsAsked => (sync, false),
            Durability::Synced => (true, false),
            Durability::Unlogged => (false, true),
            Durability::Mixed => (sync, fourth && !sync),
        };
        let options = WriteOptions {
            sync,
            disable_wal,
            no_slowdown: false,
        };
        let batch = batch(&self.db, writes, stored)?;
        Ok(self.db.write(batch, &options)?)
    }

    fn read_options(&self, at: Option<u32>) -> Checked<ReadOptions> {
        let snapshot = at.map(|id| {
            let snapshot = self.snapshots.get(&id);
            snapshot.ok_or_else(|| CheckFailure::wrong("no such snapshot"))
        });
        Ok(ReadOptions {
            snapshot: snapshot.transpose()?.cloned(),
            fill_cache: self.operations.is_multiple_of(2),
            prefetch_values: match self.operations % 5 {
                0 => 0,
                1 => 1,
                2 => 7,
                _ => ReadOptions::default().prefetch_values,
            },
            ..ReadOptions::default()
        })
    }

    fn get(&self, family: &str, key: &[u8], at: Option<u32>) -> Checked<Outcome> {
        let (family, options) = (self.family(family)?, self.read_options(at)?);
        let key = stored(&family, key);
        let found = family.get_with(&key, &options)?;
        let contains = family.contains_key_with(&key, &options)?;
        ensure!(
            contains == found.is_some(),
            "get says {:?}, contains_key {contains}",
            found.as_deref().map(Sum::of)
        );
        let lazy = family.get_lazy(&key, &options)?;
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
        Ok(Outcome::Values(vec![found.as_deref().map(Sum::of)]))
    }

    fn multi_get(&self, family: &str, keys: &[Vec<u8>], at: Option<u32>) -> Checked<Outcome> {
        let (family, options) = (self.family(family)?, self.read_options(at)?);
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| stored(&family, key)).collect();
        let found = family.multi_get(&keys, &options).into_iter();
        let found = found.map(|found| Ok(found?.as_deref().map(Sum::of)));
        found.collect::<Checked<_>>().map(Outcome::Values)
    }

    fn scan(
        &self,
        family: &str,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        reverse: bool,
        at: Option<u32>,
    ) -> Checked<Outcome> {
        let bounds = Bounds {
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
            prefix: None,
        };
        let mut cursor = self.cursor(family, &bounds, at)?;
        let (start, on) = match reverse {
            true => (Step::Last, Step::Prev(u32::MAX)),
            false => (Step::First, Step::Next(u32::MAX)),
        };
        let mut found = cursor.step(&start)?;
        found.extend(cursor.step(&on)?);
        Ok(Outcome::Pairs(found))
    }

    fn cursor(&self, family: &str, bounds: &Bounds, at: Option<u32>) -> Checked<Cursor> {
        Cursor::new(&self.family(family)?, bounds, self.read_options(at)?)
    }

    fn compact(
        &self,
        family: &str,
        from: Option<&[u8]>,
        to: Option<&[u8]>,
        bottommost: bool,
    ) -> Checked<()> {
        let family = self.family(family)?;
        let from = from.map(|key| stored(&family, key));
        let to = to.map(|key| stored(&family, key));
        Ok(compact(
            &family,
            from.as_deref(),
            to.as_deref(),
            bottommost,
        )?)
    }

    fn create(&self, name: &str) -> Checked<Outcome> {
        let create = || {
            let options = self.options.family(name).clone();
            self.db.create_column_family(name, options)
        };
        create()?;
        let again = refused("creating a family twice", create())?;
        Ok(Outcome::Refused(vec![again]))
    }

    fn drop_family(&self, name: &str) -> Checked<Outcome> {
        let family = self.family(name)?;
        self.db.drop_column_family(&family)?;
        let mut batch = WriteBatch::new();
        batch.put(&*self.db, "not to be", "seen")?;
        batch.put(&family, "k", "")?;
        let write = self.db.write(batch, &WriteOptions::default());
        Ok(Outcome::Refused(vec![
            refused("reading a dropped family", family.get(b"k"))?,
            refused("writing to a dropped family", write)?,
            refused(
                "dropping a family twice",
                self.db.drop_column_family(&family),
            )?,
        ]))
    }
}

/// The kind of the error that must occur.
fn refused<T>(what: &str, result: titan::Result<T>) -> Checked<ErrorKind> {
    match result {
        Ok(_) => Err(CheckFailure::wrong(format!("{what} is possible"))),
        Err(e) => Ok(e.kind()),
    }
}
