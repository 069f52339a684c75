//! The handle of an open database.

use std::borrow::BorrowMut;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

use super::checkpoint::CheckpointSummary;
use super::column_family::ColumnFamily;
use super::pause::GarbageCollectionPause;
use crate::batch::{BatchTarget, WriteBatch};
use crate::clock::SystemClock;
use crate::db::commits::conditions::Conditions;
use crate::db::core::shared::Core;
use crate::db::on_disk::destroy::destroy;
use crate::db::on_disk::directory::require_database;
use crate::db::recovery::open;
use crate::db::reports::metrics::Metrics;
use crate::error::{Error, ErrorKind, Result};
use crate::format::{ColumnFamilyId, SequenceNumber};
use crate::gc::report::SpaceReport;
use crate::locks::LockTable;
use crate::options::{ColumnFamilyOptions, Options, TakenOptions};
use crate::read::Snapshot;
use crate::sorting;
use crate::stats::Statistics;
use crate::version::{Moment, RecoveredState};
use crate::write::WriteOptions;
use crate::write::hook::Hook;
use crate::write::pipeline::CommitEnv;

/// An open database. Calls block their thread: on an asynchronous runtime make them where it lets
/// tasks block, such as `tokio::task::spawn_blocking`.
///
/// Clones share it. It acts as the handle of its family `default`: `db.get(..)`, `db.put(..)`,
/// `db.iter(..)` are methods of [`ColumnFamily`]. The database closes when the last handle, of the
/// database or of a family, is dropped; call [`Db::close`] to learn of errors.
///
/// ```
/// # fn main() -> titan::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path();
/// use titan::{Db, Options, WriteBatch, WriteOptions};
///
/// let db = Db::open(path, &Options::default())?;
/// db.put("greeting", "hello")?;
/// assert_eq!(db.get("greeting")?.as_deref(), Some(&b"hello"[..]));
///
/// let pages = db.open_or_create_column_family("pages", Default::default())?;
/// let mut batch = WriteBatch::new();
/// batch.put(&pages, "home", vec![7; 100_000])?;
/// batch.delete(&db, "greeting")?;
/// db.write(batch, &WriteOptions::synced())?;
/// assert!(pages.contains_key("home")?);
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

impl From<&Db> for BatchTarget {
    fn from(db: &Db) -> Self {
        BatchTarget::from(&db.default)
    }
}

impl From<&Db> for ColumnFamilyId {
    fn from(db: &Db) -> Self {
        db.default.id()
    }
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core({})", self.shared.files.dir.display())
    }
}

impl Db {
    /// Opens the database in the directory `path`, or creates it. Recovers the writes that the last
    /// process had logged: all synced ones, and unsynced ones in order up to some point.
    ///
    /// # Errors
    /// `NotFound` if it does not exist and may not be created, `AlreadyExists` the other way round;
    /// `InvalidArgument` if `path` is no directory, or a family is given another merge operator or
    /// prefix extractor than the recorded one and `stated` does not name the field; `Locked` if it
    /// is open elsewhere; `InvalidOption`; `Corruption` with file and offset for damage;
    /// `Unsupported` for data that this version cannot read. Nothing has been changed then, unless
    /// recovery itself met a full disk, which leaves the directory as good as before.
    ///
    /// Cost: reads the MANIFEST and the WAL files, and writes the operations in those to tables.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        Self::of_core(open::open(path.as_ref(), options)?)
    }

    /// Opens the database in the directory `path` for reading: nothing in the directory is written,
    /// created or deleted, no thread is started, and every change is refused. Writes that the last
    /// process had logged are recovered into memory, and no report on files counts them. Several
    /// processes may do this at the same time, but none may have the database open for writing; for
    /// that there is [`Secondary`](crate::Secondary). If the directory lacks its file LOCK, as a
    /// copy may, the caller must see to that. Families that `options` configure and the database
    /// does not have are left out.
    ///
    /// # Errors
    /// Those of [`Db::open`]. Calls that would change the database are refused with `ReadOnly`, on
    /// every handle.
    ///
    /// Cost: reads the MANIFEST and the WAL files; as much memory as those have bytes, beyond the
    /// caches, for as long as it is open.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Db> {
        Self::of_core(open::open_read_only(path.as_ref(), options)?)
    }

    pub(crate) fn of_core(core: Core) -> Result<Db> {
        Self::of_shared_core(Arc::new(core))
    }

    fn of_shared_core(core: Arc<Core>) -> Result<Db> {
        let Some(family) = core.shared.family(ColumnFamilyId::DEFAULT) else {
            return Err(Error::corruption(
                "the database has no default column family",
            ));
        };
        Ok(Db {
            default: ColumnFamily { core, family },
        })
    }

    /// The names of the families of the database in `path`, without opening it. Cost: reads the
    /// MANIFEST.
    ///
    /// # Errors
    /// `NotFound` if there is none; `InvalidArgument` if `path` is no directory; `Corruption`,
    /// `Unsupported` and `Io` as for [`Db::open`].
    pub fn list_column_families(path: impl AsRef<Path>, options: &Options) -> Result<Vec<String>> {
        let (vfs, dir) = (&*options.db.vfs, path.as_ref());
        require_database(vfs, dir)?;
        let state = RecoveredState::read(vfs, dir, options)?;
        Ok(state.family_names())
    }

    /// Deletes the database in `path`: all its files, and the directory if nothing else is in it.
    ///
    /// # Errors
    /// `NotFound` if there is none; `InvalidArgument` if `path` is no directory; `Locked` if it is
    /// open.
    pub fn destroy(path: impl AsRef<Path>, options: &Options) -> Result<()> {
        destroy(path.as_ref(), options, None).map(drop)
    }

    /// The same, if the directory has no file but `known`: each opening for writing adds a file
    /// with a new name. Returns whether it was deleted.
    ///
    /// # Errors
    /// As for [`Db::destroy`].
    pub fn destroy_if_unchanged(
        path: impl AsRef<Path>,
        options: &Options,
        known: &[String],
    ) -> Result<bool> {
        destroy(path.as_ref(), options, Some(known))
    }

    /// Fails if no write may be accepted: the database is closed, read-only, or stopped by a
    /// failure.
    pub(crate) fn check_writable(&self) -> Result<()> {
        self.shared().check_writable()
    }

    /// Fails with `ReadOnly` in a child that a process made by `fork` while it had the database
    /// open. The child can read, as long as its parent has the database open; calls that would
    /// change the database, close it or wait for its threads fail with this error. Dropping handles
    /// does nothing there.
    ///
    /// A thread of the parent that reads, writes or compacts at the moment of the fork may have a
    /// lock, which then stays locked in the child: a read there that needs it waits for ever. So a
    /// child reads best before its parent has other threads that use the database, or opens a
    /// [`Secondary`](crate::Secondary).
    ///
    /// Cost: a read of memory.
    pub fn check_not_inherited(&self) -> Result<()> {
        self.shared().lifecycle.check_not_inherited()
    }

    /// The clock by which transactions wait before they are run again.
    pub(crate) fn clock(&self) -> Arc<dyn SystemClock> {
        Arc::clone(&self.shared().opening.clock)
    }

    /// The locks of transactions.
    pub(crate) fn locks(&self) -> &LockTable {
        &self.shared().admission.locks
    }

    /// Fails with `InvalidArgument` if the family is of another database.
    pub(crate) fn check_family(&self, family: &ColumnFamily) -> Result<()> {
        match Arc::ptr_eq(&family.core, &self.default.core) {
            true => Ok(()),
            false => Err(Error::invalid_argument(
                "the column family is of another database",
            )),
        }
    }

    /// Fails with `Closed`, or with `InvalidArgument` if the family is of another database or was
    /// dropped.
    pub(crate) fn check_usable(&self, family: &ColumnFamily) -> Result<()> {
        self.shared().check_open()?;
        self.check_family(family)?;
        family.family.check_exists()
    }

    fn handle(&self, family: &Arc<crate::db::core::family::Family>) -> ColumnFamily {
        ColumnFamily {
            core: Arc::clone(&self.default.core),
            family: Arc::clone(family),
        }
    }

    fn shared(&self) -> &crate::db::core::shared::Shared {
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
        sorting::sort_by_key(&mut all, ColumnFamily::id);
        all
    }

    /// Creates a family. It is durable on return, like every logged write before. Waits while a
    /// checkpoint flushes.
    ///
    /// The database keeps its options, but no code: each later opening gives merge operators that
    /// are not built in, compaction filters, collectors and partitioners again, in
    /// [`Options::families`](crate::Options), which also creates a family that does not exist.
    ///
    /// # Errors
    /// `AlreadyExists` if one has the name; `InvalidOption`.
    pub fn create_column_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        let family = self.shared().create_family(name, options)?;
        Ok(self.handle(&family))
    }

    /// The family of this name; created with `options` if there is none. The options of a family
    /// that exists stay as they are. Cost: a lookup, or that of [`Db::create_column_family`].
    ///
    /// # Errors
    /// `InvalidArgument` if the family exists and runs without a merge operator, prefix extractor,
    /// compaction filter, collector or partitioner of `options`: it has those that the opening gave
    /// it. They are compared by their names only, so two filters of one name pass for the same,
    /// even with different times to live. `InvalidArgument` also if `options` have a comparator
    /// that is not the default, and the family's has another name. `InvalidOption`; those of
    /// writes.
    pub fn open_or_create_column_family(
        &self,
        name: &str,
        options: ColumnFamilyOptions,
    ) -> Result<ColumnFamily> {
        loop {
            if let Some(family) = self.column_family(name) {
                let running = &family.family;
                let order = &**running.comparator.user();
                options.check_given_to(name, &running.options.load(), order)?;
                return Ok(family);
            }
            match self.create_column_family(name, options.clone()) {
                // Somebody else was first, and may even have dropped it since.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                created => return created,
            }
        }
    }

    /// Drops a family and everything in it. This is durable on return, like every logged write
    /// before. Handles of the family fail from now on; iterators and lazy values stay readable
    /// until they are dropped. Waits while a checkpoint flushes.
    ///
    /// # Errors
    /// `InvalidArgument` for `default` and for a family dropped before.
    pub fn drop_column_family(&self, family: &ColumnFamily) -> Result<()> {
        self.check_family(family)?;
        self.shared().drop_family(&family.family)
    }

    /// The options that the opening took over from those that the database has recorded, for each
    /// family that has any.
    pub fn taken_options(&self) -> &[TakenOptions] {
        &self.shared().opening.taken
    }

    /// Commits a batch: all of it or nothing, across families, after any crash. A batch that is
    /// lent is empty afterwards, with its memory; after an error it is as before, to be tried again
    /// or changed:
    ///
    /// ```
    /// # fn main() -> titan::Result<()> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = titan::Db::open(dir.path(), &titan::Options::default())?;
    /// # use titan::{WriteBatch, WriteOptions};
    /// let at_once = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    /// let mut batch = WriteBatch::new();
    /// batch.put(&db, "key", "value")?;
    /// match db.write(&mut batch, &at_once) {
    ///     Err(busy) if busy.is_retryable() => db.write(batch, &WriteOptions::default())?,
    ///     written => written?,
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if it names a family that does not exist, or names one by a handle of
    /// another database or of an earlier opening of this one, or deletes a range that ends before
    /// it begins; `Busy` if writes are stalled and `no_slowdown` is set; `WritesStopped` after a
    /// background failure; `Io`, `NoSpace` if logging it failed, which stops writes too. It is then
    /// unknown whether the batch is there after the next opening; it is not visible before.
    /// `Internal` if the thread that committed it panicked, with which it is lost.
    pub fn write(
        &self,
        mut batch: impl BorrowMut<WriteBatch>,
        options: &WriteOptions,
    ) -> Result<()> {
        let batch = batch.borrow_mut();
        self.shared().write(batch, options)?;
        batch.clear();
        Ok(())
    }

    /// Commits a batch if `conditions` hold: all of it, or nothing with the error `Conflict`. This
    /// is exact with respect to every other write: none of the keys was written between the
    /// snapshot of the conditions and the batch. A batch with nothing in it may be used to learn
    /// whether conditions hold at one moment. A batch may be lent, as to [`Db::write`].
    ///
    /// Cost: that of [`Db::write`], and for each condition a lookup in the memtables and in the
    /// tables that have something newer, on the caller's thread. If something was published
    /// meanwhile, the leader of the commit queue repeats it for that.
    ///
    /// # Errors
    /// `Conflict`, which names the first such family and key; `InvalidArgument` if a condition
    /// names a family that does not exist or was dropped, or is of another database or of an
    /// earlier opening of this one; those of [`Db::write`]; those of reads.
    pub fn write_if(
        &self,
        mut batch: impl BorrowMut<WriteBatch>,
        conditions: &Conditions,
        options: &WriteOptions,
    ) -> Result<()> {
        let batch = batch.borrow_mut();
        self.shared().write_if(batch, conditions, options)?;
        batch.clear();
        Ok(())
    }

    /// Whether `conditions` hold now: `Conflict` if not. They may fail a moment later.
    ///
    /// # Errors
    /// Those of [`Db::write_if`] about conditions.
    pub fn check_conditions(&self, conditions: &Conditions) -> Result<()> {
        self.shared().check_conditions(conditions).map(drop)
    }

    /// The sequence number of the newest write that readers see. Cost: one atomic load.
    pub fn latest_sequence_number(&self) -> SequenceNumber {
        self.shared().counters.last_sequence()
    }

    /// The database as of now. The entries that it sees are pinned while it is alive: compactions
    /// keep those that have been overwritten or deleted since. Cost: O(log snapshots), no I/O.
    pub fn snapshot(&self) -> Snapshot {
        let shared = self.shared();
        let now = shared.opening.clock.monotonic();
        let sequence = || shared.counters.last_sequence();
        shared.pins.snapshots.take(now, sequence)
    }

    /// Flushes every family. Returns when it is done.
    ///
    /// # Errors
    /// Those of [`ColumnFamily::flush`].
    pub fn flush_all(&self) -> Result<()> {
        let ids: Vec<_> = self.shared().families.load().keys().copied().collect();
        self.shared().flush(&ids)
    }

    /// Makes a checkpoint: the database as of now, in the directory `dir`, which opens as a
    /// database of its own. Its tables and blob files are hard links to those of this database, or
    /// copies where `dir` is on another file system or there are no links. Nothing that happens to
    /// one database changes the other. The checkpoint has every write that had returned, also those
    /// without WAL, and each batch that is written meanwhile whole or not at all, over all
    /// families; it survives a crash of the machine.
    ///
    /// Cost: a flush of all families, then a hard link per file. Writes go on; files that become
    /// obsolete stay until it is done.
    ///
    /// # Errors
    /// `AlreadyExists` if something has the name `dir`, or `dir.tmp`, where the checkpoint is built
    /// (an unfinished one there is replaced); `InvalidArgument` if `dir` is inside the directory of
    /// a database, this one or another; `Locked` if another checkpoint is being made there;
    /// `WritesStopped` after a background failure; `Closed`; `ReadOnly` if the database was opened
    /// for reading only; failures to link or to write. There is nothing at `dir` then.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<CheckpointSummary> {
        self.shared().checkpoint(dir.as_ref())
    }

    /// Makes every logged write durable. Cost: one sync for each WAL file not yet durable, usually
    /// one; commits wait meanwhile.
    ///
    /// # Errors
    /// `Closed`; `WritesStopped` after a background failure; `Io`, `NoSpace` if the sync failed,
    /// which stops writes.
    pub fn sync_wal(&self) -> Result<()> {
        let shared = self.shared();
        shared.alone(|lead| {
            shared.check_not_stopped()?;
            shared.sync_wal(lead)
        })
    }

    /// Runs `f` at a moment without a commit under way, and passes it the sequence number of the
    /// last one: everything up to it is visible, and the [commit hook](crate::CommitHook) has seen
    /// it; nothing after it is, and the hook has seen none of that. So `f` can take a snapshot and
    /// begin, at exactly that moment, to take over the writes that the hook sees. Writers wait
    /// meanwhile, and no memtable of this database is sealed for its age, for memory, or because it
    /// is idle. So `f` should be brief; other databases of its [`Env`](crate::Env) are not held up.
    /// A write, a flush or another barrier of this database within `f` fails with
    /// `InvalidArgument`; reads, snapshots and iterators work.
    ///
    /// # Errors
    /// `Closed`; `ReadOnly` in a child of the process that opened the database; `InvalidArgument`
    /// within a commit hook or another barrier of this database. `f` has not run then.
    pub fn barrier<T>(&self, f: impl FnOnce(SequenceNumber) -> T) -> Result<T> {
        let shared = self.shared();
        shared.alone(|lead| {
            let _user_code = lead.user_code();
            Ok(f(shared.counters.last_sequence()))
        })
    }

    /// Whether the [commit hook](crate::CommitHook) has panicked, and is not called any more.
    /// Without a hook: false.
    pub fn is_commit_hook_poisoned(&self) -> bool {
        let hook = self.shared().pipeline.hook();
        hook.is_some_and(Hook::is_poisoned)
    }

    /// Waits until no background job runs, or is due and has room on the device; deletes obsolete
    /// files.
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

    /// Accepts writes again after a failure, once its cause is gone: data that was not durable is
    /// written again, to new files. After `NoSpace` the WAL files are kept instead where they can
    /// be relied on, so that a full device needs room for one more WAL file only. Jobs that wait
    /// for room are tried again at once, also if there was no failure.
    ///
    /// # Errors
    /// The failure if it recurs; writes stay refused and nothing is lost.
    pub fn resume(&self) -> Result<()> {
        self.shared().resume()
    }

    /// Changes options of the family `default`, as [`ColumnFamily::set_options`] does, and of the
    /// database, which have other names. All changes apply, or none does.
    ///
    /// Of the database these can change: `block_cache_size`, `max_total_wal_size`,
    /// `delayed_write_rate`, `blob_garbage_collection_rate`, `max_manifest_file_size`,
    /// `max_background_jobs`, `max_open_files`, `data_in_memory`, `stats_level` and
    /// `slow_operation_micros`. They apply at once; `data_in_memory` from the next job on, and a
    /// thread that is one too many ends after its job.
    /// Unless [`keep_options`](crate::DbOptions::keep_options) is off,
    /// [`Options::load`](crate::Options::load) returns them from now on.
    ///
    /// Cost and errors: those of [`ColumnFamily::set_options`]. `Io` also if the system has no
    /// thread to give: the options have changed, and the next change of options tries again.
    pub fn set_options(&self, changes: &[(&str, &str)]) -> Result<()> {
        self.default
            .core
            .set_options(&self.default.family, changes, true)
    }

    /// Keeps garbage from being collected automatically, until the returned guard and all others
    /// like it have been dropped. A collection that runs is ended at its next step, since it may
    /// take long: on return none runs, and the records that it had copied will be copied again.
    /// Calls of [`ColumnFamily::collect_garbage`] work as ever. Writes are not delayed for space
    /// meanwhile, since that would not end: files grow beyond `max_space_amp` for as long as the
    /// pause lasts.
    ///
    /// # Errors
    /// `Closed`.
    pub fn pause_garbage_collection(&self) -> Result<GarbageCollectionPause> {
        self.default.core.shared.pause_collections()
    }

    /// The moment that this view shows of a database which another process may be writing, if it is
    /// a view of [`Secondary`](crate::Secondary).
    pub fn moment(&self) -> Option<Moment> {
        self.shared().opening.moment
    }

    /// Counters since the database was opened.
    pub fn statistics(&self) -> &Statistics {
        &self.shared().opening.statistics
    }

    /// The counters that RocksDB has too, by its names of tickers, since the database was opened:
    /// `rocksdb.block.cache.hit`, `rocksdb.bloom.filter.useful`. Those of steps of reads are zero
    /// at the [level](crate::DbOptions::stats_level) `off`. [`Statistics::histograms`] are the
    /// histograms.
    pub fn tickers(&self) -> Vec<(&'static str, u64)> {
        self.shared().tickers()
    }

    /// Sizes and counts of all families, and all statistics. Cost: O(tables), no I/O.
    pub fn metrics(&self) -> Metrics {
        let families = self.column_families().iter().map(|f| f.metrics()).collect();
        self.shared().metrics(families)
    }

    /// Report on space now: the live data, the garbage, the data that each snapshot or iterator
    /// pins, and the blob files that are collected next, or the reasons against it. Cost: reads the
    /// metadata of every file in the directory, and O(tables, blob files and older versions in use)
    /// under the lock that installs flushes and compactions; no file is read.
    ///
    /// # Errors
    /// `Closed`; `Io` if the directory cannot be listed.
    pub fn space_report(&self) -> Result<SpaceReport> {
        self.shared().space_report()
    }

    /// Closes the database: waits for running jobs, flushes writes that were not logged, syncs the
    /// WAL, and releases the directory. Every later call fails with `Closed`; iterators and lazy
    /// values stay readable until the directory is opened again, which may delete the files that
    /// they read. Closing twice is fine.
    ///
    /// # Errors
    /// The failure that stopped writes, if one is in force; failures to flush or sync.
    pub fn close(&self) -> Result<()> {
        self.default.core.close()
    }
}

impl ColumnFamily {
    /// The database of the family.
    ///
    /// # Errors
    /// `Corruption` if the database has no family `default`.
    pub(crate) fn database(&self) -> Result<Db> {
        Db::of_shared_core(Arc::clone(&self.core))
    }
}
