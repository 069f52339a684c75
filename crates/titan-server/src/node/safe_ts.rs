//! The timestamp up to which nothing changes any more.

use bytes::Bytes;
use titan_mvcc::{LockKind, Store, Timestamp};

/// Locks that are read at once.
const AT_ONCE: usize = 1024;

/// A timestamp up to which all transactions have ended: the present, or just before the oldest one
/// that may commit. Cost: reads all locks.
pub(crate) fn safe_ts(store: &Store) -> Timestamp {
    // ORDER: the present first. What is locked later commits after it.
    let now = store.now();
    let percolator = store.percolator();
    let (mut safe, mut from) = (now, Bytes::new());
    loop {
        let locks = percolator.scan_locks(now, &from, AT_ONCE);
        // A pessimistic lock is replaced before its transaction commits.
        let may_commit = locks
            .iter()
            .filter(|lock| lock.kind != LockKind::Pessimistic);
        let oldest = may_commit.map(|lock| lock.start.0).min();
        safe = safe.min(Timestamp(
            oldest.map_or(u64::MAX, |start| start.saturating_sub(1)),
        ));
        match locks.last() {
            Some(last) if locks.len() == AT_ONCE => from = [&*last.key, &[0]].concat().into(),
            _ => return safe,
        }
    }
}
