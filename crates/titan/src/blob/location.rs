//! Where the records of each logical blob file are.
//!
//! A pointer names a logical file for ever. The table says, for one moment, which physical file
//! holds its records and at which offset. It is a value: a change makes a new table, which is
//! swapped in whole, so a reader sees one consistent state.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::format::blob_index::BlobIndex;
use crate::format::{BlobFileNumber, ColumnFamilyId};

/// A physical blob file: what never changes about it. Shared by every version and location that
/// needs the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobFile {
    /// The number in the file's name.
    pub(crate) number: BlobFileNumber,
    /// Whose values it holds.
    pub(crate) column_family: ColumnFamilyId,
}

/// Where one logical file's records are.
#[derive(Clone, Debug)]
pub(crate) enum BlobLocation {
    /// As they were written: the pointer's offset is the address.
    InPlace(Arc<BlobFile>),
}

/// A pointer's target now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resolved<'t> {
    /// The file to read.
    pub(crate) file: &'t Arc<BlobFile>,
    /// The pointer with the offset that counts in `file`.
    pub(crate) index: BlobIndex,
}

/// The location of every logical blob file of a database. Cheap enough to copy for each change:
/// 16 bytes a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocationTable {
    /// Sorted by logical number, without repetitions.
    entries: Vec<(BlobFileNumber, BlobLocation)>,
}

impl LocationTable {
    /// The table with these locations; of several for one logical file the last counts.
    pub(crate) fn new(locations: impl IntoIterator<Item = (BlobFileNumber, BlobLocation)>) -> Self {
        LocationTable::default().with(locations, &[])
    }

    /// This table without the logical files `removed` and with `added`, which replace what their
    /// logical files had.
    #[must_use]
    pub(crate) fn with(
        &self,
        added: impl IntoIterator<Item = (BlobFileNumber, BlobLocation)>,
        removed: &[BlobFileNumber],
    ) -> Self {
        let kept = self
            .entries
            .iter()
            .filter(|(logical, _)| !removed.contains(logical))
            .cloned();
        let mut entries: Vec<_> = kept.chain(added).collect();
        // Stable, so that the newest of equal numbers is the last of them, and stays.
        entries.sort_by_key(|(logical, _)| *logical);
        entries.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        LocationTable { entries }
    }

    /// Where the record is that `index` points to.
    ///
    /// # Errors
    /// `Corruption` naming the logical file, if the table does not have it: a pointer in the tree
    /// keeps its file (BLOB-2).
    pub(crate) fn resolve(&self, index: &BlobIndex) -> Result<Resolved<'_>> {
        match self.location(index.file) {
            Some(BlobLocation::InPlace(file)) => Ok(Resolved {
                file,
                index: *index,
            }),
            None => Err(Error::corruption(format!(
                "pointer into blob file {}, which does not exist",
                index.file
            ))),
        }
    }

    /// The location of one logical file.
    pub(crate) fn location(&self, logical: BlobFileNumber) -> Option<&BlobLocation> {
        let at = self
            .entries
            .binary_search_by_key(&logical, |(logical, _)| *logical)
            .ok()?;
        self.entries.get(at).map(|(_, location)| location)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::CompressionType;

    fn entry(logical: u64, physical: u64) -> (BlobFileNumber, BlobLocation) {
        let file = BlobFile {
            number: BlobFileNumber(physical),
            column_family: ColumnFamilyId::DEFAULT,
        };
        (
            BlobFileNumber(logical),
            BlobLocation::InPlace(Arc::new(file)),
        )
    }

    fn physical(table: &LocationTable, logical: u64) -> Result<u64> {
        let index = BlobIndex {
            file: BlobFileNumber(logical),
            offset: 70,
            size: 1,
            compression: CompressionType::None,
        };
        let resolved = table.resolve(&index)?;
        assert_eq!(resolved.index, index);
        Ok(resolved.file.number.0)
    }

    #[test]
    fn a_change_makes_a_new_table_and_leaves_the_old_one() {
        let old = LocationTable::new([entry(9, 9), entry(3, 3), entry(5, 5)]);
        let new = old.with(
            [entry(7, 7), entry(3, 12), entry(9, 12)],
            &[BlobFileNumber(5)],
        );
        let logical = |t: &LocationTable| t.entries.iter().map(|(n, _)| n.0).collect::<Vec<_>>();
        assert_eq!(logical(&old), [3, 5, 9]);
        assert_eq!(logical(&new), [3, 7, 9]);
        assert_eq!(physical(&old, 3).unwrap(), 3);
        assert_eq!(physical(&new, 3).unwrap(), 12);
        assert_eq!(physical(&new, 9).unwrap(), 12);
        assert_eq!(physical(&old, 5).unwrap(), 5);
        let e = physical(&new, 5).unwrap_err();
        assert!(
            e.is_corruption() && e.message().contains("blob file 5"),
            "{e}"
        );
    }
}
