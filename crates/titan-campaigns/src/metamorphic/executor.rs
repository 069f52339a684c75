//! Performs a list of operations on a database of one configuration.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use titan::vfs::{StdVfs, Vfs};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::model::DEFAULT;
use titan_testkit::ops::Op;
use titan_testkit::reference::Outcome;
use titan_testkit::sim::SimVfs;

use super::configurations::Configuration;
use super::properties;
use crate::answers::{Deviation, same};
use crate::session::Session;

/// The directory of a database.
enum Place {
    Simulated(SimVfs),
    Real(tempfile::TempDir),
}

impl Place {
    fn dir(&self) -> PathBuf {
        match self {
            Place::Simulated(_) => PathBuf::from("/db"),
            Place::Real(dir) => dir.path().join("db"),
        }
    }

    fn vfs(&self) -> Arc<dyn Vfs> {
        match self {
            Place::Simulated(vfs) => Arc::new(vfs.clone()),
            Place::Real(_) => Arc::new(StdVfs),
        }
    }
}

/// A database of one configuration.
struct Executor {
    configuration: &'static Configuration,
    place: Place,
    openings: usize,
    /// The families that should exist.
    families: BTreeSet<String>,
    /// Always present except while it is being reopened.
    session: Option<Session>,
}

impl Executor {
    /// With a new database.
    fn new(configuration: &'static Configuration) -> Checked<Executor> {
        let place = match configuration.real_files {
            false => Place::Simulated(SimVfs::new()),
            true => Place::Real(tempfile::tempdir().doing("a temporary directory")?),
        };
        let mut executor = Executor {
            configuration,
            place,
            openings: 0,
            families: BTreeSet::from([DEFAULT.to_owned()]),
            session: None,
        };
        executor.open()?;
        Ok(executor)
    }

    fn open(&mut self) -> Checked<()> {
        if let Place::Simulated(vfs) = &self.place {
            // The journal would keep every byte ever written.
            vfs.restart_journal();
        }
        let options = self.configuration.options(self.place.vfs(), self.openings);
        let session = Session::open(&self.place.dir(), options, self.configuration.manner())?;
        let found = session.db().column_families();
        let found: BTreeSet<String> = found.iter().map(|f| f.name().to_owned()).collect();
        ensure!(
            found == self.families,
            "families {found:?}, not {:?}",
            self.families
        );
        self.session = Some(session);
        Ok(())
    }

    fn session(&mut self) -> Checked<&mut Session> {
        self.session.as_mut().ok_or_else(closed)
    }

    /// Performs a legal operation, and checks the properties that must hold after it.
    fn apply(&mut self, op: &Op) -> Checked<Outcome> {
        let configuration = self.configuration;
        let mut op = op.clone();
        match &mut op {
            Op::Reopen => return self.reopen(),
            Op::Compact { bottommost, .. } => *bottommost |= configuration.bottommost,
            Op::CreateCf { family } => drop(self.families.insert(family.clone())),
            Op::DropCf { family } => drop(self.families.remove(family)),
            _ => {}
        }
        let session = self.session()?;
        let outcome = session.apply(&op)?;
        if let Op::Compact {
            family,
            from: None,
            to: None,
            bottommost: true,
        } = &op
            && !configuration.changing
            && !session.looks_back()
        {
            properties::only_what_is_visible_is_referenced(session, family)?;
        }
        Ok(outcome)
    }

    fn reopen(&mut self) -> Checked<Outcome> {
        let mut session = self.session.take().ok_or_else(closed)?;
        session.release();
        // With everything in tables the counts must be the same after reopening.
        let flushed = self.openings.is_multiple_of(2);
        let mut before = Vec::new();
        if flushed {
            session.db().flush_all().doing("flush")?;
            before = properties::accounts(&session, &self.place.dir())?;
        }
        let outcome = session.end(!self.openings.is_multiple_of(3))?;
        self.openings += 1;
        self.open()?;
        let dir = self.place.dir();
        let after = properties::accounts(self.session()?, &dir)?;
        // Records that collections copied for open iterators are collected again after an opening.
        let collects = self
            .session()?
            .db()
            .options()
            .enable_blob_garbage_collection;
        ensure!(
            !flushed || self.configuration.changing || collects || after == before,
            "before the reopening {before:?}, after it {after:?} (BLOB-3)"
        );
        Ok(outcome)
    }

    /// Closes the database and checks the files that are left.
    fn finish(mut self) -> Checked<()> {
        let mut session = self.session.take().ok_or_else(closed)?;
        session.release();
        let dir = self.place.dir();
        properties::accounts(&session, &dir)?;
        let options = session.options().clone();
        session.end(true)?;
        properties::clean(&dir, &options)
    }
}

fn closed() -> CheckFailure {
    CheckFailure::wrong("the database is closed")
}

/// Checks that a configuration has the expected outcomes, and that everything that must
/// hold does.
pub(super) fn replay(
    configuration: &'static Configuration,
    ops: &[Op],
    expected: &[Outcome],
) -> Result<(), Deviation> {
    let at = |after| move |what| Deviation { after, what };
    let mut executor = Executor::new(configuration).map_err(at(0))?;
    for (n, (op, expected)) in ops.iter().zip(expected).enumerate() {
        let found = executor.apply(op);
        found
            .and_then(|found| same(&found, expected))
            .doing(op)
            .map_err(at(n))?;
    }
    executor.finish().map_err(at(ops.len()))
}
