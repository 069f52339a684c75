//! A database on the simulated file system: operations are applied in order, with a record of what
//! was done and marks in the journal for what was promised.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use titan::{ColumnFamily, Db, Options, ReadOptions, Result, WriteOptions};
use titan_testkit::model::Model;
use titan_testkit::ops::Op;
use titan_testkit::sim::{Loss, Mark, SimVfs};

use crate::calls::{batch, checkpoint, collect, compact, family};
use crate::failure::{CheckFailure, Checked, Doing};
use crate::reads::{View, absent, compare_get, compare_scan, contents};
use crate::record::Record;
use crate::settings::Settings;

/// The directory of the database; the engine creates it.
pub const DIR: &str = "/data/db";

/// The path of a file of the database.
pub fn file(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// The file system after a power failure now.
pub fn power_cut(vfs: &SimVfs) -> SimVfs {
    let journal = vfs.journal();
    journal.crash_at(journal.len(), &Loss::All)
}

/// A database to which operations are applied.
pub struct Store {
    /// Its file system.
    pub vfs: SimVfs,
    /// Its settings.
    pub settings: Settings,
    /// The engine's options for the next opening.
    pub options: Options,
    /// The database; operations applied directly to it are not recorded.
    pub db: Db,
    /// What was done and promised.
    pub record: Record,
    snapshots: BTreeMap<u32, View>,
}

impl Store {
    /// A new database.
    pub fn open(vfs: &SimVfs, settings: Settings) -> Result<Store> {
        Store::with_options(vfs, settings, settings.options(vfs))
    }

    /// A new database with options other than those of its settings, but in `vfs`.
    pub fn with_options(vfs: &SimVfs, settings: Settings, options: Options) -> Result<Store> {
        Ok(Store {
            vfs: vfs.clone(),
            db: Db::open(DIR, &options)?,
            settings,
            options,
            record: Record::starting_at(Model::new(), settings.unlogged),
            snapshots: BTreeMap::new(),
        })
    }

    /// An existing database, in which everything is durable.
    pub fn recovered(vfs: &SimVfs, settings: Settings) -> Checked<Store> {
        let mut store = Store::open(vfs, settings)?;
        store.record = Record::starting_at(contents(&store.db)?, settings.unlogged);
        Ok(store)
    }

    /// Applies operations until one fails; the error names that operation. Reads everything after
    /// each opening.
    pub fn apply_all(&mut self, ops: &[Op]) -> Checked<()> {
        for op in ops {
            self.apply(op).doing(op)?;
            if *op == Op::Reopen {
                self.verify().doing(op)?;
            }
        }
        Ok(())
    }

    /// Applies one operation, records it, and marks that it returned and what it promised. Reads
    /// are compared with the record.
    ///
    /// # Errors
    /// `Failed` if the engine refused, and then nothing is recorded; `Wrong` for a wrong read.
    pub fn apply(&mut self, op: &Op) -> Checked<()> {
        match op {
            Op::Write { writes, sync } => {
                let options = WriteOptions {
                    sync: *sync && !self.settings.unlogged,
                    disable_wal: self.settings.unlogged,
                    ..WriteOptions::default()
                };
                let batch = batch(&self.db, writes, |_, key| key.to_vec())?;
                self.db.write(batch, &options)?;
            }
            Op::CreateCf { family } => {
                let options = self.options.default.clone();
                self.db.create_column_family(family, options)?;
            }
            Op::DropCf { family: name } => {
                self.db.drop_column_family(&family(&self.db, name)?)?;
            }
            Op::Flush { family: name } => family(&self.db, name)?.flush()?,
            Op::Compact {
                family: name,
                from,
                to,
                bottommost,
            } => {
                let family = family(&self.db, name)?;
                compact(&family, from.as_deref(), to.as_deref(), *bottommost)?;
            }
            Op::Collect { family: name } => collect(&family(&self.db, name)?)?,
            Op::Checkpoint => checkpoint(&self.db, Path::new(DIR), &self.options)?,
            Op::Snapshot { id } => {
                let view = View::of_now(&self.db, self.record.last());
                self.snapshots.insert(*id, view);
            }
            Op::DropSnapshot { id } => {
                if let Some(view) = self.snapshots.remove(id) {
                    view.verify(&self.db)?;
                }
            }
            Op::Reopen => {
                self.close()?;
                self.reopen()?;
            }
            Op::Get {
                family: name,
                key,
                at,
            } => {
                let family = family(&self.db, name)?;
                if let Some((model, options)) = self.seen(&family, *at) {
                    compare_get(&family, key, &options, model)?;
                }
            }
            Op::MultiGet {
                family: name,
                keys,
                at,
            } => {
                let family = family(&self.db, name)?;
                if let Some((model, options)) = self.seen(&family, *at) {
                    for key in keys {
                        compare_get(&family, key, &options, model)?;
                    }
                }
            }
            Op::Scan {
                family: name,
                from,
                to,
                reverse,
                at,
            } => {
                let family = family(&self.db, name)?;
                if let Some((model, options)) = self.seen(&family, *at) {
                    let options = ReadOptions {
                        lower_bound: from.clone(),
                        upper_bound: to.clone(),
                        ..options
                    };
                    compare_scan(&family, *reverse, &options, model)?;
                }
            }
            Op::Iter { .. } | Op::Move { .. } | Op::DropIter { .. } => {
                return Err(CheckFailure::wrong("a store keeps no iterators"));
            }
        }
        let before = self.record.len();
        if let Some(promise) = self.record.push(op) {
            self.vfs.mark(promise);
        }
        // An operation that changes nothing stored may return while background jobs run, at no
        // fixed point.
        if !self.settings.unlogged && self.record.len() > before {
            self.vfs.mark(Mark::Returned(self.record.len() as u64));
        }
        if self.settings.settled {
            // A failure of a background job is reported by the next operation: this one succeeded.
            let _ = self.db.wait_idle();
        }
        Ok(())
    }

    /// Closes the database, which makes everything durable.
    pub fn close(&mut self) -> Result<()> {
        self.snapshots.clear();
        self.db.close()?;
        let promise = self.record.promise_all();
        self.vfs.mark(promise);
        Ok(())
    }

    /// Opens it again, after it was closed.
    pub fn reopen(&mut self) -> Result<()> {
        self.snapshots.clear();
        if self.settings.toggles {
            self.options.default.enable_blob_files ^= true;
        }
        self.db = Db::open(DIR, &self.options)?;
        Ok(())
    }

    /// Checks that reading everything finds exactly what is recorded.
    pub fn verify(&self) -> Checked<()> {
        let found = contents(&self.db)?;
        self.record.is_now(&found)?;
        absent(&self.db, self.record.written(), &found)
    }

    /// What a read must find: in a snapshot, or now. `None` if the snapshot does not have the
    /// family.
    fn seen(&self, family: &ColumnFamily, at: Option<u32>) -> Option<(&Model, ReadOptions)> {
        match at {
            Some(id) => self.snapshots.get(&id)?.of(family),
            None => Some((self.record.last(), ReadOptions::default())),
        }
    }
}
