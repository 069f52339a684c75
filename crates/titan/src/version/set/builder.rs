//! Applies edits to a version, which gives the next one.
//!
//! A version shares with the one before the levels, and most of the set of blob files, that no edit
//! changes. So an edit costs as much as the levels that it changes and the blob files that it
//! names.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::internal_key::InternalKeyComparator;
use crate::format::{BlobFileNumber, FileNumber};
use crate::number_map::NumberMap;
use crate::sorting;
use crate::version::edit::{TableFacts, VersionEdit};
use crate::version::state::blob_set::BlobSet;
use crate::version::state::files::{ObsoleteFiles, PhysicalBlobFile, SharedBlobFile, TableFile};
use crate::version::state::level::Level;
use crate::version::state::version::Version;

/// Collects edits on top of a version. Within an edit, deletions come before additions, so that
/// moving a file to another level is deleting and adding the same number.
pub(crate) struct VersionBuilder {
    levels: Vec<LevelDraft>,
    blob_files: BlobSet,
    /// Blob files that may have become unused.
    changed_blob_files: BTreeSet<BlobFileNumber>,
    /// For blob files that an added table names as the oldest to which it points: that table.
    linked: HashMap<BlobFileNumber, FileNumber>,
    /// The new physical files of relocated logical files.
    moved: NumberMap<BlobFileNumber, Arc<PhysicalBlobFile>>,
    /// Tables that the base does not have.
    created: BTreeSet<FileNumber>,
    /// Tables of the base that are in no level now.
    gone: Vec<Arc<TableFile>>,
    base: Arc<Version>,
    queue: Arc<ObsoleteFiles>,
}

/// A level while edits are applied.
#[derive(Default)]
struct LevelDraft {
    /// The level of the base, with added tables that are newer than all of it.
    base: Level,
    /// Replaces `base` once the level has been changed otherwise.
    changed: Option<NumberMap<FileNumber, Arc<TableFile>>>,
}

impl LevelDraft {
    fn has(&self, table: FileNumber) -> bool {
        match &self.changed {
            Some(tables) => tables.contains_key(&table),
            None => self.base.iter().any(|f| f.number() == table),
        }
    }

    /// The largest number of its tables.
    fn newest_number(&self) -> Option<FileNumber> {
        match &self.changed {
            Some(tables) => tables.keys().next_back().copied(),
            None => self.base.newest_number(),
        }
    }

    /// Adds a table that is not there. The newest of level 0 is added without a copy of the whole
    /// level.
    fn insert(&mut self, level: usize, file: Arc<TableFile>, comparator: &InternalKeyComparator) {
        if level == 0 && self.changed.is_none() && is_newest(&file, &self.base) {
            self.base = self.base.with_newest(file, comparator);
            return;
        }
        let number = file.number();
        let before = self.tables().insert(number, file);
        invariant!(before.is_none(), "level {level} has table {number} twice");
    }

    /// The tables, for changing them.
    fn tables(&mut self) -> &mut NumberMap<FileNumber, Arc<TableFile>> {
        self.changed.get_or_insert_with(|| {
            let tables = self.base.iter().map(|f| (f.number(), Arc::clone(f)));
            tables.collect()
        })
    }
}

/// A version, the files that it no longer has, and the new locations of relocated files.
pub(crate) struct BuiltVersion {
    version: Arc<Version>,
    dropped_tables: Vec<Arc<TableFile>>,
    dropped_blob_files: Vec<Arc<SharedBlobFile>>,
    moved: Vec<(Arc<SharedBlobFile>, Arc<PhysicalBlobFile>)>,
}

impl BuiltVersion {
    /// The version, without making any file obsolete. A relocated file was added by the same edit,
    /// so no other version looks for its records.
    pub(crate) fn before_it_is_durable(self) -> Arc<Version> {
        for (file, physical) in &self.moved {
            file.move_to(physical);
        }
        self.version
    }

    /// The version, with its consequences: the files that it no longer has become obsolete, and
    /// relocated records are found at their new location, also by older versions. Must be called
    /// only after the edits are durable.
    pub(crate) fn install(self) -> Arc<Version> {
        let mut left = Vec::new();
        for (file, physical) in &self.moved {
            left.push(file.physical());
            file.move_to(physical);
        }
        left.extend(self.dropped_blob_files.iter().map(|file| file.physical()));
        let physical = self.version.blob_files.physical();
        for (file, moved) in &self.moved {
            invariant!(
                file.physical().number == moved.number && physical.contains_key(&moved.number),
                "records of blob file {} are in {}, which the version does not have",
                file.number,
                moved.number
            );
        }
        for table in &self.dropped_tables {
            invariant!(
                !self
                    .version
                    .tables()
                    .any(|(_, other)| other.number() == table.number()),
                "table {} is dropped, and the version has it",
                table.number()
            );
        }
        for file in left.iter().filter(|f| !physical.contains_key(&f.number)) {
            invariant!(
                !self
                    .version
                    .blob_files
                    .values()
                    .any(|meta| meta.shared.physical().number == file.number),
                "physical blob file {} becomes obsolete, and has records of the version",
                file.number
            );
            file.mark_obsolete();
        }
        self.dropped_tables.iter().for_each(|f| f.mark_obsolete());
        self.version
    }
}

impl VersionBuilder {
    pub(crate) fn new(base: Arc<Version>, queue: Arc<ObsoleteFiles>) -> Self {
        let levels = (0..base.num_levels()).map(|level| LevelDraft {
            base: base.level(level).clone(),
            changed: None,
        });
        VersionBuilder {
            levels: levels.collect(),
            blob_files: base.blob_files.clone(),
            changed_blob_files: BTreeSet::new(),
            linked: HashMap::new(),
            moved: NumberMap::new(),
            created: BTreeSet::new(),
            gone: Vec::new(),
            base,
            queue,
        }
    }

    /// Makes sure that there are at least `levels` levels.
    pub(crate) fn with_levels(mut self, levels: usize) -> Self {
        let levels = self.levels.len().max(levels);
        self.levels.resize_with(levels, LevelDraft::default);
        self
    }

    /// Applies one edit.
    ///
    /// # Errors
    /// `Corruption` if the edit contradicts the state: deletes or adds garbage to a file that is
    /// not there, or adds one that is, at any level.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut deleted = HashMap::new();
        for &(level, number) in &edit.deleted_files {
            deleted.insert(number, self.delete_table(level, number)?);
        }
        self.add_tables(edit, &mut deleted)?;
        for (number, file) in deleted {
            if !self.created.remove(&number) {
                self.gone.push(file);
            }
        }
        for addition in &edit.blob_additions {
            self.blob_files
                .add(SharedBlobFile::new(addition, &self.queue))?;
            self.changed_blob_files.insert(addition.number);
        }
        for relocation in &edit.relocations {
            if self.blob_files.physical().contains_key(&relocation.file) {
                return Err(Error::corruption(format!(
                    "an edit moves records to blob file {}, which is there already",
                    relocation.file
                )));
            }
            let physical = Arc::new(PhysicalBlobFile::of_relocation(relocation, &self.queue));
            for logical in &relocation.logical {
                let Some(from) = self.physical_of(*logical) else {
                    return Err(Error::corruption(format!(
                        "an edit moves blob file {logical}, which does not exist"
                    )));
                };
                self.blob_files.relocate(*logical, from, &physical);
                self.moved.insert(*logical, Arc::clone(&physical));
            }
        }
        for garbage in &edit.blob_garbage {
            self.blob_files.add_garbage(garbage)?;
            self.changed_blob_files.insert(garbage.number);
        }
        Ok(())
    }

    fn delete_table(&mut self, level: usize, number: FileNumber) -> Result<Arc<TableFile>> {
        let draft = self.levels.get_mut(level);
        let Some(file) = draft.and_then(|draft| draft.tables().remove(&number)) else {
            return Err(Error::corruption(format!(
                "an edit deletes table {number} from level {level}, where it is not"
            )));
        };
        if let Some(oldest) = file.meta.oldest_blob_file {
            self.blob_files.unlink(oldest);
            self.changed_blob_files.insert(oldest);
        }
        Ok(file)
    }

    /// Adds the tables of an edit. Those that it only moves are taken from those that it `deleted`.
    fn add_tables(
        &mut self,
        edit: &VersionEdit,
        deleted: &mut HashMap<FileNumber, Arc<TableFile>>,
    ) -> Result<()> {
        let mut facts: NumberMap<FileNumber, _> =
            edit.table_facts.iter().map(|f| (f.table, f)).collect();
        for (level, meta) in &edit.new_files {
            if meta.path_id != 0 {
                return Err(Error::unsupported(format!(
                    "table {} lies in data path {}; only path 0 is supported",
                    meta.number, meta.path_id
                )));
            }
            // A table that this edit has deleted was on that level alone.
            let moved = deleted.remove(&meta.number);
            if moved.is_none()
                && let Some(other) = self.level_of(meta.number)
            {
                return Err(Error::corruption(format!(
                    "an edit adds table {} to level {level}, which level {other} has already",
                    meta.number
                )));
            }
            let file = match moved {
                Some(file) => file,
                None => {
                    self.created.insert(meta.number);
                    let facts = facts.remove(&meta.number).cloned();
                    Arc::new(TableFile::new(meta.clone(), facts, &self.queue))
                }
            };
            // A database may have more levels than the options ask for.
            if *level >= self.levels.len() {
                if *level >= 64 {
                    return Err(Error::corruption(format!(
                        "an edit adds a table to level {level}"
                    )));
                }
                self.levels.resize_with(*level + 1, LevelDraft::default);
            }
            if let Some(oldest) = file.meta.oldest_blob_file {
                self.blob_files.link(oldest);
                self.linked.insert(oldest, meta.number);
            }
            if let Some(draft) = self.levels.get_mut(*level) {
                draft.insert(*level, file, &self.base.comparator);
            }
        }
        for facts in facts.into_values() {
            self.learn(facts);
        }
        Ok(())
    }

    /// The level that has a table. Cost: O(levels) for a number that is larger than all others, as
    /// those of new tables mostly are; a walk over the tables of levels that are not changed.
    fn level_of(&self, table: FileNumber) -> Option<usize> {
        if mutant!(table_on_two_levels) {
            return None;
        }
        let newest = self.levels.iter().filter_map(LevelDraft::newest_number);
        if newest.max().is_none_or(|newest| newest < table) {
            return None;
        }
        self.levels.iter().position(|draft| draft.has(table))
    }

    /// Takes over facts about a table, if it is there already.
    fn learn(&mut self, facts: &TableFacts) {
        let draft = self.levels.iter_mut().find(|draft| draft.has(facts.table));
        // This changes the level, because the sums over its tables change.
        if let Some(file) = draft.and_then(|draft| draft.tables().get(&facts.table)) {
            file.learn(facts.clone());
        }
    }

    /// The physical file that has a logical one's records.
    fn physical_of(&self, logical: BlobFileNumber) -> Option<BlobFileNumber> {
        if let Some(physical) = self.moved.get(&logical) {
            return Some(physical.number);
        }
        let file = self.blob_files.get(&logical)?;
        Some(file.shared.physical().number)
    }

    /// The version that results.
    ///
    /// # Errors
    /// `Corruption` if tables of a sorted level overlap, or a table's oldest blob file is missing.
    pub(crate) fn build(mut self) -> Result<BuiltVersion> {
        for (number, table) in &self.linked {
            if self.blob_files.is_linked(*number) && !self.blob_files.contains_key(number) {
                return Err(Error::corruption(format!(
                    "table {table} refers to blob file {number}, which the MANIFEST does not have"
                )));
            }
        }
        let mut dropped_blob_files = Vec::new();
        for number in self.blob_files.unused(&self.changed_blob_files) {
            let physical = self.physical_of(number);
            let removed = physical.and_then(|physical| self.blob_files.remove(number, physical));
            // A file that was added and removed since the base was in no version.
            dropped_blob_files.extend(
                removed
                    .filter(|_| self.base.blob_files.contains_key(&number))
                    .map(|meta| meta.shared),
            );
        }
        let comparator = &self.base.comparator;
        let drafts = self.levels.into_iter().enumerate();
        let levels = drafts.map(|(level, draft)| match draft.changed {
            None => Ok(draft.base),
            Some(tables) => sorted(level, tables, comparator),
        });
        let levels: Vec<Level> = levels.collect::<Result<_>>()?;
        let version = self.base.with_files(levels, self.blob_files);
        invariant!(
            version.blob_files.has_true_sums(),
            "sums over blob files are not those of the files"
        );
        invariant!(
            self.gone
                .iter()
                .all(|table| !self.created.contains(&table.number())),
            "a table that no version had is dropped as one of the base"
        );
        invariant!(
            version
                .tables()
                .map(|(_, table)| table.number())
                .collect::<BTreeSet<_>>()
                .len()
                == version.tables().count(),
            "a version has a table twice"
        );
        invariant!(
            version
                .blob_files
                .links
                .keys()
                .all(|n| version.blob_files.contains_key(n)),
            "a table points to a blob file that its version does not have"
        );
        invariant!(
            !dropped_blob_files
                .iter()
                .any(|file| version.blob_files.contains_key(&file.number)),
            "a blob file is dropped, and the version has it"
        );
        invariant!(
            version.num_levels() >= self.base.num_levels(),
            "a version of {} levels gets one of {}",
            self.base.num_levels(),
            version.num_levels()
        );
        let moved = self.moved.into_iter().filter_map(|(logical, physical)| {
            let file = version.blob_files.get(&logical)?;
            Some((Arc::clone(&file.shared), physical))
        });
        Ok(BuiltVersion {
            moved: moved.collect(),
            version: Arc::new(version),
            dropped_tables: self.gone,
            dropped_blob_files,
        })
    }
}

/// The tables of a level in their order.
fn sorted(
    level: usize,
    tables: NumberMap<FileNumber, Arc<TableFile>>,
    comparator: &InternalKeyComparator,
) -> Result<Level> {
    let mut files: Vec<_> = tables.into_values().collect();
    if level == 0 {
        sort_level0(&mut files);
        return Ok(Level::newest_first(&files, comparator));
    }
    sorting::sort_by(&mut files, |a, b| {
        comparator.compare(&a.meta.smallest, &b.meta.smallest)
    });
    for pair in files.windows(2) {
        if let [a, b] = pair
            && comparator
                .compare(&a.meta.largest, &b.meta.smallest)
                .is_ge()
        {
            return Err(Error::corruption(format!(
                "tables {} and {} of level {level} overlap",
                a.number(),
                b.number()
            )));
        }
    }
    Ok(Level::sorted(files, comparator))
}

/// Whether [`sort_level0`] would put a table before all of a level that it has put in order.
fn is_newest(file: &TableFile, level: &Level) -> bool {
    let age = |f: &TableFile| (f.meta.largest_seq, f.meta.smallest_seq, f.number());
    let has_epoch = |f: &TableFile| f.meta.epoch_number.is_some_and(|e| e > 0);
    // If a table of the level has no epoch, epochs do not count.
    let is_newer = |newest: &Arc<TableFile>| !has_epoch(newest) && age(file) > age(newest);
    let first = level.iter().next();
    first.is_none_or(is_newer) && level.newest_number() < Some(file.number())
}

/// Newest first: by epoch where all files have one, else by sequence numbers.
fn sort_level0(files: &mut [Arc<TableFile>]) {
    let by_epoch = files
        .iter()
        .all(|f| f.meta.epoch_number.is_some_and(|e| e > 0));
    sorting::sort_by_key(files, |f| {
        let epoch = if by_epoch {
            f.meta.epoch_number.unwrap_or(0)
        } else {
            0
        };
        std::cmp::Reverse((epoch, f.meta.largest_seq, f.meta.smallest_seq, f.number()))
    });
    if mutant!(level_0_oldest_first) {
        files.reverse();
    }
}
