//! The options of a store.

use std::sync::Arc;
use std::time::Duration;

use titan::{ColumnFamilyOptions, DbOptions, WriteOptions};

use crate::core::TransactionOptions;
use crate::lookup::RangeSource;
use crate::oracle::TimestampOracle;

/// How a store is opened.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Options of the database: file system, clock, caches, threads. Without a `max_total_wal_size` it is that of two
    /// memtables of versions. The store has a commit hook of its own, which shows yours all changes. Yours is not
    /// told tickets, because these are the store's.
    pub db: DbOptions,
    /// Options of the family of versions. Its prefix extractor and its compaction filter are the store's own:
    /// others are refused. Replaced versions become garbage by the safe point, and wait for a compaction first. So with
    /// the usual `max_space_amp` of 1.5 a store that is overwritten without pause takes up to 1.7 times what must be kept;
    /// with 1.25 it takes 1.5 times as much, for some hundredths more writes.
    pub versions: ColumnFamilyOptions,
    /// Where timestamps come from. By default from the clock of `db` and a lease on disk, which is right for
    /// a store that one process at a time uses. The timestamps of another oracle are leased, too, which costs a
    /// synced write once in three seconds of its time: so each opening goes on after the timestamps of the last one,
    /// whichever oracle it has.
    pub oracle: Option<Arc<dyn TimestampOracle>>,
    /// How commits are written. Synced ones survive power failures. Those without a WAL are refused: a flush of
    /// one family would part locks from the versions that replace them.
    pub write: WriteOptions,
    /// What answers reads in place of the engine where it can. It changes no answer.
    pub range_source: Option<Arc<dyn RangeSource>>,
    /// The most that the clock may be after the last timestamps of the store when it is opened. One
    /// that is further ahead is more likely wrong. Timestamps never go back, so after it was put
    /// right they stay where they are until it has caught up: reads by the time of day then find
    /// the past. Default: 366 days.
    pub max_clock_jump: Duration,
    /// Whether an opening is refused whose clock is further ahead. Otherwise [`Store::clock_jump`](crate::Store::clock_jump) says so, and the
    /// retention of what earlier openings wrote begins with this one. Default: false.
    pub refuse_clock_jump: bool,
    /// For how long versions can be read after newer ones have replaced them: the safe point follows at this
    /// distance, as far as holds let it. It is real time, whatever is done to the clock: for what was committed since the
    /// opening, and as far as the clock can be trusted, for what was committed before. `None`: it moves only when
    /// [`Store::advance_safe_point`](crate::Store::advance_safe_point) is called, and nothing is dropped otherwise. Default: ten minutes, which
    /// is TiDB's default too. Long transactions and snapshots end in that time, or hold the safe point back
    /// anyway; and a store of which nobody asked to keep history takes little more space than its live rows.
    pub retention: Option<Duration>,
    /// The time between two sweeps, in which the safe point is moved and ranges that are rich in old versions
    /// are compacted. A sweep that moves the safe point costs a synced write. The option
    /// `disable_auto_compactions` of `versions` does not keep sweeps from compacting. Default: ten seconds.
    pub sweep_interval: Duration,
    /// How transactions are committed, and how they wait for each other.
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
            sweep_interval: Duration::from_secs(10),
            transactions: TransactionOptions::default(),
        }
    }
}
