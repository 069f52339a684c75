//! The memtable as an [`InternalIterator`].

use std::sync::Arc;

use crate::error::Result;
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::memtable::skiplist::{NodeRef, SkipList, SkipListCursor, Target};

/// A cursor over the point entries of a memtable, which it keeps alive. Movements never fail and
/// allocate nothing; `prev` costs a search.
pub(crate) struct MemtableIterator {
    cursor: SkipListCursor,
    /// The cursor needs only the list; the rest of the memtable must outlive readers, too.
    _memtable: Arc<Memtable>,
}

impl MemtableIterator {
    pub(super) fn new(list: Arc<SkipList>, memtable: Arc<Memtable>) -> Self {
        MemtableIterator {
            cursor: SkipListCursor::new(list),
            _memtable: memtable,
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
