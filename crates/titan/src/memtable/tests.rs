//! The memtable used by one thread, compared with a map.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::internal_key::{
    InternalKeyComparator, TRAILER_LEN, ValueType, internal_key, seek_key,
};
use crate::format::{BytewiseComparator, Comparator, ReverseBytewiseComparator, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::memtable::iterator::MemtableIterator;
use crate::memtable::table::MemtableEntry;

fn memtable(user: impl Comparator) -> Arc<Memtable> {
    Memtable::new(InternalKeyComparator::new(Arc::new(user)), 64 << 10)
}

/// Keys of the model, in the order of the memtable: user key by comparator, newest first.
struct Model {
    comparator: InternalKeyComparator,
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Model {
    /// Index of the first entry not before `target`.
    fn lower_bound(&self, target: &[u8]) -> usize {
        self.entries
            .partition_point(|(key, _)| self.comparator.compare(key, target).is_lt())
    }

    fn upper_bound(&self, target: &[u8]) -> usize {
        self.entries
            .partition_point(|(key, _)| self.comparator.compare(key, target).is_le())
    }

    fn check(&self, iter: &MemtableIterator, at: Option<usize>, case: &str) {
        let expected = at.and_then(|at| self.entries.get(at));
        assert_eq!(iter.valid(), expected.is_some(), "{case}");
        let (key, value) = expected.map(|(k, v)| (&k[..], &v[..])).unwrap_or_default();
        assert_eq!((iter.key(), iter.value()), (key, value), "{case}");
    }
}

fn random_user_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    (0..rng.usize(0..4)).map(|_| rng.u8(b'a'..b'e')).collect()
}

fn random_type(rng: &mut fastrand::Rng) -> ValueType {
    *rng.choice(&[
        ValueType::Deletion,
        ValueType::Value,
        ValueType::Merge,
        ValueType::SingleDeletion,
        ValueType::BlobIndex,
    ])
    .unwrap()
}

fn compare_with_model(user: impl Comparator, seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let table = memtable(user);
    let mut entries = BTreeMap::new();
    let mut deletes = 0;
    let comparator = table.comparator().clone();
    let count = rng.u64(0..400);
    for sequence in 1..=count {
        let key = random_user_key(&mut rng);
        let value_type = random_type(&mut rng);
        let value_len = if rng.u8(..50) == 0 {
            rng.usize(..30_000)
        } else {
            rng.usize(..40)
        };
        let value: Vec<u8> = (0..value_len).map(|_| rng.u8(..)).collect();
        table
            .add(SequenceNumber(sequence), value_type, &key, &value)
            .unwrap();
        deletes += u64::from(matches!(
            value_type,
            ValueType::Deletion | ValueType::SingleDeletion
        ));
        entries.insert(
            internal_key(&key, SequenceNumber(sequence), value_type as u8),
            value,
        );
    }
    let mut entries: Vec<_> = entries.into_iter().collect();
    entries.sort_by(|a, b| comparator.compare(&a.0, &b.0));
    let model = Model {
        comparator,
        entries,
    };

    assert_eq!(table.num_entries(), count, "seed {seed}");
    assert_eq!(table.num_deletes(), deletes, "seed {seed}");
    let bytes: usize = model.entries.iter().map(|(k, v)| k.len() + v.len()).sum();
    assert!(
        table.approximate_memory_usage() >= bytes as u64,
        "seed {seed}"
    );

    let mut iter = table.iter();
    assert!(!iter.valid());
    let mut at = None;
    for step in 0..300 {
        let case = format!("seed {seed}, step {step}");
        let target = internal_key(
            &random_user_key(&mut rng),
            SequenceNumber(rng.u64(..=count + 1)),
            1,
        );
        match (rng.u8(..12), at) {
            (0, _) => {
                iter.seek_to_first().unwrap();
                at = Some(0);
            }
            (1, _) => {
                iter.seek_to_last().unwrap();
                at = model.entries.len().checked_sub(1);
            }
            (2..4, _) => {
                iter.seek(&target).unwrap();
                at = Some(model.lower_bound(&target));
            }
            (4..6, _) => {
                iter.seek_for_prev(&target).unwrap();
                at = model.upper_bound(&target).checked_sub(1);
            }
            (6..9, Some(now)) if iter.valid() => {
                iter.next().unwrap();
                at = Some(now + 1);
            }
            (9.., Some(now)) if iter.valid() => {
                iter.prev().unwrap();
                at = now.checked_sub(1);
            }
            _ => continue,
        }
        model.check(&iter, at, &case);
    }

    for _ in 0..200 {
        let (key, snapshot) = (
            random_user_key(&mut rng),
            SequenceNumber(rng.u64(..=count + 1)),
        );
        let expected = model
            .entries
            .get(model.lower_bound(&seek_key(&key, snapshot)))
            .filter(|(found, _)| found[..found.len() - TRAILER_LEN] == key);
        let found = table.get(&key, snapshot);
        let found = found.map(|f| (internal_key(&key, f.sequence, f.value_type as u8), f.value));
        let expected = expected.map(|(k, v)| (k.clone(), &v[..]));
        assert_eq!(found, expected, "seed {seed}, {key:?} @ {snapshot}");
    }
}

#[test]
fn lookups_and_iterators_agree_with_a_map() {
    for seed in 0..60 {
        compare_with_model(BytewiseComparator, seed);
        compare_with_model(ReverseBytewiseComparator, seed);
    }
}

#[test]
fn ascending_descending_and_random_inserts_come_out_sorted() {
    let key = |i: u64| format!("{i:08}").into_bytes();
    let n = 20_000u64;
    let ascending: Vec<u64> = (0..n).collect();
    let descending: Vec<u64> = (0..n).rev().collect();
    let mut random = ascending.clone();
    fastrand::Rng::with_seed(11).shuffle(&mut random);
    for order in [ascending, descending, random] {
        let table = memtable(BytewiseComparator);
        for (sequence, &i) in order.iter().enumerate() {
            let value = i.to_le_bytes();
            table
                .add(
                    SequenceNumber(sequence as u64),
                    ValueType::Value,
                    &key(i),
                    &value,
                )
                .unwrap();
        }
        let mut iter = table.iter();
        iter.seek_to_first().unwrap();
        for i in 0..n {
            assert_eq!(&iter.key()[..8], &key(i)[..]);
            assert_eq!(iter.value(), i.to_le_bytes());
            iter.next().unwrap();
        }
        assert!(!iter.valid());
    }
}

#[test]
fn an_iterator_keeps_the_memtable_alive_and_sees_later_entries() {
    let table = memtable(BytewiseComparator);
    let weak = Arc::downgrade(&table);
    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    assert!(!iter.valid());
    table
        .add(SequenceNumber(1), ValueType::Value, b"a", b"1")
        .unwrap();
    iter.seek_to_first().unwrap();
    table
        .add(SequenceNumber(2), ValueType::Value, b"b", &vec![7; 2 << 20])
        .unwrap();
    drop(table);
    assert!(weak.upgrade().is_some());
    assert_eq!(iter.value(), b"1");
    iter.next().unwrap();
    assert_eq!(iter.value(), vec![7; 2 << 20]);
    iter.next().unwrap();
    assert!(!iter.valid());
    drop(iter);
    assert!(weak.upgrade().is_none());
}

#[test]
fn an_entry_added_twice_is_refused_and_changes_nothing() {
    let table = memtable(BytewiseComparator);
    let add = |key: &[u8], value: &[u8]| table.add(SequenceNumber(5), ValueType::Value, key, value);
    add(b"k", b"old").unwrap();
    assert!(add(b"k", b"new").unwrap_err().is_corruption()); // compared with the tail
    add(b"z", b"").unwrap();
    assert!(add(b"k", b"new").unwrap_err().is_corruption()); // found by the search
    let expected = MemtableEntry {
        sequence: SequenceNumber(5),
        value_type: ValueType::Value,
        value: b"old",
    };
    assert_eq!(table.get(b"k", SequenceNumber::MAX), Some(expected));
    assert_eq!(table.num_entries(), 2);
}

#[test]
fn range_deletions_are_kept_apart_from_entries() {
    let table = memtable(BytewiseComparator);
    let delete = |sequence, start: &[u8], end: &[u8]| {
        table
            .add(
                SequenceNumber(sequence),
                ValueType::RangeDeletion,
                start,
                end,
            )
            .unwrap();
    };
    delete(1, b"b", b"b");
    delete(2, b"c", b"b");
    assert!(table.is_empty() && !table.has_range_tombstones());
    assert!(table.range_tombstones().fragments().is_empty());

    delete(3, b"b", b"d");
    assert!(!table.is_empty() && table.has_range_tombstones());
    assert_eq!((table.num_entries(), table.num_deletes()), (1, 0));
    assert_eq!(table.get(b"b", SequenceNumber::MAX), None);
    let first = table.range_tombstones();
    assert!(Arc::ptr_eq(&first, &table.range_tombstones()), "cached");

    delete(9, b"c", b"e");
    let covering = |key: &[u8]| {
        let list = table.range_tombstones();
        list.max_covering(key, SequenceNumber::MAX, table.comparator())
            .0
    };
    assert_eq!(
        [&b"a"[..], b"b", b"c", b"d", b"e"].map(covering),
        [0, 3, 9, 9, 0]
    );
    assert_eq!(first.fragments().len(), 1, "a list in use does not change");
}

#[test]
fn only_tombstones_of_entries_outside_are_many_before_their_number_is() {
    let table = memtable(BytewiseComparator);
    table.tombstone_alarm().set_much(3);
    let mut sequence = 0;
    let mut add = |value_type, key: &[u8]| {
        sequence += 1;
        let sequence = SequenceNumber(sequence);
        table.add(sequence, value_type, key, b"").unwrap();
        table.has_many_tombstones()
    };
    for n in 0..10u8 {
        assert!(!add(ValueType::Value, &[n]));
        assert!(!add(ValueType::Deletion, &[n]));
        // The second deletes nothing.
        assert!(!add(ValueType::SingleDeletion, &[n]));
    }
    // A put takes nothing off.
    assert!(!add(ValueType::Deletion, b"x"));
    assert!(!add(ValueType::Value, b"x"));
    assert!(!add(ValueType::SingleDeletion, b"y"));
    assert!(add(ValueType::Deletion, b"z"));
    assert!(add(ValueType::Value, b"other"));
    assert_eq!((table.num_entries(), table.num_deletes()), (35, 23));
}

#[test]
fn it_asks_for_a_flush_at_about_its_size() {
    let size = 256 << 10;
    let user = Arc::new(BytewiseComparator);
    let table = Memtable::new(InternalKeyComparator::new(user.clone()), size);
    assert!(table.is_empty());
    let mut sequence = 0u64;
    let mut data_size = 0;
    while !table.should_flush() {
        sequence += 1;
        let key = sequence.to_be_bytes();
        table
            .add(SequenceNumber(sequence), ValueType::Value, &key, &[1; 100])
            .unwrap();
        data_size += (key.len() + TRAILER_LEN + 100) as u64;
        assert!(data_size < size, "too late");
    }
    assert!(data_size > size / 2, "too early: {data_size}");

    let tiny = Memtable::new(InternalKeyComparator::new(user), 1);
    assert!(
        !tiny.should_flush(),
        "an empty memtable is never worth a flush"
    );
    tiny.add(SequenceNumber(1), ValueType::RangeDeletion, b"a", b"b")
        .unwrap();
    assert!(tiny.should_flush());
}
