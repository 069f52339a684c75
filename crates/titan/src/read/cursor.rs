//! The movements that the cursors of users share, so that iterators can be made of any of them.

use bytes::Bytes;

use super::db_iterator::DbIterator;
use crate::error::Result;
use crate::lazy_value::LazyValue;

/// An end of a range of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Front,
    Back,
}

/// A cursor over keys in their order, as [`DbIterator`] describes it.
pub(crate) trait Cursor: Send {
    /// Moves to the entry at an end of the bounds.
    fn begin(&mut self, end: End) -> Result<()>;
    /// Moves to the last key not after `target`.
    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()>;
    /// Moves one key away from the end at which it began.
    fn advance(&mut self, from: End) -> Result<()>;
    fn valid(&self) -> bool;
    fn key(&self) -> &[u8];
    fn value(&self) -> Result<Bytes>;
    fn lazy_value(&self) -> Result<LazyValue>;
}

/// Implements [`Cursor`] by the methods of the same names.
macro_rules! cursor {
    ($cursor:ty) => {
        impl $crate::read::Cursor for $cursor {
            fn begin(&mut self, end: $crate::read::End) -> $crate::error::Result<()> {
                match end {
                    $crate::read::End::Front => self.seek_to_first(),
                    $crate::read::End::Back => self.seek_to_last(),
                }
            }

            fn seek_for_prev(&mut self, target: &[u8]) -> $crate::error::Result<()> {
                self.seek_for_prev(target)
            }

            fn advance(&mut self, from: $crate::read::End) -> $crate::error::Result<()> {
                match from {
                    $crate::read::End::Front => self.next(),
                    $crate::read::End::Back => self.prev(),
                }
            }

            fn valid(&self) -> bool {
                self.valid()
            }

            fn key(&self) -> &[u8] {
                self.key()
            }

            fn value(&self) -> $crate::error::Result<::bytes::Bytes> {
                self.value()
            }

            fn lazy_value(&self) -> $crate::error::Result<$crate::lazy_value::LazyValue> {
                self.lazy_value()
            }
        }
    };
}

pub(crate) use cursor;

cursor!(DbIterator);
