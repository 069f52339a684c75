//! Whether the database is open, whether it may be changed and by this process, and the checkpoint
//! for which closing waits.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::process::Process;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// A database is open until it is closed, once. Closing has two steps: first it refuses batches,
/// and once earlier writes are safe it refuses everything.
pub(crate) struct Lifecycle {
    dir: PathBuf,
    /// The process that opened it.
    opened_by: Process,
    /// The database never accepts a change.
    pub(crate) read_only: bool,
    refuses_batches: AtomicBool,
    closed: AtomicBool,
    checkpoints: Mutex<()>,
}

impl Lifecycle {
    /// The database in `dir` is open.
    pub(crate) fn open(dir: &Path) -> Self {
        Lifecycle {
            dir: dir.to_owned(),
            opened_by: Process::current(),
            read_only: false,
            refuses_batches: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            checkpoints: Mutex::default(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Fails with `Closed` once the database is closed.
    pub(super) fn check_open(&self) -> Result<()> {
        self.fail_if(self.is_closed())
    }

    /// Fails with `Closed` from the beginning of closing on.
    pub(crate) fn check_accepts_batches(&self) -> Result<()> {
        self.fail_if(self.refuses_batches.load(Ordering::Acquire))
    }

    fn fail_if(&self, closed: bool) -> Result<()> {
        match closed {
            true => Err(Error::new(ErrorKind::Closed, "the database is closed").in_file(&self.dir)),
            false => Ok(()),
        }
    }

    /// Whether this process is a child of the one that opened the database, made by `fork`. Its
    /// memory is a copy then, and no thread of the database is there: nothing may be written,
    /// waited for, or released.
    pub(crate) fn is_inherited(&self) -> bool {
        !self.opened_by.is_current()
    }

    /// Fails with `ReadOnly` in a process that inherited the database. Takes no lock, which a
    /// thread of the parent may have had at the moment of the fork.
    pub(crate) fn check_not_inherited(&self) -> Result<()> {
        match self.is_inherited() {
            true => Err(inherited(&self.dir)),
            false => Ok(()),
        }
    }

    /// Fails with `ReadOnly` where nothing is ever changed.
    pub(super) fn check_not_read_only(&self) -> Result<()> {
        self.check_not_inherited()?;
        match self.read_only {
            true => Err(Error::new(
                ErrorKind::ReadOnly,
                "the database was opened for reading only",
            )),
            false => Ok(()),
        }
    }

    /// Batches are refused from now on, also those that wait in the queue.
    pub(crate) fn refuse_batches(&self) {
        self.refuses_batches.store(true, Ordering::Release);
    }

    /// Running compactions, collections and checkpoints end early from now on.
    pub(crate) fn close(&self) {
        self.refuse_batches();
        self.closed.store(true, Ordering::Release);
    }

    /// Set when the database is closed: for jobs, which look at it often.
    pub(crate) fn closed(&self) -> &AtomicBool {
        &self.closed
    }

    /// To be held while a checkpoint is made: they are made one at a time, and closing waits for
    /// the last.
    pub(crate) fn checkpoint(&self) -> MutexGuard<'_, ()> {
        self.checkpoints.lock()
    }
}

#[cold]
fn inherited(dir: &Path) -> Error {
    let message = "the database was opened by a parent of this process, before a fork: only the parent \
                   may change or close it";
    Error::new(ErrorKind::ReadOnly, message).in_file(dir)
}
