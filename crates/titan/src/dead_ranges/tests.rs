//! Dead ranges against a model, and in a database that is written meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::range::MAX_KEY_LEN;
use super::ranges::MAX_PENDING;
use super::*;
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BytewiseComparator, SequenceNumber};
use crate::{Db, Options, ReadOptions};

const KEYS: u64 = 40;

fn key(n: u64) -> Vec<u8> {
    format!("{n:02}").into_bytes()
}

fn ranges() -> DeadRanges {
    DeadRanges::new(InternalKeyComparator::new(Arc::new(BytewiseComparator)))
}

fn reader(snapshot: u64) -> ReadPoint {
    ReadPoint {
        snapshot: SequenceNumber(snapshot),
        generation: 0,
    }
}

/// A write of a key.
struct Write {
    key: u64,
    has_value: bool,
    /// The generation of tables from which on a filter has removed it.
    removed: Option<u64>,
}

/// By sequence number.
type History = Vec<Write>;

fn has_value(history: &History, key: u64, reader: ReadPoint) -> bool {
    let seen = &history[..reader.snapshot.0 as usize];
    let newest = seen.iter().rev().find(|write| write.key == key);
    newest.is_some_and(|write| {
        write.has_value && write.removed.is_none_or(|since| reader.generation < since)
    })
}

/// A walk through dead keys that is reported later.
struct Walk {
    first: u64,
    last: u64,
    reader: ReadPoint,
}

/// Groups look for ranges some time before they are published, readers report the ranges that they
/// have walked some time later, and filters remove values meanwhile, but not for readers of older
/// tables: in any interleaving, no range hides a value.
#[test]
fn no_range_that_a_reader_passes_has_a_value_at_its_snapshot() {
    let (mut passed, mut waited) = (0, 0);
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let ranges = ranges();
        // The published writes, and the group under way.
        let mut history: History = Vec::new();
        let mut published = 0;
        let mut generation = 0;
        let mut walks: Vec<Walk> = Vec::new();
        for step in 0..400 {
            match rng.u8(..11) {
                0..3 if published == history.len() => {
                    for _ in 0..rng.usize(1..4) {
                        // Mostly deletions, or there would be no ranges.
                        history.push(Write {
                            key: rng.u64(..KEYS),
                            has_value: rng.u8(..8) == 0,
                            removed: None,
                        });
                    }
                    let group = &history[published..];
                    let valued = group.iter().filter(|write| write.has_value);
                    let valued: Vec<_> = valued.map(|write| key(write.key)).collect();
                    let last = SequenceNumber(history.len() as u64);
                    ranges.write(last, || valued.iter().map(Vec::as_slice));
                }
                0..5 => published = history.len(),
                5..8 => {
                    let reader = ReadPoint {
                        snapshot: SequenceNumber(
                            (published - rng.usize(..6).min(published)) as u64,
                        ),
                        generation: generation - rng.u64(..3).min(generation),
                    };
                    let is_dead = |k: &u64| !has_value(&history, *k, reader);
                    let first = rng.u64(..KEYS);
                    let Some(last) = (first..KEYS).take_while(is_dead).last() else {
                        continue;
                    };
                    walks.push(Walk {
                        first,
                        last: first + rng.u64(..=last - first),
                        reader,
                    });
                }
                8 if !walks.is_empty() => {
                    let walk = walks.swap_remove(rng.usize(..walks.len()));
                    // As many dead keys as make it worth a place.
                    let keys = 20 * (walk.last + 1 - walk.first);
                    ranges.add(&key(walk.first), &key(walk.last), keys, walk.reader);
                    waited += usize::from(!ranges.ranges.lock().pending.is_empty());
                }
                9 => {
                    generation += 1;
                    for write in &mut history[..published] {
                        if write.removed.is_none() && rng.u8(..4) == 0 {
                            write.removed = Some(generation);
                        }
                    }
                }
                _ => {}
            }
            // Every reader of the published state, of snapshots before, and of older tables.
            let snapshots = published.saturating_sub(6)..=published;
            let generations = generation.saturating_sub(3)..=generation;
            for (snapshot, generation) in
                snapshots.flat_map(|s| generations.clone().map(move |g| (s, g)))
            {
                let reader = ReadPoint {
                    snapshot: SequenceNumber(snapshot as u64),
                    generation,
                };
                let from = rng.u64(..KEYS);
                let end = |way| ranges.end(&key(from), reader, way);
                let number = |edge: &Edge| -> u64 {
                    std::str::from_utf8(&edge.key).unwrap().parse().unwrap()
                };
                let mut hidden = Vec::new();
                if let Some(end) = end(Way::Forward) {
                    hidden.extend(from..number(&end) + u64::from(end.included));
                }
                if let Some(end) = end(Way::Backward) {
                    hidden.extend(number(&end) + u64::from(!end.included)..=from);
                }
                passed += hidden.len();
                let wrong = hidden.iter().find(|k| has_value(&history, **k, reader));
                assert_eq!(wrong, None, "seed {seed}, step {step}, snapshot {snapshot}");
            }
        }
    }
    assert!(passed > 10_000 && waited > 1000, "{passed} {waited}");
}

#[test]
fn ranges_that_meet_are_one_and_a_written_key_divides_it() {
    let ranges = ranges();
    let at = reader(0);
    let known = || -> Vec<(String, String, u64)> {
        let ranges = ranges.ranges.lock();
        let edge = |edge: &Edge| {
            let key = String::from_utf8(edge.key.clone()).unwrap();
            if edge.included {
                key
            } else {
                format!("({key})")
            }
        };
        let all = ranges.known.iter();
        all.map(|r| (edge(&r.first), edge(&r.last), r.keys))
            .collect()
    };
    let expect = |expected: &[(&str, &str, u64)]| {
        let owned = |(a, b, n): &(&str, &str, u64)| ((*a).to_owned(), (*b).to_owned(), *n);
        assert_eq!(known(), expected.iter().map(owned).collect::<Vec<_>>());
    };
    ranges.add(b"b", b"d", 100, at);
    ranges.add(b"f", b"h", 100, at);
    expect(&[("b", "d", 100), ("f", "h", 100)]);
    ranges.add(b"d", b"f", 50, at);
    expect(&[("b", "h", 250)]);
    let mut last = 0;
    let mut put = |key: &'static [u8]| {
        last += 1;
        ranges.write(SequenceNumber(last), || std::iter::once(key));
    };
    put(b"e");
    expect(&[("b", "(e)", 125), ("(e)", "h", 125)]);
    put(b"e");
    put(b"b");
    put(b"z");
    expect(&[("(b)", "(e)", 125), ("(e)", "h", 125)]);
    put(b"g");
    put(b"f");
    put(b"h");
    expect(&[
        ("(b)", "(e)", 125),
        ("(e)", "(f)", 31),
        ("(f)", "(g)", 31),
        ("(g)", "(h)", 62),
    ]);
    // A range with too few dead keys is forgotten.
    put(b"ee");
    expect(&[("(b)", "(e)", 125), ("(f)", "(g)", 31), ("(g)", "(h)", 62)]);
}

#[test]
fn the_list_is_bounded_and_keeps_the_longest() {
    let ranges = ranges();
    for n in 0..1000_u32 {
        let key = n.to_be_bytes();
        ranges.add(&key, &key, u64::from(n % 500), reader(0));
        let long = vec![7; MAX_KEY_LEN + 1];
        ranges.add(&long, &long, 9999, reader(0));
    }
    let (known, keys) = ranges.known();
    assert_eq!((known, keys), (64, 2 * (468..500).sum::<u64>()));
}

#[test]
fn what_waits_is_bounded_however_often_it_is_written_to() {
    let ranges = ranges();
    let pending = || ranges.ranges.lock().pending.len();
    let mut last = 1;
    let mut write = |n: u32| {
        last += 1;
        let key = n.to_be_bytes();
        ranges.write(SequenceNumber(last), || std::iter::once(&key[..]));
    };
    write(0);
    for round in 0..20_u32 {
        // Not seen by the reader: the group before.
        let (first, after) = (round * 1000, (round + 1) * 1000);
        let (from, to) = (first.to_be_bytes(), (after - 1).to_be_bytes());
        ranges.add(&from, &to, 1 << 40, reader(0));
        assert!((1..=MAX_PENDING).contains(&pending()));
        if round % 4 == 3 {
            let before = pending();
            (first..after).step_by(50).for_each(&mut write);
            assert_eq!(pending(), before - 1, "it is given up");
        }
    }
    assert_eq!(ranges.known(), (0, 0));
    // A walk that has missed nothing settles the ranges that it meets.
    ranges.add(&[0; 4], &[0xff; 4], 1 << 40, reader(SequenceNumber::MAX.0));
    assert_eq!((pending(), ranges.known().0), (0, 1));
}

#[test]
fn a_written_key_that_is_too_long_to_be_kept_ends_its_range() {
    for (len, left) in [(MAX_KEY_LEN, 2), (MAX_KEY_LEN + 1, 0)] {
        let ranges = ranges();
        ranges.add(b"a", b"c", 1000, reader(0));
        let key = vec![b'b'; len];
        ranges.write(SequenceNumber(1), || std::iter::once(key.as_slice()));
        assert_eq!(ranges.known().0, left, "{len} bytes");
    }
}

#[test]
fn a_walk_that_has_not_seen_every_table_says_nothing() {
    for (sees_all, known) in [(true, 1), (false, 0)] {
        let ranges = ranges();
        let mut run = DeadRun::new(&ranges, reader(0));
        run.begin();
        if !sees_all {
            run.sees_a_part();
        }
        for n in 0..KEYS {
            if run.is_time_to_look() {
                run.look(&key(n), Way::Forward);
            }
        }
        run.end(Way::Forward);
        assert_eq!(ranges.known().0, known);
    }
}

/// The keys that have a value in a snapshot, in both directions, beside those that lookups find.
#[test]
fn iterators_agree_with_lookups_while_dead_ranges_are_written_to() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::open(dir.path(), &Options::default()).unwrap();
    let over = AtomicBool::new(false);
    let name = |n: u32| format!("{n:05}").into_bytes();
    const ALL: u32 = 100;
    std::thread::scope(|scope| {
        let (db, over) = (&db, &over);
        for thread in 0..2 {
            scope.spawn(move || {
                let mut rng = fastrand::Rng::with_seed(thread);
                while !over.load(Ordering::Relaxed) {
                    // A value appears now and then, and goes again.
                    let key = name(rng.u32(..ALL));
                    db.put(&key, b"v").unwrap();
                    db.delete(&key).unwrap();
                }
            });
        }
        let readers: Vec<_> = (0..2_u64)
            .map(|thread| {
                scope.spawn(move || {
                    let mut rng = fastrand::Rng::with_seed(100 + thread);
                    for round in 0..40 {
                        if thread == 0 && round % 10 == 9 {
                            db.flush().unwrap();
                        }
                        let options = ReadOptions {
                            snapshot: Some(db.snapshot()),
                            ..ReadOptions::default()
                        };
                        let mut expected = BTreeMap::new();
                        for n in 0..ALL {
                            if let Some(value) = db.get_with(&name(n), &options).unwrap() {
                                expected.insert(name(n), value);
                            }
                        }
                        let mut iter = db.iter(&options).unwrap();
                        let (mut forward, mut backward) = (Vec::new(), Vec::new());
                        iter.seek(&name(rng.u32(..3))).unwrap();
                        while iter.valid() {
                            forward.push(iter.key().to_vec());
                            iter.next().unwrap();
                        }
                        iter.seek_to_last().unwrap();
                        while iter.valid() {
                            backward.insert(0, iter.key().to_vec());
                            iter.prev().unwrap();
                        }
                        let keys: Vec<_> = expected.keys().cloned().collect();
                        assert_eq!(backward, keys, "round {round}");
                        let from = |key: &Vec<u8>| *key >= name(3);
                        forward.retain(from);
                        let keys: Vec<_> = keys.into_iter().filter(from).collect();
                        assert_eq!(forward, keys, "round {round}");
                    }
                })
            })
            .collect();
        let outcomes: Vec<_> = readers.into_iter().map(|reader| reader.join()).collect();
        over.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    assert!(db.metrics().families[0].skipped_entries > 0);
}
