//! The operands of one key.

use bytes::Bytes;

use super::operator::{MergeOperator, full_merge};
use crate::error::Result;

/// Operands of one key, as they were found. Empty without an allocation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Operands(Vec<Bytes>);

impl Operands {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the next one: the next older one, or the next newer one, always in the same direction.
    pub(crate) fn push(&mut self, operand: Bytes) {
        self.0.push(operand);
    }

    /// Turns the order around.
    pub(crate) fn reverse(&mut self) {
        self.0.reverse();
    }

    /// In the order in which they were added.
    pub(crate) fn as_slices(&self) -> Vec<&[u8]> {
        self.0.iter().map(|operand| &**operand).collect()
    }

    /// Bytes of all of them.
    pub(crate) fn size_bytes(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    /// The value of `key`. The operands must be oldest first.
    ///
    /// # Errors
    /// Those of [`full_merge`](super::full_merge).
    pub(crate) fn merge(
        &self,
        operator: Option<&dyn MergeOperator>,
        key: &[u8],
        base: Option<&[u8]>,
    ) -> Result<Bytes> {
        full_merge(operator, key, base, &self.as_slices()).map(Bytes::from)
    }
}
