//! The range cache of a store: ranges that are loaded, dropped, pruned, audited, and memory that is
//! short. None of it changes the results of reads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use titan_ime::{CacheOptions, Error, Load, Progress, RangeCache};
use titan_mvcc::{Direction, Store, StoreOptions, Timestamp};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::versions::Range;

use super::configurations::{Cache, Phases};
use super::reads::{Rows, rows, same_rows, same_value};
use super::waits::{Call, Done};
use super::world::World;

/// Longer than any history takes.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Writes of a commit beside which there are reads.
const MANY: usize = 100;

/// A value and all rows that were read at a time.
pub(super) struct Early {
    at: Timestamp,
    key: Vec<u8>,
    value: Option<Bytes>,
    rows: Rows,
}

impl Early {
    fn of(store: &Store, key: &[u8]) -> Checked<Early> {
        let snapshot = store.snapshot();
        let value = snapshot.get(key).doing("get")?;
        let scan = snapshot
            .scan(None, None, Direction::Forward)
            .doing("scan")?;
        Ok(Early {
            at: snapshot.timestamp(),
            key: key.to_vec(),
            value,
            rows: rows(scan, usize::MAX)?,
        })
    }
}

pub(super) fn open(dir: &str, store: &StoreOptions, cache: &Cache) -> Checked<RangeCache> {
    let options = CacheOptions {
        memory_limit: cache.memory_limit,
        segment_size: cache.segment_size,
        safe_lag: cache.safe_lag,
        chooses: cache.chooses,
        // Maintained when a history says so; but with the thread that applies many writes.
        maintenance: Some(NEVER),
        audited_per_mille: 100,
    };
    RangeCache::open(dir, store, &options).map_err(CheckFailure::wrong)
}

impl World {
    pub(super) fn load(&mut self, id: Option<u32>, range: &Range, pinned: bool) -> Checked<()> {
        let (from, to) = (range.from.as_deref(), range.to.as_deref());
        let Some(cache) = &self.cache else {
            return Ok(());
        };
        let begun = match pinned {
            true => cache.begin_pinned_load(from, to),
            false => cache.begin_load(from, to),
        };
        let mut load = match begun {
            Ok(load) => load,
            Err(Error::Overlaps | Error::EmptyRange) => return Ok(()),
            Err(e) => return Err(CheckFailure::wrong(e)),
        };
        match id {
            Some(id) => drop(self.loads.insert(id, load)),
            None => while makes_step(&mut load)? {},
        }
        Ok(())
    }

    pub(super) fn load_step(&mut self, id: u32, n: u32) -> Checked<()> {
        let Some(load) = self.loads.get_mut(&id) else {
            return Ok(());
        };
        for _ in 0..n {
            if !makes_step(load)? {
                self.loads.remove(&id);
                break;
            }
        }
        Ok(())
    }

    pub(super) fn evict(&self, range: &Range) {
        if let Some(cache) = &self.cache {
            cache.drop_range(range.from.as_deref(), range.to.as_deref());
        }
    }

    pub(super) fn maintain(&self) -> Checked<()> {
        if let Some(cache) = &self.cache {
            cache.maintain();
            let difference = cache.difference();
            ensure!(difference.is_none(), "maintenance found {difference:?}");
            let faults = cache.faults();
            ensure!(!cache.is_off(), "the cache is off: {faults:?}");
        }
        Ok(())
    }

    /// Runs a call that may commit many writes, and beside it reads again and again: the cache has
    /// not applied them all, so the reads wait for its thread or ask the engine.
    pub(super) fn run_beside_reads(
        &self,
        call: Call,
        written: &[Vec<u8>],
    ) -> Checked<(Done, Vec<Early>)> {
        let is_one = self.configuration.phases == Phases::One;
        let Some(key) = written
            .first()
            .filter(|_| is_one && self.cache.is_some() && written.len() >= MANY)
        else {
            return Ok((call.run(), Vec::new()));
        };
        let (is_over, store) = (AtomicBool::new(false), &self.store);
        let (reads, begun) = channel();
        let (done, first) = thread::scope(|scope| {
            let is_over = &is_over;
            scope.spawn(move || {
                loop {
                    let is_last = is_over.load(Ordering::Acquire);
                    // The other end hears until the scope is over.
                    drop(reads.send(Early::of(store, key)));
                    if is_last {
                        break;
                    }
                }
            });
            let first = begun.recv().into_iter();
            let done = call.run();
            is_over.store(true, Ordering::Release);
            (done, first)
        });
        Ok((done, first.chain(begun).collect::<Checked<_>>()?))
    }

    /// Compares the reads beside a commit, once the model has it.
    pub(super) fn check_early(&self, early: &Early) -> Checked<()> {
        let expected = self.model.get(&early.key, early.at);
        same_value(&early.key, early.value.as_deref(), expected)?;
        let expected = self.model.rows(early.at).into_iter().collect();
        same_rows(&early.rows, &expected)
    }

    pub(super) fn limit(&self, bytes: usize) {
        if let Some(cache) = &self.cache {
            cache.set_memory_limit(bytes);
        }
    }

    pub(super) fn audit(&self) -> Checked<()> {
        if let Some(cache) = &self.cache {
            cache.audit().map_err(CheckFailure::wrong)?;
        }
        Ok(())
    }

    /// Counts the events of a cache that ends.
    pub(super) fn count_cache(&mut self) {
        if let Some(cache) = &self.cache {
            self.seen.count_cache(&cache.stats());
        }
    }

    /// Ends the cache: it was right to the end, and gives back all memory.
    pub(super) fn end_cache(&mut self) -> Checked<()> {
        self.audit()?;
        self.loads.clear();
        self.count_cache();
        if let Some(cache) = self.cache.take() {
            cache.drop_range(None, None);
            let used = cache.stats().memory_used;
            ensure!(used == 0, "{used} bytes are still charged");
        }
        Ok(())
    }
}

/// Makes a step of a load. Returns whether it goes on.
fn makes_step(load: &mut Load) -> Checked<bool> {
    match load.step() {
        Ok(Progress::Going) => Ok(true),
        Ok(Progress::Done) | Err(Error::MemoryLimit { .. } | Error::Abandoned { .. }) => Ok(false),
        Err(e) => Err(CheckFailure::wrong(e)),
    }
}
