//! Which family of which database an operation of a batch is for.

use crate::format::OpeningId;
use crate::format::numbers::ColumnFamilyId;

/// The family that an operation of a [`WriteBatch`](crate::WriteBatch) is for. A handle names it
/// together with its database; a [`ColumnFamilyId`] alone names it in any database to which the
/// batch is written.
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
