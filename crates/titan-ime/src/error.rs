//! The one error type of the crate.
//!
//! None of these comes from a read or a commit of the store: the cache never fails one.

use std::fmt;

use crate::stats::Dropped;

/// Shorthand for results of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why an operation failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program loads a part of the range already.
    Overlaps,
    /// The range is empty.
    EmptyRange,
    /// The load needs more memory than the limit. Nothing of it is held.
    MemoryLimit {
        /// Bytes charged by then, for all segments.
        used: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The load was abandoned, because its segment was dropped.
    Abandoned {
        /// The reason.
        why: Dropped,
    },
    /// The cache is off: its hook panicked, or it was closed. The store works without it.
    Off,
    /// The options of the store already have a range source.
    SourceInUse,
    /// Memory and engine differ: a bug of this crate, or changes of the database past its hook.
    Differs {
        /// The key, the timestamp and both answers.
        what: String,
    },
    /// The store failed.
    Store(titan_mvcc::Error),
}

impl From<titan_mvcc::Error> for Error {
    fn from(source: titan_mvcc::Error) -> Self {
        Error::Store(source)
    }
}

impl From<titan::Error> for Error {
    fn from(source: titan::Error) -> Self {
        Error::Store(source.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Overlaps => f.write_str("another load has a part of the range"),
            Error::EmptyRange => f.write_str("the range is empty"),
            Error::MemoryLimit { limit: 0, .. } => {
                f.write_str("the limit of memory is zero, so nothing is held")
            }
            Error::MemoryLimit { used, limit } => write!(
                f,
                "the range does not fit: the load stopped with {used} of {limit} bytes in use"
            ),
            Error::Abandoned { why } => write!(f, "the load was abandoned: {why}"),
            Error::Off => f.write_str("the range cache is off"),
            Error::SourceInUse => f.write_str(
                "the options of the store have a range source, which the range cache must be",
            ),
            Error::Differs { what } => write!(f, "memory and engine differ: {what}"),
            Error::Store(source) => source.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Store(source) => Some(source),
            _ => None,
        }
    }
}
