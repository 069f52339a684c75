//! Where the records of each logical blob file are.
//!
//! A pointer names a logical file for ever. The table says, for one moment, which physical file
//! holds its records and at which offset. It is a value: a change makes a new table, which is
//! swapped in whole, so a reader sees one consistent state.

use crate::error::{Error, Result};
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};

/// A logical file: whose values it holds, and where its records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobLocation {
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) place: BlobPlace,
}

/// Where one logical file's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobPlace {
    /// As they were written: in the file of this number, a pointer's offset is the address.
    InPlace,
    /// Garbage collection wrote them to another file, and a map of where to.
    Moved {
        file: BlobFileNumber,
        map: FileNumber,
    },
}

/// The location of every logical blob file of a database. Cheap enough to copy for each change:
/// 40 bytes a file.
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

    /// The location of one logical file.
    ///
    /// # Errors
    /// `Corruption` naming the logical file, if the table does not have it: a pointer in the tree
    /// keeps its file (BLOB-2).
    pub(crate) fn location(&self, logical: BlobFileNumber) -> Result<BlobLocation> {
        let at = self
            .entries
            .binary_search_by_key(&logical, |(logical, _)| *logical);
        let entry = at.ok().and_then(|at| self.entries.get(at));
        entry.map(|(_, location)| *location).ok_or_else(|| {
            Error::corruption(format!(
                "pointer into blob file {logical}, which does not exist"
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(logical: u64, physical: u64) -> (BlobFileNumber, BlobLocation) {
        let place = BlobPlace::Moved {
            file: BlobFileNumber(physical),
            map: FileNumber(physical + 1),
        };
        let column_family = ColumnFamilyId::DEFAULT;
        let location = BlobLocation {
            column_family,
            place,
        };
        (BlobFileNumber(logical), location)
    }

    #[test]
    fn a_change_makes_a_new_table_and_leaves_the_old_one() {
        let old = LocationTable::new([entry(9, 90), entry(3, 30), entry(5, 50)]);
        let new = old.with(
            [entry(7, 70), entry(3, 120), entry(9, 120)],
            &[BlobFileNumber(5)],
        );
        let logical = |t: &LocationTable| t.entries.iter().map(|(n, _)| n.0).collect::<Vec<_>>();
        assert_eq!(logical(&old), [3, 5, 9]);
        assert_eq!(logical(&new), [3, 7, 9]);
        let at = |table: &LocationTable, logical| table.location(BlobFileNumber(logical));
        assert_eq!(at(&old, 3).unwrap(), entry(3, 30).1);
        assert_eq!(at(&new, 3).unwrap(), entry(3, 120).1);
        assert_eq!(at(&new, 9).unwrap(), entry(9, 120).1);
        assert_eq!(at(&old, 5).unwrap(), entry(5, 50).1);
        let e = at(&new, 5).unwrap_err();
        assert!(
            e.is_corruption() && e.message().contains("blob file 5"),
            "{e}"
        );
    }
}
