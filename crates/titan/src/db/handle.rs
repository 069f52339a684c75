//! The database as the user holds it.

use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::core::{Core, FamilyMap};
use super::family::{ColumnFamily, dropped};
use super::metrics::Metrics;
use super::open::{self, files_of};
use crate::error::{Error, ErrorKind, Result};
use crate::format::ColumnFamilyId;
use crate::format::file_name::FileKind;
use crate::format::internal_key::InternalKeyComparator;
use crate::options::{ColumnFamilyOptions, Options, WriteOptions};
use crate::read::Snapshot;
use crate::stats::Statistics;
use crate::version::{self, RecoveredState, Version};
use crate::write::WriteBatch;

/// An open database.
///
/// Clones share it. It acts as the handle of its family `default`: `db.get(..)`, `db.put(..)`,
/// `db.iter(..)` are [`ColumnFamily`]'s. The database closes when the last handle, of the database
/// or of a family, is dropped; call [`Db::close`] to learn of errors.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path();
/// use titan::{Db, Options, WriteBatch, WriteOptions};
///
/// let db = Db::open(path, &Options::default())?;
/// db.put(b"greeting", b"hello")?;
/// assert_eq!(db.get(b"greeting")?.as_deref(), Some(&b"hello"[..]));
///
/// let pages = db.create_column_family("pages", Default::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put(&pages, "home", vec![7; 100_000])?;
/// batch.delete(&*db, "greeting")?;
/// db.write(batch, &WriteOptions::synced())?;
/// assert!(pages.contains_key(b"home")?);
/// db.close()
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Db {
    default: ColumnFamily,
}

impl Deref for Db {
    type Target = ColumnFamily;

    fn deref(&self) -> &ColumnFamily {
        &self.default
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core({})", self.shared.dir.display())
    }
}

impl Db {
    /// Opens the database in the directory `path`, or creates it. What the last process had
    /// logged is recovered: all synced writes, and unsynced ones in order up to some point.
    ///
    /// # Errors
    /// `NotFound` if it does not exist and may not be created, `AlreadyExists` the other way
    /// round; `Locked` if it is open elsewhere; `InvalidOption`; `Corruption` with file and offset
    /// for damage; `Unsupported` for what this version cannot read. Nothing has been changed then,
    /// unless recovery itself met a full disk, which leaves the directory as good as before.
    ///
    /// Cost: reads the MANIFEST and the WAL files, and writes what those hold to tables.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        let core = open::open(path.as_ref(), options)?;
        let Some(family) = core.shared.family(ColumnFamilyId::DEFAULT) else {
            return Err(Error::corruption(
                "the database has no default column family",
            ));
        };
        Ok(Db {
            default: ColumnFamily {
                core: Arc::new(core),
                family,
            },
        })
    }

    /// The names of the families of the database in `path`, which is not opened. Cost: reads the
    /// MANIFEST.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Corruption`, `Unsupported` and `Io` as for [`Db::open`].
    pub fn list_column_families(path: impl AsRef<Path>, options: &Options) -> Result<Vec<String>> {
        let state = RecoveredState::read(&*options.db.vfs, path.as_ref(), options)?;
        Ok(state.family_names())
    }

    /// Deletes the database in `path`: all its files, and the directory if nothing else is in it.
    ///
    /// # Errors
    /// `NotFound` if there is none; `Locked` if it is open.
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        let (vfs, dir) = (&*options.db.vfs, path.as_ref());
        let mut files = if vfs.exists(dir)? {
            files_of(vfs, dir)?
        } else {
            Vec::new()
        };
        if files.iter().all(|f| matches!(f, FileKind::Lock)) {
            return Err(Error::new(ErrorKind::NotFound, "no database exists here").in_file(dir));
        }
        let lock = vfs.lock(&FileKind::Lock.path(dir))?;
        // CURRENT goes first: what a crash leaves behind is then no longer taken for a database.
        files.sort_by_key(|f| !matches!(f, FileKind::Current));
        for file in files.iter().filter(|f| !matches!(f, FileKind::Lock)) {
            vfs.remove(&file.path(dir))?;
        }
        vfs.remove(&FileKind::Lock.path(dir))?;
        drop(lock);
        if vfs.read_dir(dir)?.is_empty() {
            vfs.remove_dir(dir)?;
        }
        Ok(())
    }

    fn handle(&self, family: &Arc<super::family::Family>) -> ColumnFamily {
        ColumnFamily {
            core: Arc::clone(&self.default.core),
            family: Arc::clone(family),
        }
    }

    fn shared(&self) -> &super::core::Shared {
        &self.default.core.shared
    }

    /// The family of this name, if it exists.
    pub fn column_family(&self, name: &str) -> Option<ColumnFamily> {
        let families = self.shared().families.load();
        families
            .values()
            .find(|f| f.name == name)
            .map(|f| self.handle(f))
    }

    /// All families, by id; `default` first.
    pub fn column_families(&self) -> Vec<ColumnFamily> {
        let families = self.shared().families.load();
        let mut all: Vec<_> = families.values().map(|f| self.handle(f)).collect();
        all.sort_by_key(ColumnFamily::id);
        all
    }

    /// Creates a family. It is durable on return, like every logged write before.
    ///
    /// # Errors
    /// `AlreadyExists` if one has the name; `InvalidOption`.
    pub fn create_column_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        options.validate()?;
        let shared = self.shared();
        let family = shared.alone(|| {
            shared.failure.check()?;
            shared.sync_wal()?;
            let mut versions = shared.versions.lock();
            if versions.families().values().any(|f| f.name == name) {
                let exists = format!("column family {name} exists already");
                return Err(Error::new(ErrorKind::AlreadyExists, exists));
            }
            let id = versions.next_column_family();
            let comparator = InternalKeyComparator::new(Arc::clone(&options.comparator));
            let current = Version::empty(id, comparator.clone(), options.num_levels);
            let wal = shared.state.lock().current_wal();
            let recovered = version::Family {
                name: name.to_owned(),
                comparator,
                log_number: wal,
                current: Arc::new(current),
            };
            let mut all = Options::default();
            all.families.insert(name.to_owned(), options.clone());
            let state = open::family_state(id, &recovered, &all, wal);
            let created = versions.create_family(id, recovered);
            if let Err(e) = created {
                drop(versions);
                return Err(shared.failure.set(shared, e));
            }
            let family = Arc::clone(&state.family);
            let mut families = FamilyMap::clone(&shared.families.load());
            families.insert(id, Arc::clone(&family));
            shared.families.store(Arc::new(families));
            shared.state.lock().families.insert(id, state);
            Ok(family)
        })?;
        Ok(self.handle(&family))
    }

    /// Drops a family and everything in it. This is durable on return, like every logged write
    /// before. Handles of the family fail from now on; iterators and lazy values stay readable
    /// until they are dropped.
    ///
    /// # Errors
    /// `InvalidArgument` for `default` and for a family dropped before.
    pub fn drop_column_family(&self, family: &ColumnFamily) -> Result<()> {
        let shared = self.shared();
        let id = family.id();
        if id == ColumnFamilyId::DEFAULT {
            return Err(Error::invalid_argument(
                "the default column family cannot be dropped",
            ));
        }
        shared.alone(|| {
            shared.failure.check()?;
            shared.sync_wal()?;
            let mut versions = shared.versions.lock();
            if versions.family(id).is_none() {
                return Err(dropped(family.name()));
            }
            if let Err(e) = versions.drop_family(id) {
                drop(versions);
                return Err(shared.failure.set(shared, e));
            }
            family.family.dropped.store(true, Ordering::Release);
            let mut families = FamilyMap::clone(&shared.families.load());
            families.remove(&id);
            shared.families.store(Arc::new(families));
            let mut state = shared.state.lock();
            let removed = state.families.remove(&id);
            shared.update_stalls(state);
            if let Some(removed) = removed {
                // The shared part lives on in handles; what it pins need not.
                let empty = Version::empty(
                    id,
                    removed.family.comparator.clone(),
                    removed.version.num_levels(),
                );
                let memtable = crate::memtable::Memtable::new(
                    removed.family.comparator.clone(),
                    removed.family.options.write_buffer_size,
                );
                removed
                    .family
                    .super_version
                    .store(Arc::new(crate::read::SuperVersion {
                        memtable,
                        immutables: Vec::new(),
                        version: Arc::new(empty),
                    }));
            }
            Ok(())
        })?;
        shared.purge();
        Ok(())
    }

    /// Commits a batch: all of it or nothing, across families, after any crash.
    ///
    /// # Errors
    /// `InvalidArgument` if it names a family that does not exist; `Busy` if writes are stalled
    /// and `no_slowdown` is set; `WritesStopped` after a background failure; `Io`, `NoSpace` if
    /// logging it failed, which stops writes too. It is then unknown whether the batch is there
    /// after the next opening; it is not visible before.
    pub fn write(&self, batch: WriteBatch, options: &WriteOptions) -> Result<()> {
        self.shared().write(batch, options)
    }

    /// The database as of now. What it sees is kept for as long as it lives: compactions carry on
    /// what is overwritten or deleted since. Cost: O(log snapshots), no I/O.
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        shared.snapshots.take(|| shared.counters.last_sequence())
    }

    /// Flushes every family. Returns when it is done.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::flush`].
    pub fn flush_all(&self) -> Result<()> {
        let ids: Vec<_> = self.shared().families.load().keys().copied().collect();
        self.shared().flush(&ids)
    }

    /// Makes every logged write durable. Cost: one sync for each WAL file not yet durable, mostly
    /// one; commits wait meanwhile.
    ///
    /// # Errors
    /// `Closed`; `WritesStopped` after a background failure; `Io`, `NoSpace` if the sync failed,
    /// which stops writes.
    pub fn sync_wal(&self) -> Result<()> {
        let shared = self.shared();
        shared.alone(|| {
            shared.failure.check()?;
            shared.sync_wal()
        })
    }

    /// Waits until no flush or compaction runs or is due; deletes files that are obsolete.
    ///
    /// # Errors
    /// `Closed`; `WritesStopped` after a background failure, as nothing runs then.
    pub fn wait_idle(&self) -> Result<()> {
        self.shared().wait_idle()
    }

    /// The failure that stopped writes, if one did.
    pub fn background_error(&self) -> Option<Error> {
        self.shared().failure.get()
    }

    /// Lets writes go on after a failure, once its cause is gone: what was not durable is written
    /// anew, to new files. Does nothing if there was no failure.
    ///
    /// # Errors
    /// What failed again; writes stay refused and nothing is lost.
    pub fn resume(&self) -> Result<()> {
        self.shared().resume()
    }

    /// Counters since the database was opened.
    pub fn statistics(&self) -> &Statistics {
        &self.shared().statistics
    }

    /// Sizes and counts of all families. Cost: O(tables), no I/O.
    pub fn metrics(&self) -> Metrics {
        let families = self.column_families().iter().map(|f| f.metrics()).collect();
        self.shared().metrics(families)
    }

    /// Closes the database: waits for running jobs, flushes writes that were not logged, syncs the
    /// WAL, and gives the directory free. Every later call fails with `Closed`; iterators and lazy
    /// values stay readable until the directory is opened again, which may delete what they read.
    /// Closing twice is fine.
    ///
    /// # Errors
    /// The failure that stopped writes, if one is in force; what failed while flushing or syncing.
    pub fn close(&self) -> Result<()> {
        self.default.core.close()
    }
}
