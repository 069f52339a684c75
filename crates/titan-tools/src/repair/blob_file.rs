//! A blob file that tables refer to.

use std::sync::Arc;

use titan::internals::blob::{BlobFileReader, RelocationMap};
use titan::internals::format::BlobIndex;
use titan::{BlobFileNumber, ColumnFamilyId, Error, FileNumber, Result};

/// A logical blob file that tables refer to.
pub(super) struct Blobs {
    pub(super) family: ColumnFamilyId,
    /// The physical file with its records, and what is in it.
    pub(super) file: PhysicalFile,
    /// The relocation map, if the records were relocated there.
    pub(super) map: Option<Arc<RelocationMap>>,
    /// Why the file cannot be kept: it is damaged or missing, or a pointer leads to no record.
    pub(super) damage: Option<Error>,
    /// Reads the values of a file that cannot be kept; `None` if the file is missing.
    pub(super) reader: Option<Arc<BlobFileReader>>,
}

/// A physical blob file.
#[derive(Clone, Copy)]
pub(super) struct PhysicalFile {
    pub(super) number: BlobFileNumber,
    /// The relocation map of a file that garbage collection wrote.
    pub(super) map: Option<FileNumber>,
    pub(super) count: u64,
    pub(super) total_bytes: u64,
}

impl Blobs {
    /// Reads a value from a file that cannot be kept. Everything about the record is verified.
    pub(super) fn rescue(&self, user_key: &[u8], index: &BlobIndex) -> Result<bytes::Bytes> {
        let offset = match &self.map {
            Some(map) => map.lookup(index.file, index.offset)?,
            None => index.offset,
        };
        match (&self.reader, &self.damage) {
            (Some(reader), _) => reader.get(user_key, &BlobIndex { offset, ..*index }),
            (None, Some(e)) => Err(e.clone()),
            (None, None) => Err(Error::corruption("the blob file is not open")),
        }
    }
}
