//! The range cache of a store: ranges that are loaded, dropped, pruned, audited, and memory that is
//! short. None of it changes what is read.

use titan_ime::{CacheOptions, Error, Load, Progress, RangeCache};
use titan_mvcc::StoreOptions;
use titan_testkit::failure::{CheckFailure, Checked, ensure};
use titan_testkit::versions::Range;

use super::configurations::Cache;
use super::world::World;

pub(super) fn open(dir: &str, store: &StoreOptions, cache: &Cache) -> Checked<RangeCache> {
    let options = CacheOptions {
        memory_limit: cache.memory_limit,
        segment_size: cache.segment_size,
        safe_lag: cache.safe_lag,
        chooses: cache.chooses,
        // Maintained when a history says so.
        maintenance: None,
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
            let trouble = cache.trouble();
            ensure!(!cache.is_off(), "the cache is off: {trouble:?}");
        }
        Ok(())
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

    /// Counts what a cache did that ends.
    pub(super) fn count_cache(&mut self) {
        if let Some(cache) = &self.cache {
            let stats = cache.stats();
            let (points, parts) = (stats.points, stats.parts);
            let counts = [
                points.hits + points.hits_nothing,
                parts.hits,
                points.not_held,
                parts.not_held,
                points.too_old,
                parts.too_old,
                stats.loads,
                stats.gaps,
                stats.splits,
                stats.joins,
                stats.dropped_memory_limit,
            ];
            let sums = self.seen.cache.iter_mut();
            sums.zip(counts).for_each(|(sum, n)| *sum += n);
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
