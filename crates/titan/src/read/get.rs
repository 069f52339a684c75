//! Point lookups: the newest visible entry of one key.

use bytes::Bytes;

use super::SuperVersion;
use crate::error::{Error, Result};
use crate::format::SequenceNumber;
use crate::format::blob_index::BlobIndex;
use crate::format::internal_key::{ValueType, seek_key};
use crate::open_files::OpenFiles;
use crate::range_del::FragmentedTombstones;
use crate::version::TableFile;
use crate::version::tombstones::table_tombstones;

/// What a key's value is, before a blob file is touched.
#[derive(Clone, Debug)]
pub(crate) enum FoundValue {
    Inline(Bytes),
    Blob(BlobIndex),
}

impl FoundValue {
    /// The value of an entry; `None` for a tombstone.
    ///
    /// # Errors
    /// `Unsupported` for entries that need what this version does not have.
    pub(crate) fn of_entry(value_type: ValueType, value: Bytes) -> Result<Option<Self>> {
        match value_type {
            ValueType::Value => Ok(Some(FoundValue::Inline(value))),
            ValueType::BlobIndex => Ok(Some(FoundValue::Blob(BlobIndex::decode(&value)?))),
            ValueType::Deletion | ValueType::SingleDeletion => Ok(None),
            ValueType::Merge | ValueType::WideColumnEntity => Err(unsupported(value_type)),
            ValueType::RangeDeletion => Err(Error::corruption(
                "a range deletion stands among point entries",
            )),
        }
    }
}

/// The error for a key whose newest entry has a type that this version does not support.
pub(super) fn unsupported(value_type: ValueType) -> Error {
    let what = match value_type {
        ValueType::Merge => "a merge operand, which needs its operator",
        _ => "a wide-column entity",
    };
    Error::unsupported(format!("the key's newest entry is {what}"))
}

struct Lookup<'a> {
    user_key: &'a [u8],
    snapshot: SequenceNumber,
    seek_key: Vec<u8>,
    open_files: &'a OpenFiles,
    super_version: &'a SuperVersion,
    fill_cache: bool,
    /// The newest tombstone over the key in the sources searched so far.
    covered: SequenceNumber,
}

/// An entry found: its sequence number, and its value unless it is a tombstone.
type Entry = (SequenceNumber, Option<FoundValue>);

/// Finds the value of `user_key` as of `snapshot`. Sources are searched newest first and the first
/// entry decides. Cost: one filter probe per table whose range has the key, one block where a
/// filter says yes.
pub(crate) fn lookup(
    super_version: &SuperVersion,
    open_files: &OpenFiles,
    user_key: &[u8],
    snapshot: SequenceNumber,
    fill_cache: bool,
) -> Result<Option<FoundValue>> {
    // MUTANT: a lookup sees one sequence number too many.
    let too_many = u64::from(mutant!(
        "snapshot-sees-the-next-write",
        "-p titan-campaigns --test it metamorphic::"
    ));
    let mut lookup = Lookup {
        user_key,
        snapshot,
        seek_key: seek_key(user_key, snapshot.plus(too_many)),
        open_files,
        super_version,
        fill_cache,
        covered: SequenceNumber::ZERO,
    };
    Ok(match lookup.search()? {
        // MUTANT: a lookup lets a range deletion hide a newer value.
        Some(_)
            if mutant!(
                "range-deletion-hides-newer",
                "-p titan-campaigns --test it metamorphic::"
            ) && lookup.covered > SequenceNumber::ZERO =>
        {
            None
        }
        // RocksDB gives entries of the last level sequence number 0; ours keep theirs (ADR 6).
        Some((sequence, value)) if sequence >= lookup.covered => value,
        _ => None,
    })
}

impl Lookup<'_> {
    fn search(&mut self) -> Result<Option<Entry>> {
        for memtable in self.super_version.memtables() {
            if memtable.has_range_tombstones() {
                self.cover_by(&memtable.range_tombstones());
            }
            if let Some(entry) = memtable.get(self.user_key, self.snapshot) {
                let value = match entry.value_type {
                    // Not copied if a newer tombstone deletes it anyway.
                    ValueType::Value if entry.sequence < self.covered => None,
                    value_type => {
                        FoundValue::of_entry(value_type, Bytes::copy_from_slice(entry.value))?
                    }
                };
                return Ok(Some((entry.sequence, value)));
            }
            if self.covered > SequenceNumber::ZERO {
                return Ok(None);
            }
        }
        let version = &self.super_version.version;
        for file in version.level0_files(self.user_key) {
            if let Some(entry) = self.search_table(file)? {
                return Ok(Some(entry));
            }
            if self.covered > SequenceNumber::ZERO {
                return Ok(None);
            }
        }
        for level in 1..version.num_levels() {
            for file in version.sorted_level_files(level, self.user_key) {
                if let Some(entry) = self.search_table(file)? {
                    return Ok(Some(entry));
                }
            }
            if self.covered > SequenceNumber::ZERO {
                return Ok(None);
            }
        }
        Ok(None)
    }

    fn search_table(&mut self, file: &TableFile) -> Result<Option<Entry>> {
        let comparator = &self.super_version.version.comparator;
        if file.may_have_tombstones() {
            let tombstones = table_tombstones(self.open_files, file, comparator)?;
            self.cover_by(&tombstones);
        }
        let table = self.open_files.table(file.meta.identity(), comparator)?;
        match table.get(&self.seek_key, self.fill_cache)? {
            Some(entry) => {
                let value = FoundValue::of_entry(entry.value_type, entry.value)?;
                Ok(Some((entry.sequence, value)))
            }
            None => Ok(None),
        }
    }

    fn cover_by(&mut self, tombstones: &FragmentedTombstones) {
        let comparator = &self.super_version.version.comparator;
        let newest = tombstones.max_covering(self.user_key, self.snapshot, comparator);
        self.covered = self.covered.max(newest);
    }
}
