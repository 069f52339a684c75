//! Transactions that are committed in two phases.

mod abandoned;
mod steps;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use titan::{
    BatchOp, BypassedRange, CommitHook, CommittedOps, ErrorKind, SequenceNumber, StallEvent,
};
use titan_mvcc::{
    Direction, Error, Mutation, Prewrite, Result, Store, StoreOptions, Timestamp, TimestampOracle,
    Transaction,
};
use titan_testkit::sim::OpKind;

use super::accounts::{EACH, movement, open_accounts, sum};
use super::setup::{DIR, Place, put};

const TTL: Duration = Duration::from_secs(1_000_000);

/// A store in which all commits are in two phases and nobody waits for locks.
pub fn open(place: &mut Place, async_commit: bool) -> Store {
    let transactions = &mut place.options.transactions;
    transactions.one_batch_bytes = 0;
    transactions.async_commit = async_commit;
    transactions.lock_ttl = TTL;
    transactions.lock_wait = Duration::ZERO;
    place.open()
}

pub fn writes(store: &Store, keys: &[&str], value: &[u8]) -> Transaction {
    let mut transaction = store.begin();
    for key in keys {
        transaction.put(key.as_bytes(), value);
    }
    transaction
}

pub fn values(store: &Store, keys: &[&str]) -> Vec<Option<String>> {
    let values = store.snapshot().batch_get(keys).unwrap();
    let text = |value: bytes::Bytes| String::from_utf8(value.to_vec()).unwrap();
    values.into_iter().map(|value| value.map(text)).collect()
}

pub fn locks(store: &Store) -> usize {
    store
        .percolator()
        .scan_locks(Timestamp::MAX, b"", 999)
        .len()
}

pub fn scan(store: &Store, direction: Direction) -> Vec<String> {
    let rows = store.snapshot().scan(None, None, direction).unwrap();
    let text = |row: titan_mvcc::Row| {
        let bytes = [&row.key[..], b"=", &row.value.fetch().unwrap()].concat();
        String::from_utf8(bytes).unwrap()
    };
    rows.map(|row| text(row.unwrap())).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}

const KEYS: &[&str] = &["a", "b", "c"];

#[test]
fn a_commit_in_two_phases_is_as_one_in_one_batch() {
    for async_commit in [false, true] {
        let mut place = Place::new(1);
        let store = open(&mut place, async_commit);
        let old = store.snapshot();
        let commit = writes(&store, KEYS, b"1").commit().unwrap();
        assert_eq!(store.now(), commit);
        assert_eq!(values(&store, KEYS), some(&["1", "1", "1"]));
        assert_eq!(old.get(b"a").unwrap(), None);
        assert_eq!(locks(&store), 0);
        let (first, second) = (writes(&store, KEYS, b"2"), writes(&store, &["b"], b"3"));
        first.commit().unwrap();
        match second.commit() {
            Err(Error::Conflict { key, .. }) => assert_eq!(key, "b"),
            other => panic!("{other:?}"),
        }
        let mut nothing = store.begin();
        nothing.lock(b"a");
        nothing.commit().unwrap();
        assert_eq!(values(&store, KEYS), some(&["2", "2", "2"]));
        assert_eq!(locks(&store), 0);
    }
}

#[test]
fn a_conflict_in_the_last_piece_releases_all_locks() {
    for async_commit in [false, true] {
        let mut place = Place::new(2);
        let store = open(&mut place, async_commit);
        let late = writes(&store, KEYS, b"late");
        put(&store, b"c", b"first");
        assert!(matches!(late.commit(), Err(Error::Conflict { .. })));
        assert_eq!(locks(&store), 0);
        assert_eq!(values(&store, &["a"]), [None]);
        // And leaves nothing that is a conflict for others.
        writes(&store, KEYS, b"2").commit().unwrap();
    }
}

#[test]
fn a_commit_in_one_batch_finds_locks_of_one_in_two_phases() {
    let mut place = Place::new(15);
    place.options.transactions.async_commit = false;
    place.options.transactions.lock_ttl = TTL;
    place.options.transactions.lock_wait = Duration::ZERO;
    let store = place.open();
    let slow = writes(&store, KEYS, b"slow").prewrite().unwrap();
    let blocked = writes(&store, &["x", "b"], b"new").commit().unwrap_err();
    assert!(matches!(blocked, Error::KeyIsLocked(lock) if lock.key == "b"));
    drop(slow);
    place.clock.advance(TTL + Duration::from_secs(1));
    writes(&store, &["x", "b"], b"new").commit().unwrap();
    assert_eq!(values(&store, KEYS), [None, Some("new".into()), None]);
}

#[test]
fn what_is_rolled_back_between_the_phases_was_never_there() {
    let mut place = Place::new(7);
    let store = open(&mut place, false);
    writes(&store, KEYS, b"1").prewrite().unwrap().rollback();
    assert_eq!(locks(&store), 0);
    assert_eq!(crate::setup::stored_versions(&store), 0);
    let none = store.begin().prewrite().unwrap();
    assert_eq!(none.commit().unwrap(), store.now());
}
