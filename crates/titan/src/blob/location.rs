//! Where the records of a logical blob file are.
//!
//! A pointer names a logical file for ever. A location says, for one moment, which physical file
//! has its records. Each logical file of a database has one location, which all versions share
//! ([`SharedBlobFile`](crate::version)); nothing else records it but the MANIFEST.

use crate::error::{Error, Result};
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};

/// A logical file: the family whose values it has, and where its records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobLocation {
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) physical: PhysicalLocation,
}

/// Where one logical file's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhysicalLocation {
    /// Where they were written: in the file of the same number, at the offsets in the pointers.
    InPlace,
    /// Garbage collection wrote them to another file, and a map of their offsets there.
    Moved {
        file: BlobFileNumber,
        map: FileNumber,
    },
}

/// Knows the locations of logical files; a version does. A location may change from one call to
/// the next; the file that it named before may then be gone.
pub(crate) trait BlobLocations {
    /// The location of one logical file, as of now.
    ///
    /// # Errors
    /// `Corruption` naming the logical file, if it does not exist: a pointer in the tree keeps its
    /// file (BLOB-2).
    fn location(&self, logical: BlobFileNumber) -> Result<BlobLocation>;
}

/// Error of [`BlobLocations::location`] for a file that does not exist.
pub(crate) fn no_location(logical: BlobFileNumber) -> Error {
    Error::corruption(format!(
        "pointer into blob file {logical}, which does not exist"
    ))
}
