//! Walks, seeks and skips in a block, compared with a sorted vector; damaged blocks.

use std::sync::Arc;

use bytes::Bytes;

use super::Block;
use super::builder::BlockBuilder;
use super::iter::{BlockIter, Skipped};
use crate::format::internal_key::{InternalKeyComparator, ValueType, internal_key, user_key};
use crate::format::{BytewiseComparator, SequenceNumber};
use crate::iterator::prefix_skip::PrefixSkip;

fn order() -> InternalKeyComparator {
    InternalKeyComparator::new(Arc::new(BytewiseComparator))
}

fn random_key(rng: &mut fastrand::Rng) -> Vec<u8> {
    let word: Vec<u8> = (0..rng.usize(..12)).map(|_| rng.u8(b'a'..=b'c')).collect();
    internal_key(
        &word,
        SequenceNumber(rng.u64(..100)),
        ValueType::Value as u8,
    )
}

fn model(rng: &mut fastrand::Rng) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut entries: Vec<_> = (0..rng.usize(..200))
        .map(|_| (random_key(rng), vec![rng.u8(..); rng.usize(..300)]))
        .collect();
    entries.sort_by(|a, b| order().compare(&a.0, &b.0));
    entries.dedup_by(|a, b| a.0 == b.0);
    entries
}

fn build(entries: &[(Vec<u8>, Vec<u8>)], interval: usize) -> Bytes {
    let mut builder = BlockBuilder::new(interval);
    builder.add(b"left over from", b"the block before");
    builder.reset();
    for (key, value) in entries {
        let bound = builder.size() + BlockBuilder::cost_of(key, value) + 4;
        builder.add(key, value);
        assert!(builder.size() <= bound);
    }
    let size = builder.size();
    let block = Bytes::copy_from_slice(builder.finish());
    assert_eq!(block.len(), size);
    block
}

#[test]
fn every_walk_agrees_with_a_sorted_vector() {
    for seed in 0..60u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let entries = model(&mut rng);
        let interval = 1 + (seed as usize % 17);
        let block = Block::new(build(&entries, interval)).unwrap();
        let mut iter = BlockIter::over_data(block, None);
        let mut position: Option<usize> = None;
        for step in 0..2000 {
            let at = |p: Option<usize>| p.and_then(|p| entries.get(p));
            let first_at =
                |target: &[u8]| entries.partition_point(|e| order().compare(&e.0, target).is_lt());
            match rng.u8(..11) {
                0 => {
                    iter.seek_to_first().unwrap();
                    position = Some(0);
                }
                1 => {
                    iter.seek_to_last().unwrap();
                    position = entries.len().checked_sub(1);
                }
                2 => {
                    let target = random_key(&mut rng);
                    iter.seek(&order(), &target).unwrap();
                    position = Some(first_at(&target));
                }
                3 => {
                    let target = random_key(&mut rng);
                    iter.seek_for_prev(&order(), &target).unwrap();
                    position = entries
                        .partition_point(|e| order().compare(&e.0, &target).is_le())
                        .checked_sub(1);
                }
                8 => {
                    let target = random_key(&mut rng);
                    iter.seek_near_start(&order(), &target).unwrap();
                    position = Some(first_at(&target));
                }
                9 if at(position).is_some() => {
                    let (from, limit) = (position.unwrap(), rng.usize(..20));
                    let target = random_key(&mut rng);
                    let to = first_at(&target).max(from);
                    let arrives = to < entries.len() && to - from <= limit;
                    let arrived = iter.walk_to(&order(), &target, limit).unwrap();
                    assert_eq!(arrived, arrives, "seed {seed} step {step}");
                    position = arrives.then_some(to);
                }
                10 if at(position).is_some() => {
                    let prefix = user_key(iter.key()).to_vec();
                    let prefix = &prefix[..rng.usize(..=prefix.len())];
                    // The last byte says whether an entry is skipped, and how much with it.
                    let mut rule = |key: &[u8]| match user_key(key).split_last() {
                        Some((b'a' | b'b', rest)) => Some(rest.len()),
                        _ => None,
                    };
                    let mut to = position.unwrap();
                    let mut skipped = prefix;
                    while let Some((key, _)) = entries.get(to) {
                        if !user_key(key).starts_with(skipped) {
                            match rule(key) {
                                Some(len) => skipped = &key[..len],
                                None => break,
                            }
                        }
                        to += 1;
                    }
                    let order = order();
                    let mut skip = PrefixSkip::new(prefix, &mut rule, &order, Default::default());
                    let ended = iter.skip_prefixes(&mut skip, usize::MAX);
                    let expected = match to < entries.len() {
                        true => Skipped::ToEntry,
                        false => Skipped::ToEnd,
                    };
                    assert_eq!(ended.unwrap(), expected, "seed {seed} step {step}");
                    position = Some(to);
                }
                4 | 5 if at(position).is_some() => {
                    iter.next().unwrap();
                    position = position.map(|p| p + 1);
                }
                6 | 7 if at(position).is_some() => {
                    iter.prev().unwrap();
                    position = position.and_then(|p| p.checked_sub(1));
                }
                _ => {}
            }
            let expected = position.and_then(|p| entries.get(p));
            assert_eq!(iter.valid(), expected.is_some(), "seed {seed} step {step}");
            if let Some((key, value)) = expected {
                assert_eq!(iter.key(), key, "seed {seed} step {step}");
                assert_eq!(iter.value(), value, "seed {seed} step {step}");
                assert_eq!(iter.value_bytes(), value);
            }
        }
    }
}

#[test]
fn a_global_sequence_number_replaces_the_stored_ones() {
    let entries: Vec<_> = [&b"a"[..], b"a\x01\x01\0\0\0\0", b"b"]
        .iter()
        .map(|k| (internal_key(k, SequenceNumber::ZERO, 1), k.to_vec()))
        .collect();
    let block = Block::new(build(&entries, 16)).unwrap();
    let mut iter = BlockIter::over_data(block, Some(SequenceNumber(300)));
    iter.seek_to_first().unwrap();
    for (key, value) in &entries {
        assert_eq!(
            iter.key(),
            internal_key(user_key(key), SequenceNumber(300), 1)
        );
        assert_eq!(iter.value(), value);
        iter.next().unwrap();
    }
    iter.seek(&order(), &internal_key(b"b", SequenceNumber(299), 1))
        .unwrap();
    assert!(!iter.valid(), "an older snapshot does not see it");
    iter.seek(&order(), &internal_key(b"b", SequenceNumber(301), 1))
        .unwrap();
    assert_eq!(iter.value(), b"b");
}

#[test]
fn timed_values_are_shown_as_values() {
    const TIMED: u8 = 0x18;
    let plain: Vec<_> = (0..40_u64)
        .map(|n| {
            let key = format!("key{:02}", n / 3);
            let value = vec![n as u8; n as usize % 5];
            (key.into_bytes(), SequenceNumber(100 - n), value)
        })
        .collect();
    let stored: Vec<_> = plain
        .iter()
        .enumerate()
        .map(|(n, (key, sequence, value))| match n % 2 {
            0 => (internal_key(key, *sequence, 1), value.clone()),
            _ => {
                let value = [value, &7_u64.to_le_bytes()[..]].concat();
                (internal_key(key, *sequence, TIMED), value)
            }
        })
        .collect();
    let expected: Vec<_> = plain
        .iter()
        .map(|(key, sequence, value)| (internal_key(key, *sequence, 1), value.clone()))
        .collect();
    for interval in [1, 3, 16] {
        let block = Block::new(build(&stored, interval)).unwrap();
        let mut iter = BlockIter::over_data(block, None).untimed();
        let mut found = Vec::new();
        iter.seek_to_first().unwrap();
        while iter.valid() {
            let at = found.len();
            assert_eq!(iter.stored_key(), stored[at].0);
            assert_eq!(iter.stored_value_len(), stored[at].1.len());
            assert_eq!(iter.value_bytes(), iter.value());
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.next().unwrap();
        }
        assert_eq!(found, expected);
        found.clear();
        iter.seek_to_last().unwrap();
        while iter.valid() {
            found.push((iter.key().to_vec(), iter.value().to_vec()));
            iter.prev().unwrap();
        }
        found.reverse();
        assert_eq!(found, expected);
        for (at, (key, sequence, _)) in plain.iter().enumerate() {
            let target = internal_key(key, *sequence, ValueType::FOR_SEEK);
            iter.seek(&order(), &target).unwrap();
            assert_eq!(iter.key(), expected[at].0, "{at}");
            assert_eq!(iter.value(), expected[at].1, "{at}");
        }
    }
    // Too short to have a sequence number: that is left to the readers of the entry.
    let short = vec![(
        internal_key(b"k", SequenceNumber(5), TIMED),
        b"1234567".to_vec(),
    )];
    let mut iter = BlockIter::over_data(Block::new(build(&short, 1)).unwrap(), None).untimed();
    iter.seek_to_first().unwrap();
    assert_eq!(
        (iter.key(), iter.value()),
        (&short[0].0[..], &short[0].1[..])
    );
}

#[test]
fn a_seek_near_the_start_of_a_block_without_entries_finds_nothing() {
    // One restart point, as RocksDB's empty blocks have.
    let empty = Block::new(Bytes::from_static(&[0, 0, 0, 0, 1, 0, 0, 0])).unwrap();
    empty.verify_restarts().unwrap();
    let mut iter = BlockIter::over_data(empty, None);
    iter.seek_to_first().unwrap();
    let target = internal_key(b"a", SequenceNumber(1), ValueType::Value as u8);
    iter.seek(&order(), &target).unwrap();
    iter.seek_near_start(&order(), &target).unwrap();
    assert!(!iter.valid());
}

#[test]
fn damage_never_panics() {
    for seed in 0..200u64 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = build(&model(&mut rng), 1 + rng.usize(..5)).to_vec();
        for _ in 0..1 + rng.usize(..4) {
            let at = rng.usize(..bytes.len());
            bytes[at] = rng.u8(..);
        }
        bytes.truncate(bytes.len() - rng.usize(..2));
        let Ok(block) = Block::new(Bytes::from(bytes)) else {
            continue;
        };
        let mut iter = BlockIter::over_data(block, None);
        for _ in 0..20 {
            let _ = iter.seek(&order(), &random_key(&mut rng));
            let _ = iter.walk_to(&order(), &random_key(&mut rng), 100);
            let _ = iter.seek_for_prev(&order(), &random_key(&mut rng));
            if iter.valid() {
                let mut rule = |key: &[u8]| key.len().checked_sub(9);
                let order = order();
                let mut skip = PrefixSkip::new(b"a", &mut rule, &order, Default::default());
                let _ = iter.skip_prefixes(&mut skip, 100);
            }
            let _ = iter.seek_for_prev(&order(), &random_key(&mut rng));
            for _ in 0..500 {
                if !iter.valid() || iter.prev().is_err() {
                    break;
                }
            }
            let mut walk = iter.seek_to_first();
            while walk.is_ok() && iter.valid() {
                walk = iter.next();
            }
        }
    }
}

#[test]
fn restart_points_that_are_no_entries_are_noticed() {
    for seed in 0..50 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let entries = model(&mut rng);
        let whole = build(&entries, 1 + rng.usize(..5));
        let block = Block::new(whole.clone()).unwrap();
        block.verify_restarts().unwrap();
        let (i, start) = (rng.usize(..block.num_restarts()), block.entries_end());
        let mut damaged = whole.to_vec();
        damaged[start + 4 * i] ^= 1;
        let block = Block::new(Bytes::from(damaged)).unwrap();
        assert!(block.verify_restarts().is_err(), "seed {seed}");
    }
}

#[test]
fn feature_bits_are_told_apart() {
    let with_bit = |bit: u32| {
        let mut block = build(&[(vec![1; 9], vec![])], 16).to_vec();
        if bit == 31 {
            let tail = block.split_off(block.len() - 4);
            block.extend_from_slice(&[255, 255, 255, 3, 0]);
            block.extend_from_slice(&tail);
        }
        let packed = block.len() - 1;
        block[packed] |= 1 << (bit - 24);
        Block::new(Bytes::from(block))
    };
    // The bit is wrong: the block's values are not separated from its keys.
    assert!(with_bit(28).unwrap_err().is_corruption());
    assert!(with_bit(30).unwrap_err().is_corruption());
    for readable in [29, 31] {
        let mut iter = BlockIter::over_data(with_bit(readable).unwrap(), None);
        iter.seek_to_first().unwrap();
        assert_eq!(iter.key(), [1; 9]);
        iter.next().unwrap();
        assert!(!iter.valid());
    }
}
