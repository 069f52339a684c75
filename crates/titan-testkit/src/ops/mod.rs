//! Operations on a database as data: generated from a seed, written as text, reduced to those
//! that make a test fail.
//!
//! A failing list prints as one operation per line, and that text can be pasted into a test:
//!
//! ```
//! use titan_testkit::ops::Ops;
//!
//! let text = "\
//! put default k001 7*4096
//! sync batch [put cf1 k002 8*1; delete default k001]
//! merge cf1 k002 9*3
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
//! unlogged put default k004 9*10
//! flush-all
//! sync-wal
//! reopen
//! ";
//! let ops = Ops::parse(text)?;
//! assert_eq!(ops.to_string(), text);
//! # Ok::<(), titan::Error>(())
//! ```
//!
//! # Text
//!
//! A key stands for its bytes; `%` and two hexadecimal digits stand for an unprintable byte, a
//! single `%` for the empty key, `-` for no bound. A value `seed*len` is `len` bytes derived from
//! `seed`. `@n` reads in snapshot `n`. `sync` before a write waits for durability, `unlogged`
//! bypasses the WAL. `compact` without bounds is `compact FAMILY - -`.

mod generate;
mod language;
mod legal;
mod reduce;
pub mod stamp;
mod text;

use std::fmt::Display;

pub use generate::{Generator, Weights};
pub use language::{Field, Words, wrong};
pub use legal::legal;
pub use reduce::reduce;
pub use text::{Key, parse_key};

/// A language of operations: lists of them have a text, and are reduced.
pub trait Operation: Clone + PartialEq + Display {
    /// Parses the output of `Display`, a line.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn parse(line: &str) -> titan::Result<Self>;

    /// The list without those operations that cannot be performed after the others.
    fn legal(ops: &[Self]) -> Vec<Self>;

    /// Operations that do less, each strictly simpler, so that simplifying ends.
    fn simpler(&self) -> Vec<Self>;
}

/// A value, described by its seed and length. Its text is `seed*len`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Determines the bytes. Those of an even seed are compressible, those of an odd one are not.
    pub seed: u64,
    /// The number of bytes.
    pub len: usize,
}

impl Value {
    /// The bytes. The algorithm is defined here rather than by a library, so that a program in
    /// another language can produce the same bytes: words of SplitMix64 from the seed,
    /// little-endian; for an even seed the first three of them repeated.
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

crate::operations! {
    /// One write in a batch.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Write {
        Put = "put" { family: String, key: Vec<u8>, value: Value },
        /// Appends the value to what the key has, after a comma. If the key has nothing, it gets
        /// the value.
        Merge = "merge" { family: String, key: Vec<u8>, value: Value },
        Delete = "delete" { family: String, key: Vec<u8> },
        /// Legal only if the key was put exactly once since it was last deleted.
        SingleDelete = "single-delete" { family: String, key: Vec<u8> },
        /// The keys from `from` up to but not including `to`, which is not smaller than `from`.
        DeleteRange = "delete-range" { family: String, from: Vec<u8>, to: Vec<u8> },
    }
}

impl Write {
    /// The column family that it writes to.
    pub fn family(&self) -> &str {
        match self {
            Write::Put { family, .. }
            | Write::Merge { family, .. }
            | Write::Delete { family, .. }
            | Write::SingleDelete { family, .. }
            | Write::DeleteRange { family, .. } => family,
        }
    }

    /// Whether it changes a key.
    pub fn touches(&self, family: &str, changed: &[u8]) -> bool {
        self.family() == family
            && match self {
                Write::Put { key, .. }
                | Write::Merge { key, .. }
                | Write::Delete { key, .. }
                | Write::SingleDelete { key, .. } => key == changed,
                Write::DeleteRange { from, to, .. } => {
                    from.as_slice() <= changed && changed < to.as_slice()
                }
            }
    }
}

/// The limits of an iterator; all apply together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// First key, or no bound.
    pub from: Option<Vec<u8>>,
    /// End, exclusive, or no bound.
    pub to: Option<Vec<u8>>,
    /// The prefix of all keys, or no such limit.
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

/// A movement of an iterator.
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
    /// This many keys forward, or to the end.
    Next(u32),
    /// This many keys back, or to the end.
    Prev(u32),
}

/// Failures that an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing until its family is flushed: it is not logged.
    Unlogged,
    /// The end of the process.
    Logged,
    /// The end of the machine.
    Synced,
}

crate::operations! {
    /// One operation on a database.
    ///
    /// Bounds are keys, or none. `at` is the number of the snapshot that is read, or none.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[expect(missing_docs, reason = "the names say it")]
    pub enum Op {
        /// Reads a key.
        Get = "get" { family: String, key: Vec<u8>, at: Option<u32> },
        /// Iterates over the keys from `from` up to but not including `to`.
        Scan = "scan" {
            family: String,
            from: Option<Vec<u8>>,
            to: Option<Vec<u8>>,
            reverse: bool,
            at: Option<u32>,
        },
        /// Reads several keys at once: at least one; any may come twice.
        MultiGet = "multi-get" { family: String, keys: Vec<Vec<u8>>, at: Option<u32> },
        /// Opens an iterator under an unused number. It shows the contents at the time of opening,
        /// even if its column family is dropped or its snapshot released later.
        Iter = "iter" { id: u32, family: String, bounds: Bounds, at: Option<u32> },
        /// Closes an iterator.
        DropIter = "drop-iter" { id: u32 },
        /// Takes a snapshot under an unused number.
        Snapshot = "snapshot" { id: u32 },
        /// Releases a snapshot.
        DropSnapshot = "drop-snapshot" { id: u32 },
        /// Flushes a column family.
        Flush = "flush" { family: String },
        /// Compacts the keys between two bounds, both inclusive, and on demand the last level too.
        Compact = "compact" {
            family: String,
            from: Option<Vec<u8>>,
            to: Option<Vec<u8>>,
            bottommost: bool,
        },
        /// Compacts a column family and collects the garbage of its blob files.
        Collect = "collect" { family: String },
        /// Makes a checkpoint in another directory, compares it with the database, and deletes it.
        Checkpoint = "checkpoint",
        /// Flushes all column families.
        FlushAll = "flush-all",
        /// Makes all logged writes durable.
        SyncWal = "sync-wal",
        /// Closes and opens the database; snapshots and iterators end.
        Reopen = "reopen",
        /// Closes the database. Only [`Op::Reopen`] may follow.
        Close = "close",
        /// Creates a column family that does not exist.
        CreateCf = "create-cf" { family: String },
        /// Drops a column family other than the default one.
        DropCf = "drop-cf" { family: String },
    }
    others(show_other, take_other) {
        /// Applies writes atomically. A single write is a batch of one.
        Write { writes: Vec<Write>, durability: Durability },
        /// Moves an iterator. It starts without a position; forward or back from there, it stays
        /// without one.
        Move { id: u32, step: Step },
    }
}

impl Op {
    /// Whether it may change a key.
    pub fn touches(&self, name: &str, key: &[u8]) -> bool {
        match self {
            Op::Write { writes, .. } => writes.iter().any(|write| write.touches(name, key)),
            Op::CreateCf { family } | Op::DropCf { family } => family == name,
            _ => false,
        }
    }
}

/// A list of operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ops<O = Op>(pub Vec<O>);

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
