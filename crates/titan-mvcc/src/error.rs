//! The one error type of the crate.
//!
//! Each variant is a kind of failure, with what a program needs to act on it. The text is for people.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;

use crate::timestamp::Timestamp;

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
    /// A read or a safe point at a timestamp that the oracle has not handed out yet, so that commits before
    /// it are still to come.
    InFuture {
        /// The timestamp that was asked for.
        asked: Timestamp,
        /// A timestamp of the present.
        now: Timestamp,
    },
    /// The directory has a database that was written without versions. It was not changed.
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
    /// A stored entry that this version of the crate cannot have written.
    Corruption {
        /// The family and the key of the entry, and what is wrong with it.
        what: String,
    },
    /// The engine failed.
    Engine(titan::Error),
}

impl Error {
    /// The oracle has no timestamp to give, for this reason.
    pub fn oracle(reason: impl Into<Cow<'static, str>>) -> Self {
        Error::Oracle {
            reason: reason.into(),
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
