//! Time to live: values are dropped some time after they were written.

use std::time::Duration;

use super::{
    CompactionFilter, CompactionFilterFactory, Decision, FilterContext, FilterEntry, Revisit,
};
use crate::error::Result;

/// The part of the time to live, as a divisor, for which a table is left alone after it was
/// written.
const INTERVALS: u32 = 8;

/// Drops the values of a family some time after they were written.
///
/// A value is never dropped before its time. It is dropped when a flush or a compaction reads it
/// after that. A memtable with expired values is flushed by itself, at most once in the time to
/// live, and a table with expired values is compacted, at most once in an eighth of the time to
/// live: so a value is gone at most that long after it expired, a 64th of the time to live for the
/// granularity of recorded times, up to two seconds since times are recorded in whole seconds, and
/// the time that flushes and compactions take. Until then reads still find it. With
/// `disable_auto_compactions` nothing is flushed or compacted by itself.
///
/// The age of a value is known without reading it: tables record which sequence numbers had been
/// written by which time. A value that was in the database before it had this filter, that RocksDB
/// wrote, or that was replayed from a WAL file counts as written when its table was. Steps of the
/// system's clock while the database is open do not matter. If the clock is behind when the
/// database is opened, and put right before it is opened again, values look older by the
/// difference.
///
/// In a family with a merge operator, a value is as old as the newest operand that a compaction has
/// combined with it. Operands that no compaction has combined with it yet do not make it younger:
/// if the value expires first, they apply to a key without a value. So a counter that must not
/// restart needs a time to live that is much longer than the time in which compactions reach the
/// last level.
///
/// Is not kept with the database: each opening states it. An opening without it drops nothing, and
/// values compacted meanwhile count as written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeToLive {
    age: Duration,
}

impl TimeToLive {
    /// Values live for so long.
    pub fn new(age: Duration) -> Self {
        TimeToLive { age }
    }
}

impl CompactionFilterFactory for TimeToLive {
    fn name(&self) -> &str {
        "titan.TimeToLive"
    }

    fn create(&self, context: &FilterContext<'_>) -> Option<Box<dyn CompactionFilter>> {
        // Values written by then have expired.
        let expired_by = context.now.checked_sub(self.age)?;
        Some(Box::new(Expiry { expired_by }))
    }

    fn at_flush(&self) -> bool {
        true
    }

    fn revisit(&self) -> Option<Revisit> {
        Some(Revisit {
            age: self.age,
            interval: self.age / INTERVALS,
        })
    }
}

struct Expiry {
    expired_by: Duration,
}

impl CompactionFilter for Expiry {
    fn filter(&mut self, entry: &FilterEntry<'_>) -> Result<Decision> {
        Ok(match entry.written_by() {
            Some(written_by) if written_by <= self.expired_by => Decision::Remove,
            _ => Decision::Keep,
        })
    }
}
