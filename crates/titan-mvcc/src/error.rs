//! The one error type of the crate.
//!
//! Each variant is a kind of failure, with what a program needs to act on it. The text is for people.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::lock_info::LockInfo;
use crate::timestamp::Timestamp;

/// A day in seconds.
const DAY: u64 = 24 * 3600;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction committed a write or a lock of `key` at `committed`, after this one had begun at
    /// `start`. Nothing was written; begin again and retry.
    Conflict {
        /// The key that both wrote.
        key: Bytes,
        /// When this transaction began.
        start: Timestamp,
        /// When the other one committed.
        committed: Timestamp,
    },
    /// Another transaction holds a lock of the key, and is alive or was not waited for. Nothing was done; try
    /// again later, or resolve the lock.
    KeyIsLocked(Box<LockInfo>),
    /// Transactions wait for each other's locks. Roll this one back.
    Deadlock {
        /// The key whose lock would have closed the circle.
        key: Bytes,
        /// The starts of transactions each of which waits for the next, and the last for the first, which is
        /// this one.
        circle: Vec<Timestamp>,
    },
    /// A transaction to be rolled back has committed.
    AlreadyCommitted {
        /// The key that was to be rolled back.
        key: Bytes,
        /// When the transaction began.
        start: Timestamp,
        /// When it committed.
        committed: Timestamp,
    },
    /// The transaction has been rolled back: by others, if its locks lived too long. Begin again and retry.
    RolledBack {
        /// The key that says so.
        key: Bytes,
        /// When the transaction began.
        start: Timestamp,
    },
    /// A commit or a heartbeat of a lock that the transaction does not have: it was rolled back, or never
    /// prewritten.
    LockNotFound {
        /// The key.
        key: Bytes,
        /// When the transaction began.
        start: Timestamp,
    },
    /// A pessimistic transaction has lost a lock, and the key may have been written since. Begin again and retry.
    PessimisticLockNotFound {
        /// The key.
        key: Bytes,
        /// When the transaction began.
        start: Timestamp,
    },
    /// A pessimistic transaction asks for a lock of a key that it has prewritten already.
    PrewrittenAlready {
        /// The key.
        key: Bytes,
        /// When the transaction began.
        start: Timestamp,
    },
    /// Nothing is known of the transaction at its primary key, neither a lock nor how it ended.
    TransactionNotFound {
        /// Its primary key.
        primary: Bytes,
        /// When it began.
        start: Timestamp,
    },
    /// The key is not the primary key of the transaction that has its lock.
    PrimaryMismatch {
        /// The key that was taken for the primary one.
        key: Bytes,
        /// The lock.
        lock: Box<LockInfo>,
    },
    /// A commit at a timestamp at which others have read already, or that is not after the start. Nothing was
    /// done; take a new timestamp and commit again.
    CommitTsExpired {
        /// The key whose lock says so.
        key: Bytes,
        /// The timestamp that was asked for.
        asked: Timestamp,
        /// The first one that is possible.
        min_commit: Timestamp,
    },
    /// A read or a hold at a timestamp whose versions may have been dropped.
    BeforeSafePoint {
        /// The timestamp that was asked for.
        asked: Timestamp,
        /// The oldest timestamp that can be read.
        safe_point: Timestamp,
    },
    /// The safe point would have moved backwards.
    SafePointBackwards {
        /// Where it was to go.
        asked: Timestamp,
        /// Where it is, and stays.
        safe_point: Timestamp,
    },
    /// A read, a safe point or a call of a transaction at a timestamp that the oracle has not handed out yet, so
    /// that commits before it are still to come.
    InFuture {
        /// The timestamp that was asked for.
        asked: Timestamp,
        /// A timestamp of the present.
        now: Timestamp,
    },
    /// The directory has a database that was written without versions. Its data was not changed.
    NotVersioned {
        /// The directory.
        dir: PathBuf,
        /// What was found in it.
        found: String,
    },
    /// The oracle has no timestamp to give.
    Oracle {
        /// Why.
        reason: Cow<'static, str>,
    },
    /// The clock of an opening is far after the last timestamp of the store, and that is
    /// [refused](crate::StoreOptions::refuse_clock_jump). Nothing was changed.
    ClockAhead {
        /// The time by which it is after that.
        jump: Duration,
        /// The longest time by which it may be after that.
        most: Duration,
    },
    /// A stored entry that this version of the crate cannot have written.
    Corruption {
        /// The family and the key of the entry, and what is wrong with it.
        what: String,
    },
    /// The engine failed.
    Engine(titan::Error),
}

impl Error {
    /// Whether the same transaction, begun again, may succeed without anything being mended: others were in
    /// the way. `Conflict`, `KeyIsLocked`, `Deadlock`, `RolledBack`, `PessimisticLockNotFound`,
    /// `CommitTsExpired`, and what the engine calls [retryable](titan::ErrorKind::is_retryable).
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Conflict { .. }
            | Error::KeyIsLocked(_)
            | Error::Deadlock { .. }
            | Error::RolledBack { .. }
            | Error::PessimisticLockNotFound { .. }
            | Error::CommitTsExpired { .. } => true,
            Error::Engine(source) => source.is_retryable(),
            // What is over, misused, damaged, or out of time stays so.
            Error::AlreadyCommitted { .. }
            | Error::LockNotFound { .. }
            | Error::PrewrittenAlready { .. }
            | Error::TransactionNotFound { .. }
            | Error::PrimaryMismatch { .. }
            | Error::BeforeSafePoint { .. }
            | Error::SafePointBackwards { .. }
            | Error::InFuture { .. }
            | Error::NotVersioned { .. }
            | Error::Oracle { .. }
            | Error::ClockAhead { .. }
            | Error::Corruption { .. } => false,
        }
    }

    /// The oracle has no timestamp to give, for this reason.
    pub fn oracle(reason: impl Into<Cow<'static, str>>) -> Self {
        Error::Oracle {
            reason: reason.into(),
        }
    }

    /// A database that is no store, because of `found`.
    pub(crate) fn not_versioned(dir: &Path, found: impl Into<String>) -> Self {
        Error::NotVersioned {
            dir: dir.to_owned(),
            found: found.into(),
        }
    }

    /// Whether what is stored is damaged.
    pub(crate) fn is_corruption(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Engine(e) => e.kind() == titan::ErrorKind::Corruption,
            _ => false,
        }
    }

    /// An entry that cannot be.
    pub(crate) fn corrupt_entry(family: &str, key: &[u8], what: &str) -> Self {
        let key = key.escape_ascii();
        Error::Corruption {
            what: format!("the entry \"{key}\" of column family {family}: {what}"),
        }
    }
}

impl From<titan::Error> for Error {
    fn from(source: titan::Error) -> Self {
        Error::Engine(source)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Conflict {
                key,
                start,
                committed,
            } => write!(
                f,
                "the key \"{}\" was written at {committed}, after the transaction had begun at {start}: \
                 begin again and retry",
                key.escape_ascii()
            ),
            Error::KeyIsLocked(lock) => write!(
                f,
                "the key \"{}\" is locked by the transaction that began at {}",
                lock.key.escape_ascii(),
                lock.start
            ),
            Error::Deadlock { key, circle } => {
                let key = key.escape_ascii();
                write!(
                    f,
                    "deadlock at the key \"{key}\": transactions wait for each other's locks, they began at"
                )?;
                circle.iter().try_for_each(|start| write!(f, " {start}"))
            }
            Error::AlreadyCommitted {
                key,
                start,
                committed,
            } => write!(
                f,
                "the transaction that began at {start} has committed the key \"{}\" at {committed}",
                key.escape_ascii()
            ),
            Error::RolledBack { key, start } => write!(
                f,
                "the transaction that began at {start} has been rolled back, as the key \"{}\" says",
                key.escape_ascii()
            ),
            Error::LockNotFound { key, start } => write!(
                f,
                "the transaction that began at {start} has no lock of the key \"{}\"",
                key.escape_ascii()
            ),
            Error::PessimisticLockNotFound { key, start } => write!(
                f,
                "the pessimistic transaction that began at {start} has lost its lock of the key \"{}\": begin \
                 again and retry",
                key.escape_ascii()
            ),
            Error::PrewrittenAlready { key, start } => write!(
                f,
                "the transaction that began at {start} has prewritten the key \"{}\" and locks it no more",
                key.escape_ascii()
            ),
            Error::TransactionNotFound { primary, start } => write!(
                f,
                "the primary key \"{}\" knows no transaction that began at {start}",
                primary.escape_ascii()
            ),
            Error::PrimaryMismatch { key, lock } => write!(
                f,
                "the transaction that began at {} has the primary key \"{}\" and not \"{}\"",
                lock.start,
                lock.primary.escape_ascii(),
                key.escape_ascii()
            ),
            Error::CommitTsExpired {
                key,
                asked,
                min_commit,
            } => write!(
                f,
                "the key \"{}\" cannot be committed at {asked}, but from {min_commit} on",
                key.escape_ascii()
            ),
            Error::BeforeSafePoint { asked, safe_point } => write!(
                f,
                "the timestamp {asked} is before the safe point {safe_point}: versions that it needs may \
                 have been dropped"
            ),
            Error::SafePointBackwards { asked, safe_point } => write!(
                f,
                "the safe point is {safe_point} and cannot move backwards to {asked}"
            ),
            Error::InFuture { asked, now } => {
                write!(f, "the timestamp {asked} is in the future: it is {now} now")
            }
            Error::NotVersioned { dir, found } => write!(
                f,
                "{} has a database without versions: {found}",
                dir.display()
            ),
            Error::Oracle { reason } => write!(f, "no timestamp: {reason}"),
            Error::ClockAhead { jump, most } => write!(
                f,
                "the clock is {} days after the last timestamp of the store, and {} are allowed",
                jump.as_secs() / DAY,
                most.as_secs() / DAY
            ),
            Error::Corruption { what } => write!(f, "corruption: {what}"),
            Error::Engine(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Engine(source) => Some(source),
            _ => None,
        }
    }
}
