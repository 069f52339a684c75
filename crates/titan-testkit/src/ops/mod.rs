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
//! flush default
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
//! from `seed`. `@n` reads in snapshot `n`. `sync` before a write waits for durability.

mod generate;
mod legal;
mod reduce;
mod text;

pub use generate::{Generator, Weights};
pub use legal::legal;
pub use reduce::reduce;

/// A value, by how it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Value {
    /// Determines the bytes. Those of an even seed compress well, those of an odd one do not.
    pub seed: u64,
    /// How many there are.
    pub len: usize,
}

impl Value {
    /// The bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut rng = fastrand::Rng::with_seed(self.seed);
        let mut bytes = vec![0; self.len];
        if self.seed.is_multiple_of(2) {
            let mut phrase = [0; 24];
            rng.fill(&mut phrase);
            bytes
                .iter_mut()
                .zip(phrase.iter().cycle())
                .for_each(|(to, from)| *to = *from);
        } else {
            rng.fill(&mut bytes);
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
    /// The keys from `from` on and before `to`.
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
    /// Compacts a column family.
    Compact {
        /// Column family.
        family: String,
    },
    /// Closes and opens the database; snapshots end.
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
