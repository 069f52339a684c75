//! Operations on a database as data: generated from a seed, written as text, reduced to what
//! makes a test fail.
//!
//! A failing list prints as one operation per line, and that text goes into a test as it is:
//!
//! ```
//! use titan_testkit::ops::Ops;
//!
//! let text = "\
//! put default k001 7*4096
//! sync batch [put cf1 k002 8*1; delete default k001]
//! snapshot 1
//! delete-range default k001 k003
//! get default k001 @1
//! scan default k001 - reverse
//! multi-get default k001 k002
//! iter 1 default k001 - prefix k0
//! seek 1 k002
//! next 1 10
//! drop-iter 1
//! flush default
//! compact default k001 - bottommost
//! reopen
//! ";
//! let ops = Ops::parse(text)?;
//! assert_eq!(ops.to_string(), text);
//! # Ok::<(), titan::Error>(())
//! ```
//!
//! # Text
//!
//! A key stands for its bytes; `%` and two hexadecimal digits for a byte that would not show, a
//! single `%` for the empty key, `-` for no bound. A value `seed*len` is `len` bytes that follow
//! from `seed`. `@n` reads in snapshot `n`. `sync` before a write waits for durability. `compact`
//! without bounds is `compact FAMILY - -`.

mod generate;
mod legal;
mod reduce;
mod text;

pub use generate::{Generator, Weights};
pub use legal::legal;
pub use reduce::reduce;
pub(crate) use text::Key;

/// A value, by how it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Determines the bytes. Those of an even seed compress well, those of an odd one do not.
    pub seed: u64,
    /// How many there are.
    pub len: usize,
}

impl Value {
    /// The bytes. What makes them is written down here and not a library's secret, so that a
    /// program in another language can have the same: words of SplitMix64 from the seed, little
    /// endian; for an even seed the first three of them again and again.
    pub fn bytes(&self) -> Vec<u8> {
        let mut state = self.seed;
        let mut bytes = Vec::with_capacity(self.len + 24);
        let period = match self.seed % 2 {
            0 => self.len.min(24),
            _ => self.len,
        };
        while bytes.len() < period {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bytes.extend_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes());
        }
        bytes.truncate(period);
        while bytes.len() < self.len {
            let more = (self.len - bytes.len()).min(bytes.len());
            bytes.extend_from_within(..more);
        }
        bytes
    }
}

/// One write in a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Write {
    Put {
        family: String,
        key: Vec<u8>,
        value: Value,
    },
    Delete {
        family: String,
        key: Vec<u8>,
    },
    /// Only where the key was put exactly once since it was last deleted.
    SingleDelete {
        family: String,
        key: Vec<u8>,
    },
    /// The keys from `from` on and before `to`, which does not come before `from`.
    DeleteRange {
        family: String,
        from: Vec<u8>,
        to: Vec<u8>,
    },
}

impl Write {
    /// The column family written to.
    pub fn family(&self) -> &str {
        match self {
            Write::Put { family, .. }
            | Write::Delete { family, .. }
            | Write::SingleDelete { family, .. }
            | Write::DeleteRange { family, .. } => family,
        }
    }
}

/// What an iterator is limited to; all limits hold together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// First key, or no bound.
    pub from: Option<Vec<u8>>,
    /// End, exclusive, or no bound.
    pub to: Option<Vec<u8>>,
    /// What all keys start with, or no such limit.
    pub prefix: Option<Vec<u8>>,
}

impl Bounds {
    /// The same limits without a prefix.
    pub fn as_range(&self) -> Bounds {
        let Bounds { from, to, prefix } = self.clone();
        let Some(mut prefix) = prefix else {
            return self.clone();
        };
        let from = from.into_iter().chain([prefix.clone()]).max();
        while prefix.last() == Some(&0xff) {
            prefix.pop();
        }
        let end = prefix.last_mut().map(|last| *last += 1);
        let end = end.map(|()| prefix);
        Bounds {
            from,
            to: to.into_iter().chain(end).min(),
            prefix: None,
        }
    }
}

/// Where an iterator moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// To the first key.
    First,
    /// To the last key.
    Last,
    /// To the first key not before this one.
    Seek(Vec<u8>),
    /// To the last key not after this one.
    SeekForPrev(Vec<u8>),
    /// So many keys forward, or to the end.
    Next(u32),
    /// So many keys back, or to the end.
    Prev(u32),
}

/// One operation on a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Applies writes atomically; `sync` waits until they are durable.
    Write {
        /// The batch; a single write is a batch of one.
        writes: Vec<Write>,
        /// Whether it is durable when acknowledged.
        sync: bool,
    },
    /// Reads a key.
    Get {
        /// Column family.
        family: String,
        /// Key.
        key: Vec<u8>,
        /// In this snapshot, or now.
        at: Option<u32>,
    },
    /// Iterates over the keys from `from` on and before `to`.
    Scan {
        /// Column family.
        family: String,
        /// First key, or no bound.
        from: Option<Vec<u8>>,
        /// End, exclusive, or no bound.
        to: Option<Vec<u8>>,
        /// From the end to the start.
        reverse: bool,
        /// In this snapshot, or now.
        at: Option<u32>,
    },
    /// Reads several keys at once.
    MultiGet {
        /// Column family.
        family: String,
        /// Keys, at least one; any may come twice.
        keys: Vec<Vec<u8>>,
        /// In this snapshot, or now.
        at: Option<u32>,
    },
    /// Opens an iterator under a number that is not in use. It shows what was there when it was
    /// opened, whatever follows, even if its column family is dropped or its snapshot released.
    Iter {
        /// Its number.
        id: u32,
        /// Column family.
        family: String,
        /// What it shows.
        bounds: Bounds,
        /// In this snapshot, or now.
        at: Option<u32>,
    },
    /// Moves an iterator. It starts nowhere; forward or back from nowhere is nowhere.
    Move {
        /// Its number.
        id: u32,
        /// Where to.
        step: Step,
    },
    /// Closes an iterator.
    DropIter {
        /// Its number.
        id: u32,
    },
    /// Takes a snapshot under a number that is not in use.
    Snapshot {
        /// Its number.
        id: u32,
    },
    /// Releases a snapshot.
    DropSnapshot {
        /// Its number.
        id: u32,
    },
    /// Flushes a column family.
    Flush {
        /// Column family.
        family: String,
    },
    /// Compacts the keys between two bounds, both inclusive.
    Compact {
        /// Column family.
        family: String,
        /// First key, or no bound.
        from: Option<Vec<u8>>,
        /// Last key, or no bound.
        to: Option<Vec<u8>>,
        /// Whether the last level is rewritten too.
        bottommost: bool,
    },
    /// Compacts a column family and collects the garbage of its blob files.
    Collect {
        /// Column family.
        family: String,
    },
    /// Makes a checkpoint elsewhere, which has what the database has, and deletes it.
    Checkpoint,
    /// Closes and opens the database; snapshots and iterators end.
    Reopen,
    /// Creates a column family that does not exist.
    CreateCf {
        /// Its name.
        family: String,
    },
    /// Drops a column family other than the default one.
    DropCf {
        /// Its name.
        family: String,
    },
}

/// A list of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops(pub Vec<Op>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_value_are_what_they_were() {
        let bytes = |seed, len| Value { seed, len }.bytes();
        assert_eq!(
            bytes(1, 9),
            [0xc1, 0x5c, 0x02, 0x89, 0xec, 0x2d, 0x0a, 0x91, 0x67]
        );
        let even = bytes(2, 60);
        assert_eq!(even[..36], even[24..]);
        assert_ne!(even[..8], even[8..16]);
        assert_eq!(bytes(2, 5), even[..5]);
        assert_eq!(bytes(3, 1000).len(), 1000);
    }

    #[test]
    fn a_prefix_is_a_range() {
        let range = |from: Option<&[u8]>, to: Option<&[u8]>, prefix: &[u8]| {
            let bounds = Bounds {
                from: from.map(<[u8]>::to_vec),
                to: to.map(<[u8]>::to_vec),
                prefix: Some(prefix.to_vec()),
            };
            let Bounds { from, to, .. } = bounds.as_range();
            (from.unwrap_or_default(), to)
        };
        assert_eq!(
            range(None, None, b"ab"),
            (b"ab".to_vec(), Some(b"ac".to_vec()))
        );
        assert_eq!(
            range(Some(b"abc"), Some(b"b"), b"ab"),
            (b"abc".to_vec(), Some(b"ac".to_vec()))
        );
        assert_eq!(
            range(Some(b"a"), Some(b"abx"), b"ab"),
            (b"ab".to_vec(), Some(b"abx".to_vec()))
        );
        assert_eq!(
            range(None, None, &[1, 0xff]),
            (vec![1, 0xff], Some(vec![2]))
        );
        assert_eq!(range(None, None, &[0xff]), (vec![0xff], None));
        assert_eq!(range(None, None, b""), (vec![], None));
    }
}
