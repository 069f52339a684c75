//! A database on the simulated file system: operations are applied in order and noted in a ledger,
//! and marks in the journal say at which moment of the ledger each of them returned.

use std::path::{Path, PathBuf};

use titan::{Db, ErrorKind, Options, Result};
use titan_testkit::apply::{Applier, Logging, Manner};
use titan_testkit::failure::{CheckFailure, Checked, Doing};
use titan_testkit::ledger::{Keys, Ledger, matters};
use titan_testkit::model::Model;
use titan_testkit::ops::Op;
use titan_testkit::reads::{absent, contents};
use titan_testkit::reference::Views;
use titan_testkit::sim::{Loss, SimVfs};

use crate::answers::same;
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
    /// Operations that were done and promised.
    pub ledger: Ledger,
    applier: Applier,
    views: Views,
}

impl Store {
    /// A new database.
    pub fn open(vfs: &SimVfs, settings: Settings) -> Result<Store> {
        Store::with_options(vfs, settings, settings.options(vfs))
    }

    /// A new database with options other than those of its settings, but in `vfs`.
    pub fn with_options(vfs: &SimVfs, settings: Settings, options: Options) -> Result<Store> {
        let (keys, logging) = match settings.unlogged {
            true => (Keys::ByFamily, Logging::Unlogged),
            false => (Keys::Together, Logging::AsAsked),
        };
        let manner = Manner {
            logging,
            entities: settings.entities,
            ..Manner::default()
        };
        Ok(Store {
            vfs: vfs.clone(),
            db: Db::open(DIR, &options)?,
            settings,
            ledger: Ledger::new(keys),
            applier: Applier::new(DIR, &options, manner),
            options,
            views: Views::default(),
        })
    }

    /// An existing database, in which everything is durable.
    pub fn recovered(vfs: &SimVfs, settings: Settings) -> Checked<Store> {
        let mut store = Store::open(vfs, settings)?;
        store.recover(contents(&store.db)?)?;
        Ok(store)
    }

    /// Begins a new ledger with the contents found, all of which is durable.
    pub fn recover(&mut self, found: Model) -> Checked<()> {
        self.ledger = self.ledger.again_from(found)?;
        Ok(())
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

    /// Applies one operation, notes it in the ledger, and marks the moment at which it returned.
    /// Its outcome must be that of the ledger. A read in a snapshot that ended with a reopening
    /// does nothing.
    ///
    /// # Errors
    /// `Failed` if the engine refused, and then the operation is in doubt, unless writes had been
    /// stopped before; `Wrong` for a wrong outcome.
    pub fn apply(&mut self, op: &Op) -> Checked<()> {
        match op {
            Op::Reopen => {
                self.close()?;
                self.reopen()?;
            }
            // It must show the same until its end.
            Op::DropSnapshot { id } => {
                for family in self.views.families(*id) {
                    self.perform(&Op::Scan {
                        family,
                        from: None,
                        to: None,
                        reverse: false,
                        at: Some(*id),
                    })?;
                }
                self.perform(op)?;
            }
            op => self.perform(op)?,
        }
        if self.settings.settled {
            // A failure of a background job is reported by the next operation: this one succeeded.
            let _ = self.db.wait_idle();
        }
        Ok(())
    }

    fn perform(&mut self, op: &Op) -> Checked<()> {
        if !self.applier.can_apply(op) {
            return Ok(());
        }
        self.ledger.begin(0, op);
        let found = match self.applier.apply(&self.db, op) {
            Ok(found) => found,
            Err(failure) => {
                match &failure {
                    CheckFailure::Failed(e) if e.kind() == ErrorKind::WritesStopped => {
                        self.ledger.undone(0);
                    }
                    _ => self.ledger.unsure(0),
                }
                return Err(failure);
            }
        };
        self.ledger.done(0);
        let expected = self.views.apply(self.ledger.present(), op);
        same(&found, &expected.without_refusals())?;
        // Another operation may return while background jobs run, at no fixed point.
        if matters(op) {
            self.vfs.mark(self.ledger.now());
        }
        Ok(())
    }

    /// Closes the database, which makes everything durable.
    pub fn close(&mut self) -> Result<()> {
        self.release();
        self.ledger.begin(0, &Op::Close);
        if let Err(e) = self.db.close() {
            self.ledger.undone(0);
            return Err(e);
        }
        self.ledger.done(0);
        self.vfs.mark(self.ledger.now());
        Ok(())
    }

    /// Opens it again, after it was closed.
    pub fn reopen(&mut self) -> Result<()> {
        self.release();
        if self.settings.toggles {
            self.options.default.enable_blob_files ^= true;
        }
        self.db = Db::open(DIR, &self.options)?;
        Ok(())
    }

    fn release(&mut self) {
        self.applier.release();
        self.views = Views::default();
    }

    /// Checks that reading everything finds exactly the content of the ledger.
    pub fn verify(&self) -> Checked<()> {
        let found = contents(&self.db)?;
        self.ledger.is_now(&found)?;
        absent(&self.db, self.ledger.written(), &found)
    }
}
