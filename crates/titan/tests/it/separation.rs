//! Where values are stored, and when blob files are deleted.

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, CompressionType, Db, DbIterator, FamilyMetrics,
    ReadOptions,
};
use titan_testkit::sim::SimVfs;

use crate::support::{DIR, RECORD_HEADER, files, key, manual, open, options, value};

const FORCE: CompactRangeOptions = CompactRangeOptions {
    force_bottommost: true,
};

fn metrics(db: &Db) -> FamilyMetrics {
    db.wait_idle().unwrap();
    db.metrics().families.remove(0)
}

/// Bytes of the records of values of these lengths under [`key`]s.
fn records(lens: impl IntoIterator<Item = usize>) -> u64 {
    let key = key(0).len() as u64;
    lens.into_iter()
        .map(|len| RECORD_HEADER + key + len as u64)
        .sum()
}

/// Live bytes and garbage, which together are all bytes.
fn live_and_garbage(db: &Db) -> (u64, u64) {
    let m = metrics(db);
    assert_eq!(
        m.live_blob_bytes + m.garbage_blob_bytes,
        m.blob_bytes,
        "{m:?}"
    );
    let referenced: u64 = m.levels.iter().map(|l| l.referenced_blob_bytes).sum();
    assert_eq!(referenced, m.live_blob_bytes, "{m:?}");
    (m.live_blob_bytes, m.garbage_blob_bytes)
}

#[test]
fn the_threshold_is_exact() {
    for threshold in [1, 100, 4096] {
        let vfs = SimVfs::new();
        let db = open(&options(
            &vfs,
            ColumnFamilyOptions {
                min_blob_size: threshold as u64,
                ..manual()
            },
        ));
        for (n, len) in [threshold - 1, threshold, threshold + 1]
            .into_iter()
            .enumerate()
        {
            db.put(&key(n), &value(n, len)).unwrap();
        }
        db.flush().unwrap();
        assert_eq!(
            live_and_garbage(&db),
            (records([threshold, threshold + 1]), 0)
        );
        for (n, len) in [threshold - 1, threshold, threshold + 1]
            .into_iter()
            .enumerate()
        {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, len));
        }
        assert_eq!(
            db.statistics().blob_reads(),
            2,
            "of values in blob files only"
        );
    }
}

#[test]
fn every_way_to_read_a_blob_value_counts_it_once() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for (n, len) in [99, 200, 300].into_iter().enumerate() {
        db.put(&key(n), &value(n, len)).unwrap();
    }
    db.flush().unwrap();
    let all = ReadOptions::default();
    let check = |what: &str, read: &dyn Fn(), expected: (u64, u64)| {
        let now = || {
            let statistics = db.statistics();
            (statistics.blob_reads(), statistics.blob_read_bytes())
        };
        let before = now();
        read();
        let after = now();
        assert_eq!((after.0 - before.0, after.1 - before.1), expected, "{what}");
    };
    check("get", &|| drop(db.get(&key(1)).unwrap()), (1, 200));
    check("get inline", &|| drop(db.get(&key(0)).unwrap()), (0, 0));
    let keys = [key(0), key(1), key(2), key(7)];
    let multi_get = || {
        for found in db.multi_get_with(&keys, &all) {
            found.unwrap();
        }
    };
    check("multi_get", &multi_get, (2, 500));
    let multi_get_lazy = || {
        for found in db.multi_get_lazy(&keys) {
            found.unwrap();
        }
    };
    check("multi_get_lazy", &multi_get_lazy, (0, 0));
    let walk = |take: &dyn Fn(&mut DbIterator)| {
        let mut it = db.iter(&all).unwrap();
        it.seek_to_first().unwrap();
        while it.valid() {
            take(&mut it);
            it.next().unwrap();
        }
    };
    check("no values", &|| walk(&|_| {}), (0, 0));
    let take = |it: &mut DbIterator| drop(it.value().unwrap());
    check("iterator", &|| walk(&take), (2, 500));
    let lazy = db.get_lazy_with(&key(2), &all).unwrap().unwrap();
    check("lazy, not fetched", &|| drop(lazy.clone()), (0, 0));
    check("lazy", &|| drop(lazy.fetch().unwrap()), (1, 300));
    check("lazy again", &|| drop(lazy.fetch().unwrap()), (1, 300));
    let take = |it: &mut DbIterator| drop(it.lazy_value().unwrap().fetch().unwrap());
    check("lazy of an iterator", &|| walk(&take), (2, 500));
}

#[test]
fn values_replayed_from_the_log_are_separated() {
    let vfs = SimVfs::new();
    let options = options(&vfs, manual());
    let db = open(&options);
    for n in 0..10 {
        db.put(&key(n), &value(n, 99 + n % 2)).unwrap();
    }
    drop(db);
    assert_eq!(files(&vfs, DIR, ".blob").len(), 0);
    let db = open(&options);
    assert_eq!(live_and_garbage(&db), (records([100; 5]), 0));
    assert_eq!(files(&vfs, DIR, ".blob").len(), 1);
    assert_eq!(db.get(&key(3)).unwrap().unwrap(), value(3, 100));
}

#[test]
fn compaction_separates_what_was_inline_and_brings_it_back_without_separation() {
    let vfs = SimVfs::new();
    let with = |enable_blob_files, min_blob_size| {
        let family = ColumnFamilyOptions {
            enable_blob_files,
            min_blob_size,
            ..manual()
        };
        open(&options(&vfs, family))
    };
    let db = with(false, 100);
    for n in 0..20 {
        db.put(&key(n), &value(n, 50 + 10 * n)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(metrics(&db).blob_files, 0);
    drop(db);
    let db = with(true, 100);
    assert_eq!(metrics(&db).blob_files, 0, "opening changes nothing");
    db.compact_range(None, None, &FORCE).unwrap();
    assert_eq!(
        live_and_garbage(&db),
        (records((5..20).map(|n| 50 + 10 * n)), 0)
    );
    drop(db);
    // A lower threshold separates the rest, and a higher one nothing less.
    let db = with(true, 60);
    db.compact_range(None, None, &FORCE).unwrap();
    let all_but_first = records((1..20).map(|n| 50 + 10 * n));
    assert_eq!(live_and_garbage(&db), (all_but_first, 0));
    drop(db);
    let db = with(true, 100);
    db.compact_range(None, None, &FORCE).unwrap();
    assert_eq!(live_and_garbage(&db), (all_but_first, 0));
    drop(db);
    // Without separation they come back inline.
    let db = with(false, 60);
    db.compact_range(None, None, &FORCE).unwrap();
    assert_eq!(live_and_garbage(&db), (0, 0));
    for n in 0..20 {
        assert_eq!(db.get(&key(n)).unwrap().unwrap(), value(n, 50 + 10 * n));
    }
}

#[test]
fn blob_files_are_cut_at_their_size() {
    let vfs = SimVfs::new();
    let db = open(&options(
        &vfs,
        ColumnFamilyOptions {
            blob_file_size: 64 << 10,
            ..manual()
        },
    ));
    for n in 0..100 {
        db.put(&key(n), &value(n, 5000)).unwrap();
    }
    db.flush().unwrap();
    let names = files(&vfs, DIR, ".blob");
    assert_eq!(metrics(&db).blob_files, names.len());
    assert!((8..=9).contains(&names.len()), "{names:?}");
    for name in &names {
        let size = vfs.read_all(format!("{DIR}/{name}")).unwrap().len();
        assert!(size < (64 << 10) + 6000, "{name}: {size}");
    }
    assert_eq!(live_and_garbage(&db), (records([5000; 100]), 0));
}

#[test]
fn each_blob_file_keeps_its_compression() {
    let vfs = SimVfs::new();
    let kinds = [
        CompressionType::None,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];
    let text = |n: usize| format!("{n} and so on; ").repeat(100).into_bytes();
    for (round, blob_compression_type) in kinds.into_iter().enumerate() {
        let db = open(&options(
            &vfs,
            ColumnFamilyOptions {
                blob_compression_type,
                ..manual()
            },
        ));
        for n in (round..30).step_by(3) {
            db.put(&key(n), &text(n)).unwrap();
        }
        db.flush().unwrap();
        let stored = db.get_lazy(&key(round)).unwrap().unwrap();
        let shorter = stored.stored_len() < text(round).len() as u64 / 2;
        assert_eq!(shorter, blob_compression_type != CompressionType::None);
        db.compact_range(None, None, &FORCE).unwrap();
        assert_eq!(
            metrics(&db).blob_files,
            round + 1,
            "values stay where they were written"
        );
        for n in (0..30).filter(|n| n % 3 <= round) {
            assert_eq!(db.get(&key(n)).unwrap().unwrap(), text(n));
        }
    }
}

#[test]
fn a_blob_file_goes_with_its_last_reference() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for n in 0..10 {
        db.put(&key(n), &value(n, 200)).unwrap();
    }
    db.flush().unwrap();
    let first = files(&vfs, DIR, ".blob");
    for n in 0..9 {
        db.put(&key(n), &value(n + 50, 300)).unwrap();
    }
    db.compact_range(None, None, &FORCE).unwrap();
    let live = records([300; 9]);
    assert_eq!(
        live_and_garbage(&db),
        (live + records([200]), records([200; 9]))
    );
    assert_eq!(files(&vfs, DIR, ".blob").len(), 2);
    db.delete(&key(9)).unwrap();
    db.flush().unwrap();
    assert_eq!(metrics(&db).blob_files, 2, "a deletion is no compaction");
    db.compact_range(None, None, &FORCE).unwrap();
    assert_eq!(
        live_and_garbage(&db),
        (live, 0),
        "the whole file is gone, its garbage with it"
    );
    let left = files(&vfs, DIR, ".blob");
    assert_eq!(left.len(), 1);
    assert_ne!(left, first);
}

#[test]
fn a_blob_file_stays_while_someone_can_see_it() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    let gone = |db: &Db| {
        db.wait_idle().unwrap();
        files(&vfs, DIR, ".blob").is_empty()
    };
    let fill = || {
        for n in 0..10 {
            db.put(&key(n), &value(n, 200)).unwrap();
        }
        db.flush().unwrap();
    };
    let clear = || {
        db.delete_range(&key(0), &key(10)).unwrap();
        db.compact_range(None, None, &FORCE).unwrap();
    };
    // A lazy value.
    fill();
    let lazy = db.get_lazy(&key(3)).unwrap().unwrap();
    clear();
    assert_eq!(metrics(&db).blob_files, 0);
    assert!(!gone(&db));
    assert_eq!(lazy.fetch().unwrap(), value(3, 200));
    drop(lazy);
    assert!(gone(&db));
    // An iterator.
    fill();
    let mut it = db.iter(&ReadOptions::default()).unwrap();
    clear();
    assert!(!gone(&db));
    it.seek(&key(4)).unwrap();
    assert_eq!(it.value().unwrap(), value(4, 200));
    drop(it);
    assert!(gone(&db));
    // A snapshot keeps the pointers themselves.
    fill();
    let snapshot = db.snapshot();
    clear();
    assert_eq!(live_and_garbage(&db), (records([200; 10]), 0));
    let options = ReadOptions {
        snapshot: Some(snapshot),
        ..ReadOptions::default()
    };
    assert_eq!(
        db.get_with(&key(5), &options).unwrap().unwrap(),
        value(5, 200)
    );
    drop(options);
    db.compact_range(None, None, &FORCE).unwrap();
    assert!(gone(&db));
}

#[test]
fn what_dies_before_its_flush_is_never_written() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for n in 0..10 {
        db.put(&key(1), &value(n, 500)).unwrap();
        db.put(&key(2), &value(n, 500)).unwrap();
        db.delete(&key(2)).unwrap();
    }
    db.flush().unwrap();
    assert_eq!(live_and_garbage(&db), (records([500]), 0));
}
