//! The database of a run: one of the engine, or a store of versions.

use titan::{ColumnFamily, Db, DbIterator, Error, Options, ReadOptions, Result, WriteOptions};
use titan_mvcc::{Direction, Store, StoreOptions, codec};
use titan_workload::keys;
use titan_workload::step::KeyOrder;
use titan_workload::titan::Titan;
use titan_workload::versions::{ReadCounters, Versions, engine_error};

use super::args::Args;
use crate::{owner, usage};

/// The family of all keys of a plain run.
const DEFAULT: &str = "default";

/// The families of a store of versions.
const STORE_FAMILIES: [&str; 3] = [DEFAULT, codec::FAMILY, "locks"];

/// An open database.
pub(super) enum Opened {
    Plain(Titan),
    Versions(Versions),
}

impl Opened {
    /// Opens or makes the database of `--mvcc` or without it.
    pub(super) fn open(args: &Args, options: &Options) -> Result<Self> {
        Ok(match args.mvcc {
            false => Opened::Plain(Titan::new(Db::open(&args.db, options)?, args.sync)),
            true => Opened::Versions(Versions::new(open_store(args, options)?)),
        })
    }

    pub(super) fn db(&self) -> &Db {
        match self {
            Opened::Plain(titan) => titan.db(),
            Opened::Versions(versions) => versions.store().db(),
        }
    }

    /// Cost of the reads of a store of versions so far.
    pub(super) fn counters(&self) -> Option<ReadCounters> {
        match self {
            Opened::Plain(_) => None,
            Opened::Versions(versions) => Some(versions.counters()),
        }
    }

    /// Passes on each key that a step could have written, with the bytes of its value as they are
    /// stored.
    pub(super) fn for_each_key(&self, mut each: impl FnMut(&[u8], u64)) -> Result<()> {
        let versions = match self {
            Opened::Plain(titan) => return usage::for_each_key(titan.db(), each),
            Opened::Versions(versions) => versions,
        };
        let snapshot = versions.store().snapshot();
        let rows = snapshot.scan(None, None, Direction::Forward);
        for row in rows.map_err(engine_error)? {
            let row = row.map_err(engine_error)?;
            each(&row.key, row.value.stored_len());
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<()> {
        match self {
            Opened::Plain(titan) => titan.close(),
            Opened::Versions(versions) => versions.close(),
        }
    }
}

fn open_store(args: &Args, options: &Options) -> Result<Store> {
    Store::open(&args.db, &store_options(args, options)).map_err(engine_error)
}

fn store_options(args: &Args, options: &Options) -> StoreOptions {
    let versions = options.families.get("versions");
    StoreOptions {
        db: options.db.clone(),
        versions: versions.unwrap_or(&options.default).clone(),
        write: WriteOptions {
            sync: args.sync,
            ..WriteOptions::default()
        },
        ..StoreOptions::default()
    }
}

/// Fails if the entries of the database are another program's. An opening for writing alone would
/// give it the options of the run.
pub(super) fn refuse_records(args: &Args, options: &Options) -> Result<()> {
    let db = match Db::open_read_only(&args.db, options) {
        Err(error) if error.is_not_found() => return Ok(()),
        db => db?,
    };
    let owner = owner::owner(&db)?;
    db.close()?;
    match owner {
        None => Ok(()),
        Some(owner) => {
            let message = format!("the database has {owner}. A run would damage it");
            Err(Error::invalid_argument(message).in_file(&args.db))
        }
    }
}

/// A database with a column family of others, or whose first or last key no step writes, has data
/// that the user may want to keep.
pub(super) fn refuse_what_is_others(args: &Args, options: &Options) -> Result<()> {
    let is_foreign = match args.mvcc {
        true => is_foreign_store(args, options),
        false => is_foreign(args, options),
    };
    match is_foreign {
        Ok(false) => Ok(()),
        Ok(true) => {
            let message = "it holds keys or column families that no step writes, and would be destroyed \
                           or overwritten; remove it, or give --existing to keep it";
            Err(Error::invalid_argument(message).in_file(&args.db))
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.context("open the database to be destroyed")),
    }
}

fn is_foreign(args: &Args, options: &Options) -> Result<bool> {
    let db = Db::open_read_only(&args.db, options)?;
    // Families that --config names are made, and stay empty.
    let is_made = |family: &ColumnFamily| {
        let is_named = options.families.contains_key(family.name());
        let mut keys = family.keys(..);
        Ok::<_, Error>(is_named && keys.next().transpose()?.is_none())
    };
    for family in db.column_families() {
        if family.name() != DEFAULT && !is_made(&family)? {
            return Ok(true);
        }
    }
    let mut iterator = db.iter(&ReadOptions::default())?;
    let foreign = |at: &DbIterator| at.valid() && number(at.key()).is_none();
    iterator.seek_to_first()?;
    let mut is_foreign = foreign(&iterator);
    iterator.seek_to_last()?;
    is_foreign |= foreign(&iterator);
    drop(iterator);
    db.close()?;
    Ok(is_foreign)
}

/// Opens the store to be read alone: an opening that may write would move its safe point.
fn is_foreign_store(args: &Args, options: &Options) -> Result<bool> {
    let options = store_options(args, options);
    let store = Store::open_read_only(&args.db, &options).map_err(engine_error)?;
    let families = store.db().column_families();
    let is_own = |family: &ColumnFamily| STORE_FAMILIES.contains(&family.name());
    if !families.iter().all(is_own) {
        return Ok(true);
    }
    let snapshot = store.snapshot();
    let mut is_foreign = false;
    for direction in [Direction::Forward, Direction::Backward] {
        let mut rows = snapshot.scan(None, None, direction).map_err(engine_error)?;
        let row = rows.next().transpose().map_err(engine_error)?;
        is_foreign |= row.is_some_and(|row| number(&row.key).is_none());
    }
    drop(snapshot);
    store.close().map_err(engine_error)?;
    Ok(is_foreign)
}

/// The number of a key, if a step can have written the key.
pub(super) fn number(key: &[u8]) -> Option<u64> {
    keys::number(key, KeyOrder::DbBench)
}
