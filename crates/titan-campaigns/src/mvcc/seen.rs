//! Counts of events in histories, by configuration.

use std::collections::BTreeMap;
use std::fmt;

use titan::{Db, FamilyMetrics};
use titan_ime::Stats;

/// Counts of the cases that histories have met.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Commits with a conflict.
    pub conflicts: u64,
    /// Calls that met a lock.
    pub blocked: u64,
    /// Calls on transactions that others had rolled back.
    pub rolled_back: u64,
    /// Calls of clients that came back after their transaction was rolled back, all refused.
    pub returned: u64,
    /// Commits that a reader had pushed.
    pub pushed: u64,
    /// Calls that waited, and those that would have waited in a circle.
    pub waits: u64,
    /// See `waits`.
    pub deadlocks: u64,
    /// Reads before the safe point.
    pub refused: u64,
    /// Crashes.
    pub crashes: u64,
    /// The depth of the databases.
    pub depth: Depth,
    /// Counts of caches: points and parts from memory, from the engine, too old for memory, met
    /// writes that were not applied; loads, gaps, splits, joins, evictions.
    pub cache: [u64; 12],
}

/// The shape of databases: the largest of each at any time, and how often jobs ran.
#[derive(Clone, Copy, Debug, Default)]
pub struct Depth {
    /// Levels with tables.
    pub levels: u64,
    /// Tables.
    pub tables: u64,
    /// Blob files.
    pub blob_files: u64,
    /// Flushes.
    pub flushes: u64,
    /// Compactions.
    pub compactions: u64,
    /// Collections of garbage.
    pub collections: u64,
}

impl Depth {
    /// Notes the present tables and blob files.
    pub(super) fn look(&mut self, of: &FamilyMetrics) {
        let files = of.levels.iter().map(|level| level.files as u64);
        let levels = files.clone().filter(|files| *files > 0).count() as u64;
        self.levels = self.levels.max(levels);
        self.tables = self.tables.max(files.sum());
        self.blob_files = self.blob_files.max(of.blob_files as u64);
    }

    /// Counts the jobs of a database that ends.
    pub(super) fn count(&mut self, db: &Db) {
        let statistics = db.statistics();
        self.flushes += statistics.flushes();
        self.compactions += statistics.compactions();
        self.collections += statistics.garbage_collections();
    }

    fn add(&mut self, more: &Depth) {
        self.levels = self.levels.max(more.levels);
        self.tables = self.tables.max(more.tables);
        self.blob_files = self.blob_files.max(more.blob_files);
        self.flushes += more.flushes;
        self.compactions += more.compactions;
        self.collections += more.collections;
    }
}

impl Seen {
    fn add(&mut self, more: &Seen) {
        self.conflicts += more.conflicts;
        self.blocked += more.blocked;
        self.rolled_back += more.rolled_back;
        self.returned += more.returned;
        self.pushed += more.pushed;
        self.waits += more.waits;
        self.deadlocks += more.deadlocks;
        self.refused += more.refused;
        self.crashes += more.crashes;
        self.depth.add(&more.depth);
        let sums = self.cache.iter_mut();
        sums.zip(more.cache).for_each(|(sum, n)| *sum += n);
    }

    /// Counts the events of a cache that ends.
    pub(super) fn count_cache(&mut self, stats: &Stats) {
        let (points, parts) = (&stats.points, &stats.parts);
        let counts = [
            points.hits + points.hits_nothing,
            parts.hits,
            points.not_held,
            parts.not_held,
            points.too_old,
            parts.too_old,
            points.not_applied + parts.not_applied,
            stats.loads,
            stats.gaps,
            stats.splits,
            stats.joins,
            stats.dropped_memory_limit,
        ];
        let sums = self.cache.iter_mut();
        sums.zip(counts).for_each(|(sum, n)| *sum += n);
    }
}

/// The counts of the histories of each configuration, by its name.
#[derive(Clone, Debug, Default)]
pub struct Coverage(pub BTreeMap<&'static str, Seen>);

impl Coverage {
    pub(super) fn add(&mut self, configuration: &'static str, seen: &Seen) {
        self.0.entry(configuration).or_default().add(seen);
    }

    /// The counts of all of them.
    pub fn sum(&self) -> Seen {
        let mut sum = Seen::default();
        self.0.values().for_each(|seen| sum.add(seen));
        sum
    }
}

/// One line for each configuration, and one for all.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, Seen { depth, crashes, .. }) in &self.0 {
            writeln!(f, "{name}: {depth:?}, {crashes} crashes")?;
        }
        write!(f, "{:?}", self.sum())
    }
}
