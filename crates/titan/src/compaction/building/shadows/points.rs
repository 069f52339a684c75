//! Looks up the entries of older tables at a key.

use std::sync::Arc;

use super::older_tables::OlderTables;
use crate::error::Result;
use crate::format::internal_key::{ParsedInternalKey, seek_key, user_key};
use crate::format::pointers::referenced_bytes;
use crate::format::{FileNumber, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::range_del::FragmentedTombstones;
use crate::table::{TableIterOptions, TableIterator, TableReader};
use crate::version::TableFile;

/// The most tables of level 0 that are kept open: the first ones used.
const MAX_KEPT: usize = 32;

/// Whether a table may point to blob files.
pub(super) fn may_refer(table: &TableFile) -> bool {
    let facts = table.facts();
    facts.is_none_or(|facts| !facts.blob_refs.is_empty())
}

/// Looks up keys that come in order: neighbouring keys are in one block, which is read once and
/// does not go to the cache.
pub(super) struct Lookup<'a> {
    older: OlderTables<'a>,
    tombstones: Arc<FragmentedTombstones>,
    /// One for each level, the first of which is not used; then one for each table of level 0.
    cursors: Vec<Option<Cursor>>,
}

struct Cursor {
    number: FileNumber,
    table: Arc<TableReader>,
    /// Opened once the filter does not rule out a key.
    iter: Option<TableIterator>,
}

impl<'a> Lookup<'a> {
    /// `tombstones` are those of the tables.
    pub(super) fn new(older: OlderTables<'a>, tombstones: Arc<FragmentedTombstones>) -> Self {
        let version = older.version;
        let kept = version.level(0).len().min(MAX_KEPT);
        let cursors = std::iter::repeat_with(|| None);
        Lookup {
            older,
            tombstones,
            cursors: cursors.take(version.num_levels() + kept).collect(),
        }
    }

    /// Bytes of the blob record to which the newest entry of a key points; 0 if there is no entry,
    /// if it points to none, or if it is deleted.
    pub(super) fn blob_bytes_at(&mut self, user_key: &[u8]) -> Result<u64> {
        let version = self.older.version;
        let seek_key = seek_key(user_key, SequenceNumber::MAX);
        for file in version.level0_files(user_key) {
            let slot = self.slot_of(file.number());
            if let Some(bytes) = self.look_in(slot, file, &seek_key)? {
                return Ok(bytes);
            }
        }
        for level in 1..version.num_levels() {
            for file in version.sorted_level_files(level, user_key) {
                if let Some(bytes) = self.look_in(level, file, &seek_key)? {
                    return Ok(bytes);
                }
            }
        }
        Ok(0)
    }

    /// The slot of the cursor over a table of level 0. A cursor whose slot is past the end is not
    /// kept.
    fn slot_of(&self, table: FileNumber) -> usize {
        let first = self.older.version.num_levels();
        let level0 = self.cursors.iter().skip(first);
        let taken = |c: &Option<Cursor>| c.as_ref().is_none_or(|c| c.number == table);
        first + level0.take_while(|c| !taken(c)).count()
    }

    /// The same for one table; `None` if it has no entry.
    fn look_in(&mut self, slot: usize, file: &TableFile, seek_key: &[u8]) -> Result<Option<u64>> {
        let mut unkept = None;
        let kept = self.cursors.get_mut(slot).unwrap_or(&mut unkept);
        if kept.as_ref().is_none_or(|c| c.number != file.number()) {
            let version = self.older.version;
            let identity = file.meta.identity();
            *kept = Some(Cursor {
                number: file.number(),
                table: self.older.open_files.table(identity, &version.comparator)?,
                iter: None,
            });
        }
        let Some(cursor) = kept else {
            return Ok(None);
        };
        let user_key = user_key(seek_key);
        if !cursor.table.may_contain(user_key) {
            return Ok(None);
        }
        if !may_refer(file) && cursor.table.has_filter() {
            // The entry is inline or a deletion. The bytes that it shadows are counted already.
            return Ok(Some(0));
        }
        let options = TableIterOptions {
            fill_cache: false,
            readahead: 0,
        };
        let table = &cursor.table;
        let iter = cursor.iter.get_or_insert_with(|| table.iter(options));
        iter.seek(seek_key)?;
        if !iter.valid() {
            return Ok(None);
        }
        let found = ParsedInternalKey::parse(iter.key())?;
        if found.user_key != user_key {
            return Ok(None);
        }
        let comparator = &self.older.version.comparator;
        let tombstones = &self.tombstones;
        let covered = tombstones.max_covering(user_key, SequenceNumber::MAX, comparator);
        if covered > found.sequence {
            return Ok(Some(0));
        }
        referenced_bytes(user_key, found.value_type, iter.value()).map(Some)
    }
}
