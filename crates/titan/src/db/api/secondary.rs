//! Reading a database that another process may be writing: RocksDB's secondary instance, without
//! its lock.
//!
//! [`Follower`] captures the files of one moment. Recovery from them is the usual one, as after a
//! crash of the process at that moment, and the files that it writes stay in memory. A view never
//! changes. Catching up makes another one, which takes over the files that both have.

use std::path::{Path, PathBuf};

use super::handle::Db;
use crate::db::on_disk::directory::{refuse_other_layouts, require_database};
use crate::db::on_disk::follower::{Captured, Follower};
use crate::db::on_disk::layout::with_layout;
use crate::db::recovery::open::open_captured;
use crate::error::Result;
use crate::options::Options;
use crate::sync::Mutex;

/// A database opened beside the process that writes it, be it Titan or RocksDB: it follows that
/// process's files, locks nothing that a writer needs, and changes nothing.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// use titan::{Db, Options, Secondary};
///
/// let primary = Db::open(path, &Options::default())?; // mostly in another process
/// primary.put(b"a", b"1")?;
/// let secondary = Secondary::open(path, &Options::default())?;
/// let then = secondary.db();
/// primary.put(b"a", b"2")?;
/// assert_eq!(then.get(b"a")?.as_deref(), Some(&b"1"[..]));
/// secondary.try_catch_up()?;
/// assert_eq!(secondary.db().get(b"a")?.as_deref(), Some(&b"2"[..]));
/// # Ok(())
/// # }
/// ```
pub struct Secondary {
    path: PathBuf,
    options: Options,
    /// Held while the newest view is made.
    follower: Mutex<Follower>,
    newest: Mutex<Db>,
}

impl Secondary {
    /// Opens the database in the directory `path` as it is now, even if another process has it
    /// open. The batches that the process has logged by now are there, synced or not, up to some
    /// moment: each whole or not at all, over all families. Its writes without WAL are there once
    /// they are flushed. A batch whose write failed may be visible, as after a crash, until the
    /// writer has resumed.
    ///
    /// Every file of that moment stays open, so that the writer may delete it, and blob files are
    /// guarded by a shared `flock`, so that a writer of this engine punches no holes into them:
    /// their space is freed once the view is dropped. That takes one file descriptor per file.
    ///
    /// # Errors
    /// Those of [`Db::open_read_only`], but never `Locked`; `Busy` if the files change faster than
    /// they can be read; `TooManyOpenFiles` if the process may not have so many files open, before
    /// the first one is opened.
    ///
    /// Cost: reads the MANIFEST and the WAL files, and opens every file; as much memory as the WAL
    /// files have bytes, beyond the caches, for as long as the view is alive.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Secondary> {
        options.validate()?;
        let path = path.as_ref();
        let options = with_layout(path, options, true)?;
        let vfs = &*options.db.vfs;
        require_database(vfs, path)?;
        refuse_other_layouts(vfs, path)?;
        let mut follower = Follower::new(path, &options);
        let newest = view(&mut follower, path, &options)?;
        Ok(Secondary {
            path: path.to_owned(),
            options,
            follower: Mutex::new(follower),
            newest: Mutex::new(newest),
        })
    }

    /// The database as of the newest moment that has been caught up with. Everything read from it,
    /// by any handle and at any time, is of that moment, which [`Db::moment`] returns; calls that
    /// would change it are refused with `ReadOnly`. It stays readable when the secondary is gone.
    pub fn db(&self) -> Db {
        self.newest.lock().clone()
    }

    /// Catches up with the writer: [`Secondary::db`] then returns the database as it is now.
    /// Earlier handles, iterators and snapshots stay at their moment.
    ///
    /// # Errors
    /// Those of [`Secondary::open`]; the view is then the one from before.
    ///
    /// Cost: that of [`Secondary::open`], except for files that are open already; tables are read
    /// again when they are used.
    pub fn try_catch_up(&self) -> Result<()> {
        let mut follower = self.follower.lock();
        let newest = view(&mut follower, &self.path, &self.options)?;
        *self.newest.lock() = newest;
        Ok(())
    }
}

impl std::fmt::Debug for Secondary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secondary({})", self.path.display())
    }
}

/// The database as of now.
fn view(follower: &mut Follower, path: &Path, options: &Options) -> Result<Db> {
    follower.look(|captured: &Captured| {
        let core = open_captured(path, options, captured)?;
        Db::of_core(core)
    })
}
