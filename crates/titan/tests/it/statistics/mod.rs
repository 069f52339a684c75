//! Reports of the engine on its work: counters, histograms, the steps of one thread, properties,
//! and the page for Prometheus.

mod dashboards;
mod levels;
mod perf_context;
mod prometheus;
mod properties;
mod slow;
#[cfg(feature = "tracing")]
mod tracing;

use titan::{ColumnFamilyOptions, CompactRangeOptions, Db, DbOptions, Options, StatsLevel};
use titan_testkit::sim::SimVfs;

use crate::support::{key, manual, open, options, value};

const KEYS: usize = 100;

fn at_level(vfs: &SimVfs, stats_level: StatsLevel) -> Options {
    let options = options(vfs, manual());
    Options {
        db: DbOptions {
            stats_level,
            ..options.db
        },
        ..options
    }
}

/// A database in which the keys below 30 are in the last level, those below 60 in level 0, and the
/// others in the memtable. Values of even numbers are in blob files once they are flushed.
fn filled(options: &Options) -> Db {
    let db = open(options);
    let put = |from: usize, to: usize| {
        for n in from..to {
            let len = if n % 2 == 0 { 200 } else { 20 };
            db.put(key(n), value(n, len)).unwrap();
        }
    };
    put(0, 30);
    db.flush().unwrap();
    let last = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &last).unwrap();
    put(30, 60);
    db.flush().unwrap();
    put(60, KEYS);
    db
}

fn without_filters() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        bloom_bits_per_key: 0.0,
        ..manual()
    }
}
