//! Assembles the repaired database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use titan::internals::clock::random_uuid;
use titan::internals::db::{LOST_DIR, link_to_lost, record_wal_dir, without_wal_dir};
use titan::internals::format::FileKind;
use titan::internals::options::{CF_OPTIONS, OptionsFile};
use titan::internals::version::{
    BlobFileAddition, BlobFileGarbage, DatabaseRecord, FamilyVersions, Rebuilt, Relocation,
    Version, VersionEdit, VersionSet,
};
use titan::internals::vfs::{link_or_copy, read_file, replace_file};
use titan::{BlobFileNumber, ColumnFamilyId, FileNumber, Result};

use super::state::Repair;
use super::unfinished::{self, WORK_DIR};

impl Repair<'_> {
    /// Puts the files in their final directory and makes them a database.
    pub(super) fn install(&mut self, in_place: bool) -> Result<()> {
        let source = self.from.dir.to_owned();
        let target = match in_place {
            true => source.clone(),
            false => self.env.dir.clone(),
        };
        let mut versions = self.versions(&target)?;
        match in_place {
            true => self.move_new_files(&source)?,
            false => self.link_kept_files(&target)?,
        }
        let wal = self.env.counters.new_file_number();
        versions.advance_logs_in_memory(wal);
        // The WAL for new writes. Its existence later shows that no WAL was lost.
        self.from
            .vfs
            .create(&FileKind::Wal(wal).path(&target))?
            .sync()?;
        self.write_identity(&target, &mut versions)?;
        self.write_options(&target, &versions)?;
        let unused = match in_place {
            true => self.unused(&versions),
            false => Vec::new(),
        };
        // ORDER: files that will not be used are in `lost/` before the switch of CURRENT makes them
        // obsolete: any opening deletes obsolete files.
        link_to_lost(&*self.from.vfs, &source, &unused)?;
        // ORDER: all files and their names are durable before CURRENT makes them the database.
        self.from.vfs.sync_dir(&target)?;
        versions.start_manifest()?;
        // ORDER: CURRENT is durable; until then the old files were the database. The repair is
        // done: a failure to delete files is only noted.
        let tidied = match in_place {
            true => self.remove_unused(&unused),
            false => unfinished::unmark(&*self.from.vfs, &target),
        };
        if let Err(e) = tidied {
            let note = format!("files that are not used any more could not be removed: {e}");
            self.report.notes.push(note);
        }
        if !unused.is_empty() {
            let note = format!(
                "{} files that are not used any more are in {LOST_DIR}/",
                unused.len()
            );
            self.report.notes.push(note);
        }
        self.report.families = self.families.values().map(|f| f.name.clone()).collect();
        self.report.entries = self.placed.iter().map(|placed| placed.entries).sum();
        Ok(())
    }

    /// Creates the versions with the repaired tables.
    fn versions(&mut self, target: &Path) -> Result<VersionSet> {
        let mut families = BTreeMap::new();
        let names = self.families.iter();
        let resolved = self.resolved(names.map(|(&id, family)| (id, family.name.as_str())))?;
        for (&id, family) in &self.families {
            let levels = resolved.options.family(&family.name).num_levels;
            let comparator = family.comparator.clone();
            let current = Arc::new(Version::empty(id, comparator.clone(), levels));
            let family =
                FamilyVersions::new(family.name.clone(), comparator, FileNumber(0), current);
            families.insert(id, family);
        }
        for placed in &self.placed {
            self.env.counters.publish_sequence(placed.meta.largest_seq);
        }
        let newest = self.families.keys().next_back().copied();
        let mut versions = VersionSet::rebuild(
            Arc::clone(&self.from.vfs),
            target,
            self.from.options,
            Rebuilt {
                families: families.into_iter().collect(),
                record: DatabaseRecord {
                    max_column_family: newest
                        .max(Some(self.from.hint.record.max_column_family))
                        .unwrap_or_default(),
                    max_column_family_is_exact: true,
                    unknown: self.from.hint.record.unknown.clone(),
                    ..DatabaseRecord::default()
                },
                counters: Arc::clone(&self.env.counters),
            },
        );
        let ids: Vec<_> = self.families.keys().copied().collect();
        for id in ids {
            versions.apply_in_memory(&self.edit(id))?;
        }
        versions.keep_settings(resolved.db, |name| {
            resolved.families.get(name).cloned().unwrap_or_default()
        });
        Ok(versions)
    }

    /// The edit with the tables and blob files of a family, and the garbage in these.
    fn edit(&mut self, id: ColumnFamilyId) -> VersionEdit {
        let mut edit = VersionEdit {
            column_family: id,
            ..VersionEdit::default()
        };
        let mut used: BTreeMap<BlobFileNumber, (u64, u64)> = BTreeMap::new();
        for placed in self.placed.iter().filter(|placed| placed.family == id) {
            for refs in &placed.facts.blob_refs {
                let (count, bytes) = used.entry(refs.file).or_default();
                (*count, *bytes) = (*count + refs.count, *bytes + refs.bytes);
            }
            let level = placed.level.unwrap_or_default();
            edit.new_files.push((level, placed.meta.clone()));
            if placed.record_facts {
                edit.table_facts.push(placed.facts.clone());
            }
        }
        let new = self.new_blob_files.iter();
        let new = new.map(|(family, blob)| (blob.number, *family, blob.count, blob.total_bytes));
        let mut blobs: Vec<_> = new.collect();
        let mut moved: BTreeMap<FileNumber, Relocation> = BTreeMap::new();
        for (number, kept) in &self.blob_files {
            let Some((used_count, used_bytes)) = used.get(number).filter(|_| kept.family == id)
            else {
                continue;
            };
            let file = kept.file;
            let Some(map) = file.map else {
                blobs.push((*number, id, file.count, file.total_bytes));
                continue;
            };
            // The number of its records when it was written is unknown.
            blobs.push((*number, id, *used_count, *used_bytes));
            let relocation = moved.entry(map).or_insert_with(|| Relocation {
                file: file.number,
                map,
                count: file.count,
                total_bytes: file.total_bytes,
                logical: Vec::new(),
            });
            relocation.logical.push(*number);
        }
        edit.relocations = moved.into_values().collect();
        for (number, family, count, total_bytes) in blobs {
            let Some((used_count, used_bytes)) = used.get(&number).filter(|_| family == id) else {
                continue;
            };
            edit.blob_additions.push(BlobFileAddition {
                number,
                count,
                total_bytes,
                ..BlobFileAddition::default()
            });
            let garbage = BlobFileGarbage {
                number,
                count: count.saturating_sub(*used_count),
                bytes: total_bytes.saturating_sub(*used_bytes),
                unknown: Vec::new(),
            };
            if garbage.count > 0 {
                edit.blob_garbage.push(garbage);
            }
        }
        edit
    }

    /// The files that are not rewritten.
    fn kept_files(&self) -> Vec<FileKind> {
        let tables = self.placed.iter().filter(|placed| !placed.new);
        let mut kept: Vec<_> = tables.map(|p| FileKind::Table(p.meta.number)).collect();
        let used: BTreeSet<_> = self
            .placed
            .iter()
            .flat_map(|placed| &placed.facts.blob_refs)
            .map(|refs| refs.file)
            .collect();
        let blobs = self.blob_files.iter();
        let blobs = blobs.filter(|(number, _)| used.contains(number));
        let files = blobs.flat_map(|(_, blobs)| {
            let map = blobs.file.map.map(FileKind::BlobMap);
            std::iter::once(FileKind::Blob(blobs.file.number)).chain(map)
        });
        let files: BTreeSet<_> = files.collect();
        kept.extend(files);
        kept
    }

    fn count_kept(&mut self, kept: &[FileKind]) -> Result<()> {
        for file in kept {
            match file {
                FileKind::Table(_) => self.report.kept_tables += 1,
                FileKind::Blob(_) => self.report.kept_blob_files += 1,
                _ => {}
            }
            self.report.kept_bytes += self.from.vfs.size(&file.path(self.from.dir))?;
        }
        Ok(())
    }

    fn link_kept_files(&mut self, target: &Path) -> Result<()> {
        let kept = self.kept_files();
        self.count_kept(&kept)?;
        for file in kept {
            link_or_copy(
                &*self.from.vfs,
                &file.path(self.from.dir),
                &file.path(target),
            )?;
        }
        Ok(())
    }

    /// Moves the new files from the directory where they were prepared into the database.
    fn move_new_files(&mut self, database: &Path) -> Result<()> {
        self.count_kept(&self.kept_files())?;
        let tables = self.placed.iter().filter(|placed| placed.new);
        let tables = tables.map(|placed| FileKind::Table(placed.meta.number));
        let blob_files = self.new_blob_files.iter();
        let blob_files = blob_files.map(|(_, blob)| FileKind::Blob(blob.number));
        for file in tables.chain(blob_files) {
            self.from
                .vfs
                .rename(&file.path(&self.env.dir), &file.path(database))?;
        }
        Ok(())
    }

    fn write_identity(&self, target: &Path, versions: &mut VersionSet) -> Result<()> {
        let path = FileKind::Identity.path(self.from.dir);
        let stored = match read_file(&*self.from.vfs, &path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
            Err(e) if e.is_not_found() || e.is_corruption() => String::new(),
            Err(e) => return Err(e),
        };
        let recorded = Some(&self.from.hint.record.db_id).filter(|id| !id.is_empty());
        let known = [recorded.cloned(), self.found.db_id.clone()];
        let identity = known.into_iter().flatten().next();
        let identity = identity
            .or_else(|| {
                uuid::Uuid::parse_str(&stored)
                    .is_ok()
                    .then(|| stored.clone())
            })
            .unwrap_or_else(|| random_uuid(&*self.from.options.db.clock).to_string());
        let written = FileKind::Identity.path(target);
        if stored != identity || !self.from.vfs.exists(&written)? {
            let temp = FileKind::Temp(self.env.counters.new_file_number()).path(target);
            replace_file(&*self.from.vfs, &temp, &written, identity.as_bytes())?;
        }
        versions.set_db_id(identity);
        Ok(())
    }

    /// The newest OPTIONS stays, if it describes these families; otherwise a new one is written. In
    /// another directory it names no directory for WAL files: that is the original's.
    fn write_options(&self, target: &Path, versions: &VersionSet) -> Result<()> {
        let mut newest = self.from.files.iter().rev();
        if let Some(file) = newest.find(|file| matches!(file, FileKind::Options(_))) {
            let content = read_file(&*self.from.vfs, &file.path(self.from.dir))?;
            let fits = OptionsFile::parse(&content).is_ok_and(|options| {
                self.families.values().all(|family| {
                    let order = family.comparator.user().name();
                    let recorded = options.comparator(&family.name).unwrap_or(order);
                    options.section(CF_OPTIONS, &family.name).is_some() && recorded == order
                })
            });
            if fits && target == self.from.dir {
                return Ok(());
            }
            if fits {
                let temp = FileKind::Temp(self.env.counters.new_file_number()).path(target);
                let content = without_wal_dir(&content);
                return replace_file(&*self.from.vfs, &temp, &file.path(target), &content);
            }
        }
        let number = self.env.counters.new_file_number();
        let mut options_file = versions.options_file();
        if target == self.from.dir {
            record_wal_dir(target, &self.from.options.db, &mut options_file)?;
        }
        options_file.write(&*self.from.vfs, target, number)
    }

    /// The files that a database repaired in place does not use any more.
    fn unused(&self, versions: &VersionSet) -> Vec<FileKind> {
        let live = versions.live_files();
        let mut unused = self.from.files.clone();
        unused.retain(|file| match file {
            FileKind::Table(_) | FileKind::Blob(_) | FileKind::BlobMap(_) => !live.contains(file),
            FileKind::Wal(_) | FileKind::Manifest(_) | FileKind::Temp(_) => true,
            _ => false,
        });
        unused
    }

    /// Removes from the database the names of the files in `lost/`, and the directory where files
    /// were prepared.
    fn remove_unused(&self, unused: &[FileKind]) -> Result<()> {
        for file in unused {
            self.from.vfs.remove(&file.path(self.from.dir))?;
        }
        let work = self.from.dir.join(WORK_DIR);
        for name in self.from.vfs.read_dir(&work)? {
            self.from.vfs.remove(&work.join(name))?;
        }
        self.from.vfs.remove_dir(&work)?;
        self.from.vfs.sync_dir(self.from.dir)
    }
}
