//! An open iterator that is moved step by step.

use crate::ops::{Bounds, Step};
use crate::reference::Sum;
use titan::{ColumnFamily, DbIterator, ReadOptions};

use super::keys::{is_reversed, plain, stored, stored_as};
use crate::failure::Checked;

pub(super) struct Cursor {
    iterator: DbIterator,
    reversed: bool,
}

impl Cursor {
    /// An iterator over what is within the bounds.
    pub(super) fn new(
        family: &ColumnFamily,
        bounds: &Bounds,
        options: ReadOptions,
    ) -> Checked<Cursor> {
        let reversed = is_reversed(family);
        // Prefixes work only in bytewise order.
        let bounds = match reversed {
            true => bounds.as_range(),
            false => bounds.clone(),
        };
        let options = ReadOptions {
            lower_bound: bounds.from.map(|key| stored(family, &key)),
            upper_bound: bounds.to.map(|key| stored(family, &key)),
            prefix: bounds.prefix,
            ..options
        };
        let iterator = family.iter(&options)?;
        Ok(Cursor { iterator, reversed })
    }

    /// Moves, and returns the entries found.
    pub(super) fn step(&mut self, step: &Step) -> Checked<Vec<(Vec<u8>, Sum)>> {
        let stored = |key: &[u8]| stored_as(self.reversed, key);
        let it = &mut self.iterator;
        let mut found = Vec::new();
        let (forward, n) = match step {
            Step::Next(n) => (true, *n),
            Step::Prev(n) => (false, *n),
            _ => {
                match step {
                    Step::Seek(key) => it.seek(&stored(key)),
                    Step::SeekForPrev(key) => it.seek_for_prev(&stored(key)),
                    Step::Last => it.seek_to_last(),
                    _ => it.seek_to_first(),
                }?;
                found.extend(self.entry()?);
                return Ok(found);
            }
        };
        for _ in 0..n {
            if !self.iterator.valid() {
                break;
            }
            match forward {
                true => self.iterator.next(),
                false => self.iterator.prev(),
            }?;
            found.extend(self.entry()?);
        }
        Ok(found)
    }

    fn entry(&mut self) -> Checked<Option<(Vec<u8>, Sum)>> {
        if !self.iterator.valid() {
            return Ok(None);
        }
        let value = self.iterator.value()?;
        let key = plain(self.reversed, self.iterator.key())?;
        Ok(Some((key, Sum::of(&value))))
    }
}
