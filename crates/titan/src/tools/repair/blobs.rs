//! Which blob files are whole, and hold what the tables say they do.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Repair;
use crate::blob::BlobFileReader;
use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::file_name::FileKind;
use crate::format::{BlobFileNumber, ColumnFamilyId, CompressionType};
use crate::tools::pointers::{FileReferences, hash_of};
use crate::vfs::Access;

/// A blob file that tables refer to.
pub(super) struct Blobs {
    pub(super) family: ColumnFamilyId,
    pub(super) count: u64,
    pub(super) total_bytes: u64,
    /// Why the file cannot be kept: it is damaged, is not there, or a pointer leads to no record.
    pub(super) damage: Option<Error>,
    /// For the values of a file that cannot be kept; `None` if it is not there.
    reader: Option<Arc<BlobFileReader>>,
}

impl Blobs {
    /// Reads a value out of a file that cannot be kept. Everything about the record is verified.
    pub(super) fn rescue(&self, user_key: &[u8], index: &BlobIndex) -> Result<bytes::Bytes> {
        match (&self.reader, &self.damage) {
            (Some(reader), _) => reader.get(user_key, index),
            (None, Some(e)) => Err(e.clone()),
            (None, None) => Err(Error::corruption("the blob file is not open")),
        }
    }
}

impl Repair<'_> {
    /// Reads all blob files that tables refer to and holds pointers against records.
    pub(super) fn survey_blob_files(&mut self) -> Result<()> {
        let mut references: BTreeMap<BlobFileNumber, (ColumnFamilyId, FileReferences)> =
            BTreeMap::new();
        for table in self.tables.values_mut() {
            let family = table.family.unwrap_or_default();
            for (number, file) in std::mem::take(&mut table.files) {
                let (_, all) = references
                    .entry(number)
                    .or_insert_with(|| (family, FileReferences::default()));
                for compression in file.compressions {
                    if !all.compressions.contains(&compression) {
                        all.compressions.push(compression);
                    }
                }
                all.pointers.extend(file.pointers);
                table.files.insert(number, FileReferences::default());
            }
        }
        for (number, (family, references)) in references {
            let surveyed = self.survey_blob_file(number, family, references)?;
            self.blob_files.insert(number, surveyed);
        }
        Ok(())
    }

    fn survey_blob_file(
        &mut self,
        number: BlobFileNumber,
        family: ColumnFamilyId,
        references: FileReferences,
    ) -> Result<Blobs> {
        let kind = FileKind::Blob(number);
        let path = kind.path(self.dir);
        let mut blobs = Blobs {
            family,
            count: 0,
            total_bytes: 0,
            damage: None,
            reader: None,
        };
        let file = match self.vfs.open(&path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => {
                blobs.damage = Some(Error::corruption("the blob file is gone").in_file(&path));
                return Ok(blobs);
            }
            Err(e) => return Err(e),
        };
        let size = file.size()?;
        let compression = references.compressions.first().copied();
        let compression = compression.unwrap_or(CompressionType::None);
        let reader = Arc::clone(&file);
        let reader = BlobFileReader::without_header(reader, &path, number, family, compression)?;
        let opened = BlobFileReader::open(file, &path, number);
        let owner = opened.as_ref().map_or(family, |file| file.column_family());
        let walked = opened.and_then(|reader| walk(&reader, family, references));
        match walked {
            Ok((count, total_bytes)) => (blobs.count, blobs.total_bytes) = (count, total_bytes),
            Err(e) if e.kind() == crate::ErrorKind::Io => return Err(e),
            // The header has no checksum: what looks like a feature may be damage.
            Err(e) => blobs.damage = Some(e.in_file(&path)),
        }
        // Another family's file has nothing to rescue: its records may have the same keys. What is
        // of no family that there is has a damaged header, and its records are as good as any.
        if owner == family || !self.families.contains_key(&owner) {
            blobs.reader = Some(reader);
        }
        self.tell(kind, size);
        Ok(blobs)
    }
}

/// Goes through records and pointers side by side, both by offset. Gives the records' count and
/// bytes if all is well: every record whole, every pointer leading to its record.
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
    let mut records = reader.records();
    while let Some(record) = records.next() {
        let record = record?;
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
            let e = Error::corruption("a pointer leads behind the records");
            Err(e.at_offset(pointer.offset))
        }
        None => Ok((count, bytes)),
    }
}
