//! The cost of reads: of one read, and of all reads of a store.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The cost of reads, in TiKV's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadStats {
    /// Forward steps of the engine's iterator. A step from key to key counts once, however many
    /// versions it passes.
    pub next: u64,
    /// Backward steps.
    pub prev: u64,
    /// Seeks. A point read of the engine counts once.
    pub seek: u64,
    /// Returned rows.
    pub processed: u64,
    /// Versions that the iterator stepped over: too new, overwritten, or locks. The engine jumps
    /// over most versions of a key with many, and does not count those.
    pub versions_skipped: u64,
    /// Dead rows: keys whose newest version at the timestamp is a deletion.
    pub dead_rows_skipped: u64,
}

impl AddAssign for ReadStats {
    fn add_assign(&mut self, other: Self) {
        self.next += other.next;
        self.prev += other.prev;
        self.seek += other.seek;
        self.processed += other.processed;
        self.versions_skipped += other.versions_skipped;
        self.dead_rows_skipped += other.dead_rows_skipped;
    }
}

/// This number of threads can count without sharing a cache line.
const SHARDS: usize = 16;

/// The cost of all reads. Each thread adds to one of several shards, so point reads of several
/// threads do not wait for one cache line.
#[derive(Default)]
pub(crate) struct ReadTotals([Shard; SHARDS]);

/// One shard, on its own cache line.
#[derive(Default)]
#[repr(align(64))]
struct Shard {
    next: AtomicU64,
    prev: AtomicU64,
    seek: AtomicU64,
    processed: AtomicU64,
    versions_skipped: AtomicU64,
    dead_rows_skipped: AtomicU64,
}

impl ReadTotals {
    /// Adds the cost of a read.
    pub(crate) fn add(&self, read: ReadStats) {
        let Some(shard) = self.0.get(shard_of_this_thread()) else {
            return;
        };
        for (sum, more) in [
            (&shard.next, read.next),
            (&shard.prev, read.prev),
            (&shard.seek, read.seek),
            (&shard.processed, read.processed),
            (&shard.versions_skipped, read.versions_skipped),
            (&shard.dead_rows_skipped, read.dead_rows_skipped),
        ] {
            if more > 0 {
                sum.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The sum of all shards.
    pub(crate) fn sum(&self) -> ReadStats {
        let mut total = ReadStats::default();
        for shard in &self.0 {
            let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
            total += ReadStats {
                next: load(&shard.next),
                prev: load(&shard.prev),
                seek: load(&shard.seek),
                processed: load(&shard.processed),
                versions_skipped: load(&shard.versions_skipped),
                dead_rows_skipped: load(&shard.dead_rows_skipped),
            };
        }
        total
    }
}

/// Assigns shards to threads in turn.
fn shard_of_this_thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static SHARD: usize = NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS;
    }
    SHARD.with(|shard| *shard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sums_have_the_reads_of_all_threads() {
        let totals = ReadTotals::default();
        let read = ReadStats {
            next: 1,
            prev: 2,
            seek: 3,
            processed: 4,
            versions_skipped: 5,
            dead_rows_skipped: 6,
        };
        std::thread::scope(|scope| {
            for _ in 0..SHARDS + 1 {
                scope.spawn(|| totals.add(read));
            }
        });
        let mut expected = ReadStats::default();
        for _ in 0..SHARDS + 1 {
            expected += read;
        }
        assert_eq!(totals.sum(), expected);
    }
}
