//! Maps keys of operations to families of either order: scans must find the same keys in the same
//! order.

use titan::{BytewiseComparator, ColumnFamily, Comparator};

use crate::failure::{Checked, ensure};

/// Whether a family stores its keys in reversed order.
pub(super) fn is_reversed(family: &ColumnFamily) -> bool {
    family.options().comparator.name() != BytewiseComparator.name()
}

/// The key under which a family stores a key of an operation.
pub(super) fn stored(family: &ColumnFamily, key: &[u8]) -> Vec<u8> {
    stored_as(is_reversed(family), key)
}

/// A stored key; if the order is reversed, one whose position is that of `key` in the plain
/// order.
pub(super) fn stored_as(reversed: bool, key: &[u8]) -> Vec<u8> {
    if !reversed {
        return key.to_vec();
    }
    let turned = key.iter().flat_map(|byte| [0x80, !byte]);
    turned.chain([0xff]).collect()
}

/// The key that is stored as `stored`.
pub(super) fn plain(reversed: bool, stored: &[u8]) -> Checked<Vec<u8>> {
    if !reversed {
        return Ok(stored.to_vec());
    }
    let (pairs, end) = stored.as_chunks::<2>();
    ensure!(end == [0xff], "a key that was never written: {stored:?}");
    Ok(pairs.iter().map(|[_, byte]| !byte).collect())
}
