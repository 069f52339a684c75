//! A write of a transaction to one key.

use crate::lock_info::LockKind;

/// A write of a transaction to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation<'a> {
    /// Sets the value.
    Put {
        /// The key.
        key: &'a [u8],
        /// The value.
        value: &'a [u8],
    },
    /// Removes the value.
    Delete {
        /// The key.
        key: &'a [u8],
    },
    /// Keeps the value, but conflicts as a write does.
    Lock {
        /// The key.
        key: &'a [u8],
    },
}

impl<'a> Mutation<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        match self {
            Mutation::Put { key, .. } | Mutation::Delete { key } | Mutation::Lock { key } => key,
        }
    }

    pub(super) fn kind(&self) -> LockKind {
        match self {
            Mutation::Put { .. } => LockKind::Put,
            Mutation::Delete { .. } => LockKind::Delete,
            Mutation::Lock { .. } => LockKind::Lock,
        }
    }

    pub(super) fn value(&self) -> Option<&'a [u8]> {
        match self {
            Mutation::Put { value, .. } => Some(value),
            Mutation::Delete { .. } | Mutation::Lock { .. } => None,
        }
    }
}
