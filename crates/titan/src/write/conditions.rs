//! Conditions of a batch, as the commit pipeline sees them.

use std::sync::Arc;

use crate::format::{ColumnFamilyId, SequenceNumber};

/// No write of `key` may have a sequence number larger than `since`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) family: ColumnFamilyId,
    pub(crate) key: Vec<u8>,
    pub(crate) since: SequenceNumber,
}

/// The conditions of one batch, which its writer has checked.
pub(crate) struct Checked {
    pub(crate) conditions: Arc<Vec<Condition>>,
    /// The writer found that no write up to this sequence number violates a condition.
    pub(crate) checked_to: SequenceNumber,
}
