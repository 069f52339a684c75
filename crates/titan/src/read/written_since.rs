//! Whether a key was written after a sequence number.

use std::sync::Arc;

use super::SuperVersion;
use crate::error::Result;
use crate::format::SequenceNumber;
use crate::format::internal_key::seek_key;
use crate::memtable::Memtable;
use crate::open_files::OpenFiles;
use crate::version::TableFile;
use crate::version::state::tombstones::table_tombstones;

/// A question about one key, and where to look for the answer.
pub(crate) struct WrittenSince<'a> {
    pub(crate) super_version: &'a SuperVersion,
    pub(crate) open_files: &'a Arc<OpenFiles>,
    pub(crate) key: &'a [u8],
    /// Writes up to this one do not matter.
    pub(crate) since: SequenceNumber,
    /// Later writes do not matter either.
    pub(crate) up_to: SequenceNumber,
}

/// Newest sequence number of the key in a source.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Newest(SequenceNumber);

impl Newest {
    fn of(point: Option<SequenceNumber>, covering: SequenceNumber) -> Self {
        Newest(point.unwrap_or(SequenceNumber::ZERO).max(covering))
    }
}

impl WrittenSince<'_> {
    /// The sequence number of a write of the key in `since + 1 ..= up_to`, if there is one: a
    /// value, a deletion of any kind, or a range deletion that covers the key. A snapshot that is
    /// not newer than `since` must be alive: then compactions have kept the newest such write (see
    /// `compaction/building/survival.rs`), though perhaps none of the others.
    ///
    /// Cost: none if nothing was written since. Otherwise a lookup in each memtable, and in each
    /// table whose range has the key and which has something newer than `since`, which a version
    /// knows. Ends at the first source with the key.
    pub(crate) fn find(&self) -> Result<Option<SequenceNumber>> {
        if self.up_to <= self.since {
            return Ok(None);
        }
        for memtable in self.super_version.memtables() {
            let newest = self.in_memtable(memtable);
            if newest.0 > SequenceNumber::ZERO {
                // All older sources have only older writes of the key.
                return Ok(self.answer(newest));
            }
        }
        if mutant!(conditions_overlook_tables) {
            return Ok(None);
        }
        let version = &self.super_version.version;
        for file in version.level0_files(self.key) {
            let newest = self.in_table(file)?;
            if newest.0 > SequenceNumber::ZERO {
                return Ok(self.answer(newest));
            }
        }
        for level in 1..version.num_levels() {
            let mut newest = Newest(SequenceNumber::ZERO);
            // If there are two tables, each may have the newest entry.
            for file in version.sorted_level_files(level, self.key) {
                newest = Newest(newest.0.max(self.in_table(file)?.0));
            }
            if newest.0 > SequenceNumber::ZERO {
                return Ok(self.answer(newest));
            }
        }
        Ok(None)
    }

    fn answer(&self, newest: Newest) -> Option<SequenceNumber> {
        let missed = u64::from(mutant!(conflict_off_by_one));
        (newest.0 > self.since.plus(missed)).then_some(newest.0)
    }

    fn in_memtable(&self, memtable: &Memtable) -> Newest {
        let point = memtable.get(self.key, self.up_to);
        let overlooked = mutant!(conditions_overlook_range_deletions);
        let covering = match memtable.has_range_tombstones() && !overlooked {
            true => {
                let order = memtable.comparator();
                let tombstones = memtable.range_tombstones();
                tombstones.max_covering(self.key, self.up_to, order)
            }
            false => SequenceNumber::ZERO,
        };
        Newest::of(point.map(|entry| entry.sequence), covering)
    }

    /// Newest entry of a table that is newer than `since`.
    fn in_table(&self, file: &TableFile) -> Result<Newest> {
        if file.meta.largest_seq <= self.since {
            return Ok(Newest(SequenceNumber::ZERO));
        }
        let order = &self.super_version.version.comparator;
        let covering = match file.may_have_tombstones() {
            true => {
                let tombstones = table_tombstones(self.open_files, file, order)?;
                tombstones.max_covering(self.key, self.up_to, order)
            }
            false => SequenceNumber::ZERO,
        };
        let table = self.open_files.table(file.meta.identity(), order)?;
        let found = table.get(&seek_key(self.key, self.up_to), true)?;
        Ok(Newest::of(found.map(|entry| entry.sequence), covering))
    }
}
