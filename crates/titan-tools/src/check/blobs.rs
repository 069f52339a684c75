//! Checks the blob files of a column family, and that every pointer leads to its record.

use std::path::PathBuf;
use std::sync::Arc;

use titan::internals::blob::{
    BLOB_FILE_FRAME_LEN, BLOB_FILE_HEADER_LEN, BlobFileReader, BlobRecord, Records, RelocationMap,
};
use titan::internals::block_cache::BlockCache;
use titan::internals::format::FileKind;
use titan::internals::version::{BlobFileMeta, FamilyVersions, PhysicalBlobFile};
use titan::internals::vfs::open_live;
use titan::vfs::Access;
use titan::{Error, FileNumber, Result};

use super::Check;
use super::tables::References;
use crate::pointers::{FileReferences, Pointer, hash_of};

impl Check<'_> {
    /// Checks every blob file of a family against itself and against `references`.
    pub(super) fn blob_files(&mut self, family: &FamilyVersions, mut references: References) {
        for (number, (physical, logical)) in family.current.physical_blob_files() {
            self.report.blob_files += 1;
            let map = physical.map.map(|map| self.open_map(map, &physical));
            let mut file = FileReferences::default();
            let mut referenced = Vec::new();
            for meta in logical {
                let logical = meta.shared.number;
                let mut found = references.files.remove(&logical).unwrap_or_default();
                referenced.push((meta, found.totals()));
                match &map {
                    None => {}
                    Some(Some(map)) => {
                        let problems = found.follow(map, logical);
                        problems.into_iter().for_each(|e| self.problem(e));
                    }
                    // Where they lead is unknown.
                    Some(None) => found.pointers.clear(),
                }
                file.join(found);
            }
            file.pointers.sort_unstable_by_key(|pointer| pointer.offset);
            let path = self.begin(FileKind::Blob(number));
            let mut walk = Walk {
                path,
                physical: &physical,
                references: &references,
                check: self,
            };
            if let Err(e) = walk.file(family, file) {
                walk.problem(e);
            }
            for (meta, (count, bytes)) in referenced {
                walk.garbage(meta, count, bytes);
            }
            self.finish(physical.total_bytes + BLOB_FILE_FRAME_LEN);
        }
        for (number, file) in &references.files {
            let Some(pointer) = file.pointers.first() else {
                continue;
            };
            let table = references.table_of(pointer);
            let path = self.begin(FileKind::Table(table));
            let text = format!(
                "{} pointers lead into blob file {number}, which the MANIFEST does not have",
                file.pointers.len()
            );
            self.problem(Error::corruption(text).in_file(&path));
        }
    }

    /// Opens a relocation map, which must lead into the file that the MANIFEST names.
    /// Returns `None` if it is damaged.
    fn open_map(
        &mut self,
        number: FileNumber,
        physical: &PhysicalBlobFile,
    ) -> Option<Arc<RelocationMap>> {
        let path = self.begin(FileKind::BlobMap(number));
        let opened = open_live(self.vfs, &path, Access::Sequential);
        let opened = opened.and_then(|file| {
            RelocationMap::open(file, &path, number, Arc::new(BlockCache::new(0)))
        });
        let map = opened.map_err(|e| self.problem(e)).ok()?;
        if map.physical() != physical.number {
            let text = format!(
                "the map leads into blob file {}, the MANIFEST says {}",
                map.physical(),
                physical.number
            );
            self.problem(Error::corruption(text).in_file(&path));
        }
        Some(map)
    }
}

/// Checks one blob file.
struct Walk<'w, 'c> {
    path: PathBuf,
    physical: &'w PhysicalBlobFile,
    references: &'w References,
    check: &'w mut Check<'c>,
}

impl Walk<'_, '_> {
    fn problem(&mut self, error: Error) {
        self.check.problem(error.in_file(&self.path));
    }

    fn wrong(&mut self, text: String, offset: u64) {
        let error = Error::corruption(text).at(&self.path, offset);
        self.check.problem(error);
    }

    fn file(&mut self, family: &FamilyVersions, file: FileReferences) -> Result<()> {
        let opened = open_live(self.check.vfs, &self.path, Access::Sequential)?;
        let reader = BlobFileReader::open(opened, &self.path, self.physical.number)?;
        if let Err(e) = reader.check_family(family.current.column_family) {
            self.problem(e);
        }
        for compression in file.compressions {
            if compression != reader.compression() {
                let text = format!(
                    "pointers say {compression:?} compression, the blob file says {:?}",
                    reader.compression()
                );
                self.wrong(text, 0);
            }
        }
        let sized = reader.check_records(self.physical.total_bytes);
        let is_sized = sized.is_ok();
        if let Err(e) = sized {
            self.problem(e);
        }
        self.records(&reader, file.pointers, is_sized)
    }

    /// Walks records and pointers in parallel, both in the order of their offsets.
    fn records(
        &mut self,
        reader: &BlobFileReader,
        pointers: Vec<Pointer>,
        sized: bool,
    ) -> Result<()> {
        let mut records = Records::of(reader);
        let footer = reader.verify_footer();
        let sealed = footer.is_ok();
        if let Err(e) = footer {
            // The walk would report it too. In a file of the wrong size the report says
            // nothing new.
            records.next();
            if sized {
                self.problem(e);
            }
        }
        let end = BLOB_FILE_HEADER_LEN.saturating_add(self.physical.total_bytes);
        let mut pointers = pointers.into_iter().peekable();
        let (mut count, mut bytes, mut damaged, mut holes) = (0, 0, false, false);
        while sealed || records.position() < end {
            let start = records.position();
            match records.next() {
                Some(Ok(record)) => {
                    self.check.reached(record.offset);
                    count += 1;
                    bytes += records.position() - record.offset;
                    while let Some(pointer) = pointers.next_if(|p| p.offset <= record.value_offset)
                    {
                        self.resolve(&pointer, &record);
                    }
                }
                Some(Err(e)) => {
                    let next = pointers.peek().map(Pointer::record_offset);
                    if records.skip_hole(&e, start, next)? {
                        holes = true;
                        continue;
                    }
                    self.problem(e);
                    damaged = true;
                    // Skips the pointers into the damaged record: reporting them says
                    // nothing new.
                    let resumed_at = records.position().max(start + 1);
                    while pointers
                        .next_if(|p| p.record_offset() < resumed_at)
                        .is_some()
                    {}
                }
                // After damage ended the walk, the pointers tell where further records
                // start.
                None => match pointers.peek().filter(|_| damaged) {
                    Some(pointer) if pointer.record_offset() > records.position() => {
                        records.resume_at(pointer.record_offset());
                    }
                    _ => break,
                },
            }
        }
        for pointer in pointers {
            self.astray(&pointer);
        }
        let physical = self.physical;
        let counted = !damaged && !holes && sized;
        if counted && (count, bytes) != (physical.count, physical.total_bytes) {
            let text = format!(
                "the blob file has {count} records of {bytes} bytes, the MANIFEST says {} of {}",
                physical.count, physical.total_bytes
            );
            self.wrong(text, 0);
        }
        Ok(())
    }

    /// BLOB-1: the record is the one that the pointer names.
    fn resolve(&mut self, pointer: &Pointer, record: &BlobRecord) {
        if pointer.offset < record.value_offset {
            return self.astray(pointer);
        }
        let table = self.references.table_of(pointer);
        if hash_of(&record.key) != pointer.key_hash {
            let text = format!(
                "a pointer of table {table} leads to a record of another key, '{}'",
                record.key.escape_ascii()
            );
            self.wrong(text, record.offset);
        } else if record.stored.len() as u64 != pointer.size {
            let text = format!(
                "a pointer of table {table} says {} bytes, the record has {}",
                pointer.size,
                record.stored.len()
            );
            self.wrong(text, record.offset);
        }
    }

    fn astray(&mut self, pointer: &Pointer) {
        let table = self.references.table_of(pointer);
        let text = format!("a pointer of table {table} leads to no record");
        self.wrong(text, pointer.offset);
    }

    /// BLOB-3: records without a pointer are garbage, and the MANIFEST counts them as such.
    fn garbage(&mut self, meta: &BlobFileMeta, referenced: u64, referenced_bytes: u64) {
        if !self.references.complete {
            return;
        }
        let shared = &meta.shared;
        let (Some(count), Some(bytes)) = (
            shared.total_count.checked_sub(referenced),
            shared.total_bytes.checked_sub(referenced_bytes),
        ) else {
            let text = format!(
                "{referenced} pointers to {referenced_bytes} bytes lead into blob file {}, which had \
                 {} records of {} bytes",
                shared.number, shared.total_count, shared.total_bytes
            );
            return self.problem(Error::corruption(text));
        };
        let recorded = (meta.garbage_count, meta.garbage_bytes);
        let agree = match self.references.exact {
            true => recorded == (count, bytes),
            false => recorded.0 <= count && recorded.1 <= bytes,
        };
        if !agree {
            let text = format!(
                "{count} records of {bytes} bytes of blob file {} are garbage, the MANIFEST says \
                 {} of {}",
                shared.number, recorded.0, recorded.1
            );
            self.problem(Error::corruption(text));
        }
    }
}
