//! The range cache of a store: ranges that are loaded, dropped, pruned, audited, and memory that is
//! short. None of it changes what is read.

use titan_ime::{CacheOptions, Error, Progress, RangeCache};
use titan_mvcc::StoreOptions;
use titan_testkit::failure::{CheckFailure, Checked, ensure};

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
    /// Changes what is held.
    pub(super) fn change_cache(&mut self) -> Checked<()> {
        match self.rng.u32(..100) {
            0..6 => self.begin_load()?,
            6..88 => self.step_load()?,
            88..96 => self.maintain()?,
            96 => self.drop_range(),
            97 => self.abandon_load(),
            98 => self.change_limit(),
            _ if self.rng.u32(..20) == 0 => self.audit()?,
            _ => {}
        }
        Ok(())
    }

    fn bound(&mut self) -> Option<Vec<u8>> {
        (self.rng.u32(..4) > 0).then(|| self.key())
    }

    fn begin_load(&mut self) -> Checked<()> {
        let (from, to) = (self.bound(), self.bound());
        let (from, to) = (from.as_deref(), to.as_deref());
        let Some(cache) = &self.cache else {
            return Ok(());
        };
        let begun = match self.rng.u32(..8) {
            0 => cache.begin_pinned_load(from, to),
            _ => cache.begin_load(from, to),
        };
        match begun {
            Ok(load) => self.loads.push(load),
            Err(Error::Overlaps | Error::EmptyRange) => {}
            Err(e) => return Err(CheckFailure::wrong(e)),
        }
        Ok(())
    }

    fn step_load(&mut self) -> Checked<()> {
        if self.loads.is_empty() {
            return Ok(());
        }
        let n = self.rng.usize(..self.loads.len());
        match self.loads[n].step() {
            Ok(Progress::Going) => {}
            Ok(Progress::Done) | Err(Error::MemoryLimit { .. } | Error::Abandoned { .. }) => {
                drop(self.loads.swap_remove(n));
            }
            Err(e) => return Err(CheckFailure::wrong(e)),
        }
        Ok(())
    }

    fn abandon_load(&mut self) {
        if !self.loads.is_empty() {
            let n = self.rng.usize(..self.loads.len());
            drop(self.loads.swap_remove(n));
        }
    }

    fn drop_range(&mut self) {
        let (from, to) = (self.bound(), self.bound());
        if let Some(cache) = &self.cache {
            cache.drop_range(from.as_deref(), to.as_deref());
        }
    }

    fn maintain(&mut self) -> Checked<()> {
        if let Some(cache) = &self.cache {
            cache.maintain();
            let difference = cache.difference();
            ensure!(difference.is_none(), "maintenance found {difference:?}");
            ensure!(!cache.is_off(), "the cache is off");
        }
        Ok(())
    }

    fn change_limit(&mut self) {
        let Some((cache, of)) = self.cache.as_ref().zip(self.configuration.cache) else {
            return;
        };
        if of.limit_changes {
            let limits = [0, 1_000, 30_000, of.memory_limit / 4, of.memory_limit];
            cache.set_memory_limit(limits[self.rng.usize(..limits.len())]);
        }
    }

    fn audit(&mut self) -> Checked<()> {
        if let Some(cache) = &self.cache {
            cache.audit().map_err(CheckFailure::wrong)?;
        }
        Ok(())
    }

    /// Ends the cache: it was right to the end, and gives back all memory.
    pub(super) fn end_cache(&mut self) -> Checked<()> {
        self.audit()?;
        self.loads.clear();
        if let Some(cache) = self.cache.take() {
            cache.drop_range(None, None);
            let stats = cache.stats();
            self.hits += stats.points.hits + stats.points.hits_nothing + stats.parts.hits;
            ensure!(
                stats.memory_used == 0,
                "{} bytes are still charged",
                stats.memory_used
            );
        }
        Ok(())
    }
}
