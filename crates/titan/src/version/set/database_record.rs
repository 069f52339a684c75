//! Record in a MANIFEST of a database beside its families.

use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::number_map::NumberMap;
use crate::options::SettingTexts;
use crate::version::edit::VersionEdit;

/// The fields of edits that belong to no family.
#[derive(Default)]
pub struct DatabaseRecord {
    pub max_column_family: ColumnFamilyId,
    /// Whether the MANIFEST recorded it. RocksDB omits it when it starts a MANIFEST, so families
    /// that were dropped before may have had larger ids.
    pub max_column_family_is_exact: bool,
    /// No family needs WAL files with a smaller number.
    pub min_log_number_to_keep: FileNumber,
    /// WAL files of which RocksDB recorded, where it tracks them, how many bytes had been synced.
    pub synced_logs: NumberMap<FileNumber, u64>,
    /// Sequence numbers that no WAL file has, with the WAL files that began then.
    pub unlogged: NumberMap<SequenceNumber, FileNumber>,
    /// Whether Titan wrote the last edit, and so every WAL file that is needed.
    pub is_titans: bool,
    /// Empty if the database has none yet.
    pub db_id: String,
    /// The database's options kept for the next opening.
    pub settings: SettingTexts,
    /// Ignorable fields of other engines, kept for them.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

impl DatabaseRecord {
    /// Notes that a family has or had this id.
    pub fn note_family(&mut self, id: ColumnFamilyId) {
        self.max_column_family = self.max_column_family.max(id);
    }

    /// Notes that no family needs WAL files with a smaller number.
    pub(crate) fn note_min_log_number(&mut self, number: FileNumber) {
        self.min_log_number_to_keep = self.min_log_number_to_keep.max(number);
    }

    /// The number that the next operation in the WAL has after one with the number `last`.
    pub fn next_logged(&self, last: SequenceNumber) -> SequenceNumber {
        let mut next = last.plus(1);
        while self.unlogged.contains_key(&next) && !mutant!(unlogged_numbers_are_missed) {
            next = next.plus(1);
        }
        next
    }

    /// Takes over numbers that no WAL file has, and forgets those before WAL files that no family
    /// needs, which begin with `needed`.
    pub(super) fn note_unlogged(
        &mut self,
        unlogged: &[(SequenceNumber, FileNumber)],
        needed: FileNumber,
    ) {
        self.unlogged.extend(unlogged.iter().copied());
        self.unlogged.retain(|_, log| *log >= needed);
    }

    /// Whether it is certain that no family ever had this id.
    pub fn never_had(&self, id: ColumnFamilyId) -> bool {
        self.max_column_family_is_exact && id > self.max_column_family
    }

    /// Takes over the fields of an edit that was read, except for settings.
    pub fn apply(&mut self, edit: &VersionEdit) {
        if edit.added_column_family.is_some() {
            self.note_family(edit.column_family);
        }
        if let Some(max) = edit.max_column_family {
            self.note_family(max);
            self.max_column_family_is_exact = true;
        }
        if let Some(min) = edit.min_log_number_to_keep {
            self.note_min_log_number(min);
        }
        for log in &edit.wal_additions {
            if let Some(size) = log.synced_size {
                self.synced_logs.insert(log.number, size);
            }
        }
        if let Some(first_kept) = edit.wal_deletion {
            self.synced_logs.retain(|number, _| *number >= first_kept);
        }
        self.note_unlogged(&edit.unlogged, self.min_log_number_to_keep);
        self.is_titans = edit.synced_before.is_some() || edit.state_follows;
        if let Some(id) = edit.db_id.as_ref().filter(|id| !id.is_empty()) {
            self.db_id.clone_from(id);
        }
        self.unknown.extend(edit.unknown.iter().cloned());
    }
}
