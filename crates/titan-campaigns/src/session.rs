//! An open database that answers: operations are applied thoroughly, each with its outcome.

use std::path::{Path, PathBuf};

use titan::{ColumnFamily, Db, ErrorKind, Options};
use titan_testkit::apply::{Applier, Manner, named, refused};
use titan_testkit::failure::{Checked, Doing, ensure};
use titan_testkit::ops::Op;
use titan_testkit::reference::Outcome;

use crate::recovery::sound_while_open;

/// An open database with its snapshots and iterators.
pub struct Session {
    dir: PathBuf,
    options: Options,
    db: Db,
    applier: Applier,
    /// Jobs that had installed files when all files were checked last.
    checked_at: u64,
}

/// Jobs that install files between two checks of all files.
const UNCHECKED: u64 = 40;

impl Session {
    /// Opens the database in `dir`. Options of families that do not exist apply when they are
    /// created.
    pub fn open(dir: &Path, options: Options, manner: Manner) -> Checked<Session> {
        let there = match Db::list_column_families(dir, &options) {
            Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
            there => there.doing("open")?,
        };
        let mut existing = options.clone();
        existing.families.retain(|name, _| there.contains(name));
        Ok(Session {
            dir: dir.to_owned(),
            db: Db::open(dir, &existing).doing("open")?,
            applier: Applier::new(dir, &options, manner),
            options,
            checked_at: 0,
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
        self.applier.looks_back()
    }

    /// The family of this name.
    pub fn family(&self, name: &str) -> Checked<ColumnFamily> {
        named(&self.db, name)
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
        self.applier.release();
    }

    /// Performs any legal operation except reopening. Now and then, checks all files afterwards.
    pub fn apply(&mut self, op: &Op) -> Checked<Outcome> {
        let outcome = self.applier.apply(&self.db, op)?;
        let counts = self.db.statistics();
        let jobs = [
            counts.flushes(),
            counts.compactions(),
            counts.trivial_moves(),
            counts.garbage_collections(),
        ];
        let installed: u64 = jobs.into_iter().sum();
        if installed >= self.checked_at + UNCHECKED {
            self.checked_at = installed;
            sound_while_open(&self.dir, &self.options)?;
        }
        Ok(outcome)
    }
}
