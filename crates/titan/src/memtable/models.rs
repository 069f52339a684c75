//! Skiplist, arena and tombstones under every schedule and every order of memory operations that
//! the language allows. The checker tracks the links of each node: it reports a thread that reaches
//! a node whose initialisation did not happen before.

use std::sync::Arc;

use super::Memtable;
use super::arena::Arena;
use crate::format::internal_key::{InternalKeyComparator, ValueType};
use crate::format::{BytewiseComparator, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::sync::{model, spawn, thread};
use crate::version::Counters;

fn memtable() -> Arc<Memtable> {
    Memtable::new(InternalKeyComparator::new(Arc::new(BytewiseComparator)), 0)
}

fn add(table: &Memtable, sequence: u64, key: u8) -> bool {
    let value = [key; 3];
    table
        .add(SequenceNumber(sequence), ValueType::Value, &[key], &value)
        .is_ok()
}

/// Threads that add an entry each.
fn writers(table: &Arc<Memtable>, entries: [(u64, u8); 2]) -> [thread::JoinHandle<()>; 2] {
    entries.map(|(sequence, key)| {
        let table = Arc::clone(table);
        spawn(move || assert!(add(&table, sequence, key)))
    })
}

fn keys(table: &Arc<Memtable>) -> Vec<u8> {
    let mut iterator = table.iter();
    iterator.seek_to_first().unwrap();
    let mut keys = Vec::new();
    while iterator.valid() {
        let key = iterator.key()[0];
        assert_eq!(iterator.value(), [key; 3]);
        keys.push(key);
        iterator.next().unwrap();
    }
    keys
}

#[test]
fn two_that_insert_and_one_that_reads() {
    model(2, || {
        let table = memtable();
        let writers = writers(&table, [(1, b'a'), (2, b'b')]);
        let seen = keys(&table);
        assert!(seen.is_sorted() && seen.iter().all(|key| b"ab".contains(key)));
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(keys(&table), b"ab");
    });
}

/// Among earlier entries, one of them high, so that more than one level is walked.
#[test]
fn inserts_between_others() {
    model(2, || {
        let table = memtable();
        for (sequence, key) in (1..).zip(*b"adg") {
            assert!(add(&table, sequence, key));
        }
        let writers = writers(&table, [(4, b'b'), (5, b'c')]);
        assert!(table.get(b"d", SequenceNumber::MAX).is_some());
        writers.into_iter().for_each(|w| w.join().unwrap());
        assert_eq!(keys(&table), b"abcdg");
    });
}

#[test]
fn of_two_equal_entries_one_is_kept() {
    model(3, || {
        let table = memtable();
        let other = Arc::clone(&table);
        let other = spawn(move || add(&other, 1, b'a'));
        let mine = add(&table, 1, b'a');
        assert_ne!(mine, other.join().unwrap());
        assert_eq!(keys(&table), b"a");
    });
}

#[test]
fn what_a_sequence_number_publishes_is_there() {
    model(3, || {
        let (table, counters) = (memtable(), Arc::new(Counters::default()));
        let writer = {
            let (table, counters) = (Arc::clone(&table), Arc::clone(&counters));
            spawn(move || {
                for sequence in 1..3 {
                    assert!(add(&table, sequence, b'a'));
                    counters.publish_sequence(SequenceNumber(sequence));
                }
            })
        };
        let visible = counters.last_sequence();
        let found = table.get(b"a", visible).map(|entry| entry.sequence);
        assert_eq!(found.unwrap_or(SequenceNumber::ZERO), visible);
        writer.join().unwrap();
    });
}

#[test]
fn pieces_of_memory_are_apart_over_chunks() {
    /// Four pieces fit the first chunk.
    const PIECE: usize = 1024;
    model(3, || {
        let arena = Arc::new(Arena::new(0));
        let piece = |arena: &Arena| arena.allocate(PIECE).as_ptr().addr();
        let pieces = move |arena: &Arena| [0; 2].map(|_| piece(arena));
        let mut all = vec![piece(&arena), piece(&arena), piece(&arena)];
        let other = Arc::clone(&arena);
        let other = spawn(move || pieces(&other));
        all.extend(pieces(&arena));
        all.extend(other.join().unwrap());
        all.sort();
        assert!(
            all.windows(2).all(|pair| pair[0] + PIECE <= pair[1]),
            "{all:?}"
        );
    });
}

#[test]
fn range_tombstones_are_seen_once_added() {
    model(2, || {
        let (table, counters) = (memtable(), Arc::new(Counters::default()));
        let writer = {
            let (table, counters) = (Arc::clone(&table), Arc::clone(&counters));
            spawn(move || {
                for sequence in 1..3 {
                    let added = table.add(
                        SequenceNumber(sequence),
                        ValueType::RangeDeletion,
                        &[sequence as u8],
                        &[sequence as u8 + 1],
                    );
                    added.unwrap();
                    counters.publish_sequence(SequenceNumber(sequence));
                }
            })
        };
        let at_least = counters.last_sequence().0 as usize;
        assert!(table.range_tombstones().fragments().len() >= at_least);
        writer.join().unwrap();
        assert_eq!(table.range_tombstones().fragments().len(), 2);
    });
}
