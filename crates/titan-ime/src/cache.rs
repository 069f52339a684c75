//! The cache as programs use it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use titan::vfs::Vfs;
use titan::{CommitHook, EventListener, Process};
use titan_mvcc::{RangeSource, Store, StoreOptions, entries};

use crate::error::{Error, Result};
use crate::maintenance::audit::AuditReport;
use crate::maintenance::held_ranges::HeldRange;
use crate::maintenance::hot_set::HotSetFile;
use crate::maintenance::keeper::Keeper;
use crate::maintenance::policy::Chooser;
use crate::maintenance::range_load::Load;
use crate::maintenance::segment_load::Kind;
use crate::options::CacheOptions;
use crate::segments::faults::Trouble;
use crate::segments::shared::Shared;
use crate::stats::{Dropped, Stats};
use crate::writes::applier::Applier;
use crate::writes::chained_hook::WithOther;

/// A range cache with its store. Reads of the store, of its snapshots and of its transactions use it by themselves.
/// Dropping it drops all that is held; the store goes on without it.
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
/// assert_eq!(cache.stats().points.hits, 1);
/// cache.close()?;
/// # std::fs::remove_dir_all(&dir).unwrap();
/// # Ok(())
/// # }
/// ```
pub struct RangeCache {
    keeper: Keeper,
    /// The largest limit of memory that makes sense here.
    largest_limit: usize,
    /// Both or none.
    threads: Option<(Maintenance, Applier)>,
}

impl RangeCache {
    /// Opens the store in a directory, with a cache that holds nothing yet. A commit hook of the options is called as by
    /// the store, after that of the cache. If it panics, the cache is off.
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
            Some(other) => Arc::new(WithOther::new(Arc::clone(&shared), other)),
        });
        options
            .db
            .listeners
            .push(Arc::clone(&shared) as Arc<dyn EventListener>);
        options.range_source = Some(Arc::clone(&shared) as Arc<dyn RangeSource>);
        let vfs = Arc::clone(&options.db.vfs);
        let file = HotSetFile::new(vfs, dir.as_ref());
        let store = Store::open(dir, &options)?;
        let family = store
            .db()
            .column_family(entries::FAMILY)
            .ok_or(Error::Off)?;
        shared.set_family(family.id());
        let keeper = Keeper {
            shared,
            store,
            family,
            safe_lag: cache.safe_lag,
            audited_per_mille: cache.audited_per_mille,
            chooser: cache.chooses.then(|| Arc::new(Chooser::new(file))),
        };
        keeper.look();
        let start = |every| {
            let applier = Applier::start(Arc::clone(&keeper.shared))?;
            Ok::<_, Error>((Maintenance::start(keeper.clone(), every)?, applier))
        };
        let threads = cache.maintenance.map(start).transpose()?;
        Ok(RangeCache {
            keeper,
            largest_limit,
            threads,
        })
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.keeper.store
    }

    /// Loads the keys from `from` to before `to`; without bounds where they are `None`. Returns when they are held. What is held
    /// already, because it was remembered, chosen or loaded before, is taken over as it is.
    /// Cost: reads all entries of the rest; commits wait for a barrier for each part of it.
    ///
    /// # Errors
    /// Those of [`RangeCache::begin_load`] and [`Load::step`].
    pub fn load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<()> {
        self.begin_load(from, to)?.finish()
    }

    /// Begins to load what is not held of a range. From here on no other load of the program can overlap that. Loads that the
    /// cache has begun by itself give way.
    ///
    /// # Errors
    /// `EmptyRange`, `Off`; `Overlaps` if another [`Load`] has a part of it; `Store` in a forked child of the process that
    /// opened it.
    pub fn begin_load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Load> {
        self.keeper.begin_load(from, to, Kind::Range)
    }

    /// The same for a range that is dropped only when memory is short and nothing else can be dropped. That holds for what is
    /// held already, too, in whole segments.
    ///
    /// # Errors
    /// Those of [`RangeCache::begin_load`].
    pub fn begin_pinned_load(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> Result<Load> {
        self.keeper.begin_load(from, to, Kind::Pinned)
    }

    /// Drops the segments that have keys from `from` to before `to`, whole, and abandons loads of them. Returns how
    /// many there were. Reads that are in them go on in the engine. Does nothing in a forked child of the process that
    /// opened it.
    pub fn drop_range(&self, from: Option<&[u8]>, to: Option<&[u8]>) -> usize {
        if self.is_inherited() {
            return 0;
        }
        let lower = from.map(entries::encode_key).unwrap_or_default();
        let upper = to.map(entries::encode_key);
        let overlaps = |segment: &crate::segments::segment::Segment| {
            segment.overlaps(&lower, upper.as_deref())
        };
        self.keeper.shared.drop_segments(Dropped::Asked, overlaps)
    }

    /// Changes the limit of memory, which is bounded as [`CacheOptions::memory_limit`] is. Segments are dropped at once if
    /// they exceed it. Does nothing in a forked child of the process that opened it.
    pub fn set_memory_limit(&self, bytes: usize) {
        if self.is_inherited() {
            return;
        }
        let limit = bytes.min(self.largest_limit);
        self.keeper.shared.budget.set_limit(limit);
        self.keeper.shared.make_room();
    }

    /// Looks at the store's readers, prunes idle rows, splits and joins segments, and decides what is held. A panic in it is
    /// counted in [`Stats::maintenance_panics`]. Cost: looks at all rows with old versions; locks a segment for a few leaves at
    /// a time; reads some ten thousand entries of what is being loaded. Does nothing in a forked child of the process that
    /// opened it.
    pub fn maintain(&self) {
        if self.is_inherited() {
            return;
        }
        self.keeper.maintain();
    }

    /// Whether this is a forked child of the process that opened it. Threads of the parent may have had locks of the cache,
    /// which nobody gives back here.
    fn is_inherited(&self) -> bool {
        self.store().db().check_not_inherited().is_err()
    }

    /// Compares memory with the engine. May run at any time; a barrier for each segment. Cost: reads everything that
    /// is held from the engine.
    ///
    /// # Errors
    /// `Differs`; `Off`; `Store`.
    pub fn audit(&self) -> Result<AuditReport> {
        self.keeper.audit()
    }

    /// What is held, and what was done.
    pub fn stats(&self) -> Stats {
        // A thread that only the parent has may have been about to apply.
        if !self.is_inherited() {
            self.keeper.shared.settle();
        }
        let counters = &self.keeper.shared.counters;
        let list = self.keeper.shared.directory.load();
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
            memory_used: self.keeper.shared.budget.used() as u64,
            memory_limit: self.keeper.shared.budget.limit() as u64,
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
            audited: self.keeper.shared.auditor.audited(),
            maintenance_panics: self.keeper.shared.panics.count(),
        }
    }

    /// The ranges that are held, in the order of their keys.
    pub fn held(&self) -> Vec<HeldRange> {
        let held = self.keeper.shared.held();
        held.iter().map(HeldRange::new).collect()
    }

    /// What memory and engine differed in, if maintenance has found that they do: a bug of this crate, or changes of the
    /// database past its hook. The cache is off then.
    pub fn difference(&self) -> Option<&str> {
        self.keeper.shared.auditor.difference()
    }

    /// How the maintenance of the cache fares, and why the cache is off if it is.
    pub fn trouble(&self) -> Trouble {
        self.keeper.shared.trouble()
    }

    /// Whether the cache is off: its hook panicked, its maintenance panicked again and again, or memory and engine
    /// differed. The store works without it; the next opening has a cache again.
    pub fn is_off(&self) -> bool {
        self.keeper.shared.is_off()
    }

    /// Drops all that is held and closes the store.
    ///
    /// # Errors
    /// Those of [`Store::close`].
    pub fn close(self) -> Result<()> {
        let store = self.keeper.store.clone();
        drop(self);
        Ok(store.close()?)
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.keeper.shared
    }
}

impl Drop for RangeCache {
    fn drop(&mut self) {
        if self.is_inherited() {
            // The store of a parent of this process, which remembers by itself.
            return;
        }
        drop(self.threads.take());
        self.keeper.remember();
        self.keeper.shared.turn_off();
        self.keeper.shared.give_back();
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

/// The thread that maintains a cache. Dropping it ends the thread.
struct Maintenance {
    /// Whether it is to end.
    end: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
    started_by: Process,
}

impl Maintenance {
    fn start(keeper: Keeper, every: Duration) -> Result<Self> {
        let end = Arc::new((Mutex::new(false), Condvar::new()));
        let ends = Arc::clone(&end);
        let run = move || {
            let (is_over, wakes) = &*ends;
            let mut is_over = is_over.lock();
            while !*is_over {
                wakes.wait_for(&mut is_over, every);
                if !*is_over {
                    parking_lot::MutexGuard::unlocked(&mut is_over, || keeper.maintain());
                }
            }
        };
        let named = std::thread::Builder::new().name("titan-ime".to_owned());
        let thread = named.spawn(run).map_err(|e| {
            let what = format!("the maintenance thread of the range cache: {e}");
            titan::Error::new(titan::ErrorKind::Io, what)
        })?;
        Ok(Maintenance {
            end,
            thread: Some(thread),
            started_by: Process::current(),
        })
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        if !self.started_by.is_current() {
            // A forked child does not have the thread, and its handle would name another one.
            std::mem::forget(self.thread.take());
            return;
        }
        let (is_over, wakes) = &*self.end;
        *is_over.lock() = true;
        wakes.notify_all();
        if let Some(thread) = self.thread.take() {
            // What panics in it is caught.
            let _ = thread.join();
        }
    }
}
