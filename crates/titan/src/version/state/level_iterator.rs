//! A cursor over one sorted level: its tables, one after the other.

use std::cmp::Ordering;
use std::sync::Arc;

use super::files::TableFile;
use super::level::Tables;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::InternalKeyComparator;
use crate::iterator::InternalIterator;
use crate::iterator::prefix_skip::PrefixSkip;
use crate::open_files::{Holder, OpenFiles};
use crate::table::{TableIterOptions, TableIterator};

/// Opens a table's iterator.
pub(crate) fn open_table_iter(
    open_files: &OpenFiles,
    file: &TableFile,
    comparator: &InternalKeyComparator,
    options: TableIterOptions,
    holder: Holder,
) -> Result<TableIterator> {
    let table = open_files.table_for(holder, file.meta.identity(), comparator)?;
    Ok(table.iter(options))
}

/// Walks tables that follow each other without overlap, opening each when it is reached.
pub(crate) struct LevelIterator {
    files: Tables,
    open_files: Arc<OpenFiles>,
    comparator: InternalKeyComparator,
    options: TableIterOptions,
    holder: Holder,
    /// The file `current` reads.
    position: usize,
    current: Option<TableIterator>,
    /// Before the first entry or after the last one. `current` stays as it was, for the next seek.
    outside: bool,
}

impl LevelIterator {
    pub(crate) fn new(
        files: Tables,
        open_files: Arc<OpenFiles>,
        comparator: InternalKeyComparator,
        options: TableIterOptions,
        holder: Holder,
    ) -> Self {
        LevelIterator {
            files,
            open_files,
            comparator,
            options,
            holder,
            position: 0,
            current: None,
            outside: false,
        }
    }

    /// Goes to the file at `position`, at any entry of it; outside if there is none.
    fn enter(&mut self, position: usize) -> Result<()> {
        self.outside = position >= self.files.len();
        if self.outside || position == self.position && self.current.is_some() {
            return Ok(());
        }
        self.current = None;
        self.position = position;
        if let Some(file) = self.files.get(position) {
            let (order, options) = (&self.comparator, self.options);
            let iter = open_table_iter(&self.open_files, file, order, options, self.holder)?;
            self.current = Some(iter);
        }
        Ok(())
    }

    /// Whether all entries of a file are before `target`.
    fn ends_before(&self, file: &TableFile, target: &[u8]) -> bool {
        self.comparator.compare(&file.meta.largest, target).is_lt()
    }

    /// Goes to the first entry not before `target` in the file at `first` and those after it.
    fn seek_from(&mut self, first: usize, target: &[u8]) -> Result<()> {
        let files = self.files.get(first..).unwrap_or_default();
        let passed = files.partition_point(|file| self.ends_before(file, target));
        self.enter(first + passed)?;
        self.with_current(|c| c.seek(target))?;
        self.skip_forward()
    }

    fn cursor(&self) -> Option<&TableIterator> {
        self.current.as_ref().filter(|_| !self.outside)
    }

    fn with_current(
        &mut self,
        movement: impl FnOnce(&mut TableIterator) -> Result<()>,
    ) -> Result<()> {
        let current = self.current.as_mut().filter(|_| !self.outside);
        match current.map(movement) {
            Some(Err(e)) => {
                self.current = None;
                Err(e)
            }
            _ => Ok(()),
        }
    }

    /// While the current file is exhausted, continues at the first entry of the next.
    fn skip_forward(&mut self) -> Result<()> {
        while self.cursor().is_some_and(|c| !c.valid()) {
            self.enter(self.position + 1)?;
            self.with_current(|c| c.seek_to_first())?;
        }
        Ok(())
    }

    /// From the end of the current file goes to the first entry after the prefix. Opens no file
    /// that has only the prefix.
    fn skip_files(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        let Some(target) = skip.target() else {
            self.outside = true;
            return Ok(());
        };
        self.seek_from(self.position + 1, target)
    }

    /// While the current file is exhausted, continues at the last entry of the previous.
    fn skip_backward(&mut self) -> Result<()> {
        while self.cursor().is_some_and(|c| !c.valid()) {
            if self.position == 0 {
                self.outside = true;
                return Ok(());
            }
            self.enter(self.position - 1)?;
            self.with_current(|c| c.seek_to_last())?;
        }
        Ok(())
    }
}

impl Drop for LevelIterator {
    fn drop(&mut self) {
        self.current = None;
        self.open_files.released();
    }
}

impl InternalIterator for LevelIterator {
    fn valid(&self) -> bool {
        self.cursor().is_some_and(|c| c.valid())
    }

    fn seek_to_first(&mut self) -> Result<()> {
        self.enter(0)?;
        self.with_current(|c| c.seek_to_first())?;
        self.skip_forward()
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.enter(self.files.len().saturating_sub(1))?;
        self.with_current(|c| c.seek_to_last())?;
        self.skip_backward()
    }

    fn seek(&mut self, target: &[u8]) -> Result<()> {
        self.seek_from(0, target)
    }

    /// First looks in the current file, if the target can be there.
    fn seek_ahead(&mut self, target: &[u8]) -> Result<()> {
        let current = self.files.get(self.position).filter(|_| self.valid());
        if current.is_some_and(|file| !self.ends_before(file, target)) {
            self.with_current(|c| c.seek_ahead(target))?;
            return self.skip_forward();
        }
        self.seek(target)
    }

    fn seek_for_prev(&mut self, target: &[u8]) -> Result<()> {
        let after = self.files.partition_point(|f| {
            self.comparator.compare(&f.meta.smallest, target) != Ordering::Greater
        });
        if after == 0 {
            self.outside = true;
            return Ok(());
        }
        self.enter(after - 1)?;
        self.with_current(|c| c.seek_for_prev(target))?;
        self.skip_backward()
    }

    fn next(&mut self) -> Result<()> {
        self.with_current(|c| c.next())?;
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        self.with_current(|c| c.prev())?;
        self.skip_backward()
    }

    fn skip_prefixes(&mut self, skip: &mut PrefixSkip<'_>) -> Result<()> {
        loop {
            self.with_current(|c| c.skip_prefixes(skip))?;
            if self.valid() {
                return Ok(());
            }
            self.skip_files(skip)?;
            if !self.valid() || !skip.passes(self.key()) {
                return Ok(());
            }
        }
    }

    /// Skips files by their bounds: does not open a file from which nothing is to be read.
    fn skip_older(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        let sequence = if mutant!(range_skip_forgets_newer) {
            sequence.plus(21)
        } else {
            sequence
        };
        let stops = |file: &Arc<TableFile>| {
            file.meta.largest_seq >= sequence
                || self.comparator.compare(&file.meta.largest, target).is_ge()
        };
        let mut files = self.files.iter().enumerate().skip(self.position);
        let (position, newer) = match files.find(|(_, file)| stops(file)) {
            Some((position, file)) => (position, file.meta.largest_seq >= sequence),
            None => (self.files.len(), false),
        };
        if newer && position == self.position {
            return Ok(false);
        }
        self.enter(position)?;
        self.with_current(|c| {
            if newer {
                c.seek_to_first()
            } else {
                c.seek(target)
            }
        })?;
        self.skip_forward()?;
        Ok(true)
    }

    fn skip_older_back(&mut self, target: &[u8], sequence: SequenceNumber) -> Result<bool> {
        let sequence = if mutant!(range_skip_back_forgets_newer) {
            sequence.plus(21)
        } else {
            sequence
        };
        let stops = |file: &Arc<TableFile>| {
            file.meta.largest_seq >= sequence
                || self.comparator.compare(&file.meta.smallest, target).is_lt()
        };
        let files = self.files.iter().take(self.position + 1);
        let Some(position) = files.rev().position(stops).map(|at| self.position - at) else {
            self.outside = true;
            return Ok(true);
        };
        let file = self.files.get(position);
        let newer = file.is_some_and(|file| file.meta.largest_seq >= sequence);
        if newer && position == self.position {
            return Ok(false);
        }
        self.enter(position)?;
        self.with_current(|c| {
            if newer {
                c.seek_to_last()
            } else {
                c.seek_for_prev(target)
            }
        })?;
        self.skip_backward()?;
        Ok(true)
    }

    fn key(&self) -> &[u8] {
        self.cursor().map_or(&[], |c| c.key())
    }

    fn value(&self) -> &[u8] {
        self.cursor().map_or(&[], |c| c.value())
    }
}
