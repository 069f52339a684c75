//! Ranges as iterators, from both ends, beside a sorted map.

use std::ops::Bound;
use std::sync::Arc;

use fastrand::Rng;
use titan::{
    ColumnFamilyOptions, CompactRangeOptions, Comparator, Db, ErrorKind, KeyRange, Options, Range,
    ReadOptions, ReverseBytewiseComparator, TransactionOptions,
};
use titan_testkit::setup::scaled;
use titan_testkit::sim::SimVfs;

use crate::support::{collecting, key, manual, open, options, value};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The reverse order, in which the key after another one is not known.
#[derive(Debug)]
struct Backward;

impl Comparator for Backward {
    fn name(&self) -> &str {
        "test.Backward"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> std::cmp::Ordering {
        b.cmp(a)
    }
}

/// A short key over few letters, so that many meet.
fn any_key(rng: &mut Rng) -> Vec<u8> {
    let len = rng.usize(0..4);
    (0..len).map(|_| rng.u8(b'a'..b'e')).collect()
}

fn any_bound(rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.u8(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(any_key(rng)),
        _ => Bound::Excluded(any_key(rng)),
    }
}

/// A database and its content, in its order.
struct World {
    db: Db,
    order: Arc<dyn Comparator>,
    pairs: Pairs,
}

impl World {
    fn set(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        set(&mut self.pairs, &*self.order, key, value);
    }

    /// Changes something, or how it is stored.
    fn change(&mut self, rng: &mut Rng) {
        let key = any_key(rng);
        match rng.u8(0..20) {
            0 => self.db.flush().unwrap(),
            1 => {
                let all = CompactRangeOptions::default();
                self.db.compact_range(None, None, &all).unwrap();
            }
            2 => {
                let all = Default::default();
                self.db.collect_garbage(None, None, &all).unwrap();
            }
            3 => {
                let end = any_key(rng);
                if self.order.compare(&key, &end).is_le() {
                    self.db.delete_range(&key, &end).unwrap();
                    let order = &self.order;
                    self.pairs.retain(|(found, _)| {
                        order.compare(found, &key).is_lt() || order.compare(found, &end).is_ge()
                    });
                }
            }
            4..8 => {
                self.db.delete(&key).unwrap();
                self.set(key, None);
            }
            _ => {
                let value = value(rng.usize(0..1000), [0, 10, 99, 100, 300][rng.usize(0..5)]);
                self.db.put(&key, &value).unwrap();
                self.set(key, Some(value));
            }
        }
    }
}

fn set(pairs: &mut Pairs, order: &dyn Comparator, key: Vec<u8>, value: Option<Vec<u8>>) {
    let at = pairs.binary_search_by(|(found, _)| order.compare(found, &key));
    match (at, value) {
        (Ok(at), Some(value)) => pairs[at].1 = value,
        (Ok(at), None) => drop(pairs.remove(at)),
        (Err(at), Some(value)) => pairs.insert(at, (key, value)),
        (Err(_), None) => {}
    }
}

/// The pairs that are in the range.
fn within(pairs: &Pairs, order: &dyn Comparator, range: &impl KeyRange) -> Pairs {
    let (start, end) = range.bounds();
    let starts = |key: &[u8]| match start {
        Bound::Included(start) => order.compare(key, start).is_ge(),
        Bound::Excluded(start) => order.compare(key, start).is_gt(),
        Bound::Unbounded => true,
    };
    let ends = |key: &[u8]| match end {
        Bound::Included(end) => order.compare(key, end).is_gt(),
        Bound::Excluded(end) => order.compare(key, end).is_ge(),
        Bound::Unbounded => false,
    };
    let inside = pairs.iter().filter(|(key, _)| starts(key) && !ends(key));
    inside.cloned().collect()
}

/// Takes from both ends in a random order while the database changes.
fn check(world: &mut World, rng: &mut Rng, mut range: Range, expected: Pairs) {
    let mut expected = expected.into_iter();
    let only = rng.u8(0..4);
    let mut left = expected.len() + 2;
    while left > 0 {
        if rng.u8(0..4) == 0 {
            world.change(rng);
        }
        let (found, wanted) = match (only, rng.bool()) {
            (0, _) | (2.., true) => (range.next(), expected.next()),
            _ => (range.next_back(), expected.next_back()),
        };
        let found = found.map(|entry| entry.unwrap());
        let found = found.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(found, wanted);
        left -= 1;
        // The other half of the values is never read.
        if rng.u8(0..12) == 0 {
            let keys = range.into_keys().map(|key| key.unwrap().to_vec());
            let wanted: Vec<_> = expected.map(|(key, _)| key).collect();
            match rng.bool() {
                true => assert_eq!(keys.collect::<Vec<_>>(), wanted),
                false => {
                    let mut backward: Vec<_> = keys.rev().collect();
                    backward.reverse();
                    assert_eq!(backward, wanted);
                }
            }
            return;
        }
    }
    assert!(range.next().is_none() && range.next_back().is_none());
}

fn ranges_agree(seed: u64, order: Arc<dyn Comparator>) {
    println!("seed {seed}, {}", order.name());
    let rng = &mut Rng::with_seed(seed);
    let vfs = SimVfs::new();
    let family = ColumnFamilyOptions {
        comparator: Arc::clone(&order),
        ..[manual(), collecting()][rng.usize(0..2)].clone()
    };
    let mut world = World {
        db: open(&options(&vfs, family)),
        order,
        pairs: Pairs::new(),
    };
    for _ in 0..rng.usize(0..150) {
        world.change(rng);
    }
    let order = Arc::clone(&world.order);
    let bytewise = order.name() == "leveldb.BytewiseComparator";
    for _ in 0..12 {
        let bounds = (any_bound(rng), any_bound(rng));
        let read = ReadOptions {
            prefetch_values: [0, 1, 1024][rng.usize(0..3)],
            ..ReadOptions::default()
        };
        match rng.u8(0..4) {
            0 => {
                let expected = within(&world.pairs, &*order, &bounds);
                let range = world.db.range_with(bounds, &read);
                check(&mut world, rng, range, expected);
            }
            1 => {
                let expected = within(&world.pairs, &*order, &bounds);
                let snapshot = world.db.snapshot();
                let db = world.db.clone();
                let last = world.pairs.last().cloned();
                (0..rng.usize(0..30)).for_each(|_| world.change(rng));
                let range = snapshot.range(&db, bounds);
                check(&mut world, rng, range, expected);
                let found = snapshot.last_key_value(&db).unwrap();
                assert_eq!(
                    found.map(|(key, value)| (key.to_vec(), value.to_vec())),
                    last
                );
            }
            2 => {
                let db = world.db.clone();
                let transaction = db.begin(&TransactionOptions::default()).unwrap();
                let mut seen = world.pairs.clone();
                for _ in 0..rng.usize(0..10) {
                    let (key, new) = (any_key(rng), rng.bool().then(|| b"own".to_vec()));
                    match &new {
                        Some(value) => transaction.put(&db, &key, value).unwrap(),
                        None => transaction.delete(&db, &key).unwrap(),
                    }
                    set(&mut seen, &*order, key, new);
                }
                let expected = within(&seen, &*order, &bounds);
                let range = transaction.range_with(&db, bounds, &read);
                transaction.put(&db, "b", "not seen").unwrap();
                check(&mut world, rng, range, expected);
            }
            _ if bytewise => {
                let prefix = any_key(rng);
                let pairs = world
                    .pairs
                    .iter()
                    .filter(|(key, _)| key.starts_with(&prefix));
                let expected = pairs.cloned().collect();
                let range = world.db.prefix_with(&prefix, &read);
                check(&mut world, rng, range, expected);
            }
            _ => {
                let refused = world.db.prefix("a").next().unwrap().unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
            }
        }
        let first = world.db.first_key_value().unwrap();
        let first = first.map(|(key, value)| (key.to_vec(), value.to_vec()));
        assert_eq!(first, world.pairs.first().cloned());
    }
}

#[test]
fn both_ends_meet_whatever_happens_meanwhile() {
    for seed in 0..scaled(150) {
        ranges_agree(seed, ColumnFamilyOptions::default().comparator);
    }
    for seed in 0..scaled(40) {
        ranges_agree(seed, Arc::new(Backward));
        ranges_agree(seed, Arc::new(ReverseBytewiseComparator));
    }
}

#[test]
fn ranges_are_written_as_those_of_a_sorted_map() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for key in ["a", "b", "c", "d"] {
        db.put(key, key).unwrap();
    }
    let keys = |range: Range| -> String {
        let keys = range.map(|entry| entry.unwrap().0[0] as char);
        keys.collect()
    };
    assert_eq!(keys(db.range(..)), "abcd");
    assert_eq!(keys(db.range("b"..)), "bcd");
    assert_eq!(keys(db.range(b"b"..b"d")), "bc");
    assert_eq!(keys(db.range("b".to_owned()..="d".to_owned())), "bcd");
    assert_eq!(keys(db.range(..vec![b'b'])), "a");
    assert_eq!(keys(db.range(..=[b'b'])), "ab");
    assert_eq!(
        keys(db.range((Bound::Excluded("a"), Bound::Included(b"c")))),
        "bc"
    );
    assert_eq!(keys(db.range("c".."b")), "");
    assert_eq!(keys(db.range("b".."b")), "");
    assert_eq!(keys(db.prefix("")), "abcd");
}

#[test]
fn ranges_of_a_transaction_are_read_with_options() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    for key in ["a1", "a2", "b1"] {
        db.put(key, "v").unwrap();
    }
    let before = ReadOptions {
        snapshot: Some(db.snapshot()),
        upper_bound: Some(b"b".to_vec()),
        ..ReadOptions::default()
    };
    db.put("a3", "later").unwrap();
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    transaction.put(&db, "a4", "own").unwrap();
    let found = transaction.prefix_with(&db, "a", &before);
    let found: Vec<_> = found.map(|entry| entry.unwrap().0).collect();
    assert_eq!(found, ["a1", "a2", "a4"]);
    let found = transaction.keys_with(&db, "a2".., &before);
    let found: Vec<_> = found.map(|key| key.unwrap()).collect();
    assert_eq!(found, ["a2", "a4"]);
}

#[test]
fn a_range_refuses_the_prefix_of_a_seek() {
    let vfs = SimVfs::new();
    let db = open(&options(&vfs, manual()));
    db.put("a", "v").unwrap();
    let bounded = ReadOptions {
        prefix_same_as_start: true,
        ..ReadOptions::default()
    };
    let transaction = db.begin(&TransactionOptions::default()).unwrap();
    for mut range in [
        db.range_with(.., &bounded),
        transaction.range_with(&db, .., &bounded),
    ] {
        let refused = range.next().unwrap().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        assert!(range.next().is_none());
    }
}

#[test]
fn an_error_is_the_last_item() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        default: manual(),
        ..Options::default()
    };
    let db = Db::open(dir.path(), &options).unwrap();
    for n in 0..10 {
        db.put(key(n), value(n, 200)).unwrap();
    }
    db.flush().unwrap();
    let files = std::fs::read_dir(dir.path()).unwrap();
    let mut files = files.map(|entry| entry.unwrap().path());
    let blobs = files.find(|path| path.extension().is_some_and(|found| found == "blob"));
    let blobs = blobs.unwrap();
    let mut content = std::fs::read(&blobs).unwrap();
    let damaged = value(5, 200);
    let at = content
        .windows(200)
        .position(|bytes| bytes == damaged)
        .unwrap();
    content[at + 100] ^= 1;
    std::fs::write(&blobs, content).unwrap();

    let mut forward = db.range(..);
    assert_eq!(
        forward
            .by_ref()
            .take(5)
            .filter(|entry| entry.is_ok())
            .count(),
        5
    );
    let error = forward.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(forward.next().is_none() && forward.next_back().is_none());
    let mut backward = db.range(..).rev();
    assert_eq!(
        backward
            .by_ref()
            .take(4)
            .filter(|entry| entry.is_ok())
            .count(),
        4
    );
    assert!(backward.next().unwrap().is_err());
    assert!(backward.next().is_none() && backward.next_back().is_none());
    // Keys need no values.
    assert!(db.keys(..).all(|key| key.is_ok()));

    let family = db.create_column_family("family", manual()).unwrap();
    let mut kept = family.range(..);
    family.put("k", "v").unwrap();
    let begun = family.range(..);
    db.drop_column_family(&family).unwrap();
    assert!(kept.next().is_none());
    assert_eq!(begun.count(), 1, "what was there is still there");
    let mut dropped = family.range(..);
    let error = dropped.next_back().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(dropped.next().is_none());
    db.close().unwrap();
    let mut closed = db.keys(..);
    assert_eq!(
        closed.next().unwrap().unwrap_err().kind(),
        ErrorKind::Closed
    );
    assert!(closed.next().is_none());
}

#[test]
fn what_a_range_pins_is_free_when_it_ends() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    db.put("a", "1").unwrap();
    let holders = || db.space_report().unwrap().holders.len();
    let mut range = db.range(..);
    db.put("a", "2").unwrap();
    db.flush().unwrap();
    let held = holders();
    assert_eq!(range.next().unwrap().unwrap().1, "1");
    assert!(range.next().is_none());
    assert!(holders() < held, "{held} before");
}
