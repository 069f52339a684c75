//! The memtable as an [`InternalIterator`].

use std::sync::Arc;

use crate::error::Result;
use crate::format::internal_key::user_key;
use crate::iterator::prefix_skip::PrefixSkip;
use crate::iterator::{InternalIterator, NEAR};
use crate::memtable::skiplist::{NodeRef, SkipList, SkipListCursor, Target};
use crate::memtable::table::Memtable;

/// A cursor over the point entries of a memtable, which it keeps alive. Movements never fail and
/// allocate nothing; `prev` costs a search.
pub(crate) struct MemtableIterator {
    cursor: SkipListCursor,
    /// Must outlive readers as a whole.
    memtable: Arc<Memtable>,
}

impl Memtable {
    /// A cursor over the point entries; it sees entries added while it is used.
    pub(crate) fn iter(self: &Arc<Self>) -> MemtableIterator {
        MemtableIterator::new(Arc::clone(&self.list), Arc::clone(self))
    }
}

impl MemtableIterator {
    pub(super) fn new(list: Arc<SkipList>, memtable: Arc<Memtable>) -> Self {
        MemtableIterator {
            cursor: SkipListCursor::new(list),
            memtable,
        }
    }
}

impl InternalIterator for MemtableIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.cursor.entry().is_some()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.cursor.move_to(SkipList::first);
        Ok(())
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.cursor.move_to(SkipList::last);
        Ok(())
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.cursor
            .move_to(|list| list.first_at_or_after(Target::of(target)));
        Ok(())
    }

    /// Steps over a few entries before it searches.
    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        for _ in 0..NEAR {
            self.cursor.next();
            match self.cursor.entry() {
                Some(entry)
                    if self
                        .memtable
                        .comparator()
                        .compare(entry.key(), target)
                        .is_lt() => {}
                _ => return Ok(()),
            }
        }
        self.seek(target)
    }

    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        let mut steps = 0;
        while let Some(entry) = self.cursor.entry() {
            let key = entry.key();
            if !user_key(key).starts_with(skip.prefix()) {
                skip.count(steps);
                if !skip.skips(key) {
                    return Ok(());
                }
                steps = 0;
            } else if steps == NEAR {
                match skip.target() {
                    Some(target) => self.seek(target)?,
                    None => self.cursor.move_to(|_| None),
                }
                continue;
            }
            steps += 1;
            self.cursor.next();
        }
        skip.count(steps);
        Ok(())
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        self.cursor
            .move_to(|list| list.last_at_or_before(Target::of(target)));
        Ok(())
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        self.cursor.next();
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.cursor.prev();
        Ok(())
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.cursor.entry().map(NodeRef::key).unwrap_or_default()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.cursor.entry().map(NodeRef::value).unwrap_or_default()
    }
}
