//! The error type of the crate.
//!
//! Each variant is one kind of failure, with the data that a program needs to act on it. The text
//! is for people.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;

use crate::lock_info::LockInfo;
use crate::timestamp::Timestamp;

/// A day in seconds.
const DAY: u64 = 24 * 3600;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The failure of an operation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// Another transaction wrote or locked `key` and committed at `committed`, after this one
    /// began. Nothing was written. Begin again.
    Conflict {
        /// The key that both transactions wrote or locked.
        key: Bytes,
        /// The start timestamp of this transaction.
        start: Timestamp,
        /// The commit timestamp of the other one.
        committed: Timestamp,
        /// The start timestamp of the other one.
        other: Timestamp,
    },
    /// A prewrite demanded that the key has no value, and it has one.
    AlreadyExists {
        /// The key.
        key: Bytes,
    },
    /// A client asserted that a key has a value, or that it has none. The client is wrong.
    AssertionFailed {
        /// The key.
        key: Bytes,
        /// The start timestamp of the client's transaction.
        start: Timestamp,
        /// True if the client asserted a value.
        must_exist: bool,
        /// The start and the commit timestamp of the last change of the key; `None` without one.
        existing: Option<(Timestamp, Timestamp)>,
    },
    /// Another transaction holds a lock of the key. It may still be running. Nothing was done. Try
    /// again later, or resolve the lock.
    KeyIsLocked(Box<LockInfo>),
    /// Transactions wait for each other's locks. Roll this one back.
    Deadlock {
        /// The key whose lock would have closed the circle.
        key: Bytes,
        /// Start timestamps. Each transaction waits for the next, the last one for the first, which
        /// is this one.
        circle: Vec<Timestamp>,
        /// For each transaction of the circle, the key whose lock it waits for.
        keys: Vec<Bytes>,
    },
    /// The transaction to be rolled back has committed.
    AlreadyCommitted {
        /// The key to be rolled back.
        key: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
        /// Its commit timestamp.
        committed: Timestamp,
    },
    /// Another caller rolled the transaction back, because its locks expired. Begin again.
    RolledBack {
        /// The key with the rollback record.
        key: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
    },
    /// The transaction has no lock to commit or renew: it was rolled back, or never prewrote the
    /// key.
    LockNotFound {
        /// The key.
        key: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
    },
    /// A pessimistic transaction lost a lock, and the key may have been written since. Begin again.
    PessimisticLockNotFound {
        /// The key.
        key: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
    },
    /// A pessimistic transaction asked for a lock of a key that it has prewritten.
    PrewrittenAlready {
        /// The key.
        key: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
    },
    /// The caller did not admit the state of a key to its answer. No key was locked.
    NotAdmitted {
        /// The key.
        key: Bytes,
    },
    /// The primary key has neither a lock nor a record of the transaction.
    TransactionNotFound {
        /// The primary key.
        primary: Bytes,
        /// The start timestamp of the transaction.
        start: Timestamp,
    },
    /// The transaction that locked the key has another primary key.
    PrimaryMismatch {
        /// The key that the caller named as the primary one.
        key: Bytes,
        /// The lock of that key.
        lock: Box<LockInfo>,
    },
    /// The commit timestamp is too early: a read at a later one has passed the lock, or the
    /// transaction began later. Nothing was done. Commit at a new timestamp.
    CommitTsExpired {
        /// The key whose lock refuses the timestamp.
        key: Bytes,
        /// The requested commit timestamp.
        asked: Timestamp,
        /// The first possible one.
        min_commit: Timestamp,
    },
    /// A read or a hold at a timestamp whose versions may have been dropped.
    BeforeSafePoint {
        /// The requested timestamp.
        asked: Timestamp,
        /// The oldest timestamp that can be read.
        safe_point: Timestamp,
    },
    /// The safe point cannot move backwards.
    SafePointBackwards {
        /// The requested safe point.
        asked: Timestamp,
        /// The safe point, which stays.
        safe_point: Timestamp,
    },
    /// The oracle has not handed out the timestamp yet, so commits before it are still possible.
    InFuture {
        /// The requested timestamp.
        asked: Timestamp,
        /// A timestamp of the present.
        now: Timestamp,
    },
    /// The directory contains a database that is not a store of versions. Its data was not changed.
    NotVersioned {
        /// The directory.
        dir: PathBuf,
        /// The reason: an unknown or missing part.
        found: String,
    },
    /// The oracle failed to give a timestamp.
    Oracle {
        /// The reason.
        reason: Cow<'static, str>,
    },
    /// The clock is far ahead of the store's last timestamp, and
    /// [`refuse_clock_jump`](crate::StoreOptions::refuse_clock_jump) is set. Nothing was changed.
    ClockAhead {
        /// The time by which the clock is ahead.
        jump: Duration,
        /// The longest time that is allowed.
        most: Duration,
    },
    /// The clock is far before the store's last timestamp: these were given under a clock that was
    /// ahead, perhaps the first one of the store. And
    /// [`refuse_clock_jump`](crate::StoreOptions::refuse_clock_jump) is set. Nothing was changed.
    ClockBehind {
        /// The time by which the clock is behind.
        lag: Duration,
        /// The longest time that is allowed.
        most: Duration,
    },
    /// A stored entry that no version of the crate can have written.
    Corruption {
        /// Family, key and fault of the entry.
        what: String,
    },
    /// An error of the engine.
    Engine(titan::Error),
}

impl Error {
    /// Returns true if the same transaction may succeed when it begins again, because other
    /// transactions were in its way: for `Conflict`, `KeyIsLocked`, `Deadlock`, `RolledBack`,
    /// `PessimisticLockNotFound`, `CommitTsExpired`, and
    /// [retryable](titan::ErrorKind::is_retryable) errors of the engine.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Conflict { .. }
            | Error::KeyIsLocked(_)
            | Error::Deadlock { .. }
            | Error::RolledBack { .. }
            | Error::PessimisticLockNotFound { .. }
            | Error::CommitTsExpired { .. } => true,
            Error::Engine(source) => source.is_retryable(),
            // Repeating does not mend these.
            Error::AlreadyCommitted { .. }
            | Error::AlreadyExists { .. }
            | Error::AssertionFailed { .. }
            | Error::LockNotFound { .. }
            | Error::PrewrittenAlready { .. }
            | Error::NotAdmitted { .. }
            | Error::TransactionNotFound { .. }
            | Error::PrimaryMismatch { .. }
            | Error::BeforeSafePoint { .. }
            | Error::SafePointBackwards { .. }
            | Error::InFuture { .. }
            | Error::NotVersioned { .. }
            | Error::Oracle { .. }
            | Error::ClockAhead { .. }
            | Error::ClockBehind { .. }
            | Error::Corruption { .. } => false,
        }
    }

    /// An error of an oracle that has no timestamp to give.
    pub fn oracle(reason: impl Into<Cow<'static, str>>) -> Self {
        Error::Oracle {
            reason: reason.into(),
        }
    }

    /// The error for a database that is not a store.
    pub(crate) fn not_versioned(dir: &Path, found: impl Into<String>) -> Self {
        Error::NotVersioned {
            dir: dir.to_owned(),
            found: found.into(),
        }
    }

    /// Returns true for damaged data.
    pub(crate) fn is_corruption(&self) -> bool {
        match self {
            Error::Corruption { .. } => true,
            Error::Engine(e) => e.kind() == titan::ErrorKind::Corruption,
            _ => false,
        }
    }

    /// The error for an entry that no store can have written.
    pub(crate) fn corrupt_entry(family: &str, key: &[u8], what: &str) -> Self {
        let key = key.escape_ascii();
        Error::Corruption {
            what: format!("entry \"{key}\" of column family {family}: {what}"),
        }
    }
}

impl From<titan::Error> for Error {
    fn from(source: titan::Error) -> Self {
        Error::Engine(source)
    }
}

/// A key between quotation marks, escaped.
struct Quoted<'k>(&'k [u8]);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Error as E;
        let days = |time: &Duration| time.as_secs() / DAY;
        match self {
            E::Conflict {
                key,
                start,
                committed,
                ..
            } => write!(
                f,
                "conflict on key {}: another transaction committed at {committed}, after this one \
                 began at {start}",
                Quoted(key)
            ),
            E::AlreadyExists { key } => write!(f, "key {} has a value already", Quoted(key)),
            E::AssertionFailed {
                key,
                start,
                must_exist,
                ..
            } => {
                let has = if *must_exist { "a" } else { "no" };
                let key = Quoted(key);
                write!(
                    f,
                    "transaction {start} asserts that key {key} has {has} value"
                )
            }
            E::KeyIsLocked(lock) => {
                let (key, start) = (Quoted(&lock.key), lock.start);
                write!(f, "key {key} is locked by transaction {start}")
            }
            E::Deadlock { key, circle, .. } => {
                let key = Quoted(key);
                write!(
                    f,
                    "deadlock at key {key}: these transactions wait for each other:"
                )?;
                circle.iter().try_for_each(|start| write!(f, " {start}"))
            }
            E::AlreadyCommitted {
                key,
                start,
                committed,
            } => write!(
                f,
                "transaction {start} committed key {} at {committed}",
                Quoted(key)
            ),
            E::RolledBack { key, start } => {
                write!(
                    f,
                    "transaction {start} was rolled back on key {}",
                    Quoted(key)
                )
            }
            E::LockNotFound { key, start } => {
                write!(f, "transaction {start} has no lock on key {}", Quoted(key))
            }
            E::PessimisticLockNotFound { key, start } => write!(
                f,
                "pessimistic transaction {start} has lost its lock on key {}: begin again",
                Quoted(key)
            ),
            E::PrewrittenAlready { key, start } => write!(
                f,
                "transaction {start} has prewritten key {} and can no longer lock it",
                Quoted(key)
            ),
            E::NotAdmitted { key } => write!(
                f,
                "no lock was taken: the answer has no room for the state of key {}",
                Quoted(key)
            ),
            E::TransactionNotFound { primary, start } => {
                write!(
                    f,
                    "primary key {} has no trace of transaction {start}",
                    Quoted(primary)
                )
            }
            E::PrimaryMismatch { key, lock } => {
                let (start, primary, key) = (lock.start, Quoted(&lock.primary), Quoted(key));
                write!(
                    f,
                    "transaction {start} has the primary key {primary}, not {key}"
                )
            }
            E::CommitTsExpired {
                key,
                asked,
                min_commit,
            } => {
                let key = Quoted(key);
                write!(
                    f,
                    "key {key} cannot commit at {asked}, only from {min_commit} on"
                )
            }
            E::BeforeSafePoint { asked, safe_point } => write!(
                f,
                "timestamp {asked} is before the safe point {safe_point}: its versions may have been dropped"
            ),
            E::SafePointBackwards { asked, safe_point } => write!(
                f,
                "the safe point is {safe_point} and cannot move backwards to {asked}"
            ),
            E::InFuture { asked, now } => {
                write!(f, "timestamp {asked} is in the future: it is {now} now")
            }
            E::NotVersioned { dir, found } => {
                write!(f, "{} is not a store of versions: {found}", dir.display())
            }
            E::Oracle { reason } => write!(f, "no timestamp: {reason}"),
            E::ClockAhead { jump, most } => write!(
                f,
                "the clock is {} days after the last timestamp of the store; at most {} are allowed",
                days(jump),
                days(most)
            ),
            E::ClockBehind { lag, most } => write!(
                f,
                "the last timestamp of the store is {} days after the clock, and timestamps do not go \
                 back; at most {} are allowed",
                days(lag),
                days(most)
            ),
            E::Corruption { what } => write!(f, "corruption: {what}"),
            E::Engine(source) => source.fmt(f),
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
