//! Options of a read.

use super::Snapshot;
use crate::error::{Error, Result};
use crate::format::{BytewiseComparator, Comparator, prefix};

/// Options of a read: the state that it sees, and the end of an iterator.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Read as of this snapshot instead of now. Default: none.
    pub snapshot: Option<Snapshot>,
    /// Iterators stop before the first key smaller than this. Default: none.
    ///
    /// A queue whose first key is taken and deleted, again and again, should be read from the key
    /// that was taken last (`lower_bound`, or a range or a seek that begins there): nothing that
    /// was deleted is met then. Without it, the first iterator after an opening, or after a while,
    /// steps over all deleted keys that no compaction has dropped yet; later ones pass most of them
    /// with a seek. The same holds for `upper_bound` where keys are taken from the end.
    pub lower_bound: Option<Vec<u8>>,
    /// Iterators stop before the first key not smaller than this. Default: none.
    pub upper_bound: Option<Vec<u8>>,
    /// [`DbIterator::seek`](crate::DbIterator::seek) and
    /// [`seek_for_prev`](crate::DbIterator::seek_for_prev) bound the iterator to the prefix of
    /// their target, by the family's [extractor](crate::prefix::PrefixExtractor), until the next
    /// seek. A target without a prefix bounds nothing. Needs an extractor and the bytewise order;
    /// excludes `prefix`; not in transactions or ranges. Default: false; keys are then in total
    /// order, also with an extractor.
    pub prefix_same_as_start: bool,
    /// Iterators see only keys with this prefix; together with bounds the narrower range applies.
    /// Needs the bytewise order. Default: none.
    pub prefix: Option<Vec<u8>>,
    /// Cache the blocks that the read loads. Turn it off for scans that should not evict blocks
    /// that others use. Default: true.
    pub fill_cache: bool,
    /// Largest number of values that a sequentially used iterator reads ahead; it begins with few,
    /// and never reads ahead more than 4 MiB. 0 reads each value when it is fetched. Default: 1024.
    pub prefetch_values: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions {
            snapshot: None,
            lower_bound: None,
            upper_bound: None,
            prefix_same_as_start: false,
            prefix: None,
            fill_cache: true,
            prefetch_values: 1024,
        }
    }
}

/// The first key to show and the first not to show any more.
pub(crate) type Bounds = (Option<Vec<u8>>, Option<Vec<u8>>);

impl ReadOptions {
    /// The first key to show and the first not to show any more, within a prefix, in a family with
    /// this order.
    ///
    /// # Errors
    /// `InvalidArgument` if there is a prefix and the order is not bytewise.
    pub(crate) fn bounds(
        &self,
        comparator: &dyn Comparator,
        prefix: Option<&[u8]>,
    ) -> Result<Bounds> {
        let (mut lower, mut upper) = (self.lower_bound.clone(), self.upper_bound.clone());
        if let Some(prefix) = prefix {
            let end = end_of_prefix(comparator, prefix)?;
            if lower.as_ref().is_none_or(|lower| lower.as_slice() < prefix) {
                lower = Some(prefix.to_vec());
            }
            if let Some(end) = end
                && upper.as_ref().is_none_or(|upper| *upper > end)
            {
                upper = Some(end);
            }
        }
        Ok((lower, upper))
    }
}

/// The smallest key after all that start with `prefix` in this order, if there is one.
///
/// # Errors
/// `InvalidArgument` if the order is not bytewise.
pub(super) fn end_of_prefix(comparator: &dyn Comparator, prefix: &[u8]) -> Result<Option<Vec<u8>>> {
    match comparator.name() == BytewiseComparator.name() {
        true => Ok(prefix::end(prefix)),
        false => Err(Error::invalid_argument(
            "a prefix needs the bytewise order of keys",
        )),
    }
}
