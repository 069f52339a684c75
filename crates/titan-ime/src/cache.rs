//! The public face of the cache.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use titan::vfs::Vfs;
use titan::{CommitHook, EventListener};
use titan_mvcc::{RangeSource, Store, StoreOptions, codec};

use crate::error::{Error, Result};
use crate::maintenance::attached::Attached;
use crate::maintenance::audit::{AuditReport, Auditor};
use crate::maintenance::held_ranges::HeldRange;
use crate::maintenance::hot_set::{self, HotSetFile};
use crate::maintenance::passes::Maintenance;
use crate::maintenance::policy::Policy;
use crate::maintenance::range_load::Load;
use crate::maintenance::segment_load::Kind;
use crate::maintenance::thread::MaintenanceThread;
use crate::options::CacheOptions;
use crate::segments::faults::Faults;
use crate::segments::shared::Shared;
use crate::stats::{Dropped, Stats};
use crate::writes::applier::Applier;
use crate::writes::chained_hook::ChainedHook;

/// A range cache with its store. All reads of the store use it, those of snapshots and transactions
/// too. Dropping it drops all ranges; the store goes on without it.
///
/// ```
/// # fn main() -> titan_ime::Result<()> {
/// # let dir = std::env::temp_dir().join(format!("titan-ime-doc-{}", std::process::id()));
/// use titan_ime::{CacheOptions, RangeCache};
/// use titan_mvcc::StoreOptions;
///
/// let cache = RangeCache::open(&dir, &StoreOptions::default(), &CacheOptions::default())?;
/// cache.load(Some(b"a"), Some(b"b"))?;
///
/// let mut transaction = cache.store().begin();
/// transaction.put(b"apple", b"1");
/// transaction.commit()?;
/// assert_eq!(cache.store().snapshot().get(b"apple")?.as_deref(), Some(&b"1"[..]));
/// assert_eq!(cache.held().len(), 1);
/// cache.close()?;
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct RangeCache {
    maintenance: Arc<Maintenance>,
    /// The largest useful limit of memory.
    largest_limit: usize,
    /// Both or none.
    threads: Option<(MaintenanceThread, Applier)>,
}

impl RangeCache {
    /// Opens the store in a directory, with a cache that holds nothing yet. A commit hook of the
    /// options is called after that of the cache. If it panics, the cache is off.
    ///
    /// # Errors
    /// `SourceInUse`; `Store` with those of [`Store::open`].
    pub fn open(
        dir: impl AsRef<Path>,
        options: &StoreOptions,
        cache: &CacheOptions,
    ) -> Result<Self> {
        if options.range_source.is_some() {
            return Err(Error::SourceInUse);
        }
        let largest_limit = largest_limit(&*options.db.vfs);
        let shared = Arc::new(Shared::new(
            cache.memory_limit.min(largest_limit),
            cache.segment_size,
            cache.chooses,
        ));
        let mut options = options.clone();
        let hook = Arc::clone(&shared) as Arc<dyn CommitHook>;
        options.db.commit_hook = Some(match options.db.commit_hook.take() {
            None => hook,
            Some(other) => Arc::new(ChainedHook::new(Arc::clone(&shared), other)),
        });
        options
            .db
            .listeners
            .push(Arc::clone(&shared) as Arc<dyn EventListener>);
        options.range_source = Some(Arc::clone(&shared) as Arc<dyn RangeSource>);
        let dir = dir.as_ref();
        let store = Store::open(dir, &options)?;
        // It goes with the store, wherever that is moved.
        let file = HotSetFile::new(store.db().vfs(), dir);
        let family = store.db().column_family(codec::FAMILY).ok_or(Error::Off)?;
        shared.set_family(family.id());
        let attached = Attached {
            shared,
            db: store.db().clone(),
            family,
        };
        let maintenance = Maintenance {
            attached,
            store,
            auditor: Auditor::default(),
            safe_lag: cache.safe_lag,
            audited_per_mille: cache.audited_per_mille,
            policy: cache.chooses.then(|| Policy::new(file)),
        };
        maintenance.update_target();
        let maintenance = Arc::new(maintenance);
        let start = |every| {
            let applier = Applier::start(Arc::clone(&maintenance.attached.shared))?;
            let maintainer = MaintenanceThread::start(Arc::clone(&maintenance), every)?;
            Ok::<_, Error>((maintainer, applier))
        };
        let threads = cache.maintenance.map(start).transpose()?;
        Ok(RangeCache {
            maintenance,
            largest_limit,
            threads,
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.maintenance.store
    }

    /// Loads the keys from `from` to before `to`; `None` is no bound. Returns when the range is
    /// held. Parts that are held already stay as they are. Cost: reads all entries of the rest;
    /// each part of it takes a barrier, for which commits wait.
    ///
    /// # Errors
    /// Those of [`RangeCache::begin_load`] and [`Load::step`].
    pub fn load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.begin_load(from, to)?.finish()
    }

    /// Begins to load the parts of a range that are not held. From here on no other load of the
    /// program can overlap them. Loads that the cache began give way.
    ///
    /// # Errors
    /// `EmptyRange`, `Off`; `Overlaps` if another [`Load`] has a part of it; `Store` in a forked
    /// child of the process that opened it.
    pub fn begin_load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Load> {
        self.maintenance.begin_load(from, to, Kind::Range)
    }

    /// The same for a pinned range, which is evicted only when nothing else can be. Whole segments
    /// that are held already are pinned too.
    ///
    /// # Errors
    /// Those of [`RangeCache::begin_load`].
    pub fn begin_pinned_load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Load> {
        self.maintenance.begin_load(from, to, Kind::Pinned)
    }

    /// Drops whole segments that have keys from `from` to before `to`, and abandons loads of them.
    /// Returns their number. Their readers go on in the engine. Does nothing in a forked child of
    /// the process that opened it.
    pub fn drop_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> usize {
        if self.is_inherited() {
            return 0;
        }
        let lower = from.map(codec::encode_key).unwrap_or_default();
        let upper = to.map(codec::encode_key);
        let overlaps = |segment: &crate::segments::segment::Segment| {
            segment.overlaps(&lower, upper.as_deref())
        };
        self.shared().drop_segments(Dropped::Asked, overlaps)
    }

    /// Changes the limit of memory, bounded as [`CacheOptions::memory_limit`] is. Evicts at once if
    /// memory exceeds it. Does nothing in a forked child of the process that opened it.
    pub fn set_memory_limit(&self, bytes: usize) {
        if self.is_inherited() {
            return;
        }
        let limit = bytes.min(self.largest_limit);
        self.shared().budget.set_limit(limit);
        self.shared().make_room();
    }

    /// Runs a pass of maintenance: prunes idle rows, splits and joins segments, chooses ranges. A
    /// panic is counted in [`Stats::maintenance_panics`]. Cost: visits all rows with old versions;
    /// locks a segment for a few leaves at a time; reads some ten thousand entries of a range that
    /// is being loaded. Does nothing in a forked child of the process that opened it.
    pub fn maintain(&self) {
        if self.is_inherited() {
            return;
        }
        self.maintenance.maintain();
    }

    /// Whether this is a forked child of the process that opened it. Threads of the parent may hold
    /// locks of the cache, which nobody releases here.
    fn is_inherited(&self) -> bool {
        self.store().db().check_not_inherited().is_err()
    }

    /// Compares all held ranges with the engine, at any time. Cost: a barrier for each segment;
    /// reads all held ranges from the engine.
    ///
    /// # Errors
    /// `Differs`; `Off`; `Store`.
    pub fn audit(&self) -> Result<AuditReport> {
        self.maintenance.audit()
    }

    /// The state and the counters.
    pub fn stats(&self) -> Stats {
        // A thread that only the parent has may have been about to apply.
        if !self.is_inherited() {
            self.shared().apply_pending();
        }
        let counters = &self.shared().counters;
        let list = self.shared().directory.load();
        let active = list
            .iter()
            .filter(|segment| segment.root().is_some())
            .count();
        let dropped = |why: Dropped| {
            let counter = counters.dropped.get(why as usize);
            counter.map_or(0, |n| n.load(Ordering::Relaxed))
        };
        Stats {
            points: counters.points.sums(),
            parts: counters.parts.sums(),
            segments: active as u64,
            loading: (list.len() - active) as u64,
            memory_used: self.shared().budget.used() as u64,
            memory_limit: self.shared().budget.limit() as u64,
            loads: counters.loads.load(Ordering::Relaxed),
            gaps: counters.gaps.load(Ordering::Relaxed),
            splits: counters.splits.load(Ordering::Relaxed),
            joins: counters.joins.load(Ordering::Relaxed),
            dropped_memory_limit: dropped(Dropped::MemoryLimit),
            dropped_bypassed: dropped(Dropped::Bypassed),
            dropped_load_ended: dropped(Dropped::LoadEnded),
            dropped_asked: dropped(Dropped::Asked),
            dropped_off: dropped(Dropped::Off),
            dropped_not_worth: dropped(Dropped::NotWorth),
            dropped_less_worth: dropped(Dropped::LessWorth),
            dropped_panicked: dropped(Dropped::Panicked),
            chosen: counters.chosen.load(Ordering::Relaxed),
            remembered: counters.remembered.load(Ordering::Relaxed),
            saved_steps: counters.saved.load(Ordering::Relaxed),
            writes: counters.writes.load(Ordering::Relaxed),
            audited: counters.audited.load(Ordering::Relaxed),
            maintenance_panics: self.shared().faults.panics(),
        }
    }

    /// The held ranges, in the order of their keys.
    pub fn held(&self) -> Vec<HeldRange> {
        let held = hot_set::held(&self.shared().directory.load());
        held.iter().map(HeldRange::new).collect()
    }

    /// The difference between memory and engine, if maintenance found one: a bug of this crate, or
    /// changes of the database past its hook. The cache is off then.
    pub fn difference(&self) -> Option<&str> {
        self.shared().faults.difference()
    }

    /// The faults of the cache: panics of maintenance, and the reason why it is off.
    pub fn faults(&self) -> Faults {
        self.shared().faults.report()
    }

    /// Whether the cache is off: its hook panicked, its maintenance panicked five times in a row,
    /// or memory and engine differed. The store works without it; the next opening has a cache
    /// again.
    pub fn is_off(&self) -> bool {
        self.shared().faults.is_off()
    }

    /// Drops all ranges and closes the store.
    ///
    /// # Errors
    /// Those of [`Store::close`].
    pub fn close(self) -> Result<()> {
        let store = self.maintenance.store.clone();
        drop(self);
        Ok(store.close()?)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.maintenance.attached.shared
    }
}

impl Drop for RangeCache {
    fn drop(&mut self) {
        if self.is_inherited() {
            // The store of a parent of this process, which remembers by itself.
            return;
        }
        drop(self.threads.take());
        self.maintenance.remember();
        self.shared().faults.turn_off();
        self.shared().give_back();
    }
}

impl std::fmt::Debug for RangeCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RangeCache")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// Three quarters of the memory that the process may use, if that is known.
fn largest_limit(vfs: &dyn Vfs) -> usize {
    let memory = vfs.resources().memory;
    memory.map_or(usize::MAX, |memory| {
        usize::try_from(memory.total / 4 * 3).unwrap_or(usize::MAX)
    })
}
