//! Opening a store.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use titan::{DbOptions, ErrorKind, WriteOptions};

use super::handle::Store;
use super::options::StoreOptions;
use crate::core::{Config, Core, Reads, Timestamps};
use crate::database::{Database, family_options};
use crate::error::Result;
use crate::locks::{Latches, LockTable};
use crate::lookup::ReadTotals;
use crate::meta::Meta;
use crate::old_versions::{FilterFactory, FilterFamily};
use crate::oracle::{ClockJump, GivenOracle, LocalOracle, TimestampOracle};
use crate::order::{CommitOrder, SafePoint, StoreHook};
use crate::percolator::end_orphaned_locks;
use crate::sweep::{Sweeper, Sweeps};

impl Store {
    /// Opens the store in the directory `dir`, or creates it if [`DbOptions::create_if_missing`] is
    /// set.
    ///
    /// # Errors
    /// `NotVersioned` for a database that is not a store; `BeforeSafePoint` for a timestamp to be
    /// [held](StoreOptions::held_at); `Oracle` if the oracle has no timestamp,
    /// or one before the store's safe point or last timestamps; `ClockAhead` if it is too far ahead
    /// of these, or `ClockBehind` if the clock is too far behind them, and
    /// [`StoreOptions::refuse_clock_jump`] is set; those of
    /// [`Db::open`](titan::Db::open). A store whose timestamps have ended can be
    /// [read](Store::open_read_only).
    pub fn open(dir: impl AsRef<Path>, options: &StoreOptions) -> Result<Self> {
        let dir = dir.as_ref();
        if options.write.disable_wal {
            let what = "a store of versions needs a WAL, but disable_wal is set";
            return Err(titan::Error::new(ErrorKind::InvalidOption, what).into());
        }
        let droppable = Arc::default();
        let filter_family = Arc::new(FilterFamily::default());
        let family_options = family_options(
            &options.versions,
            FilterFactory {
                droppable: Arc::clone(&droppable),
                versions: Arc::clone(&filter_family),
            },
        )?;
        let lock_options = options.versions.clone();
        let hook = Arc::new(StoreHook::new(options.db.commit_hook.clone()));
        let db_options = DbOptions {
            commit_hook: Some(Arc::clone(&hook) as _),
            ..options.db.clone()
        };
        let Database {
            db,
            versions,
            locks,
        } = Database::open(dir, &db_options, family_options, lock_options)?;
        let meta = Meta(db.clone());
        let clock = &options.db.clock;
        let jump = ClockJump::new(options.max_clock_jump, options.refuse_clock_jump);
        let jump = Arc::new(jump);
        let (own, noticed) = (meta.clone(), Arc::clone(&jump));
        let oracle: Arc<dyn TimestampOracle> = match &options.oracle {
            Some(oracle) => Arc::new(GivenOracle::open(own, Arc::clone(oracle), noticed)?),
            None => Arc::new(LocalOracle::open(own, Arc::clone(clock), noticed)?),
        };
        let order = CommitOrder::new(Arc::clone(&oracle))?;
        hook.attach(&order);
        let latches = Latches::new(order.visible());
        let safe_point = Arc::new(SafePoint::open(meta, Arc::clone(clock), &order, droppable)?);
        // ORDER: before anything can move the safe point.
        let opening_hold = options
            .held_at
            .map(|at| safe_point.hold("opening".into(), at));
        let opening_hold = Mutex::new(opening_hold.transpose()?);
        let locks = LockTable::open(
            locks,
            Arc::clone(clock),
            Arc::clone(&safe_point),
            order.visible(),
            false,
        )?;
        filter_family.set(versions.clone());
        let core = Arc::new(Core {
            db,
            versions,
            clock: Arc::clone(clock),
            timestamps: Timestamps {
                oracle,
                is_given: options.oracle.is_some(),
                clock_jump: jump.found(),
                clock_lag: jump.lag(),
            },
            order,
            safe_point,
            opening_hold,
            latches,
            locks,
            config: Config {
                write: options.write,
                unsynced: WriteOptions {
                    sync: false,
                    no_slowdown: false,
                    ..options.write
                },
                transactions: options.transactions,
                is_read_only: false,
            },
            reads: Reads {
                range_source: options.range_source.clone(),
                totals: ReadTotals::default(),
            },
            filter_family,
        });
        end_orphaned_locks(&core);
        let (retention, interval) = (options.retention, options.sweep_interval);
        let sweeper = Sweeper::start(Sweeps::new(Arc::clone(&core), retention, interval))?;
        Ok(Store::new(core, sweeper))
    }
}
