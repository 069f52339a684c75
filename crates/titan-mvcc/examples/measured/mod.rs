//! Calls on the versions of [`KEYS`] rows, each way in a function of its own, so that `cargo xtask
//! instructions` can count what each costs.

use std::hint::black_box;

use titan_mvcc::{Direction, Snapshot, Store};

const KEYS: u32 = 10_000;

fn key(n: u32) -> Vec<u8> {
    format!("key{n:08}").into_bytes()
}

#[inline(never)]
fn measured_get(snapshot: &Snapshot) {
    for n in 0..KEYS {
        black_box(snapshot.get(&key(n.wrapping_mul(7919) % KEYS)).unwrap());
    }
}

#[inline(never)]
fn measured_miss(snapshot: &Snapshot) {
    for n in 0..KEYS {
        black_box(snapshot.get(&key(KEYS + n)).unwrap());
    }
}

#[inline(never)]
fn measured_forward(snapshot: &Snapshot) {
    let scan = snapshot.scan(None, None, Direction::Forward).unwrap();
    assert_eq!(scan.map(black_box).count() as u32, KEYS);
}

#[inline(never)]
fn measured_backward(snapshot: &Snapshot) {
    let scan = snapshot.scan(None, None, Direction::Backward).unwrap();
    assert_eq!(scan.map(black_box).count() as u32, KEYS);
}

#[inline(never)]
fn measured_commit(store: &Store) {
    for n in 0..KEYS {
        let mut transaction = store.begin();
        transaction.put(&key(n), b"another value");
        transaction.commit().unwrap();
    }
}

/// Commits three values of each row.
pub(crate) fn fill(store: &Store) {
    for round in 0..3_u32 {
        for n in 0..KEYS {
            let mut transaction = store.begin();
            transaction.put(&key(n), &[round as u8; 100]);
            transaction.commit().unwrap();
        }
    }
}

pub(crate) fn measure(store: &Store) {
    let snapshot = store.snapshot();
    measured_get(&snapshot);
    measured_miss(&snapshot);
    measured_forward(&snapshot);
    measured_backward(&snapshot);
    measured_commit(store);
}
