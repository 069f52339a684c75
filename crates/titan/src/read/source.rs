//! The sources that a reader looks through: memtables and levels.
//!
//! Lookups and iterators walk the same list, [`SuperVersion::sources`], newest first: if a source
//! has an entry of a key, all entries of that key in the sources after it are older. The list is of
//! an enum that implements the trait, not of trait objects, so a lookup allocates nothing for it
//! and makes no virtual call.

use std::cell::Cell;
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::SuperVersion;
use super::search::{Place, Search};
use crate::error::Result;
use crate::format::internal_key::seek_key;
use crate::format::range_tombstone::RangeTombstone;
use crate::iterator::InternalIterator;
use crate::memtable::Memtable;
use crate::open_files::{Holder, OpenFiles};
use crate::stats::perf_context;
use crate::table::TableIterOptions;
use crate::version::state::level::{Level, Tables};
use crate::version::state::level_iterator::LevelIterator;
use crate::version::state::tombstones::{table_tombstones, tombstones_of_tables};
use crate::version::{TableFile, Version};

/// Something that has entries of one family.
pub(super) trait Source {
    /// Tells `search` the range tombstones that cover its key, then the versions of its key, newest
    /// first, until they are told or the search is done. It is enough to tell the newest version
    /// that the snapshot sees, and after a merge operand the next older one.
    fn search(&self, search: &mut Search<'_>) -> Result<()>;

    /// Adds an iterator over the point entries for each sorted run, the newest run first. With a
    /// filter, tables may be left out that have nothing within it.
    fn add_iterators(
        &self,
        options: TableIterOptions,
        within: Option<&PrefixFilter<'_>>,
        to: &mut Vec<Box<dyn InternalIterator>>,
    ) -> Result<()>;

    /// Adds every range tombstone.
    fn add_tombstones(&self, to: &mut Vec<RangeTombstone>) -> Result<()>;
}

impl SuperVersion {
    /// All sources that may have something, newest first.
    pub(super) fn sources<'a>(
        &'a self,
        open_files: &'a Arc<OpenFiles>,
    ) -> impl Iterator<Item = AnySource<'a>> {
        let version = &*self.version;
        let levels = version.levels().iter().enumerate();
        let filled = levels.filter(|(_, level)| !level.is_empty());
        let levels = filled.map(move |(number, level)| {
            AnySource::Level(LevelSource {
                version,
                number,
                level,
                open_files,
            })
        });
        self.memtables().map(AnySource::Memtable).chain(levels)
    }
}

/// A source of any kind.
#[derive(Clone, Copy)]
pub(super) enum AnySource<'a> {
    Memtable(&'a Arc<Memtable>),
    Level(LevelSource<'a>),
}

impl AnySource<'_> {
    /// The place of its entries.
    #[inline]
    pub(super) fn place(&self) -> Place {
        match self {
            AnySource::Memtable(_) => Place::Memory,
            // A tree has at most 64 levels.
            AnySource::Level(level) => Place::Level(level.number as u8),
        }
    }
}

impl Source for AnySource<'_> {
    #[inline]
    fn search(&self, search: &mut Search<'_>) -> Result<()> {
        match self {
            AnySource::Memtable(memtable) => memtable.search(search),
            AnySource::Level(level) => level.search(search),
        }
    }

    fn add_iterators(
        &self,
        options: TableIterOptions,
        within: Option<&PrefixFilter<'_>>,
        to: &mut Vec<Box<dyn InternalIterator>>,
    ) -> Result<()> {
        match self {
            AnySource::Memtable(memtable) => memtable.add_iterators(options, within, to),
            AnySource::Level(level) => level.add_iterators(options, within, to),
        }
    }

    fn add_tombstones(&self, to: &mut Vec<RangeTombstone>) -> Result<()> {
        match self {
            AnySource::Memtable(memtable) => memtable.add_tombstones(to),
            AnySource::Level(level) => level.add_tombstones(to),
        }
    }
}

impl Source for Arc<Memtable> {
    #[inline]
    fn search(&self, search: &mut Search<'_>) -> Result<()> {
        let overlooked = mutant!(range_deletion_overlooked_in_memtables);
        if self.has_range_tombstones() && !overlooked {
            search.cover_by(&self.range_tombstones());
        }
        perf_context::add(|running| &running.get_from_memtable_count, 1);
        let mut bound = Some(search.snapshot);
        while let Some(entry) = bound.and_then(|bound| self.get(search.user_key, bound)) {
            search.see(entry.sequence, entry.value_type, || {
                Bytes::copy_from_slice(entry.value)
            })?;
            bound = search.bound_below(entry.sequence);
        }
        Ok(())
    }

    fn add_iterators(
        &self,
        _: TableIterOptions,
        _: Option<&PrefixFilter<'_>>,
        to: &mut Vec<Box<dyn InternalIterator>>,
    ) -> Result<()> {
        to.push(Box::new(self.iter()));
        Ok(())
    }

    fn add_tombstones(&self, to: &mut Vec<RangeTombstone>) -> Result<()> {
        if self.has_range_tombstones() {
            to.extend(self.range_tombstones().iter_tombstones());
        }
        Ok(())
    }
}

/// A level of a version. Level 0 has a sorted run for each of its tables.
#[derive(Clone, Copy)]
pub(super) struct LevelSource<'a> {
    version: &'a Version,
    number: usize,
    /// The level of that number.
    level: &'a Level,
    open_files: &'a Arc<OpenFiles>,
}

/// The prefix of all keys that are wanted, as filters of tables know it.
pub(super) struct PrefixFilter<'a> {
    /// The name of the extractor.
    pub(super) extractor: &'a str,
    pub(super) prefix: &'a [u8],
    /// The first key, and the first not wanted any more.
    pub(super) begin: Option<&'a [u8]>,
    pub(super) end: Option<&'a [u8]>,
    /// Whether it has ruled out a table.
    pub(super) has_ruled_out: Cell<bool>,
}

impl LevelSource<'_> {
    /// The tables that may have point entries within the filter.
    fn tables_within(&self, within: &PrefixFilter<'_>) -> Result<Vec<Arc<TableFile>>> {
        let end = within.end.map_or(Bound::Unbounded, Bound::Excluded);
        let overlaps = |file: &&Arc<TableFile>| self.version.overlaps(file, within.begin, end);
        let mut left = Vec::new();
        for file in self.level.iter().filter(overlaps) {
            let table = self
                .open_files
                .table(file.meta.identity(), &self.version.comparator)?;
            let may = table.may_contain_prefix(within.extractor, within.prefix);
            match may {
                Some(false) => within.has_ruled_out.set(true),
                _ => left.push(Arc::clone(file)),
            }
        }
        Ok(left)
    }

    fn search_table(&self, file: &TableFile, search: &mut Search<'_>) -> Result<()> {
        let comparator = search.comparator;
        if file.may_have_tombstones() {
            let tombstones = table_tombstones(self.open_files, file, comparator)?;
            search.cover_by(&tombstones);
        }
        let table = self.open_files.table(file.meta.identity(), comparator)?;
        let Some(entry) = table.get(search.seek_key(), search.fill_cache)? else {
            return Ok(());
        };
        search.see(entry.sequence, entry.value_type, || entry.value)?;
        let mut bound = search.bound_below(entry.sequence);
        while let Some(sequence) = bound {
            let key = seek_key(search.user_key, sequence);
            let Some(entry) = table.get_unfiltered(&key, search.fill_cache)? else {
                break;
            };
            search.see(entry.sequence, entry.value_type, || entry.value)?;
            bound = search.bound_below(entry.sequence);
        }
        Ok(())
    }
}

impl Source for LevelSource<'_> {
    #[inline]
    fn search(&self, search: &mut Search<'_>) -> Result<()> {
        if self.number == 0 {
            for file in self.version.level0_files(search.user_key) {
                self.search_table(file, search)?;
                // The tables after this one are older.
                if search.is_done() {
                    break;
                }
            }
            return Ok(());
        }
        for file in self
            .version
            .sorted_level_files(self.number, search.user_key)
        {
            self.search_table(file, search)?;
            // If there are two tables, the second may have versions that are newer than the range
            // tombstones of the first.
            if search.is_decided() {
                break;
            }
        }
        Ok(())
    }

    fn add_iterators(
        &self,
        options: TableIterOptions,
        within: Option<&PrefixFilter<'_>>,
        to: &mut Vec<Box<dyn InternalIterator>>,
    ) -> Result<()> {
        let mut add = |tables: Tables| {
            to.push(Box::new(LevelIterator::new(
                tables,
                Arc::clone(self.open_files),
                self.version.comparator.clone(),
                options,
                Holder::User,
            )));
        };
        let left = match within {
            Some(within) => Some(self.tables_within(within)?),
            None => None,
        };
        match (self.number, left) {
            (0, None) => {
                let tables = self.level.iter();
                tables.for_each(|file| add(Tables::from([Arc::clone(file)])));
            }
            (0, Some(left)) => left.into_iter().for_each(|file| add(Tables::from([file]))),
            (_, None) => add(self.level.shared_tables()),
            (_, Some(left)) if left.is_empty() => {}
            (_, Some(left)) => add(Tables::from(left)),
        }
        Ok(())
    }

    fn add_tombstones(&self, to: &mut Vec<RangeTombstone>) -> Result<()> {
        to.extend(tombstones_of_tables(
            self.open_files,
            self.level,
            &self.version.comparator,
        )?);
        Ok(())
    }
}
