//! The cursor interface of memtables, blocks, tables, levels and merges of them.

pub(crate) mod merging;
pub(crate) mod prefix_skip;

use crate::error::Result;
use crate::format::SequenceNumber;
use crate::iterator::prefix_skip::PrefixSkip;

/// Entries that a memtable or a table steps over before it searches instead.
pub(crate) const NEAR: usize = 8;

/// A cursor over entries sorted by internal key.
///
/// It is *valid* while it is on an entry; a new one is not. Movements fail only where they do I/O
/// or meet damage, and a failed movement leaves the cursor invalid. `next` and `prev` may be
/// called only while valid. Keys and values borrow from the cursor until it moves.
pub trait InternalIterator: Send {
    /// Whether the cursor is on an entry.
    fn valid(&self) -> bool;

    /// Moves to the first entry.
    fn seek_to_first(&mut self) -> Result<()>;

    /// Moves to the last entry.
    fn seek_to_last(&mut self) -> Result<()>;

    /// Moves to the first entry whose internal key is not before `target`.
    fn seek(&mut self, target: &[u8]) -> Result<()>;

    /// The same as [`seek`](InternalIterator::seek) for a target that is ahead; cheaper if it is
    /// near. May be called only while valid and before `target`.
    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        self.seek(target)
    }

    /// Moves to the last entry whose internal key is not after `target`.
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()>;

    /// Moves one entry forward.
    fn next(&mut self) -> Result<()>;

    /// Moves one entry back.
    fn prev(&mut self) -> Result<()>;

    /// The internal key at the cursor; empty if not valid.
    fn key(&self) -> &[u8];

    /// The value at the cursor; empty if not valid.
    fn value(&self) -> &[u8];

    /// Skips the entries of the prefix that `skip` is at, and all after them that it skips. May be
    /// called only while on an entry with that prefix. Ends past the last entry, or at one that
    /// `skip` does not skip.
    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        while self.valid() && skip.passes(self.key()) {
            skip.count(1);
            self.next()?;
        }
        Ok(())
    }

    /// Skips entries older than `sequence`, going forward, up to the first that is not before
    /// `target`. Stops at the first that may be newer, or where it would have to read to know.
    /// Returns whether it moved. May be called only while valid and before `target`.
    fn skip_older(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        let _ = (target, sequence);
        Ok(false)
    }

    /// The same, going back to the last entry before `target`. May be called only while valid and
    /// not before `target`.
    fn skip_older_back(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        let _ = (target, sequence);
        Ok(false)
    }
}

impl<I: InternalIterator + ?Sized> InternalIterator for Box<I> {
    fn valid(&self) -> bool {
        (**self).valid()
    }
    fn seek_to_first(&mut self) -> Result<()> {
        (**self).seek_to_first()
    }
    fn seek_to_last(&mut self) -> Result<()> {
        (**self).seek_to_last()
    }
    fn seek(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek(target)
    }
    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek_ahead(target)
    }
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        (**self).seek_for_prev(target)
    }
    fn next(&mut self) -> Result<()> {
        (**self).next()
    }
    fn prev(&mut self) -> Result<()> {
        (**self).prev()
    }
    fn key(&self) -> &[u8] {
        (**self).key()
    }
    fn value(&self) -> &[u8] {
        (**self).value()
    }
    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        (**self).skip_prefixes(skip)
    }
    fn skip_older(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        (**self).skip_older(target, sequence)
    }
    fn skip_older_back(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        (**self).skip_older_back(target, sequence)
    }
}
