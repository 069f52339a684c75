//! A store of versions: opening and closing it, and what it hands out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use titan::{
    ColumnFamily, ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, ErrorKind, Options,
    WriteOptions,
};

use crate::commit_order::CommitOrder;
use crate::error::{Error, Result};
use crate::filter::{FilterFactory, Versions};
use crate::format::VERSIONS;
use crate::format::prefix::EncodedKey;
use crate::latches::Latches;
use crate::meta::{FORMAT, Meta};
use crate::oracle::{LocalOracle, TimestampOracle};
use crate::read::Snapshot;
use crate::safe_point::{Hold, HoldInfo, SafePoint};
use crate::timestamp::Timestamp;
use crate::transaction::Transaction;

/// The format of entries that this version reads and writes.
const CURRENT_FORMAT: u64 = 1;

/// How a store is opened.
#[derive(Clone, Debug, Default)]
pub struct StoreOptions {
    /// Options of the database: file system, clock, caches, threads.
    pub db: DbOptions,
    /// Options of the family of versions. Its prefix extractor and its compaction filter are the store's own:
    /// others are refused.
    pub versions: ColumnFamilyOptions,
    /// Where timestamps come from. By default from the clock of `db` and a lease on disk, which is right for
    /// a store that one process at a time uses.
    pub oracle: Option<Arc<dyn TimestampOracle>>,
    /// How commits are written. Synced ones survive power failures.
    pub write: WriteOptions,
}

/// A transactional store of versions. Clones are the same store.
///
/// ```
/// # fn main() -> titan_mvcc::Result<()> {
/// # let dir = tempfile::tempdir().unwrap();
/// use titan_mvcc::{Direction, Store, StoreOptions};
///
/// let store = Store::open(dir.path(), &StoreOptions::default())?;
/// let mut transaction = store.begin();
/// transaction.put(b"a", b"1");
/// let first = transaction.commit()?;
///
/// let mut transaction = store.begin();
/// transaction.put(b"a", b"2");
/// transaction.commit()?;
///
/// assert_eq!(store.snapshot().get(b"a")?.as_deref(), Some(&b"2"[..]));
/// assert_eq!(store.snapshot_at(first)?.get(b"a")?.as_deref(), Some(&b"1"[..]));
/// store.close()
/// # }
/// ```
#[derive(Clone)]
pub struct Store(Arc<Core>);

/// What all handles of a store share.
pub(crate) struct Core {
    pub(crate) db: Db,
    pub(crate) versions: ColumnFamily,
    pub(crate) oracle: Arc<dyn TimestampOracle>,
    pub(crate) order: CommitOrder,
    pub(crate) latches: Latches,
    pub(crate) safe_point: Arc<SafePoint>,
    pub(crate) write: WriteOptions,
    /// What the compaction filter has of this.
    for_filter: Arc<Versions>,
}

impl Drop for Core {
    fn drop(&mut self) {
        self.for_filter.clear();
    }
}

impl Store {
    /// Opens the store in the directory `dir`, or makes one if
    /// [`DbOptions::create_if_missing`] says so.
    ///
    /// # Errors
    /// `NotVersioned` for a database that is no store; `Oracle` if the oracle has no timestamp, or is before the
    /// store's safe point; those of [`Db::open`].
    pub fn open(dir: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        let dir = dir.as_ref();
        let droppable = Arc::default();
        let for_filter = Arc::new(Versions::default());
        let family_options = family_options(
            &options.versions,
            FilterFactory {
                droppable: Arc::clone(&droppable),
                versions: Arc::clone(&for_filter),
            },
        )?;
        let (db, versions) = open_database(dir, &options.db, family_options)?;
        let meta = Meta(db.clone());
        let clock = &options.db.clock;
        let oracle = match &options.oracle {
            Some(oracle) => Arc::clone(oracle),
            None => Arc::new(LocalOracle::open(meta.clone(), Arc::clone(clock))?),
        };
        let order = CommitOrder::new(Arc::clone(&oracle))?;
        let latches = Latches::new(order.visible());
        let safe_point = SafePoint::open(meta, Arc::clone(clock), &order, droppable)?;
        for_filter.set(versions.clone());
        Ok(Store(Arc::new(Core {
            db,
            versions,
            oracle,
            order,
            latches,
            safe_point: Arc::new(safe_point),
            write: options.write,
            for_filter,
        })))
    }

    /// Begins an optimistic transaction. It reads the present, and its commit fails if a key that it wrote or
    /// locked was written or locked meanwhile. Waits for nothing.
    pub fn begin(&self) -> Transaction {
        Transaction::new(self.present("transaction"))
    }

    /// The store as of now: every commit that was acknowledged before this call is seen. Waits for nothing.
    pub fn snapshot(&self) -> Snapshot {
        self.present("snapshot")
    }

    /// The store as of `at`. Waits for nothing if `at` is not after [`Store::now`]; otherwise until commits
    /// before it that are being written have been.
    ///
    /// # Errors
    /// `BeforeSafePoint`; `InFuture` if the oracle has not handed out `at` yet; `Oracle`.
    pub fn snapshot_at(&self, at: Timestamp) -> Result<Snapshot> {
        self.0.order.settle(at)?;
        let hold = self.0.safe_point.hold("snapshot".into(), at)?;
        Ok(Snapshot::new(Arc::clone(&self.0), hold))
    }

    /// The timestamp at which reads of the present are made. Never goes back, and is not before that of any
    /// acknowledged commit.
    pub fn now(&self) -> Timestamp {
        self.0.order.visible()
    }

    /// Where the store's timestamps come from.
    pub fn oracle(&self) -> &Arc<dyn TimestampOracle> {
        &self.0.oracle
    }

    /// The oldest timestamp that can be read.
    pub fn safe_point(&self) -> Timestamp {
        self.0.safe_point.get()
    }

    /// Moves the safe point forward to `to`, or to the oldest hold before that. Returns where it is then.
    /// From then on compactions drop the versions that no read can find any more. Cost: a synced write.
    ///
    /// # Errors
    /// `SafePointBackwards`; `InFuture` if `to` is after [`Store::now`]; `Engine`. After an error of the engine
    /// reads before `to` may be refused, and nothing is dropped by it until a call succeeds.
    pub fn advance_safe_point(&self, to: Timestamp) -> Result<Timestamp> {
        self.0.safe_point.advance(to, &self.0.order)
    }

    /// Keeps the safe point from passing `at` until the returned value is dropped. Holds do not survive the
    /// process.
    ///
    /// # Errors
    /// `BeforeSafePoint` if the safe point has passed it already.
    pub fn hold(&self, name: impl Into<Cow<'static, str>>, at: Timestamp) -> Result<Hold> {
        self.0.safe_point.hold(name.into(), at)
    }

    /// What keeps the safe point back: named holds, snapshots and transactions, the oldest timestamp first.
    pub fn holds(&self) -> Vec<HoldInfo> {
        self.0.safe_point.holds()
    }

    /// Drops everything now that the safe point allows to drop. Without it, that happens as compactions come
    /// by. Cost: rewrites all tables of the store twice, because a deletion goes one compaction after what it hid.
    ///
    /// # Errors
    /// `Engine`.
    pub fn drop_old_versions(&self) -> Result<()> {
        let options = CompactRangeOptions {
            force_bottommost: true,
        };
        for _ in 0..2 {
            self.0.versions.compact_range(None, None, &options)?;
        }
        Ok(())
    }

    /// The database that has the store, for statistics and reports. What it has may be read, and must not be
    /// written.
    pub fn db(&self) -> &Db {
        &self.0.db
    }

    /// Closes the store; later calls fail. Without it, the store closes when the last handle is dropped.
    ///
    /// # Errors
    /// Those of [`Db::close`].
    pub fn close(&self) -> Result<()> {
        self.0.for_filter.clear();
        Ok(self.0.db.close()?)
    }

    fn present(&self, name: &'static str) -> Snapshot {
        let core = Arc::clone(&self.0);
        let hold = core.safe_point.hold_visible(name.into(), &core.order);
        Snapshot::new(core, hold)
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("now", &self.now())
            .field("safe_point", &self.safe_point())
            .finish_non_exhaustive()
    }
}

/// The options of the family of versions, with what the store needs in them.
fn family_options(
    given: &ColumnFamilyOptions,
    filter: FilterFactory,
) -> Result<ColumnFamilyOptions> {
    if given.prefix_extractor.is_some() || given.compaction_filter.is_some() {
        let what = "the prefix extractor and the compaction filter of versions are the store's own";
        return Err(titan::Error::new(ErrorKind::InvalidOption, what).into());
    }
    Ok(ColumnFamilyOptions {
        prefix_extractor: Some(Arc::new(EncodedKey)),
        compaction_filter: Some(Arc::new(filter)),
        ..given.clone()
    })
}

/// Opens or makes the database of a store, and checks that it is one.
fn open_database(
    dir: &Path,
    db: &DbOptions,
    versions: ColumnFamilyOptions,
) -> Result<(Db, ColumnFamily)> {
    let mut options = Options {
        db: db.clone(),
        ..Options::default()
    };
    let names = match Db::list_column_families(dir, &options) {
        Ok(names) => names,
        Err(e) if e.kind() == ErrorKind::NotFound => Vec::new(),
        Err(e) => return Err(e.into()),
    };
    let not_versioned = |found: String| Error::NotVersioned {
        dir: dir.to_owned(),
        found,
    };
    if let Some(other) = names
        .iter()
        .find(|name| !["default", VERSIONS].contains(&&***name))
    {
        return Err(not_versioned(format!("it has a column family {other}")));
    }
    // The family is only made after it is clear that the database is new.
    if names.iter().any(|name| name == VERSIONS) {
        options.families = BTreeMap::from([(VERSIONS.to_owned(), versions.clone())]);
    }
    let db = Db::open(dir, &options)?;
    let meta = Meta(db.clone());
    match meta.get(FORMAT)? {
        Some(CURRENT_FORMAT) => {}
        Some(format) => {
            let what =
                format!("the store has format {format}, and this version reads {CURRENT_FORMAT}");
            return Err(titan::Error::new(ErrorKind::Unsupported, what).into());
        }
        None => {
            // Nothing is written to a store before its format.
            let families = db.column_families();
            for family in &families {
                let mut entries = family.iter(&titan::ReadOptions::default())?;
                entries.seek_to_first()?;
                if entries.valid() {
                    let name = family.name();
                    let found =
                        format!("column family {name} has entries and no format is recorded");
                    return Err(not_versioned(found));
                }
            }
        }
    }
    let family = match db.column_family(VERSIONS) {
        Some(family) => family,
        None => db.create_column_family(VERSIONS, versions)?,
    };
    if meta.get(FORMAT)?.is_none() {
        // ORDER: after the family exists, and before anything is written to it.
        meta.set(FORMAT, CURRENT_FORMAT)?;
    }
    Ok((db, family))
}
