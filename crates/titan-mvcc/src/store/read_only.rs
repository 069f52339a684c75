//! Opening a store read-only, also beside the process that writes it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::handle::Store;
use super::options::StoreOptions;
use crate::core::{Config, Core, Reads, Timestamps};
use crate::database::{Database, family_options};
use crate::error::{Error, Result};
use crate::locks::{Latches, LockTable};
use crate::lookup::ReadTotals;
use crate::meta::{LEASE, Meta};
use crate::old_versions::{FilterFactory, FilterFamily};
use crate::oracle::TimestampOracle;
use crate::order::{CommitOrder, SafePoint};
use crate::sweep::{Sweeper, Sweeps};
use crate::timestamp::Timestamp;

/// The timestamp for reads of the present without a lease. It is after all commits, but not the
/// last timestamp, so that some are in the future.
const AFTER_ALL: Timestamp = Timestamp(u64::MAX / 2);

impl Store {
    /// Opens the store in the directory `dir` read-only. Changes nothing in the directory. If
    /// another process has the store open, this shows it as of one moment, which
    /// [`Db::moment`](titan::Db::moment) of [`Store::db`] returns.
    ///
    /// Reads of the present find every commit of that moment, and so do reads at the timestamp of a
    /// commit that was acknowledged before. A read at a later timestamp finds the same, and may
    /// miss commits that the other process made since. Commits and all other changes fail. Options
    /// of writing and sweeping have no effect.
    ///
    /// # Errors
    /// `NotVersioned` for a database that is not a store; those of
    /// [`Db::open_read_only`](titan::Db::open_read_only) and of
    /// [`Secondary::open`](titan::Secondary::open).
    pub fn open_read_only(dir: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        let dir = dir.as_ref();
        let filter = FilterFactory {
            droppable: Arc::default(),
            versions: Arc::default(),
        };
        let family_options = family_options(&options.versions, filter)?;
        let Database {
            db,
            versions,
            locks,
        } = Database::open_read_only(dir, &options.db, family_options)?;
        let meta = Meta(db.clone());
        let newest = match meta.get(LEASE)? {
            Some(leased) => Timestamp(leased).previous(),
            None => AFTER_ALL,
        };
        let oracle: Arc<dyn TimestampOracle> = Arc::new(ReadOnlyOracle(AtomicU64::new(newest.0)));
        let order = CommitOrder::after(Arc::clone(&oracle), newest);
        let clock = &options.db.clock;
        let safe_point = SafePoint::open(meta, Arc::clone(clock), &order, Arc::default())?;
        let safe_point = Arc::new(safe_point);
        let visible = order.visible();
        let locks = LockTable::open(
            locks,
            Arc::clone(clock),
            Arc::clone(&safe_point),
            visible,
            true,
        )?;
        let core = Arc::new(Core {
            db,
            versions,
            clock: Arc::clone(clock),
            timestamps: Timestamps {
                oracle,
                is_given: false,
                clock_jump: None,
                clock_lag: None,
            },
            order,
            safe_point,
            opening_hold: Mutex::default(),
            latches: Latches::new(visible),
            locks,
            config: Config {
                write: options.write,
                unsynced: options.write,
                transactions: options.transactions,
                is_read_only: true,
            },
            reads: Reads {
                range_source: None,
                totals: ReadTotals::default(),
            },
            filter_family: Arc::new(FilterFamily::default()),
        });
        let sweeps = Sweeps::new(Arc::clone(&core), None, Duration::MAX);
        Ok(Store::new(core, Sweeper::without_thread(sweeps)))
    }
}

/// The oracle of a read-only store. Its timestamps are after the store's, so that reads in the
/// future are refused.
struct ReadOnlyOracle(AtomicU64);

impl TimestampOracle for ReadOnlyOracle {
    fn next(&self) -> Result<Timestamp> {
        let before = Timestamp(self.0.fetch_add(1, Ordering::Relaxed));
        let next = before.next();
        next.ok_or_else(|| Error::oracle("the store is open read-only"))
    }
}
