//! The level decides on the events that are counted and timed, and may change at any time.

use titan::{Db, ReadOptions, StatsLevel, WriteOptions};
use titan_testkit::sim::SimVfs;

use super::{KEYS, at_level, filled, without_filters};
use crate::support::{key, open};

fn read_all(db: &Db) {
    for n in 0..KEYS {
        assert!(db.get(key(n)).unwrap().is_some());
    }
    let keys: Vec<_> = (0..KEYS).map(key).collect();
    assert!(
        db.multi_get(&keys)
            .into_iter()
            .all(|v| v.unwrap().is_some())
    );
    let mut iter = db.iter(&ReadOptions::default()).unwrap();
    iter.seek(key(50)).unwrap();
    while iter.valid() {
        iter.next().unwrap();
    }
    iter.seek(b"z").unwrap();
    iter.seek_to_last().unwrap();
    iter.prev().unwrap();
}

fn count(db: &Db, name: &str) -> u64 {
    db.statistics().histogram(name).unwrap().count
}

fn ticker(db: &Db, name: &str) -> u64 {
    let tickers = db.tickers();
    let found = tickers.iter().filter(|(known, _)| *known == name);
    let found: Vec<u64> = found.map(|(_, count)| *count).collect();
    assert_eq!(found.len(), 1, "{name}");
    found[0]
}

#[test]
fn off_has_the_counters_of_always_and_nothing_else() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Off));
    read_all(&db);
    for (name, data) in db.statistics().histograms() {
        assert_eq!(data, Default::default(), "{name}");
    }
    for name in [
        "rocksdb.memtable.hit",
        "rocksdb.bloom.filter.useful",
        "rocksdb.number.db.seek",
    ] {
        assert_eq!(ticker(&db, name), 0, "{name}");
    }
    assert_eq!(db.statistics().gets(), 2 * KEYS as u64);
    assert!(ticker(&db, "rocksdb.block.cache.hit") > 0);
}

#[test]
fn all_times_every_call_and_job() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::All));
    db.merge("sum", "1").unwrap_err();
    db.delete("nothing").unwrap();
    db.write(titan::WriteBatch::new(), &WriteOptions::default())
        .unwrap();
    read_all(&db);
    let compactions = db.statistics().compactions() + db.statistics().trivial_moves();
    assert!(compactions > 0);
    for (name, expected) in [
        ("rocksdb.db.get.micros", KEYS as u64),
        ("rocksdb.db.multiget.micros", 1),
        ("rocksdb.db.seek.micros", 3),
        // The refused one is a write. An empty batch is none.
        ("rocksdb.db.write.micros", KEYS as u64 + 2),
        ("rocksdb.bytes.per.write", KEYS as u64 + 1),
        ("titan.db.delete.micros", 1),
        ("rocksdb.db.flush.micros", 2),
        ("rocksdb.compaction.times.micros", compactions),
    ] {
        assert_eq!(count(&db, name), expected, "{name}");
    }
    assert!(count(&db, "rocksdb.blobdb.blob.file.read.micros") > 0);
    assert!(count(&db, "rocksdb.manifest.file.sync.micros") >= 3);
    db.sync_wal().unwrap();
    assert!(count(&db, "rocksdb.wal.file.sync.micros") > 0);
    assert_eq!(db.statistics().histogram("rocksdb.db.put.micros"), None);
    let sizes = db
        .statistics()
        .histogram("rocksdb.bytes.per.write")
        .unwrap();
    assert_eq!(sizes.sum as u64, db.statistics().user_bytes_written());
    assert!(sizes.median <= sizes.percentile95 && sizes.percentile95 <= sizes.max);
}

#[test]
fn tickers_say_where_lookups_ended_and_what_filters_saved() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Sampled));
    for n in 0..KEYS {
        db.get(key(n)).unwrap().unwrap();
    }
    for n in 0..1000 {
        // Between the keys, so that only filters rule tables out.
        assert_eq!(db.get([&key(n % 60)[..], b"?"].concat()).unwrap(), None);
    }
    for (name, expected) in [
        ("rocksdb.memtable.hit", 40),
        ("rocksdb.memtable.miss", 60 + 1000),
        ("rocksdb.l0.hit", 30),
        ("rocksdb.l2andup.hit", 30),
        ("rocksdb.bloom.filter.full.true.positive", 60),
    ] {
        assert_eq!(ticker(&db, name), expected, "{name}");
    }
    // Half of the values are short.
    assert_eq!(db.statistics().bytes_read(), 50 * 20 + 50 * 200);
    let useful = ticker(&db, "rocksdb.bloom.filter.useful");
    let positive = ticker(&db, "rocksdb.bloom.filter.full.positive");
    assert!(useful > 900 && positive < 160, "{useful} {positive}");
    let (hits, misses) = (
        ticker(&db, "rocksdb.block.cache.hit"),
        ticker(&db, "rocksdb.block.cache.miss"),
    );
    let metrics = db.metrics();
    assert_eq!(
        (metrics.block_cache_hits, metrics.block_cache_misses),
        (hits, misses)
    );
    assert_eq!(metrics.counters["memtable_hits"], 40);
    drop(db);
    let db = filled(&titan::Options {
        default: without_filters(),
        ..at_level(&SimVfs::new(), StatsLevel::All)
    });
    read_all(&db);
    assert_eq!(ticker(&db, "rocksdb.bloom.filter.full.positive"), 0);
    assert_eq!(ticker(&db, "rocksdb.l0.hit"), 2 * 30);
}

#[test]
fn movements_of_iterators_are_counted_when_they_end() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Sampled));
    read_all(&db);
    for (name, expected) in [
        ("rocksdb.number.db.seek", 3),
        ("rocksdb.number.db.seek.found", 2),
        ("rocksdb.number.db.next", 50),
        ("rocksdb.number.db.prev", 1),
        ("rocksdb.num.iterator.created", 1),
        ("rocksdb.number.multiget.get", 1),
        ("rocksdb.number.multiget.keys.read", KEYS as u64),
    ] {
        assert_eq!(ticker(&db, name), expected, "{name}");
    }
}

#[test]
fn a_part_of_the_calls_is_timed_at_the_level_sampled() {
    let vfs = SimVfs::new();
    let db = filled(&at_level(&vfs, StatsLevel::Sampled));
    let sampled = |name| db.statistics().histogram(name).unwrap().sampled;
    assert!(sampled("rocksdb.db.multiget.micros"), "before any call");
    for n in 0..16_000 {
        db.get(key(n % KEYS)).unwrap();
    }
    let gets = count(&db, "rocksdb.db.get.micros");
    // One in 32. The gaps of a thread are the same in every run.
    assert!((350..650).contains(&gets), "{gets} of 16000");
    assert_eq!(count(&db, "rocksdb.db.flush.micros"), 2, "each job");
    assert!(sampled("rocksdb.db.get.micros"));
    assert!(!sampled("rocksdb.db.flush.micros"));
    let page = db.metrics().to_prometheus("db");
    for (histogram, is) in [("db_get_seconds", 1), ("db_flush_seconds", 0)] {
        let labels = format!("{{db=\"db\",histogram=\"{histogram}\"}}");
        let line = format!("titan_histogram_sampled{labels} {is}\n");
        assert!(page.contains(&line), "{line}");
    }
}

#[test]
fn the_level_changes_while_the_database_is_open() {
    let vfs = SimVfs::new();
    let options = at_level(&vfs, StatsLevel::Off);
    let db = filled(&options);
    let gets = || {
        db.get(key(1)).unwrap();
        count(&db, "rocksdb.db.get.micros")
    };
    assert_eq!(gets(), 0);
    db.set_options(&[("stats_level", "all")]).unwrap();
    assert_eq!((gets(), gets()), (1, 2));
    assert!(
        !db.statistics()
            .histogram("rocksdb.db.get.micros")
            .unwrap()
            .sampled
    );
    db.set_options(&[("stats_level", "off")]).unwrap();
    assert_eq!(gets(), 2, "what was counted stays");
    db.set_options(&[("stats_level", "all")]).unwrap();
    let refused = db.set_options(&[("stats_level", "most")]).unwrap_err();
    assert!(
        refused.to_string().contains("off, sampled or all"),
        "{refused}"
    );
    db.close().unwrap();
    // It concerns an opening, which states it anew.
    let db = open(&options);
    db.get(key(1)).unwrap();
    assert_eq!(count(&db, "rocksdb.db.get.micros"), 0);
}
