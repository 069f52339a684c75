//! Edits applied to a version give the next one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::edit::VersionEdit;
use super::files::{
    BlobFileMeta, ObsoleteFiles, PhysicalBlobFile, SharedBlobFile, TableFile, mark_left_files,
};
use super::version::Version;
use crate::error::{Error, Result};
use crate::format::{BlobFileNumber, FileNumber};

/// Collects edits on top of a version. Within an edit, deletions come before additions, so that
/// moving a file to another level is deleting and adding the same number.
pub(crate) struct VersionBuilder {
    levels: Vec<BTreeMap<FileNumber, Arc<TableFile>>>,
    blob_files: BTreeMap<BlobFileNumber, BlobFileMeta>,
    /// Where records of logical files go.
    moved: BTreeMap<BlobFileNumber, Arc<PhysicalBlobFile>>,
    base: Arc<Version>,
    queue: Arc<ObsoleteFiles>,
}

/// A version, what fell out on the way to it, and what is elsewhere now.
pub(crate) struct BuiltVersion {
    version: Arc<Version>,
    dropped_tables: Vec<Arc<TableFile>>,
    dropped_blob_files: Vec<Arc<SharedBlobFile>>,
    moved: Vec<(Arc<SharedBlobFile>, Arc<PhysicalBlobFile>)>,
}

impl BuiltVersion {
    /// The version, while what would fall out must stay. What was moved has come with the same
    /// edit, so that nobody else looks for it.
    pub(crate) fn before_it_is_durable(self) -> Arc<Version> {
        for (file, place) in &self.moved {
            file.move_to(place);
        }
        self.version
    }

    /// The version, with its consequences: what fell out is obsolete, and what was moved is found
    /// where it is now, by older versions too. To be called once the edits are durable.
    pub(crate) fn install(self) -> Arc<Version> {
        let mut left = Vec::new();
        for (file, place) in &self.moved {
            left.push(file.place());
            file.move_to(place);
        }
        left.extend(self.dropped_blob_files.iter().map(|file| file.place()));
        mark_left_files(left, self.version.blob_files.values());
        self.dropped_tables.iter().for_each(|f| f.mark_obsolete());
        self.dropped_blob_files
            .iter()
            .for_each(|f| f.mark_obsolete());
        self.version
    }
}

impl VersionBuilder {
    pub(crate) fn new(base: Arc<Version>, queue: Arc<ObsoleteFiles>) -> Self {
        let by_number = |files: &[Arc<TableFile>]| {
            let files = files.iter();
            files.map(|f| (f.number(), Arc::clone(f))).collect()
        };
        let levels = (0..base.num_levels())
            .map(|level| by_number(base.level(level)))
            .collect();
        VersionBuilder {
            levels,
            blob_files: base.blob_files.clone(),
            moved: BTreeMap::new(),
            base,
            queue,
        }
    }

    /// Applies one edit.
    ///
    /// # Errors
    /// `Corruption` if the edit contradicts the state: deletes or garbles a file that is not
    /// there, or adds one that is.
    pub(crate) fn apply(&mut self, edit: &VersionEdit) -> Result<()> {
        let mut moved: HashMap<FileNumber, Arc<TableFile>> = HashMap::new();
        for &(level, number) in &edit.deleted_files {
            let file = self
                .levels
                .get_mut(level)
                .and_then(|files| files.remove(&number));
            let Some(file) = file else {
                return Err(Error::corruption(format!(
                    "an edit deletes table {number} from level {level}, where it is not"
                )));
            };
            moved.insert(number, file);
        }
        let facts: HashMap<FileNumber, _> = edit.table_facts.iter().map(|f| (f.table, f)).collect();
        for (level, meta) in &edit.new_files {
            if meta.path_id != 0 {
                return Err(Error::unsupported(format!(
                    "table {} lies in data path {}; only path 0 is supported",
                    meta.number, meta.path_id
                )));
            }
            let file = match moved.remove(&meta.number) {
                Some(file) => file,
                None => Arc::new(TableFile::new(
                    meta.clone(),
                    facts.get(&meta.number).map(|f| (*f).clone()),
                    &self.queue,
                )),
            };
            // A database may have more levels than the options ask for.
            if *level >= self.levels.len() {
                if *level >= 64 {
                    return Err(Error::corruption(format!(
                        "an edit adds a table to level {level}"
                    )));
                }
                self.levels.resize_with(*level + 1, BTreeMap::new);
            }
            let files = self.levels.get_mut(*level);
            if files
                .and_then(|files| files.insert(meta.number, file))
                .is_some()
            {
                return Err(Error::corruption(format!(
                    "an edit adds table {} twice",
                    meta.number
                )));
            }
        }
        for facts in &edit.table_facts {
            if let Some(file) = self.levels.iter().find_map(|files| files.get(&facts.table)) {
                file.learn(facts.clone());
            }
        }
        for addition in &edit.blob_additions {
            let meta = BlobFileMeta {
                shared: Arc::new(SharedBlobFile::new(addition, &self.queue)),
                garbage_count: 0,
                garbage_bytes: 0,
            };
            if self.blob_files.insert(addition.number, meta).is_some() {
                return Err(Error::corruption(format!(
                    "an edit adds blob file {} twice",
                    addition.number
                )));
            }
        }
        for relocation in &edit.relocations {
            let place = PhysicalBlobFile::of_relocation(relocation, &self.queue);
            let place = Arc::new(place);
            for logical in &relocation.logical {
                if !self.blob_files.contains_key(logical) {
                    return Err(Error::corruption(format!(
                        "an edit moves blob file {logical}, which does not exist"
                    )));
                }
                self.moved.insert(*logical, Arc::clone(&place));
            }
        }
        for garbage in &edit.blob_garbage {
            let Some(meta) = self.blob_files.get_mut(&garbage.number) else {
                return Err(Error::corruption(format!(
                    "an edit reports garbage in blob file {}, which does not exist",
                    garbage.number
                )));
            };
            meta.garbage_count = meta.garbage_count.saturating_add(garbage.count);
            meta.garbage_bytes = meta.garbage_bytes.saturating_add(garbage.bytes);
            // BLOB-3: what is not referenced can be no more than what was written.
            if meta.garbage_count > meta.shared.total_count
                || meta.garbage_bytes > meta.shared.total_bytes
            {
                return Err(Error::corruption(format!(
                    "blob file {} has more garbage than content",
                    garbage.number
                )));
            }
        }
        Ok(())
    }

    /// The version that results.
    ///
    /// No record says that a blob file is gone; two rules do, and RocksDB applies the same: a
    /// file older than the oldest blob file of every table cannot be referenced, nor can one
    /// whose records are all garbage unless a table names it as its oldest.
    ///
    /// # Errors
    /// `Corruption` if tables of a sorted level overlap, or a table's oldest blob file is gone.
    pub(crate) fn build(mut self) -> Result<BuiltVersion> {
        let comparator = self.base.comparator.clone();
        let mut linked: HashMap<BlobFileNumber, FileNumber> = HashMap::new();
        for file in self.levels.iter().flat_map(BTreeMap::values) {
            if let Some(oldest) = file.meta.oldest_blob_file {
                linked.insert(oldest, file.number());
            }
        }
        for (number, table) in &linked {
            if !self.blob_files.contains_key(number) {
                return Err(Error::corruption(format!(
                    "table {table} refers to blob file {number}, which is gone"
                )));
            }
        }
        let oldest_linked = linked.keys().min().copied();
        self.blob_files.retain(|number, meta| {
            linked.contains_key(number)
                || (meta.garbage_count < meta.shared.total_count
                    && oldest_linked.is_some_and(|oldest| *number >= oldest))
        });

        let mut levels: Vec<Vec<Arc<TableFile>>> = self
            .levels
            .into_iter()
            .map(|files| files.into_values().collect())
            .collect();
        for (level, files) in levels.iter_mut().enumerate() {
            if level == 0 {
                sort_level0(files);
                continue;
            }
            files.sort_by(|a, b| comparator.compare(&a.meta.smallest, &b.meta.smallest));
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
        }
        let version = self.base.with_files(levels, self.blob_files);
        let kept: std::collections::HashSet<FileNumber> =
            version.tables().map(|(_, f)| f.number()).collect();
        let dropped_tables = self
            .base
            .tables()
            .filter(|(_, f)| !kept.contains(&f.number()))
            .map(|(_, f)| Arc::clone(f))
            .collect();
        let dropped_blob_files = self
            .base
            .blob_files
            .iter()
            .filter(|(number, _)| !version.blob_files.contains_key(number))
            .map(|(_, meta)| Arc::clone(&meta.shared))
            .collect();
        let moved = self.moved.into_iter().filter_map(|(logical, place)| {
            let file = version.blob_files.get(&logical)?;
            Some((Arc::clone(&file.shared), place))
        });
        Ok(BuiltVersion {
            moved: moved.collect(),
            version: Arc::new(version),
            dropped_tables,
            dropped_blob_files,
        })
    }
}

/// Newest first: by epoch where all files have one, else by sequence numbers.
fn sort_level0(files: &mut [Arc<TableFile>]) {
    let by_epoch = files
        .iter()
        .all(|f| f.meta.epoch_number.is_some_and(|e| e > 0));
    files.sort_by_key(|f| {
        let epoch = if by_epoch {
            f.meta.epoch_number.unwrap_or(0)
        } else {
            0
        };
        std::cmp::Reverse((epoch, f.meta.largest_seq, f.meta.smallest_seq, f.number()))
    });
}
