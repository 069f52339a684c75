//! A separate type for every kind of number, so that no two of them are ever confused.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(feature = "serde")]
use serde::Serialize;

/// The sum of numbers read from files, which may be damaged and too large: it saturates.
pub fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

/// The position of an operation in the order of all writes. 56 bits on disk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct SequenceNumber(pub u64);

impl SequenceNumber {
    /// The largest number the 56-bit encoding holds; also "newest" in seeks.
    pub const MAX: SequenceNumber = SequenceNumber((1 << 56) - 1);
    /// Before every operation.
    pub const ZERO: SequenceNumber = SequenceNumber(0);

    /// The number `n` operations later.
    #[must_use]
    pub fn plus(self, n: u64) -> SequenceNumber {
        SequenceNumber(self.0 + n)
    }
}

/// The number in the name of an SST, WAL or MANIFEST. All kinds of files share one counter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct FileNumber(pub u64);

impl FileNumber {
    /// The number that follows.
    #[must_use]
    pub fn next(self) -> FileNumber {
        FileNumber(self.0 + 1)
    }
}

/// The number of a blob file: in pointers the *logical* file (the one a value was first written
/// to), in file names the physical one. Drawn from the same counter as [`FileNumber`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct BlobFileNumber(pub u64);

/// A column family's identity, never reused within a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(Serialize))]
pub struct ColumnFamilyId(pub u32);

impl ColumnFamilyId {
    /// The family every database has.
    pub const DEFAULT: ColumnFamilyId = ColumnFamilyId(0);
    /// The name of that family.
    pub const DEFAULT_NAME: &'static str = "default";
}

/// One opening of a database, among all of this process. No other has the same id, not even a later
/// one of the same directory: it tells databases apart in everything that they share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct OpeningId(NonZeroU64);

impl OpeningId {
    /// An id that nothing else has, above all before it.
    pub(crate) fn new() -> Self {
        // Not one of the modelled atomics: no thread waits for it, and none relies on an order in
        // it.
        static LAST: AtomicU64 = AtomicU64::new(0);
        let before = LAST.fetch_add(1, Ordering::Relaxed);
        OpeningId(NonZeroU64::MIN.saturating_add(before))
    }
}

macro_rules! plain_number_text {
    ($($t:ty),*) => {$(
        impl fmt::Display for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
        impl fmt::Debug for $t {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    )*};
}
plain_number_text!(SequenceNumber, FileNumber, BlobFileNumber, ColumnFamilyId);
