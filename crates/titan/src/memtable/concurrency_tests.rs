//! Concurrent writers and readers. The checked properties hold for every schedule; the machine
//! chooses the schedules, a seed the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::format::internal_key::{InternalKeyComparator, ParsedInternalKey, ValueType};
use crate::format::{BytewiseComparator, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;

const WRITERS: u64 = 4;

/// The size of a test: `full`, or a twentieth where `TITAN_SMALL_TESTS` is set, for tools that make
/// everything a hundred times slower.
fn scaled(full: u64) -> u64 {
    match std::env::var_os("TITAN_SMALL_TESTS") {
        Some(_) => full.div_ceil(20),
        None => full,
    }
}

/// Relation of the keys of the writers to each other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Keys {
    /// Each writer has a range of its own and ascends in it.
    Disjoint,
    /// All ascend through one range, alternating, so that they meet at the tail.
    Interleaved,
    /// Random positions in one range.
    Random,
    /// All write versions of the same few keys.
    Hot,
}

/// The `i`-th entry of writer `w`: the key and its sequence number, unique among all.
fn entry(keys: Keys, rng: &mut fastrand::Rng, w: u64, i: u64) -> ([u8; 16], u64) {
    let number = match keys {
        Keys::Disjoint => w << 32 | i,
        Keys::Interleaved => i * WRITERS + w,
        Keys::Random => rng.u64(..),
        Keys::Hot => rng.u64(..8),
    };
    let mut key = [b'k'; 16];
    key[..8].copy_from_slice(&number.to_be_bytes());
    (key, 1 + i * WRITERS + w)
}

/// A value that identifies its entry; some are large enough for chunks of their own.
fn value(key: &[u8; 16], sequence: u64) -> Vec<u8> {
    let len = if sequence.is_multiple_of(500) {
        40_000
    } else {
        8 + sequence as usize % 50
    };
    let stamp = sequence ^ u64::from(key[7]);
    stamp.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// Scans the whole memtable and checks order and contents; returns the number of entries.
fn check_order_and_values(table: &Arc<Memtable>, case: &str) -> u64 {
    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    let mut last: Option<Vec<u8>> = None;
    let mut count = 0;
    while iter.valid() {
        let parsed = ParsedInternalKey::parse(iter.key()).unwrap();
        let key = parsed.user_key.try_into().unwrap();
        assert_eq!(iter.value(), value(key, parsed.sequence.0), "{case}");
        if let Some(last) = &last {
            assert!(
                table.comparator().compare(last, iter.key()).is_lt(),
                "out of order, {case}"
            );
        }
        last = Some(iter.key().to_vec());
        count += 1;
        iter.next().unwrap();
    }
    count
}

fn write_and_read(keys: Keys, seed: u64) {
    let case = format!("{keys:?}, seed {seed}");
    let per_writer = scaled(3000);
    let user = Arc::new(BytewiseComparator);
    let table = Memtable::new(InternalKeyComparator::new(user), 256 << 10);
    let done: [AtomicU64; WRITERS as usize] = Default::default();
    let finished = AtomicBool::new(false);
    let rng_of = |w: u64| fastrand::Rng::with_seed(seed * WRITERS + w);

    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|w| {
                let (table, done) = (&table, &done);
                scope.spawn(move || {
                    let mut rng = rng_of(w);
                    for i in 0..per_writer {
                        let (key, sequence) = entry(keys, &mut rng, w, i);
                        let value = value(&key, sequence);
                        let sequence = SequenceNumber(sequence);
                        table.add(sequence, ValueType::Value, &key, &value).unwrap();
                        done[w as usize].store(i + 1, Ordering::Release);
                    }
                })
            })
            .collect();

        // Whole scans: sorted, never fewer entries than were finished before.
        scope.spawn(|| {
            while !finished.load(Ordering::Acquire) {
                let before: u64 = done.iter().map(|d| d.load(Ordering::Acquire)).sum();
                let seen = check_order_and_values(&table, &case);
                assert!(seen >= before, "{seen} of {before} entries seen, {case}");
            }
        });

        // Lookups: an entry that a writer has finished is found, by get and by seek both ways.
        scope.spawn(|| {
            let mut pick = fastrand::Rng::with_seed(seed ^ 0xabc);
            while !finished.load(Ordering::Acquire) {
                let w = pick.u64(..WRITERS);
                let ready = done[w as usize].load(Ordering::Acquire);
                let mut rng = rng_of(w);
                let stop = pick.u64(..=ready);
                for i in 0..stop {
                    let (key, sequence) = entry(keys, &mut rng, w, i);
                    if i + 20 < stop {
                        continue;
                    }
                    let found = table.get(&key, SequenceNumber(sequence)).unwrap();
                    assert_eq!(found.sequence.0, sequence, "{case}");
                    assert_eq!(found.value, value(&key, sequence), "{case}");
                    let mut iter = table.iter();
                    let mut target = key.to_vec();
                    target.extend_from_slice(&(sequence << 8 | 1).to_le_bytes());
                    iter.seek_for_prev(&target).unwrap();
                    assert_eq!(iter.key(), target, "{case}");
                    iter.prev().unwrap();
                    assert!(!iter.valid() || iter.key() != target, "{case}");
                    iter.seek(&target).unwrap();
                    assert_eq!(iter.key(), target, "{case}");
                }
            }
        });

        let results: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        finished.store(true, Ordering::Release);
        results.into_iter().for_each(|result| result.unwrap());
    });

    assert_eq!(
        check_order_and_values(&table, &case),
        WRITERS * per_writer,
        "{case}"
    );
    assert_eq!(table.num_entries(), WRITERS * per_writer, "{case}");
    for w in 0..WRITERS {
        let mut rng = rng_of(w);
        for i in 0..per_writer {
            let (key, sequence) = entry(keys, &mut rng, w, i);
            let found = table.get(&key, SequenceNumber(sequence)).unwrap();
            assert_eq!(found.sequence.0, sequence, "{case}");
        }
    }
}

#[test]
fn readers_see_sorted_and_complete_entries_while_four_threads_insert() {
    for (seed, keys) in [Keys::Disjoint, Keys::Interleaved, Keys::Random, Keys::Hot]
        .into_iter()
        .enumerate()
    {
        write_and_read(keys, seed as u64);
    }
}

#[test]
fn of_equal_entries_added_at_once_exactly_one_is_kept() {
    let user = Arc::new(BytewiseComparator);
    let table = Memtable::new(InternalKeyComparator::new(user), 1 << 20);
    let start = std::sync::Barrier::new(4);
    let count = scaled(5000);
    let kept: u64 = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u8)
            .map(|writer| {
                let (table, start) = (&table, &start);
                scope.spawn(move || {
                    start.wait();
                    let add = |i: u64| {
                        let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                        table.add(SequenceNumber(i), ValueType::Value, &key, &[writer])
                    };
                    (0..count).filter(|&i| add(i).is_ok()).count() as u64
                })
            })
            .collect();
        writers.into_iter().map(|w| w.join().unwrap()).sum()
    });
    assert_eq!(kept, count);
    assert_eq!(table.num_entries(), count);
    let mut iter = table.iter();
    iter.seek_to_first().unwrap();
    let mut seen = 0;
    while iter.valid() {
        seen += 1;
        iter.next().unwrap();
    }
    assert_eq!(seen, count);
}

#[test]
fn range_tombstones_are_seen_once_their_add_returned() {
    let user = Arc::new(BytewiseComparator);
    let table = Memtable::new(InternalKeyComparator::new(user), 1 << 20);
    let done = AtomicU64::new(0);
    const COUNT: u64 = 200;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 1..=COUNT {
                let (start, end) = (i.to_be_bytes(), (i + 1).to_be_bytes());
                table
                    .add(SequenceNumber(i), ValueType::RangeDeletion, &start, &end)
                    .unwrap();
                done.store(i, Ordering::Release);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let ready = done.load(Ordering::Acquire);
                    let list = table.range_tombstones();
                    assert!(list.fragments().len() as u64 >= ready);
                    for i in 1..=ready {
                        let key = i.to_be_bytes();
                        let found =
                            list.max_covering(&key, SequenceNumber::MAX, table.comparator());
                        assert_eq!(found.0, i);
                    }
                    if ready == COUNT {
                        break;
                    }
                }
            });
        }
    });
}
