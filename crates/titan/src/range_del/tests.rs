//! Everything in the module compared with brute force: random tombstones over a handful of keys,
//! every key and every snapshot, in both built-in orders.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use crate::format::internal_key::InternalKeyComparator;
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{BytewiseComparator, ReverseBytewiseComparator, SequenceNumber};
use crate::range_del::{FragmentedTombstones, TombstoneCursor, clip, retain};

const ROUNDS: u64 = 400;
const MAX_SEQUENCE: u64 = 12;

fn comparators() -> [InternalKeyComparator; 2] {
    [
        InternalKeyComparator::new(Arc::new(BytewiseComparator)),
        InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator)),
    ]
}

/// All keys of the tiny key space: the empty one, and one or two letters.
fn keys() -> Vec<Bytes> {
    let letters = || "abcdef".chars();
    let short = letters().map(String::from);
    let long = letters().flat_map(|a| ['a', 'z'].map(|b| format!("{a}{b}")));
    [String::new()]
        .into_iter()
        .chain(short)
        .chain(long)
        .map(Bytes::from)
        .collect()
}

/// Tombstones between random keys, empty ranges and repetitions included.
fn random_tombstones(rng: &mut fastrand::Rng, keys: &[Bytes]) -> Vec<RangeTombstone> {
    let key = |rng: &mut fastrand::Rng| rng.choice(keys).unwrap().clone();
    (0..rng.usize(0..10))
        .map(|_| RangeTombstone {
            start: key(rng),
            end: key(rng),
            sequence: SequenceNumber(rng.u64(1..=MAX_SEQUENCE)),
        })
        .collect()
}

fn covers(t: &RangeTombstone, key: &[u8], comparator: &InternalKeyComparator) -> bool {
    comparator.compare_user(&t.start, key).is_le() && comparator.compare_user(key, &t.end).is_lt()
}

/// The sequence numbers of all tombstones covering `key`.
fn all_covering(
    tombstones: &[RangeTombstone],
    key: &[u8],
    comparator: &InternalKeyComparator,
) -> BTreeSet<SequenceNumber> {
    let covering = tombstones.iter().filter(|t| covers(t, key, comparator));
    covering.map(|t| t.sequence).collect()
}

fn newest(sequences: &BTreeSet<SequenceNumber>, snapshot: u64) -> SequenceNumber {
    sequences
        .range(..=SequenceNumber(snapshot))
        .next_back()
        .copied()
        .unwrap_or_default()
}

/// Runs `check` with many random lists, their fragments, and the seed for messages.
fn for_random_lists(
    check: impl Fn(
        &mut fastrand::Rng,
        &[RangeTombstone],
        FragmentedTombstones,
        &InternalKeyComparator,
        &str,
    ),
) {
    for comparator in comparators() {
        for seed in 0..ROUNDS {
            let mut rng = fastrand::Rng::with_seed(seed);
            let written = random_tombstones(&mut rng, &keys());
            let list = FragmentedTombstones::build(written.iter().cloned(), &comparator);
            let case = format!("seed {seed}, {:?}: {written:?}", comparator.user());
            check(&mut rng, &written, list, &comparator, &case);
        }
    }
}

#[test]
fn fragments_are_sorted_apart_and_cover_what_was_written() {
    for_random_lists(|_, written, list, comparator, case| {
        for fragment in list.fragments() {
            assert!(
                comparator
                    .compare_user(&fragment.start, &fragment.end)
                    .is_lt(),
                "{case}"
            );
            assert!(!fragment.sequences.is_empty(), "{case}");
            assert!(fragment.sequences.is_sorted_by(|a, b| a > b), "{case}");
        }
        for pair in list.fragments().windows(2) {
            assert!(
                comparator
                    .compare_user(&pair[0].end, &pair[1].start)
                    .is_le(),
                "{case}"
            );
        }
        let rewritten: Vec<_> = list.iter_tombstones().collect();
        for key in keys() {
            let expected = all_covering(written, &key, comparator);
            assert_eq!(
                all_covering(&rewritten, &key, comparator),
                expected,
                "{key:?} {case}"
            );
            for snapshot in 0..=MAX_SEQUENCE + 1 {
                let found = list.max_covering(&key, SequenceNumber(snapshot), comparator);
                assert_eq!(
                    found,
                    newest(&expected, snapshot),
                    "{key:?} @ {snapshot} {case}"
                );
            }
        }
        // Fragments cut again are the same fragments, in any order.
        let again = FragmentedTombstones::build(rewritten.into_iter().rev(), comparator);
        assert_eq!(again, list, "{case}");
    });
}

#[test]
fn a_cursor_finds_the_same_whatever_the_order_of_keys() {
    for_random_lists(|rng, written, list, comparator, case| {
        let list = Arc::new(list);
        let keys = keys();
        let snapshot = rng.u64(0..=MAX_SEQUENCE + 1);
        let mut cursor = TombstoneCursor::new(
            Arc::clone(&list),
            comparator.clone(),
            SequenceNumber(snapshot),
        );
        let mut at = rng.usize(..keys.len());
        for _ in 0..60 {
            at = match rng.u8(..8) {
                0 => rng.usize(..keys.len()),
                1..4 => at.saturating_sub(1),
                _ => (at + 1).min(keys.len() - 1),
            };
            let key = &keys[at];
            let all = all_covering(written, key, comparator);
            match cursor.covering(key) {
                None => assert_eq!(newest(&all, snapshot).0, 0, "{key:?} @ {snapshot} {case}"),
                Some(found) => {
                    assert_eq!(found.sequence, newest(&all, snapshot), "{key:?} {case}");
                    let (start, end) = (found.start.clone(), found.end.clone());
                    let around = RangeTombstone {
                        start,
                        end,
                        sequence: found.sequence,
                    };
                    assert!(covers(&around, key, comparator), "{key:?} {case}");
                    for other in keys
                        .iter()
                        .filter(|other| covers(&around, other, comparator))
                    {
                        assert_eq!(all_covering(written, other, comparator), all, "{case}");
                    }
                }
            }
            // From the key to the end, and from the start to the key, everything as old is deleted.
            let until = cursor.covered_until(key).map(|(s, end)| (s, end.to_vec()));
            let from = cursor
                .covered_from(key)
                .map(|(s, start)| (s, start.to_vec()));
            for other in &keys {
                let side = comparator.compare_user(other, key);
                let within = match (&until, &from) {
                    (Some((_, end)), _) if side.is_ge() => {
                        comparator.compare_user(other, end).is_lt()
                    }
                    (_, Some((_, start))) if side.is_le() => {
                        comparator.compare_user(other, start).is_ge()
                    }
                    _ => false,
                };
                if within {
                    let at_least = newest(&all, snapshot);
                    let there = newest(&all_covering(written, other, comparator), snapshot);
                    assert!(there >= at_least, "{other:?} from {key:?} {case}");
                }
            }
            let expected = Some(newest(&all, snapshot)).filter(|sequence| sequence.0 > 0);
            assert_eq!(until.map(|(sequence, _)| sequence), expected, "{case}");
            assert_eq!(from.map(|(sequence, _)| sequence), expected, "{case}");
            let entry = rng.u64(0..=MAX_SEQUENCE);
            let deleted = newest(&all, snapshot).0 > entry;
            assert_eq!(
                cursor.covers(key, SequenceNumber(entry)),
                deleted,
                "{key:?} {case}"
            );
            let upper = rng.u64(entry..=MAX_SEQUENCE + 1);
            let between = all.iter().any(|s| entry < s.0 && s.0 <= upper);
            let found =
                cursor.covering_in_stripe(key, SequenceNumber(entry), SequenceNumber(upper));
            assert_eq!(found, between, "{key:?} ({entry}, {upper}] {case}");
        }
    });
}

#[test]
fn a_cursor_crosses_many_fragments_at_once() {
    let [comparator, _] = comparators();
    let key = |i: u64| Bytes::from(format!("{i:04}"));
    let written = (0..100).map(|i| RangeTombstone {
        start: key(10 * i),
        end: key(10 * i + 5),
        sequence: SequenceNumber(i + 1),
    });
    let list = Arc::new(FragmentedTombstones::build(written, &comparator));
    assert_eq!(list.fragments().len(), 100);
    let seed = 3;
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut cursor = TombstoneCursor::new(list, comparator, SequenceNumber::MAX);
    for _ in 0..2000 {
        let at = rng.u64(..1010);
        let expected = (at < 1000 && at % 10 < 5).then_some(SequenceNumber(at / 10 + 1));
        let found = cursor.covering(&key(at)).map(|covering| covering.sequence);
        assert_eq!(found, expected, "{at}, seed {seed}");
    }
}

#[test]
fn clipping_keeps_exactly_the_keys_within_the_bounds() {
    for_random_lists(|rng, written, _, comparator, case| {
        let keys = keys();
        let bound =
            |rng: &mut fastrand::Rng| rng.bool().then(|| rng.choice(&keys).unwrap().clone());
        for tombstone in written {
            let (lower, upper) = (bound(rng), bound(rng));
            let clipped = clip(
                tombstone.clone(),
                lower.as_deref(),
                upper.as_deref(),
                comparator,
            );
            for key in &keys {
                let within = covers(tombstone, key, comparator)
                    && lower
                        .as_ref()
                        .is_none_or(|l| comparator.compare_user(l, key).is_le())
                    && upper
                        .as_ref()
                        .is_none_or(|u| comparator.compare_user(key, u).is_lt());
                let kept = clipped.as_ref().is_some_and(|t| covers(t, key, comparator));
                assert_eq!(kept, within, "{key:?} in {lower:?}..{upper:?} {case}");
            }
            if let Some(clipped) = clipped {
                assert_eq!(clipped.sequence, tombstone.sequence, "{case}");
            }
        }
    });
}

#[test]
fn every_reader_sees_the_same_deletions_after_a_compaction() {
    for_random_lists(|rng, written, list, comparator, case| {
        let keys = keys();
        let snapshots: BTreeSet<_> = (0..rng.usize(0..4))
            .map(|_| SequenceNumber(rng.u64(0..=MAX_SEQUENCE)))
            .collect();
        let snapshots: Vec<_> = snapshots.into_iter().collect();
        let nothing_below: BTreeSet<_> = keys.iter().filter(|_| rng.bool()).cloned().collect();
        let mut asked = Vec::new();
        let kept = retain(&list, &snapshots, |start, end| {
            let (start, end) = (Bytes::copy_from_slice(start), Bytes::copy_from_slice(end));
            let sequence = SequenceNumber::ZERO;
            let range = RangeTombstone {
                start: start.clone(),
                end,
                sequence,
            };
            assert!(!asked.contains(&start), "asked twice: {case}");
            asked.push(start);
            keys.iter()
                .filter(|k| covers(&range, k, comparator))
                .all(|k| nothing_below.contains(k))
        });
        let kept: Vec<_> = kept.iter_tombstones().collect();
        let seen_by_all = snapshots.first().map_or(u64::MAX, |first| first.0);
        let readers = || snapshots.iter().map(|s| s.0).chain([u64::MAX]);
        for key in &keys {
            let before = all_covering(written, key, comparator);
            let after = all_covering(&kept, key, comparator);
            assert!(after.is_subset(&before), "{key:?} {case}");
            for reader in readers() {
                let (old, new) = (newest(&before, reader), newest(&after, reader));
                let may_be_gone = nothing_below.contains(key) && old.0 <= seen_by_all && new.0 == 0;
                assert!(
                    old == new || may_be_gone,
                    "{key:?} @ {reader}, {snapshots:?} {case}"
                );
            }
            // No more than one tombstone per reader.
            let needed: BTreeSet<_> = readers().map(|reader| newest(&before, reader)).collect();
            assert!(after.is_subset(&needed), "{key:?}, {snapshots:?} {case}");
        }
        let everything = retain(&list, &[], |_, _| true);
        assert!(everything.fragments().is_empty(), "{case}");
    });
}

#[test]
fn the_drawing_in_the_module_is_true() {
    let [comparator, _] = comparators();
    let tombstone = |start: &'static str, end: &'static str, sequence| RangeTombstone {
        start: Bytes::from(start),
        end: Bytes::from(end),
        sequence: SequenceNumber(sequence),
    };
    let written = [
        tombstone("a", "m", 9),
        tombstone("d", "h", 12),
        tombstone("f", "q", 4),
    ];
    let list = FragmentedTombstones::build(written, &comparator);
    let text: Vec<_> = list
        .fragments()
        .iter()
        .map(|f| {
            let text = |key: &Bytes| String::from_utf8(key.to_vec()).unwrap();
            format!("[{},{}) {:?}", text(&f.start), text(&f.end), f.sequences)
        })
        .collect();
    let drawn = [
        "[a,d) [9]",
        "[d,f) [12, 9]",
        "[f,h) [12, 9, 4]",
        "[h,m) [9, 4]",
        "[m,q) [4]",
    ];
    assert_eq!(text, drawn);
    assert!(FragmentedTombstones::empty().fragments().is_empty());
}
