//! Which family of which database an operation of a batch is for.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::format::numbers::ColumnFamilyId;

/// One opening of a database. No other opening in this process has the same id, not even a later
/// one of the same directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpeningId(NonZeroU64);

impl OpeningId {
    /// An id that nothing else has.
    pub(crate) fn new() -> Self {
        // Not one of the modelled atomics: no thread waits for it, and none relies on an order in
        // it.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let before = LAST.fetch_add(1, Ordering::Relaxed);
        OpeningId(NonZeroU64::MIN.saturating_add(before))
    }
}

/// The family that an operation of a [`WriteBatch`](crate::WriteBatch) is for. A handle names it
/// together with its database; a [`ColumnFamilyId`] alone names it in whatever database the batch
/// is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTarget {
    pub(crate) family: ColumnFamilyId,
    /// `None` for any database.
    pub(crate) opening: Option<OpeningId>,
}

impl From<ColumnFamilyId> for BatchTarget {
    fn from(family: ColumnFamilyId) -> Self {
        BatchTarget {
            family,
            opening: None,
        }
    }
}
