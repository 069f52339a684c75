//! Finds out which blob files are whole and have the records that tables point to.

use std::collections::BTreeMap;
use std::sync::Arc;

use titan::internals::blob::{BLOB_FILE_FRAME_LEN, BlobFileReader, Records, RelocationMap};
use titan::internals::block_cache::BlockCache;
use titan::internals::format::FileKind;
use titan::vfs::Access;
use titan::{BlobFileNumber, ColumnFamilyId, CompressionType, Error, ErrorKind, Result};

use super::blob_file::{Blobs, PhysicalFile};
use super::state::Repair;
use crate::pointers::{FileReferences, Pointer, hash_of};

/// References to logical files, by number, each with the family of the referring tables.
type References = BTreeMap<BlobFileNumber, (ColumnFamilyId, FileReferences)>;

impl Repair<'_> {
    /// Reads all blob files that tables refer to and compares pointers with records.
    pub(super) fn survey_blob_files(&mut self) -> Result<()> {
        let mut references = References::new();
        for table in self.found.listed.values_mut() {
            let family = table.family.unwrap_or_default();
            for (number, file) in std::mem::take(&mut table.files) {
                let (_, all) = references
                    .entry(number)
                    .or_insert_with(|| (family, FileReferences::default()));
                all.join(file);
                table.files.insert(number, FileReferences::default());
            }
        }
        let maps = self.open_maps()?;
        // Grouped by physical file: it may have several logical files and is read once.
        let mut by_file: BTreeMap<BlobFileNumber, (Option<Arc<RelocationMap>>, References)> =
            BTreeMap::new();
        for (number, referring) in references {
            let map = self.map_of(number, &maps);
            let file = map.as_ref().map_or(number, |map| map.physical());
            let (_, logical) = by_file
                .entry(file)
                .or_insert_with(|| (map, References::new()));
            logical.insert(number, referring);
        }
        for (number, (map, logical)) in by_file {
            self.survey_blob_file(number, map, logical)?;
        }
        Ok(())
    }

    /// Opens the maps that exist and are whole, newest first. The records of a logical file are in
    /// any of those that have it, unless their files are missing.
    fn open_maps(&mut self) -> Result<Vec<Arc<RelocationMap>>> {
        let mut maps = Vec::new();
        for kind in self.from.files.iter().rev() {
            let FileKind::BlobMap(number) = *kind else {
                continue;
            };
            let path = kind.path(self.from.dir);
            let file = self.from.vfs.open(&path, Access::Random)?;
            match RelocationMap::open(file, &path, number, Arc::new(BlockCache::new(0))) {
                Ok(map) => maps.push(map),
                Err(e) if e.kind() == ErrorKind::Io || e.lacks_codec() => return Err(e),
                Err(e) => self.report.notes.push(format!("a map is unusable: {e}")),
            }
        }
        Ok(maps)
    }

    /// The map that leads to the records of a logical file; `None` if they were not relocated.
    fn map_of(
        &self,
        logical: BlobFileNumber,
        maps: &[Arc<RelocationMap>],
    ) -> Option<Arc<RelocationMap>> {
        let is_there = |number| self.from.files.contains(&FileKind::Blob(number));
        if is_there(logical) {
            return None;
        }
        let mut maps = maps.iter().filter(|map| is_there(map.physical()));
        let map = maps.find(|map| map.logical_files().any(|file| file == logical));
        map.cloned()
    }

    /// Surveys a physical file and the logical files in it.
    fn survey_blob_file(
        &mut self,
        number: BlobFileNumber,
        map: Option<Arc<RelocationMap>>,
        logical: References,
    ) -> Result<()> {
        let mut all = FileReferences::default();
        let mut families = Vec::new();
        let mut damage = None;
        for (logical, (family, mut references)) in logical {
            families.push((logical, family));
            let problems = map.as_deref().map(|map| references.follow(map, logical));
            for e in problems.into_iter().flatten() {
                if e.kind() == ErrorKind::Io {
                    return Err(e);
                }
                damage.get_or_insert(e);
            }
            all.join(references);
        }
        let family = families
            .first()
            .map_or(ColumnFamilyId::DEFAULT, |(_, family)| *family);
        let surveyed = self.survey_physical(number, map.as_deref(), family, all)?;
        let (file, reader, found) = surveyed;
        // A blob file belongs to one family. Tables whose family nothing names may be of another
        // one.
        let mixed = || Error::corruption("tables of several column families refer to it");
        let several = families.iter().any(|(_, other)| *other != family);
        let damage = damage.or(found).or_else(|| several.then(mixed));
        // There may be more files than file descriptors.
        let reader = reader.filter(|_| damage.is_some());
        for (logical, family) in families {
            let blobs = Blobs {
                family,
                file,
                map: map.clone(),
                damage: damage.clone(),
                reader: reader.clone(),
            };
            self.blob_files.insert(logical, blobs);
        }
        Ok(())
    }

    /// Reads a physical file and compares the pointers into it, by their offsets there, with its
    /// records.
    fn survey_physical(
        &mut self,
        number: BlobFileNumber,
        map: Option<&RelocationMap>,
        family: ColumnFamilyId,
        references: FileReferences,
    ) -> Result<(PhysicalFile, Option<Arc<BlobFileReader>>, Option<Error>)> {
        let kind = FileKind::Blob(number);
        let path = kind.path(self.from.dir);
        let mut found = PhysicalFile {
            number,
            map: map.map(RelocationMap::number),
            count: 0,
            total_bytes: 0,
        };
        let file = match self.from.vfs.open(&path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => {
                let gone = Error::corruption("the blob file is gone").in_file(&path);
                return Ok((found, None, Some(gone)));
            }
            Err(e) => return Err(e),
        };
        let size = file.size()?;
        let compression = references.compressions.first().copied();
        let compression = compression.unwrap_or(CompressionType::None);
        let reader = Arc::clone(&file);
        let reader = BlobFileReader::without_header(reader, &path, number, family, compression)?;
        let owner = match BlobFileReader::named_family(&*file) {
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            named => named.unwrap_or(family),
        };
        let opened = BlobFileReader::open(file, &path, number);
        let walked = opened.and_then(|reader| walk(&reader, family, references));
        let damage = match walked {
            Ok((count, total_bytes)) => {
                (found.count, found.total_bytes) = (count, total_bytes);
                None
            }
            Err(e) if e.kind() == ErrorKind::Io => return Err(e),
            // The header has no checksum: an apparent feature may be damage.
            Err(e) => Some(e.in_file(&path)),
        };
        self.progress.add(kind, size);
        // Another family's file has nothing to rescue: its records may have the same keys. If the
        // header names no existing family, it is damaged, and its records are as good as any. So
        // are all records for tables that may be of any family.
        let of_files = |id| self.families.get(id).is_some_and(|f| !f.founded);
        let own = owner == family || !of_files(&owner) || !of_files(&family);
        Ok((found, own.then_some(reader), damage))
    }
}

/// Walks records and pointers in parallel, both in the order of their offsets. Returns the number
/// and bytes of the records if all is well: every record whole, every pointer leading to its
/// record.
fn walk(
    reader: &BlobFileReader,
    family: ColumnFamilyId,
    references: FileReferences,
) -> Result<(u64, u64)> {
    reader.check_family(family)?;
    if references.compressions != [reader.compression()] {
        return Err(Error::corruption(
            "pointers and blob file disagree about the compression",
        ));
    }
    let mut pointers = references.pointers;
    pointers.sort_unstable_by_key(|pointer| pointer.offset);
    let mut pointers = pointers.into_iter().peekable();
    let (mut count, mut bytes) = (0, 0);
    let mut records = Records::of(reader);
    let mut holes = false;
    loop {
        let start = records.position();
        let Some(record) = records.next() else {
            break;
        };
        let record = match record {
            Ok(record) => record,
            Err(e) => {
                let next = pointers.peek().map(Pointer::record_offset);
                if !records.skip_hole(&e, start, next)? {
                    return Err(e);
                }
                holes = true;
                continue;
            }
        };
        count += 1;
        bytes += records.position() - record.offset;
        while let Some(pointer) = pointers.next_if(|p| p.offset <= record.value_offset) {
            let right = pointer.offset == record.value_offset
                && pointer.size == record.stored_size()
                && pointer.key_hash == hash_of(&record.key);
            if !right {
                let e = Error::corruption("a pointer leads to no record of its key and size");
                return Err(e.at_offset(pointer.offset));
            }
        }
    }
    match pointers.next() {
        Some(pointer) => {
            let e = Error::corruption("a pointer leads past the last record");
            Err(e.at_offset(pointer.offset))
        }
        // The file's length and footer tell what was in the holes.
        None if holes => {
            let bytes = reader.size().saturating_sub(BLOB_FILE_FRAME_LEN);
            Ok((reader.verify_footer()?, bytes))
        }
        None => Ok((count, bytes)),
    }
}
