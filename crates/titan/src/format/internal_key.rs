//! Internal keys, by which memtables and tables are sorted.
//!
//! `user_key ++ fixed64(sequence << 8 | type)`. They order by user key ascending, then by the
//! trailing number *descending*, so the newest version of a key comes first and a seek to
//! `(key, snapshot, FOR_SEEK)` lands on the newest version visible at the snapshot.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::comparator::Comparator;
use crate::format::numbers::SequenceNumber;

/// Bytes after the user key.
pub(crate) const TRAILER_LEN: usize = 8;

/// The most bytes of an internal key and its value: the size of a table's block must fit into 32
/// bits.
pub(crate) const MAX_ENTRY: usize = (u32::MAX - (64 << 20)) as usize;

/// Whether a table can have a key with a value.
pub(crate) fn is_storable(user_key: &[u8], value: &[u8]) -> bool {
    (user_key.len() + TRAILER_LEN).saturating_add(value.len()) <= MAX_ENTRY
}

/// Kind of an entry of a memtable or table. The numbers are RocksDB's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum ValueType {
    Deletion = 0x00,
    Value = 0x01,
    Merge = 0x02,
    SingleDeletion = 0x07,
    /// Only in range-deletion blocks and as the type of file boundaries.
    RangeDeletion = 0x0f,
    /// The value is a pointer into a blob file.
    BlobIndex = 0x11,
    WideColumnEntity = 0x16,
}

/// RocksDB's number of a value with a preferred sequence number after it: a timed put. Tables show
/// it as a plain value.
pub(crate) const TIMED_VALUE: u8 = 0x18;

impl ValueType {
    /// Larger than every type, also those of later versions: a seek with it lands before all
    /// entries of equal sequence number.
    pub(crate) const FOR_SEEK: u8 = 0xff;
    /// The type of shortened separators in tables.
    const OF_SEPARATORS: u8 = 0x19;

    /// Whether it deletes just the user key of its entry.
    #[inline]
    pub(crate) fn is_point_deletion(self) -> bool {
        matches!(self, ValueType::Deletion | ValueType::SingleDeletion)
    }

    /// # Errors
    /// `Unsupported` for a type that is not understood.
    #[inline]
    pub(crate) fn from_u8(v: u8) -> Result<Self> {
        Ok(match v {
            0x00 => ValueType::Deletion,
            0x01 => ValueType::Value,
            0x02 => ValueType::Merge,
            0x07 => ValueType::SingleDeletion,
            0x0f => ValueType::RangeDeletion,
            0x11 => ValueType::BlobIndex,
            0x16 => ValueType::WideColumnEntity,
            0x14 => return Err(Error::unsupported("user-defined timestamps")),
            TIMED_VALUE => {
                return Err(Error::unsupported(
                    "values with a preferred sequence number",
                ));
            }
            // A type of a later version. Checksums find damage.
            _ => return Err(Error::unsupported(format!("unknown value type {v:#x}"))),
        })
    }
}

/// The trailing number of an internal key.
#[inline]
pub(crate) fn pack(sequence: SequenceNumber, value_type: u8) -> u64 {
    sequence.0 << 8 | u64::from(value_type)
}

/// Appends an internal key.
#[inline]
pub(crate) fn append_internal_key(
    out: &mut Vec<u8>,
    user_key: &[u8],
    sequence: SequenceNumber,
    value_type: u8,
) {
    out.extend_from_slice(user_key);
    out.extend_from_slice(&pack(sequence, value_type).to_le_bytes());
}

/// Returns a new internal key.
pub fn internal_key(user_key: &[u8], sequence: SequenceNumber, value_type: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(user_key.len() + TRAILER_LEN);
    append_internal_key(&mut out, user_key, sequence, value_type);
    out
}

/// The internal key from which a seek for `user_key` at `snapshot` starts.
pub(crate) fn seek_key(user_key: &[u8], snapshot: SequenceNumber) -> Vec<u8> {
    internal_key(user_key, snapshot, ValueType::FOR_SEEK)
}

/// The user key within an internal key; empty if `ikey` is too short to be one (readers of files
/// validate lengths with [`ParsedInternalKey::parse`] before they rely on this).
#[inline]
pub fn user_key(ikey: &[u8]) -> &[u8] {
    ikey.get(..ikey.len().saturating_sub(TRAILER_LEN))
        .unwrap_or_default()
}

/// The trailing number of an internal key; 0 if it is too short.
#[inline]
pub fn trailer(ikey: &[u8]) -> u64 {
    match ikey.last_chunk::<TRAILER_LEN>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => 0,
    }
}

/// Whether `newer`, the entry before `older` or nothing, shadows it, so that `older` is kept for
/// snapshots only, and `older` is no tombstone.
#[inline]
pub(crate) fn shadows_value(newer: &[u8], older: &ParsedInternalKey<'_>) -> bool {
    user_key(newer) == older.user_key
        && !newer.is_empty()
        && trailer(newer) as u8 != ValueType::Merge as u8
        && !older.value_type.is_point_deletion()
}

/// The parts of an internal key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedInternalKey<'a> {
    pub user_key: &'a [u8],
    pub sequence: SequenceNumber,
    pub value_type: ValueType,
}

impl<'a> ParsedInternalKey<'a> {
    /// Checks length and type.
    #[inline]
    pub fn parse(ikey: &'a [u8]) -> Result<Self> {
        let Some((user_key, tail)) = ikey.split_last_chunk::<TRAILER_LEN>() else {
            return Err(Error::corruption("internal key shorter than its trailer"));
        };
        let packed = u64::from_le_bytes(*tail);
        Ok(ParsedInternalKey {
            user_key,
            sequence: SequenceNumber(packed >> 8),
            value_type: ValueType::from_u8(packed as u8)?,
        })
    }
}

/// The order of internal keys over an order of user keys.
#[derive(Clone, Debug)]
pub struct InternalKeyComparator {
    user: Arc<dyn Comparator>,
    bytewise: bool,
}

impl InternalKeyComparator {
    pub fn new(user: Arc<dyn Comparator>) -> Self {
        let bytewise = user.name() == crate::format::BytewiseComparator.name();
        InternalKeyComparator { user, bytewise }
    }

    pub fn user(&self) -> &Arc<dyn Comparator> {
        &self.user
    }

    /// Whether user keys are in the order of their bytes.
    #[inline]
    pub(crate) fn is_bytewise(&self) -> bool {
        self.bytewise
    }

    /// Compares user keys; the default order without a virtual call.
    #[inline]
    pub fn compare_user(&self, a: &[u8], b: &[u8]) -> Ordering {
        if self.bytewise {
            a.cmp(b)
        } else {
            self.user.compare(a, b)
        }
    }

    /// Whether a user key comes after a range that ends so.
    #[inline]
    pub fn is_beyond(&self, key: &[u8], end: Bound<&[u8]>) -> bool {
        match end {
            Bound::Included(last) => self.compare_user(key, last).is_gt(),
            Bound::Excluded(end) => self.compare_user(key, end).is_ge(),
            Bound::Unbounded => false,
        }
    }

    /// Compares internal keys.
    #[inline]
    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare_user(user_key(a), user_key(b))
            .then_with(|| trailer(b).cmp(&trailer(a)))
    }

    /// [`Comparator::shorten_separator`] for internal keys.
    pub(crate) fn shorten_separator(&self, start: &mut Vec<u8>, limit: &[u8]) {
        let mut short = user_key(start).to_vec();
        let len = short.len();
        self.user.shorten_separator(&mut short, user_key(limit));
        self.replace_if_shorter(start, short, len);
    }

    /// [`Comparator::shorten_successor`] for internal keys.
    pub(crate) fn shorten_successor(&self, key: &mut Vec<u8>) {
        let mut short = user_key(key).to_vec();
        let len = short.len();
        self.user.shorten_successor(&mut short);
        self.replace_if_shorter(key, short, len);
    }

    fn replace_if_shorter(&self, key: &mut Vec<u8>, short: Vec<u8>, old_len: usize) {
        if short.len() < old_len && self.compare_user(user_key(key), &short) == Ordering::Less {
            *key = internal_key(&short, SequenceNumber::MAX, ValueType::OF_SEPARATORS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{BytewiseComparator, ReverseBytewiseComparator};

    #[test]
    fn newest_version_sorts_first() {
        let c = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let k = |key: &str, seq| internal_key(key.as_bytes(), SequenceNumber(seq), 1);
        assert_eq!(c.compare(&k("a", 5), &k("a", 4)), Ordering::Less);
        assert_eq!(c.compare(&k("a", 1), &k("b", 9)), Ordering::Less);
        assert_eq!(c.compare(&k("a", 1), &k("a", 1)), Ordering::Equal);
        assert_eq!(
            c.compare(&seek_key(b"a", SequenceNumber(5)), &k("a", 5)),
            Ordering::Less
        );
        assert_eq!(
            c.compare(&k("a", 6), &seek_key(b"a", SequenceNumber(5))),
            Ordering::Less
        );
    }

    #[test]
    fn a_key_is_beyond_an_end_that_comes_before_it() {
        let [a, b, c]: [&[u8]; 3] = [b"a", b"b", b"c"];
        let bytewise = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let reverse = InternalKeyComparator::new(Arc::new(ReverseBytewiseComparator));
        for (order, keys) in [(bytewise, [a, b, c]), (reverse, [c, b, a])] {
            let beyond = |end| keys.map(|key| order.is_beyond(key, end));
            assert_eq!(beyond(Bound::Included(b)), [false, false, true]);
            assert_eq!(beyond(Bound::Excluded(b)), [false, true, true]);
            assert_eq!(beyond(Bound::Unbounded), [false; 3]);
        }
    }

    #[test]
    fn parsing_checks_length_and_type() {
        let ikey = internal_key(b"key", SequenceNumber(77), ValueType::BlobIndex as u8);
        let p = ParsedInternalKey::parse(&ikey).unwrap();
        assert_eq!(
            (p.user_key, p.sequence.0, p.value_type),
            (&b"key"[..], 77, ValueType::BlobIndex)
        );
        assert!(
            ParsedInternalKey::parse(b"short")
                .unwrap_err()
                .is_corruption()
        );
        assert!(ParsedInternalKey::parse(&internal_key(b"", SequenceNumber(1), 0x55)).is_err());
    }

    #[test]
    fn separators_of_internal_keys_stay_in_order() {
        let c = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let a = internal_key(b"abcdefg", SequenceNumber(3), 1);
        let b = internal_key(b"abzz", SequenceNumber(9), 1);
        let mut s = a.clone();
        c.shorten_separator(&mut s, &b);
        assert_eq!(user_key(&s), b"abd");
        assert_eq!(c.compare(&a, &s), Ordering::Less);
        assert_eq!(c.compare(&s, &b), Ordering::Less);
    }
}
