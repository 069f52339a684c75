//! Options of a transaction.

use std::time::Duration;

use crate::write::WriteOptions;

/// When a transaction takes its snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionSnapshot {
    /// When it begins.
    AtBegin,
    /// When it first reads, writes or locks something, after it has the first lock.
    AtFirstUse,
    /// Never: each read sees the writes committed by then, and each key that the transaction
    /// touches must be unchanged since it touched the key first.
    None,
}

/// Options of a transaction's locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockOptions {
    /// Longest wait for a lock; `None` waits for ever, zero not at all. Default: 1 second.
    pub timeout: Option<Duration>,
    /// Fail with `Deadlock` at once if a lock would be waited for for ever, because transactions
    /// wait for each other. Without it such a wait ends by the timeout of one of them. Default:
    /// true.
    pub detect_deadlocks: bool,
    /// Largest number of keys that the transaction may have touched at the same time. Default: no
    /// limit.
    pub max_locks: Option<usize>,
}

impl Default for LockOptions {
    fn default() -> Self {
        LockOptions {
            timeout: Some(Duration::from_secs(1)),
            detect_deadlocks: true,
            max_locks: None,
        }
    }
}

/// Options of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// Lock keys when they are touched; `None` for an optimistic transaction, which learns of
    /// conflicts when it commits. Default: none.
    pub locks: Option<LockOptions>,
    /// When the snapshot is taken. Default: [`TransactionSnapshot::AtBegin`].
    pub snapshot: TransactionSnapshot,
    /// Options of the write when the transaction commits.
    pub write: WriteOptions,
}

impl Default for TransactionOptions {
    fn default() -> Self {
        TransactionOptions {
            locks: None,
            snapshot: TransactionSnapshot::AtBegin,
            write: WriteOptions::default(),
        }
    }
}

impl TransactionOptions {
    /// Options of a transaction that locks keys when it touches them, and has no snapshot.
    pub fn pessimistic() -> Self {
        TransactionOptions {
            locks: Some(LockOptions::default()),
            snapshot: TransactionSnapshot::None,
            write: WriteOptions::default(),
        }
    }
}
