//! Iterators: every position, direction and bound, beside everything else that can happen.

use std::collections::BTreeMap;
use std::ops::Bound;

use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Db, DbIterator, ReadOptions, WriteBatch, WriteOptions,
};
use titan_testkit::sim::{OpKind, SimVfs};

use crate::support::{DIR, RECORD_HEADER, files, key, manual, open, options, value};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Values of many sizes, some in blob files, in memtables, level 0 and lower levels, some
/// overwritten, some deleted in each way.
fn filled(db: &Db, n: usize) -> Pairs {
    let mut pairs = Pairs::new();
    for round in 0..4 {
        for i in 0..n {
            if (i + round) % 3 != 0 || round == 0 {
                let bytes = value(i + 1000 * round, [0, 20, 99, 100, 700][(i + round) % 5]);
                db.put(&key(2 * i), &bytes).unwrap();
                pairs.insert(key(2 * i), bytes);
            }
        }
        for i in (round..n).step_by(7) {
            db.delete(&key(2 * i)).unwrap();
            pairs.remove(&key(2 * i));
        }
        let (from, to) = (key(10 * round + 5), key(10 * round + 12));
        db.delete_range(&from, &to).unwrap();
        pairs.retain(|key, _| *key < from || *key >= to);
        match round {
            0 => db
                .compact_range(None, None, &CompactRangeOptions::default())
                .unwrap(),
            1 | 2 => db.flush().unwrap(),
            _ => {}
        }
    }
    pairs
}

fn database(vfs: &SimVfs) -> Db {
    open(&options(vfs, manual()))
}

/// Where an iterator should be: the simplest possible model.
struct Plain<'a> {
    pairs: Vec<(&'a Vec<u8>, &'a Vec<u8>)>,
    at: Option<usize>,
}

impl<'a> Plain<'a> {
    fn new(pairs: &'a Pairs, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Self {
        let empty = matches!((lower, upper), (Some(lower), Some(upper)) if lower >= upper);
        let bounds = (
            lower.map_or(Bound::Unbounded, Bound::Included),
            upper.map_or(Bound::Unbounded, Bound::Excluded),
        );
        let pairs = if empty {
            Vec::new()
        } else {
            pairs.range::<[u8], _>(bounds).collect()
        };
        Plain { pairs, at: None }
    }

    fn stand(&mut self, at: usize) {
        self.at = (at < self.pairs.len()).then_some(at);
    }

    fn seek(&mut self, target: &[u8]) {
        self.stand(
            self.pairs
                .partition_point(|(key, _)| key.as_slice() < target),
        );
    }

    fn seek_for_prev(&mut self, target: &[u8]) {
        self.at = self
            .pairs
            .partition_point(|(key, _)| key.as_slice() <= target)
            .checked_sub(1);
    }

    fn next(&mut self) {
        if let Some(at) = self.at {
            self.stand(at + 1);
        }
    }

    fn prev(&mut self) {
        self.at = self.at.and_then(|at| at.checked_sub(1));
    }

    fn assert_same(&self, iterator: &mut DbIterator, with_value: bool, what: &str) {
        let expected = self.at.map(|at| self.pairs[at]);
        assert_eq!(iterator.valid(), expected.is_some(), "{what}");
        let Some((key, value)) = expected else {
            assert_eq!(iterator.key(), b"", "{what}");
            assert!(iterator.value().is_err(), "{what}");
            return;
        };
        assert_eq!(iterator.key(), key, "{what}");
        if with_value {
            assert!(
                iterator.value().unwrap() == value,
                "{what}: value of {key:?}"
            );
        }
    }
}

#[test]
fn the_direction_changes_at_every_position() {
    let vfs = SimVfs::new();
    let db = database(&vfs);
    let pairs = filled(&db, 60);
    for prefetch_values in [0, 1, 7, 128] {
        let options = ReadOptions {
            prefetch_values,
            ..ReadOptions::default()
        };
        let mut it = db.iter(&options).unwrap();
        let mut plain = Plain::new(&pairs, None, None);
        for start in 0..pairs.len() {
            for (forward, back) in [(1, 1), (2, 1), (1, 2), (3, 5), (9, 4)] {
                for first in [true, false] {
                    let target = plain.pairs[start].0.clone();
                    let what =
                        format!("prefetch {prefetch_values}, {start} {forward} {back} {first}");
                    it.seek(&target).unwrap();
                    plain.seek(&target);
                    for (steps, ahead) in [(forward, first), (back, !first), (forward, first)] {
                        for _ in 0..steps {
                            plain.assert_same(&mut it, true, &what);
                            if ahead {
                                it.next().unwrap();
                                plain.next();
                            } else {
                                it.prev().unwrap();
                                plain.prev();
                            }
                        }
                    }
                    plain.assert_same(&mut it, true, &what);
                }
            }
        }
    }
}

#[test]
fn seeks_land_on_and_between_keys_within_any_bounds() {
    let vfs = SimVfs::new();
    let db = database(&vfs);
    let pairs = filled(&db, 25);
    // Even numbers may be keys, odd ones never are.
    let mut targets: Vec<Vec<u8>> = (0..52).map(key).collect();
    targets.extend([
        Vec::new(),
        b"key".to_vec(),
        vec![0xff; 12],
        b"key000010\0".to_vec(),
    ]);
    let mut bounds: Vec<Option<Vec<u8>>> = [0, 1, 9, 10, 11, 24, 37, 48, 49, 51]
        .map(|n| Some(key(n)))
        .into();
    bounds.extend([None, Some(Vec::new()), Some(vec![0xff])]);
    for lower in &bounds {
        for upper in &bounds {
            let options = ReadOptions {
                lower_bound: lower.clone(),
                upper_bound: upper.clone(),
                ..ReadOptions::default()
            };
            let mut it = db.iter(&options).unwrap();
            let mut plain = Plain::new(&pairs, lower.as_deref(), upper.as_deref());
            let what = |action: &str| format!("{lower:?}..{upper:?}: {action}");
            it.seek_to_first().unwrap();
            plain.stand(0);
            plain.assert_same(&mut it, true, &what("first"));
            it.prev().unwrap();
            plain.prev();
            plain.assert_same(&mut it, true, &what("before first"));
            it.seek_to_last().unwrap();
            plain.stand(plain.pairs.len().wrapping_sub(1));
            plain.assert_same(&mut it, true, &what("last"));
            it.next().unwrap();
            plain.next();
            plain.assert_same(&mut it, true, &what("behind last"));
            for target in &targets {
                it.seek(target).unwrap();
                plain.seek(target);
                plain.assert_same(&mut it, true, &what(&format!("seek {target:?}")));
                it.next().unwrap();
                plain.next();
                plain.assert_same(&mut it, false, &what(&format!("seek {target:?}, next")));
                it.seek_for_prev(target).unwrap();
                plain.seek_for_prev(target);
                plain.assert_same(&mut it, true, &what(&format!("seek_for_prev {target:?}")));
                it.prev().unwrap();
                plain.prev();
                plain.assert_same(
                    &mut it,
                    false,
                    &what(&format!("seek_for_prev {target:?}, prev")),
                );
            }
        }
    }
}

/// A random mix of everything an iterator can do; the result is the same for every size of the
/// readahead window.
fn mix(it: &mut DbIterator, plain: &mut Plain<'_>, rng: &mut fastrand::Rng, what: &str) {
    for step in 0..400 {
        let what = format!("{what}, step {step}");
        match rng.u8(..20) {
            0 => {
                let target = key(rng.usize(..200));
                it.seek(&target).unwrap();
                plain.seek(&target);
            }
            1 => {
                let target = key(rng.usize(..200));
                it.seek_for_prev(&target).unwrap();
                plain.seek_for_prev(&target);
            }
            2 if rng.bool() => {
                it.seek_to_first().unwrap();
                plain.stand(0);
            }
            2 => {
                it.seek_to_last().unwrap();
                plain.stand(plain.pairs.len().wrapping_sub(1));
            }
            3..=5 => {
                it.prev().unwrap();
                plain.prev();
            }
            _ => {
                it.next().unwrap();
                plain.next();
            }
        }
        let with_value = rng.u8(..3) > 0;
        plain.assert_same(it, with_value, &what);
        if it.valid() && rng.u8(..8) == 0 {
            let (_, expected) = plain.pairs[plain.at.unwrap()];
            assert!(
                it.lazy_value().unwrap().fetch().unwrap() == expected,
                "{what}: lazy"
            );
        }
    }
}

#[test]
fn the_prefetch_window_is_never_seen() {
    let vfs = SimVfs::new();
    let db = database(&vfs);
    let pairs = filled(&db, 100);
    for seed in 0..40 {
        for prefetch_values in [0, 1, 7, 128] {
            let mut rng = fastrand::Rng::with_seed(seed);
            let bound = |at: usize| (seed % 3 == 0).then(|| key(at));
            let options = ReadOptions {
                prefetch_values,
                lower_bound: bound(20),
                upper_bound: bound(131),
                ..ReadOptions::default()
            };
            let mut it = db.iter(&options).unwrap();
            let mut plain = Plain::new(
                &pairs,
                options.lower_bound.as_deref(),
                options.upper_bound.as_deref(),
            );
            mix(
                &mut it,
                &mut plain,
                &mut rng,
                &format!("seed {seed}, prefetch {prefetch_values}"),
            );
        }
    }
}

#[test]
fn an_iterator_sees_its_moment_whatever_becomes_of_the_files() {
    let vfs = SimVfs::new();
    let db = database(&vfs);
    let family = db.create_column_family("other", manual()).unwrap();
    let pairs = filled(&db, 80);
    for (key, value) in &pairs {
        family.put(key, value).unwrap();
    }
    family.flush().unwrap();
    let snapshot = db.snapshot();
    let through = |snapshot: &titan::Snapshot| ReadOptions {
        snapshot: Some(snapshot.clone()),
        ..ReadOptions::default()
    };
    let mut open_before = db.iter(&ReadOptions::default()).unwrap();
    let mut half_way = db.iter(&ReadOptions::default()).unwrap();
    half_way.seek(&key(80)).unwrap();
    let _ = half_way.value().unwrap();
    half_way.next().unwrap();
    let mut of_dropped = family.iter(&ReadOptions::default()).unwrap();
    let lazy = db.get_lazy(pairs.iter().find(|(_, v)| v.len() == 700).unwrap().0);
    let lazy = lazy.unwrap().unwrap();

    // Later writes; then compactions drop everything that they replaced, and the family is dropped.
    let mut batch = WriteBatch::new();
    for i in 0..100 {
        batch.put(&*db, key(2 * i + 1), b"later").unwrap();
        batch.put(&*db, key(2 * i), value(i, 300)).unwrap();
    }
    batch.delete_range(&*db, key(40), key(90)).unwrap();
    db.write(batch, &WriteOptions::default()).unwrap();
    let mut through_snapshot = db.iter(&through(&snapshot)).unwrap();
    let before = files(&vfs, DIR, ".sst").len() + files(&vfs, DIR, ".blob").len();
    drop(snapshot);
    let force = CompactRangeOptions {
        force_bottommost: true,
    };
    db.compact_range(None, None, &force).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let mut plain = Plain::new(&pairs, None, None);
    let mut check = |it: &mut DbIterator, what| {
        it.seek_to_first().unwrap();
        plain.stand(0);
        while plain.at.is_some() {
            plain.assert_same(it, true, what);
            it.next().unwrap();
            plain.next();
        }
        plain.assert_same(it, true, what);
        mix(it, &mut plain, &mut rng, what);
    };
    // The iterator keeps its snapshot.
    check(&mut through_snapshot, "through a snapshot");
    drop(through_snapshot);
    db.drop_column_family(&family).unwrap();
    db.delete_range(b"", &[0xff]).unwrap();
    db.compact_range(None, None, &force).unwrap();
    db.wait_idle().unwrap();
    let m = &db.metrics().families[0];
    assert_eq!((m.blob_files, m.live_blob_bytes), (0, 0), "{m:?}");
    let kept = files(&vfs, DIR, ".sst").len() + files(&vfs, DIR, ".blob").len();
    assert!(
        kept > 0,
        "iterators keep what they see; there were {before}"
    );

    check(&mut open_before, "opened before");
    check(&mut of_dropped, "of a dropped family");
    assert!(half_way.valid());
    let from_here: Vec<_> = pairs.range(half_way.key().to_vec()..).collect();
    assert!(from_here.len() > 20);
    for (key, value) in from_here {
        assert_eq!(half_way.key(), key);
        assert!(half_way.value().unwrap() == value);
        half_way.next().unwrap();
    }
    drop((open_before, of_dropped, half_way));
    assert_eq!(lazy.fetch().unwrap().len(), 700);
    drop(lazy);
    db.wait_idle().unwrap();
    assert_eq!(files(&vfs, DIR, ".sst"), [""; 0], "nothing is left");
    assert_eq!(files(&vfs, DIR, ".blob"), [""; 0]);
}

#[test]
fn iterators_outlive_the_database() {
    let vfs = SimVfs::new();
    let db = open(&options(
        &vfs,
        ColumnFamilyOptions {
            min_blob_size: 10,
            ..ColumnFamilyOptions::default()
        },
    ));
    let pairs = filled(&db, 30);
    let mut it = db.iter(&ReadOptions::default()).unwrap();
    db.close().unwrap();
    assert_eq!(db.get(b"k").unwrap_err().kind(), titan::ErrorKind::Closed);
    drop(db);
    let mut plain = Plain::new(&pairs, None, None);
    mix(
        &mut it,
        &mut plain,
        &mut fastrand::Rng::with_seed(3),
        "closed",
    );
}

/// Tables of a few entries, with inline values.
fn small_tables() -> ColumnFamilyOptions {
    ColumnFamilyOptions {
        target_file_size_base: 1024,
        ..manual()
    }
}

#[test]
fn what_large_ranges_delete_is_not_seen_and_what_is_newer_is() {
    for seed in 0..60 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let vfs = SimVfs::new();
        let db = open(&options(&vfs, small_tables()));
        let mut pairs = Pairs::new();
        let mut seen = Vec::new();
        for round in 0..10 {
            for _ in 0..rng.usize(..120) {
                let (key, value) = (key(rng.usize(..200)), value(rng.usize(..1000), 60));
                db.put(&key, &value).unwrap();
                pairs.insert(key, value);
            }
            if rng.u8(..3) > 0 {
                let from = rng.usize(..180);
                let (from, to) = (key(from), key(from + rng.usize(10..150)));
                db.delete_range(&from, &to).unwrap();
                pairs.retain(|key, _| *key < from || *key >= to);
            }
            let whole = CompactRangeOptions::default();
            match rng.u8(..8) {
                0 => db.compact_range(None, None, &whole).unwrap(),
                1 => {
                    let (from, to) = (key(rng.usize(..100)), key(rng.usize(100..200)));
                    db.compact_range(Some(&from), Some(&to), &whole).unwrap();
                }
                2 => seen.push((db.snapshot(), pairs.clone(), round)),
                3 => {}
                _ => db.flush().unwrap(),
            }
        }
        seen.push((db.snapshot(), pairs, 10));
        for (snapshot, pairs, round) in seen {
            let what = format!("seed {seed}, after round {round}");
            let through = ReadOptions {
                snapshot: Some(snapshot),
                prefetch_values: 0,
                ..ReadOptions::default()
            };
            let mut it = db.iter(&through).unwrap();
            let mut plain = Plain::new(&pairs, None, None);
            mix(&mut it, &mut plain, &mut rng, &what);
        }
    }
}

/// Everything that the iterator returns, from one end to the other; always in order.
fn walk(it: &mut DbIterator, forward: bool) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    if forward {
        it.seek_to_first().unwrap();
    } else {
        it.seek_to_last().unwrap();
    }
    while it.valid() {
        found.push(it.key().to_vec());
        if forward {
            it.next().unwrap();
        } else {
            it.prev().unwrap();
        }
    }
    if !forward {
        found.reverse();
    }
    found
}

#[test]
fn a_scan_does_not_read_what_a_range_deletes() {
    const KEYS: usize = 4000;
    const BLOCK: u64 = 4096 + 200;
    for tables in [manual(), small_tables()] {
        let vfs = SimVfs::new();
        let options = options(&vfs, tables);
        let db = open(&options);
        for n in 0..KEYS {
            db.put(&key(n), &value(n, 90)).unwrap();
        }
        let whole = CompactRangeOptions::default();
        db.compact_range(None, None, &whole).unwrap();
        // In several pieces, as expiring data is deleted.
        for from in (100..KEYS - 100).step_by(300) {
            let to = (from + 300).min(KEYS - 100);
            db.delete_range(&key(from), &key(to)).unwrap();
        }
        db.flush().unwrap();
        db.put(&key(2000), b"newer").unwrap();
        let left: Vec<usize> = (0..100).chain([2000]).chain(KEYS - 100..KEYS).collect();
        let left: Vec<Vec<u8>> = left.into_iter().map(key).collect();
        db.close().unwrap();

        // With bounds nothing beyond them is read either.
        let within = ReadOptions {
            lower_bound: Some(key(1000)),
            upper_bound: Some(key(1100)),
            ..ReadOptions::default()
        };
        for (forward, options_of_scan, expected, most) in [
            (true, ReadOptions::default(), &left[..], 16 * BLOCK),
            // One piece at a time: older tombstones have deleted the pieces before.
            (false, ReadOptions::default(), &left[..], 26 * BLOCK),
            (true, within.clone(), &[], 5 * BLOCK),
            (false, within, &[], 5 * BLOCK),
        ] {
            // Nothing is cached.
            let db = open(&options);
            let mut it = db.iter(&options_of_scan).unwrap();
            vfs.reset_counters();
            assert_eq!(walk(&mut it, forward), expected);
            let read = vfs.bytes_read(".sst");
            assert!(read < most, "{read} bytes were read, {forward} {most}");
            drop(it);
            db.close().unwrap();
        }
    }
}

/// Values of 4000 bytes in blob files of five flushes, no two neighbours in the same one.
fn scattered(vfs: &SimVfs) -> Db {
    let db = open(&options(vfs, manual()));
    for flush in 0..5 {
        for n in (flush..4000).step_by(5) {
            db.put(&key(n), &value(n, 4000)).unwrap();
        }
        db.flush().unwrap();
    }
    db
}

#[test]
fn scans_ask_for_half_more_than_they_use_at_most() {
    let vfs = SimVfs::new();
    let db = scattered(&vfs);
    let record = RECORD_HEADER + key(0).len() as u64 + 4000;
    let scan = |it: &mut DbIterator, from: usize, nexts: usize| {
        vfs.reset_counters();
        it.seek(&key(from)).unwrap();
        assert_eq!(it.value().unwrap(), value(from, 4000));
        for n in 1..=nexts {
            it.next().unwrap();
            assert_eq!(it.value().unwrap(), value(from + n, 4000));
        }
        let values = |bytes: u64| (bytes / record) as usize;
        let announced = values(vfs.bytes_prefetched(".blob"));
        let read = values(vfs.bytes_read(".blob"));
        (announced, read, vfs.count(OpKind::Read, ".blob") as usize)
    };
    // Opens the files.
    scan(&mut db.iter(&ReadOptions::default()).unwrap(), 0, 100);
    for nexts in [1, 2, 10, 50, 100, 200, 1000] {
        let mut it = db.iter(&ReadOptions::default()).unwrap();
        let (announced, read, reads) = scan(&mut it, 7, nexts);
        let most = nexts + nexts / 2 + 1;
        assert!(
            announced <= most && read <= most,
            "{nexts}: {announced}, {read}"
        );
        assert!(reads <= nexts + 1, "{nexts}: {reads} reads");
        if nexts >= 100 {
            // Every fifth value follows the one before in its file.
            assert!(reads < nexts * 3 / 4, "{nexts}: {reads} reads");
        }
        // The third of equal scans knows how long it will be.
        scan(&mut it, 900, nexts);
        let (announced, read, reads) = scan(&mut it, 1800, nexts);
        assert!(
            announced <= nexts && read == nexts + 1,
            "{nexts}: {announced}, {read}"
        );
        assert!(
            reads <= 1 + nexts.min(5).max(nexts / 50),
            "{nexts}: {reads} reads"
        );
        // A shorter scan after that wastes at most the readahead of one scan.
        scan(&mut it, 20, 1);
        let (announced, ..) = scan(&mut it, 30, 1);
        assert!(announced <= 1, "{nexts}: {announced}");
    }
}
