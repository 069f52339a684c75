//! Reads what the MANIFESTs in a damaged directory still say.
//!
//! Every edit that can be read counts, also those after damage. If the current MANIFEST can be read
//! to its end, it is *trusted*: it says which tables are at which level. Otherwise it only helps:
//! it tells which families there were, which tables had been removed, which WAL files were
//! obsolete.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use titan::internals::format::FileKind;
use titan::internals::options::SettingTexts;
use titan::internals::version::{
    DatabaseRecord, LogsSince, ManifestReader, NewFile, TableFacts, VersionEdit, read_current,
};
use titan::internals::wal::{LogEnd, LogReader, Search, TailMode};
use titan::vfs::{Access, Vfs};
use titan::{ColumnFamilyId, FileNumber, Result, SequenceNumber};

use super::report::Loss;

/// A column family as edits describe it.
#[derive(Clone, Default)]
pub(super) struct HintedFamily {
    pub(super) name: String,
    pub(super) comparator: Option<String>,
    pub(super) log_number: FileNumber,
}

/// A table that edits added and none removed.
#[derive(Clone)]
pub(super) struct HintedTable {
    pub(super) family: ColumnFamilyId,
    pub(super) level: usize,
    pub(super) meta: NewFile,
    pub(super) facts: Option<TableFacts>,
}

/// Hint from the MANIFEST; see the module.
#[derive(Default)]
pub(super) struct Hint {
    pub(super) families: BTreeMap<ColumnFamilyId, HintedFamily>,
    pub(super) dropped: BTreeSet<ColumnFamilyId>,
    /// Its settings are not filled in. The largest id is exact if edits record it; else it is
    /// inferred from the families that they name.
    pub(super) record: DatabaseRecord,
    pub(super) tables: BTreeMap<FileNumber, HintedTable>,
    /// Tables that edits removed.
    pub(super) obsolete: BTreeSet<FileNumber>,
    pub(super) next_file: FileNumber,
    pub(super) last_sequence: SequenceNumber,
    /// The options that the database keeps.
    pub(super) settings: BTreeMap<Option<ColumnFamilyId>, SettingTexts>,
    /// The MANIFEST that was read.
    pub(super) manifest: FileNumber,
    /// Whether it was the current MANIFEST and could be read to its end.
    pub(super) trusted: bool,
}

impl Hint {
    /// Reads the MANIFEST that CURRENT names, or the newest one that exists.
    ///
    /// # Errors
    /// Failures to read; `Unsupported` for edits of features this version does not know.
    pub(super) fn read(
        vfs: &dyn Vfs,
        dir: &Path,
        files: &[FileKind],
        losses: &mut Vec<Loss>,
        notes: &mut Vec<String>,
    ) -> Result<Self> {
        let named = match read_current(vfs, dir) {
            Ok((number, _)) => Some(number),
            Err(e) if e.is_not_found() || e.is_corruption() => {
                notes.push(format!("CURRENT is unusable: {e}"));
                None
            }
            Err(e) => return Err(e),
        };
        let there: Vec<FileNumber> = files
            .iter()
            .filter_map(|file| match file {
                FileKind::Manifest(number) => Some(*number),
                _ => None,
            })
            .collect();
        let in_force = named.filter(|number| there.contains(number));
        // A MANIFEST that CURRENT does not name was replaced, unless CURRENT itself is lost.
        let stale = named.is_some() && in_force.is_none();
        let mut hint = Hint::default();
        for number in in_force.into_iter().chain(there.into_iter().rev()) {
            hint = Hint::of_manifest(vfs, dir, number, losses)?;
            if hint.next_file > FileNumber(0) {
                break;
            }
            // No edit of it could be read: an older MANIFEST knows more than that.
            hint.trusted = false;
        }
        hint.trusted &= !stale;
        if stale || hint.next_file == FileNumber(0) {
            let name = named.map(|n| FileKind::Manifest(n).name());
            losses.push(Loss::of_manifest(
                name.as_deref().unwrap_or("MANIFEST"),
                "the MANIFEST is gone",
            ));
        }
        Ok(hint)
    }

    fn of_manifest(
        vfs: &dyn Vfs,
        dir: &Path,
        number: FileNumber,
        losses: &mut Vec<Loss>,
    ) -> Result<Self> {
        let kind = FileKind::Manifest(number);
        let path = kind.path(dir);
        let mut hint = Hint {
            trusted: ends_well(vfs, &path, number)?,
            manifest: number,
            ..Hint::default()
        };
        let mut log = LogReader::new(
            vfs.open(&path, Access::Sequential)?,
            &path,
            number,
            TailMode::PointInTime,
        );
        let mut group: Vec<VersionEdit> = Vec::new();
        let before = losses.len();
        loop {
            let Some(record) = log.next()? else {
                let offset = match log.end() {
                    // An opening ends here too: the edits after this never took effect.
                    Some(LogEnd::Corrupt { offset, .. }) if !hint.trusted => *offset,
                    _ => break,
                };
                let mut loss = Loss::of_manifest(&kind.name(), "edits are damaged");
                loss.offset = Some(offset);
                losses.push(loss);
                if !log.resume(Search::Certain)? {
                    break;
                }
                // An atomic group with a gap never took effect.
                group.clear();
                continue;
            };
            let offset = record.offset;
            let edit = match VersionEdit::decode(record.payload) {
                Ok(edit) => edit,
                Err(e) if e.is_corruption() => {
                    let mut loss = Loss::of_file(&kind.name(), e.message());
                    loss.offset = Some(offset);
                    losses.push(loss);
                    hint.trusted = false;
                    continue;
                }
                Err(e) => return Err(e.at(&path, offset)),
            };
            match edit.atomic_group_remaining {
                Some(0) => {
                    group.drain(..).for_each(|edit| hint.apply(edit));
                    hint.apply(edit);
                }
                Some(_) => group.push(edit),
                None => hint.apply(edit),
            }
        }
        if !hint.trusted && losses.len() == before && hint.next_file > FileNumber(0) {
            let what = "it ends within the state that it starts with";
            losses.push(Loss::of_manifest(&kind.name(), what));
        }
        hint.trusted &= hint.next_file > FileNumber(0);
        Ok(hint)
    }

    fn apply(&mut self, edit: VersionEdit) {
        let id = edit.column_family;
        for kept in &edit.kept_settings {
            self.settings.insert(kept.family, kept.settings.clone());
        }
        self.record.note_family(id);
        if edit.dropped_column_family {
            self.families.remove(&id);
            self.dropped.insert(id);
            let gone = self.tables.extract_if(.., |_, table| table.family == id);
            self.obsolete.extend(gone.map(|(number, _)| number));
            return;
        }
        self.record.apply(&edit);
        if !self.dropped.contains(&id) {
            let family = self.families.entry(id).or_default();
            if let Some(name) = edit.added_column_family {
                family.name = name;
            } else if id == ColumnFamilyId::DEFAULT {
                "default".clone_into(&mut family.name);
            }
            if edit.comparator.is_some() {
                family.comparator = edit.comparator;
            }
            if let Some(log_number) = edit.log_number {
                family.log_number = family.log_number.max(log_number);
            }
        }
        for (_, number) in edit.deleted_files {
            self.tables.remove(&number);
            self.obsolete.insert(number);
        }
        for (level, meta) in edit.new_files {
            self.obsolete.remove(&meta.number);
            let facts = None;
            let table = HintedTable {
                family: id,
                level,
                meta,
                facts,
            };
            self.tables.insert(table.meta.number, table);
        }
        for facts in edit.table_facts.into_iter().filter(|facts| !facts.foreign) {
            if let Some(table) = self.tables.get_mut(&facts.table) {
                table.facts = Some(facts);
            }
        }
        self.next_file = self
            .next_file
            .max(edit.next_file_number.unwrap_or_default());
        if let Some(last) = edit.last_sequence {
            self.last_sequence = self.last_sequence.max(last);
        }
    }

    /// Whether no readable edit knows the family, and not because it was dropped.
    pub(super) fn never_had(&self, id: ColumnFamilyId) -> bool {
        self.record.never_had(id)
    }

    /// The last operation that is known to be in tables and older than the WAL files that are
    /// needed.
    pub(super) fn last_before_logs(&self) -> SequenceNumber {
        let needed = self.logs_since().needed;
        let is_first = |id| {
            self.families
                .get(id)
                .is_some_and(|f| f.log_number <= needed)
        };
        let tables = self.tables.values().filter(|t| is_first(&t.family));
        let last = tables.map(|table| table.meta.largest_seq).max();
        last.filter(|_| self.trusted).unwrap_or_default()
    }

    /// The first WAL file to read.
    pub(super) fn logs_since(&self) -> LogsSince {
        let families = self.families.values().map(|f| f.log_number);
        LogsSince::new(&self.record, families)
    }
}

/// Whether opening the database would read this MANIFEST to its end.
fn ends_well(vfs: &dyn Vfs, path: &Path, number: FileNumber) -> Result<bool> {
    let file = vfs.open(path, Access::Sequential)?;
    let mut manifest = ManifestReader::new(file, path, number);
    loop {
        match manifest.next() {
            Ok(Some(_)) => {}
            Ok(None) => return Ok(true),
            Err(e) if e.is_corruption() => return Ok(false),
            Err(e) => return Err(e),
        }
    }
}
