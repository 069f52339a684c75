//! The options of a store.

use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamilyOptions, DbOptions, WriteOptions};

use crate::core::TransactionOptions;
use crate::lookup::RangeSource;
use crate::oracle::TimestampOracle;
use crate::timestamp::Timestamp;

/// The options of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Options of the database: file system, clock, caches, threads. `max_total_wal_size` defaults
    /// to the size of two memtables of versions. The store adds its own commit hook, which passes
    /// all changes to yours, but not the tickets, which are the store's.
    pub db: DbOptions,
    /// Options of the family of versions. The store sets the prefix extractor and the compaction
    /// filter, and refuses others. A replaced version becomes garbage when the safe point passes
    /// it, and stays until a compaction. So with the usual `max_space_amp` of 1.5, a store that is
    /// overwritten without pause takes up to 1.7 times the space of retained versions; with 1.25 it
    /// takes 1.5 times, for a few percent more writes.
    pub versions: ColumnFamilyOptions,
    /// The oracle of timestamps. `None`: the clock of `db` and a lease on disk, for a store that
    /// one process at a time uses. Timestamps of a given oracle are leased too, with a synced write
    /// once in three seconds of its time. So each opening continues after the timestamps of the
    /// last one, with either oracle.
    pub oracle: Option<Arc<dyn TimestampOracle>>,
    /// Options of commits. Synced commits survive power failures. `disable_wal` is refused: a flush
    /// of one family would separate locks from the versions that replace them.
    pub write: WriteOptions,
    /// A cache that answers reads before the engine.
    pub range_source: Option<Arc<dyn RangeSource>>,
    /// The most that the clock may be ahead of the store's last timestamps at an opening, or behind
    /// them. A clock that is further ahead is probably wrong. Timestamps never go back: after the
    /// clock is set right, they stand still until it catches up, and reads by the time of day find
    /// the past. Default: 366 days.
    pub max_clock_jump: Duration,
    /// Refuses an opening whose clock is further ahead or behind. Otherwise
    /// [`Store::clock_jump`](crate::Store::clock_jump) and
    /// [`Store::clock_lag`](crate::Store::clock_lag) report it, and under a clock that is ahead the
    /// retention of earlier versions begins with the opening. Default: false.
    pub refuse_clock_jump: bool,
    /// The time for which replaced versions can be read. The safe point follows the present at this
    /// distance, unless holds stop it. It is real time, under any clock, for commits since the
    /// opening; for earlier commits, as far as the clock can be trusted. `None`: only
    /// [`Store::advance_safe_point`](crate::Store::advance_safe_point) moves the safe point, and
    /// nothing is dropped otherwise. Default: ten minutes, as TiDB's. Longer transactions and
    /// snapshots hold the safe point, and a store takes little more space than its live rows.
    pub retention: Option<Duration>,
    /// A timestamp that the safe point does not pass, from before the first sweep on, until the
    /// program drops the result of
    /// [`Store::take_opening_hold`](crate::Store::take_opening_hold). So holds of the last opening
    /// can be taken again. If the safe point has passed it, the opening fails with
    /// `BeforeSafePoint`. Default: `None`.
    pub held_at: Option<Timestamp>,
    /// The time between two sweeps, which move the safe point and compact ranges with many old
    /// versions. A sweep that moves the safe point costs a synced write. `disable_auto_compactions`
    /// of `versions` does not stop sweeps. Default: ten seconds.
    pub sweep_interval: Duration,
    /// Options of commits and of waits for locks.
    pub transactions: TransactionOptions,
}

impl Default for StoreOptions {
    fn default() -> Self {
        StoreOptions {
            db: DbOptions::default(),
            versions: ColumnFamilyOptions::default(),
            oracle: None,
            write: WriteOptions::default(),
            range_source: None,
            max_clock_jump: Duration::from_secs(366 * 24 * 3600),
            refuse_clock_jump: false,
            retention: Some(Duration::from_secs(600)),
            held_at: None,
            sweep_interval: Duration::from_secs(10),
            transactions: TransactionOptions::default(),
        }
    }
}
