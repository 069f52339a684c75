//! Entries of the family of locks.
//!
//! ```text
//! encoded key | 'L'   ->   the record: owner of the lock, its timestamps and its time to live
//! encoded key | 'V'   ->   the value of a prewritten put, as the application gave it
//! ```
//!
//! The value is a separate entry: a heartbeat rewrites the record without it, an opening loads
//! records without it, and a large value goes to a blob file.
//!
//! The record: kind (1), flags (1), start, timestamp for update, minimal commit timestamp, time to
//! live in milliseconds and size of the transaction (8 each, big-endian), and the primary key;
//! then, for an async commit, the number of secondary keys and the keys. Each key follows its
//! length (4).
//!
//! The highest bit of the size marks a transaction of the store itself ([`Owner`]). Earlier
//! versions of the crate take the bit for a part of the size, which only reports show. Their own
//! locks lack it, and count as locks of clients.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::families::LOCKS;
use super::key::{decode_key, encode_key};
use crate::error::{Error, Result};
use crate::lock_info::{LockInfo, LockKind};
use crate::timestamp::Timestamp;

/// The last byte of the key of a record.
const RECORD: u8 = b'L';
/// The last byte of the key of a value.
const VALUE: u8 = b'V';
/// The flag of a lock of an async commit.
const ASYNC: u8 = 1;
/// The bit of the size that marks a transaction of the store itself.
const OF_STORE: u64 = 1 << 63;

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A transaction of the store itself. It ends with the store, even after a crash.
    Store,
    /// A client of the Percolator calls, which may outlive the process.
    Client,
}

/// A lock, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lock {
    pub(crate) kind: LockKind,
    pub(crate) owner: Owner,
    /// The primary key of the transaction.
    pub(crate) primary: Bytes,
    /// The start timestamp, which identifies the transaction.
    pub(crate) start: Timestamp,
    /// The timestamp for update of a pessimistic lock; zero for an optimistic one.
    pub(crate) for_update: Timestamp,
    /// The first timestamp at which the transaction may commit.
    pub(crate) min_commit: Timestamp,
    /// Time to live after a heartbeat of the owner.
    pub(crate) ttl: Duration,
    /// Approximate number of keys of the transaction, less than 2^63; zero if unknown.
    pub(crate) txn_size: u64,
    /// The other keys of an async commit, on the lock of its primary key; empty on its other locks.
    pub(crate) secondaries: Option<Arc<[Bytes]>>,
}

impl Lock {
    /// Returns true for the lock of an async commit, whose prewrites alone decide on it.
    pub(crate) fn is_async(&self) -> bool {
        self.secondaries.is_some()
    }

    /// Returns true if the lock can be committed: its write is known.
    pub(crate) fn is_prewritten(&self) -> bool {
        self.kind != LockKind::Pessimistic
    }

    /// A report on this lock of `key`.
    pub(crate) fn info(&self, key: &[u8]) -> LockInfo {
        LockInfo {
            key: Bytes::copy_from_slice(key),
            kind: self.kind,
            primary: self.primary.clone(),
            start: self.start,
            for_update: self.for_update,
            min_commit: self.min_commit,
            ttl: self.ttl,
            txn_size: self.txn_size,
            secondaries: self.secondaries.as_ref().map(|keys| keys.to_vec()),
        }
    }

    /// The error for a transaction that needs `key`, which this lock protects.
    pub(crate) fn key_is_locked(&self, key: &[u8]) -> Error {
        Error::KeyIsLocked(Box::new(self.info(key)))
    }

    /// Encodes the record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(50 + self.primary.len());
        out.push(match self.kind {
            LockKind::Put => b'P',
            LockKind::Delete => b'D',
            LockKind::Lock => b'L',
            LockKind::Pessimistic => b'S',
        });
        out.push(u8::from(self.is_async()) * ASYNC);
        let ttl = u64::try_from(self.ttl.as_millis()).unwrap_or(u64::MAX);
        let timestamps = [self.start.0, self.for_update.0, self.min_commit.0];
        let of_store = u64::from(self.owner == Owner::Store) * OF_STORE;
        let size = self.txn_size.min(OF_STORE - 1) | of_store;
        for number in timestamps.into_iter().chain([ttl, size]) {
            out.extend_from_slice(&number.to_be_bytes());
        }
        put_key(&mut out, &self.primary);
        if let Some(secondaries) = &self.secondaries {
            out.extend_from_slice(&(secondaries.len() as u64).to_be_bytes());
            for key in secondaries.iter() {
                put_key(&mut out, key);
            }
        }
        out
    }

    /// Decodes a record, or returns `None` if it is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Lock> {
        let mut rest = Rest(bytes);
        let [kind, flags] = rest.take::<2>()?;
        let kind = match kind {
            b'P' => LockKind::Put,
            b'D' => LockKind::Delete,
            b'L' => LockKind::Lock,
            b'S' => LockKind::Pessimistic,
            _ => return None,
        };
        if flags & !ASYNC != 0 {
            return None;
        }
        let mut lock = Lock {
            kind,
            owner: Owner::Client,
            start: Timestamp(rest.number()?),
            for_update: Timestamp(rest.number()?),
            min_commit: Timestamp(rest.number()?),
            ttl: Duration::from_millis(rest.number()?),
            txn_size: rest.number()?,
            primary: rest.key()?,
            secondaries: None,
        };
        if lock.txn_size & OF_STORE != 0 {
            lock.owner = Owner::Store;
            lock.txn_size &= !OF_STORE;
        }
        if flags == ASYNC {
            let n = rest.number()?;
            let keys: Option<Vec<Bytes>> = (0..n).map(|_| rest.key()).collect();
            lock.secondaries = Some(keys?.into());
        }
        rest.0.is_empty().then_some(lock)
    }
}

/// The engine's key of the record of a lock.
pub(crate) fn record_key(key: &[u8]) -> Vec<u8> {
    let mut out = encode_key(key);
    out.push(RECORD);
    out
}

/// The engine's key of the prewritten value.
pub(crate) fn value_key(key: &[u8]) -> Vec<u8> {
    let mut out = encode_key(key);
    out.push(VALUE);
    out
}

/// The key of a record, or `None` for the entry of a value.
///
/// # Errors
/// `Corruption` if the entry is neither.
pub(crate) fn key_of_record(engine_key: &[u8]) -> Result<Option<Vec<u8>>> {
    let wrong = || Error::corrupt_entry(LOCKS, engine_key, "it is not the entry of a lock");
    let (last, encoded) = engine_key.split_last().ok_or_else(wrong)?;
    let key = decode_key(encoded).ok_or_else(wrong)?;
    match *last {
        RECORD => Ok(Some(key)),
        VALUE => Ok(None),
        _ => Err(wrong()),
    }
}

fn put_key(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(&(key.len() as u32).to_be_bytes());
    out.extend_from_slice(key);
}

/// The rest of a record.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn key(&mut self) -> Option<Bytes> {
        let len = u32::from_be_bytes(self.take()?) as usize;
        let (key, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(Bytes::copy_from_slice(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some_lock(rng: &mut fastrand::Rng) -> Lock {
        let mut key = || -> Bytes { (0..rng.usize(..20)).map(|_| rng.u8(..)).collect() };
        let keys = [key(), key(), key(), key()];
        let kinds = [
            LockKind::Put,
            LockKind::Delete,
            LockKind::Lock,
            LockKind::Pessimistic,
        ];
        Lock {
            kind: kinds[rng.usize(..4)],
            owner: [Owner::Store, Owner::Client][rng.usize(..2)],
            primary: keys[0].clone(),
            start: Timestamp(rng.u64(..)),
            for_update: Timestamp(rng.u64(..)),
            min_commit: Timestamp(rng.u64(..)),
            ttl: Duration::from_millis(rng.u64(..)),
            txn_size: rng.u64(..OF_STORE),
            secondaries: rng.bool().then(|| keys[1..rng.usize(1..4)].into()),
        }
    }

    #[test]
    fn records_come_back_and_parts_of_them_are_none() {
        for seed in 0..5_000 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let lock = some_lock(&mut rng);
            let bytes = lock.encode();
            assert_eq!(Lock::decode(&bytes).as_ref(), Some(&lock), "seed {seed}");
            for cut in 0..bytes.len() {
                assert_eq!(Lock::decode(&bytes[..cut]), None, "seed {seed}, {cut}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Lock::decode(&longer), None, "seed {seed}");
            let mut damaged = bytes.clone();
            damaged[rng.usize(..bytes.len())] = rng.u8(..);
            if let Some(lock) = Lock::decode(&damaged) {
                assert_eq!(lock.encode(), damaged, "seed {seed}");
            }
        }
    }

    #[test]
    fn the_owner_is_a_bit_of_the_size_and_locks_without_it_are_those_of_clients() {
        let mut lock = Lock {
            owner: Owner::Client,
            txn_size: u64::MAX,
            ..some_lock(&mut fastrand::Rng::with_seed(1))
        };
        // Kind, flags, three timestamps and the time to live precede the size.
        let size = 2 + 4 * 8..2 + 5 * 8;
        let largest = (1_u64 << 63) - 1;
        assert_eq!(lock.encode()[size.clone()], largest.to_be_bytes());
        lock.txn_size = 2;
        let by_client = lock.encode();
        assert_eq!(by_client[size.clone()], [0, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(Lock::decode(&by_client).unwrap().owner, Owner::Client);
        lock.owner = Owner::Store;
        let by_store = lock.encode();
        assert_eq!(by_store[size], [0x80, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(Lock::decode(&by_store), Some(lock));
    }

    #[test]
    fn entries_show_which_they_are() {
        for key in [&b""[..], b"k", b"12345678"] {
            assert_eq!(
                key_of_record(&record_key(key)).unwrap().as_deref(),
                Some(key)
            );
            assert_eq!(key_of_record(&value_key(key)).unwrap(), None);
            assert!(record_key(key) < value_key(key));
            assert!(key_of_record(&encode_key(key)).is_err());
        }
    }
}
