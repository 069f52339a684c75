//! The interface of sources and targets.

use bytes::Bytes;
use titan::{ErrorKind, Result};
use titan_mvcc::Timestamp;

use crate::transfer::pairs::{KeyRange, Pair};

/// A source or target of data.
pub(crate) trait Side {
    /// The name of the source. A copy or checkpoint of a store has that of the store.
    fn name(&self) -> String;

    /// A number that grows with the writes to a source: a checkpoint that takes the place of its
    /// source has an earlier one. 0 for a source that counts none.
    fn age(&self) -> u64;

    /// Whether a later reading at the same timestamp finds the same.
    fn is_resumable(&self) -> bool;

    /// The timestamp at which a reading is made: the given one, or that of the present.
    ///
    /// # Errors
    /// `InvalidArgument` for a timestamp of the future, or one whose versions may have been
    /// dropped; those of the side.
    fn timestamp(&self, at: Option<Timestamp>) -> Result<Timestamp>;

    /// Keeps the versions at a timestamp readable until the side is closed.
    ///
    /// # Errors
    /// `InvalidArgument` if they may have been dropped; those of the side.
    fn hold(&mut self, at: Timestamp) -> Result<()>;

    /// Holds the timestamp of the present, and returns it. A cluster refuses one that is earlier
    /// than the holds of all other clients, also if it is their elder by a moment.
    ///
    /// # Errors
    /// Those of [`Side::timestamp`] and [`Side::hold`].
    fn hold_present(&mut self) -> Result<Timestamp> {
        let mut attempts = 1;
        loop {
            let at = self.timestamp(None)?;
            match self.hold(at) {
                Ok(()) => return Ok(at),
                Err(e) if e.kind() == ErrorKind::InvalidArgument && attempts < 10 => attempts += 1,
                Err(e) => return Err(e),
            }
        }
    }

    /// Checks that the versions at the held timestamp were kept up to now. A hold can be lost while
    /// its renewals fail, and pairs that were read after that may lack some.
    ///
    /// # Errors
    /// `InvalidArgument` if they may have been dropped; those of the side.
    fn check_hold(&self) -> Result<()>;

    /// The pairs of a range as of a timestamp, in their order. Ends after the first error.
    ///
    /// # Errors
    /// Those of the side.
    fn scan<'a>(&'a self, at: Timestamp, range: KeyRange) -> Result<Pairs<'a>>;

    /// Begins a transaction.
    ///
    /// # Errors
    /// Those of the side.
    fn begin<'a>(&'a self) -> Result<Box<dyn Transaction + 'a>>;

    /// Ends the use of the side.
    ///
    /// # Errors
    /// Those of the side.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Pairs in the order of their keys.
pub(crate) type Pairs<'a> = Box<dyn Iterator<Item = Result<Pair>> + 'a>;

/// A transaction of a side. Dropped, it writes nothing.
pub(crate) trait Transaction {
    /// The timestamp at which its writes must not meet later ones.
    fn start(&self) -> Timestamp;

    fn put(&mut self, pair: &Pair) -> Result<()>;

    fn delete(&mut self, key: &Bytes) -> Result<()>;

    /// Commits all or nothing.
    ///
    /// # Errors
    /// `Conflict` if another client wrote one of the keys since the start; those of the side. It
    /// may have committed after an error.
    fn commit(self: Box<Self>) -> Result<()>;
}
