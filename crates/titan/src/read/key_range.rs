//! Ranges of keys as callers write them, and as cursors are bounded.

use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::ReadOptions;
use crate::format::Comparator;

/// A range of keys: `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..`, or a pair of
/// [bounds](std::ops::Bound). Its keys may be strings, arrays, slices, vectors or
/// [`Bytes`](crate::Bytes). A range that ends before it starts has no key in it.
pub trait KeyRange {
    /// Where it starts, and where it ends.
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>);
}

macro_rules! key_range {
    ($range:ident, $self:ident, $start:expr, $end:expr) => {
        impl<K: AsRef<[u8]>> KeyRange for $range<K> {
            fn bounds(&$self) -> (Bound<&[u8]>, Bound<&[u8]>) {
                ($start, $end)
            }
        }
    };
}

use Bound::{Excluded, Included, Unbounded};

key_range!(
    Range,
    self,
    Included(self.start.as_ref()),
    Excluded(self.end.as_ref())
);
key_range!(
    RangeInclusive,
    self,
    Included(self.start().as_ref()),
    Included(self.end().as_ref())
);
key_range!(RangeFrom, self, Included(self.start.as_ref()), Unbounded);
key_range!(RangeTo, self, Unbounded, Excluded(self.end.as_ref()));
key_range!(
    RangeToInclusive,
    self,
    Unbounded,
    Included(self.end.as_ref())
);

impl KeyRange for RangeFull {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (Unbounded, Unbounded)
    }
}

impl<A: AsRef<[u8]>, B: AsRef<[u8]>> KeyRange for (Bound<A>, Bound<B>) {
    fn bounds(&self) -> (Bound<&[u8]>, Bound<&[u8]>) {
        (
            self.0.as_ref().map(AsRef::as_ref),
            self.1.as_ref().map(AsRef::as_ref),
        )
    }
}

/// The ends of a range that are no bounds of a cursor, since the order does not know the key after
/// another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edges {
    /// The range starts after this key.
    pub(super) after: Option<Vec<u8>>,
    /// The range ends with this key.
    pub(super) last: Option<Vec<u8>>,
}

impl ReadOptions {
    /// Options whose bounds are the narrower ones of these and of the range, in this order.
    pub(crate) fn within(&self, range: &impl KeyRange, order: &dyn Comparator) -> (Self, Edges) {
        let (mut options, mut edges) = (self.clone(), Edges::default());
        let (start, end) = range.bounds();
        let start = match start {
            Included(key) => Some(key.to_vec()),
            Excluded(key) => order.immediate_successor(key).or_else(|| {
                edges.after = Some(key.to_vec());
                Some(key.to_vec())
            }),
            Unbounded => None,
        };
        let end = match end {
            Excluded(key) => Some(key.to_vec()),
            Included(key) => order.immediate_successor(key).or_else(|| {
                edges.last = Some(key.to_vec());
                None
            }),
            Unbounded => None,
        };
        narrow(&mut options.lower_bound, start, order, Ordering::Greater);
        narrow(&mut options.upper_bound, end, order, Ordering::Less);
        (options, edges)
    }
}

/// Replaces a bound by another one if that compares so with it.
fn narrow(
    bound: &mut Option<Vec<u8>>,
    by: Option<Vec<u8>>,
    order: &dyn Comparator,
    narrower: Ordering,
) {
    if let Some(by) = by
        && bound
            .as_ref()
            .is_none_or(|bound| order.compare(&by, bound) == narrower)
    {
        *bound = Some(by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BytewiseComparator, ReverseBytewiseComparator};

    fn bounds(options: &ReadOptions) -> (Option<&[u8]>, Option<&[u8]>) {
        (
            options.lower_bound.as_deref(),
            options.upper_bound.as_deref(),
        )
    }

    #[test]
    fn every_range_becomes_bounds() {
        let check =
            |range: &dyn Fn() -> (ReadOptions, Edges), lower: Option<&str>, upper: Option<&str>| {
                let (options, edges) = range();
                assert_eq!(
                    bounds(&options),
                    (lower.map(str::as_bytes), upper.map(str::as_bytes))
                );
                assert_eq!(edges, Edges::default());
            };
        let plain = ReadOptions::default();
        let order = &BytewiseComparator;
        check(&|| plain.within(&(..), order), None, None);
        check(&|| plain.within(&("b".."d"), order), Some("b"), Some("d"));
        check(
            &|| plain.within(&(b"b"..=b"d"), order),
            Some("b"),
            Some("d\0"),
        );
        check(&|| plain.within(&(vec![b'b']..), order), Some("b"), None);
        check(
            &|| plain.within(&(.."d".to_owned()), order),
            None,
            Some("d"),
        );
        check(&|| plain.within(&(..="d"), order), None, Some("d\0"));
        let pair = (Excluded("b"), Unbounded::<&[u8]>);
        check(&|| plain.within(&pair, order), Some("b\0"), None);
        let bounded = ReadOptions {
            lower_bound: Some(b"c".to_vec()),
            upper_bound: Some(b"e".to_vec()),
            ..plain.clone()
        };
        check(&|| bounded.within(&(..), order), Some("c"), Some("e"));
        check(&|| bounded.within(&("b".."f"), order), Some("c"), Some("e"));
        check(
            &|| bounded.within(&("d"..="d"), order),
            Some("d"),
            Some("d\0"),
        );
    }

    #[test]
    fn edges_are_kept_where_no_key_is_known_to_be_next() {
        let order = &ReverseBytewiseComparator;
        let pair = (Excluded("d"), Included("b"));
        let (options, edges) = ReadOptions::default().within(&pair, order);
        assert_eq!(bounds(&options), (Some(&b"d"[..]), None));
        let (after, last) = (Some(b"d".to_vec()), Some(b"b".to_vec()));
        assert_eq!(edges, Edges { after, last });
    }
}
