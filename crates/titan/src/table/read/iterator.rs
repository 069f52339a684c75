//! The cursor over a table: the index finds the block, and the block's cursor does the rest.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::iterator::prefix_skip::PrefixSkip;
use crate::iterator::{InternalIterator, NEAR};
use crate::table::block::io::Window;
use crate::table::block::iter::{BlockIter, Skipped};
use crate::table::read::read_ahead::ReadAhead;
use crate::table::read::reader::TableReader;

/// Options of a cursor.
#[derive(Clone, Copy, Debug)]
pub struct TableIterOptions {
    /// Whether blocks that had to be read from the file go to the block cache.
    pub fill_cache: bool,
    /// Bytes to read from the file at once, for walks that will visit most of the following blocks
    /// (compactions, checks); 0 reads block by block, with readahead once the cursor turns out to
    /// walk.
    pub readahead: usize,
}

impl Default for TableIterOptions {
    fn default() -> Self {
        TableIterOptions {
            fill_cache: true,
            readahead: 0,
        }
    }
}

/// Way in which blocks that are not in the cache are read.
enum Reading {
    /// Many at once.
    Stretches(Window),
    /// One by one.
    Blocks(ReadAhead),
}

/// A cursor over the point entries of a table. Keeps the table open.
pub struct TableIterator {
    table: Arc<TableReader>,
    fill_cache: bool,
    reading: Reading,
    /// The index entry of the block that `block` reads; `None` before the first and after an error.
    loaded: Option<usize>,
    block: BlockIter,
    /// Number of blocks by which the last seek ahead moved.
    blocks_ahead: usize,
}

impl TableReader {
    /// A cursor over the point entries. It keeps the table open.
    pub fn iter(self: &Arc<Self>, options: TableIterOptions) -> TableIterator {
        TableIterator::new(self.clone(), options)
    }
}

impl TableIterator {
    pub(in crate::table) fn new(table: Arc<TableReader>, options: TableIterOptions) -> Self {
        let reading = match options.readahead {
            0 => Reading::Blocks(ReadAhead::default()),
            size => Reading::Stretches(Window::new(size)),
        };
        let block = table.iter_over(Default::default());
        TableIterator {
            table,
            fill_cache: options.fill_cache,
            reading,
            loaded: None,
            block,
            blocks_ahead: 0,
        }
    }

    /// The file offset of the block under the cursor; 0 if there is none.
    pub(in crate::table) fn block_offset(&self) -> u64 {
        let handle = self.loaded.and_then(|at| self.table.index.handle(at));
        handle.map_or(0, |handle| handle.offset)
    }

    /// Goes to block `at` and positions the cursor in it with `place`. Becomes invalid if there is
    /// no such block.
    fn enter(
        &mut self,
        at: usize,
        backward: bool,
        place: impl FnOnce(&mut BlockIter, &TableReader) -> Result<()>,
    ) -> Result<()> {
        self.block.invalidate();
        let Some(handle) = self.table.index.handle(at) else {
            return Ok(());
        };
        if self.loaded != Some(at) {
            let from = self.loaded.take();
            // The next block may be read into this one's memory.
            self.block.reset(Default::default());
            let block = match &mut self.reading {
                Reading::Blocks(ahead) => {
                    ahead.step(from, at, backward);
                    self.table.block_ahead(ahead, handle, self.fill_cache)?
                }
                Reading::Stretches(window) => {
                    self.table
                        .block_through(window, handle, backward, self.fill_cache)?
                }
            };
            self.block.reset(block);
            self.loaded = Some(at);
        }
        self.place(|block, table| place(block, table))
    }

    fn place(
        &mut self,
        step: impl FnOnce(&mut BlockIter, &TableReader) -> Result<()>,
    ) -> Result<()> {
        match step(&mut self.block, &self.table) {
            Ok(()) => Ok(()),
            Err(e) => {
                self.block.invalidate();
                Err(e.at(self.table.source.path(), self.block_offset()))
            }
        }
    }

    /// Seeks in the block at `at`, which is the first that can have `target`.
    #[inline]
    fn seek_from(&mut self, at: usize, target: &[u8]) -> Result<()> {
        if at >= self.table.index.len() {
            self.block.invalidate();
            return Ok(());
        }
        self.enter(at, false, |block, table| {
            block.seek(&table.options.comparator, target)
        })?;
        self.skip_forward()
    }

    /// Seeks a target that is after the entry, or was. First looks as many blocks ahead as it
    /// jumped the last time.
    fn jump_ahead(&mut self, target: &[u8]) -> Result<()> {
        let Some(loaded) = self.loaded else {
            return self.seek(target);
        };
        let (order, guess) = (&self.table.options.comparator, loaded + self.blocks_ahead);
        let at = self.table.index.find_near(order, target, loaded, guess);
        self.blocks_ahead = at - loaded;
        if at == loaded || at >= self.table.index.len() {
            return self.seek_from(at, target);
        }
        self.enter(at, false, |block, table| {
            block.seek_near_start(&table.options.comparator, target)
        })?;
        self.skip_forward()
    }

    /// Goes past the last entry.
    fn seek_past_end(&mut self) {
        self.block.invalidate();
        self.loaded = None;
    }

    /// Goes from after the end of a block to the next entry.
    fn skip_forward(&mut self) -> Result<()> {
        while !self.block.valid()
            && let Some(at) = self.loaded
            && at + 1 < self.table.index.len()
        {
            self.enter(at + 1, false, |block, _| block.seek_to_first())?;
        }
        Ok(())
    }

    /// Goes from before the start of a block to the previous entry.
    fn skip_backward(&mut self) -> Result<()> {
        while !self.block.valid()
            && let Some(before) = self.loaded.and_then(|at| at.checked_sub(1))
        {
            self.enter(before, true, |block, _| block.seek_to_last())?;
        }
        Ok(())
    }
}

impl InternalIterator for TableIterator {
    #[inline]
    fn valid(&self) -> bool {
        self.block.valid()
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0, false, |block, _| block.seek_to_first())?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        let last = self.table.index.len().saturating_sub(1);
        self.enter(last, true, |block, _| block.seek_to_last())?;
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        let at = self
            .table
            .index
            .find(&self.table.options.comparator, target);
        self.seek_from(at, target)
    }

    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        if self.blocks_ahead == 0 && self.block.valid() {
            let mut arrived = false;
            self.place(|block, table| {
                arrived = block.walk_to(&table.options.comparator, target, NEAR)?;
                Ok(())
            })?;
            if arrived {
                return Ok(());
            }
        }
        self.jump_ahead(target)
    }

    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        loop {
            let before = (self.loaded, self.block.offset());
            let mut skipped = Skipped::Long;
            if self.blocks_ahead == 0 {
                self.place(|block, _| {
                    skipped = block.skip_prefixes(skip, NEAR)?;
                    Ok(())
                })?;
            }
            match skipped {
                Skipped::ToEntry => return Ok(()),
                Skipped::ToEnd => self.skip_forward()?,
                Skipped::Long => match skip.target() {
                    Some(target) => self.jump_ahead(target)?,
                    None => self.seek_past_end(),
                },
            }
            if !self.valid() {
                return Ok(());
            }
            // In a table whose keys are out of order, a jump may go back, again and again.
            if (self.loaded, self.block.offset()) <= before {
                return self.place(|_, _| Err(Error::corruption("keys are out of order")));
            }
            if !skip.passes(self.key()) {
                return Ok(());
            }
        }
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let at = self
            .table
            .index
            .find(&self.table.options.comparator, target);
        let at = at.min(self.table.index.len().saturating_sub(1));
        self.enter(at, true, |block, table| {
            block.seek_for_prev(&table.options.comparator, target)
        })?;
        self.skip_backward()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if !self.block.valid() {
            return Ok(());
        }
        self.place(|block, _| block.next())?;
        if self.block.valid() {
            Ok(())
        } else {
            self.skip_forward()
        }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if !self.block.valid() {
            return Ok(());
        }
        self.place(|block, _| block.prev())?;
        if self.block.valid() {
            Ok(())
        } else {
            self.skip_backward()
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.block.key()
    }

    #[inline]
    fn value(&self) -> &[u8] {
        self.block.value()
    }
}
