//! Where the records of each logical blob file are.
//!
//! A pointer names a logical file for ever. The table says, for one moment, which physical file has
//! its records and at which offsets. A table is immutable: a change makes a new one, which replaces
//! the old one as a whole, so a reader sees one consistent state.

use crate::error::{Error, Result};
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber};
use crate::shared_map::SharedMap;

/// A logical file: the family of its values, and where its records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlobLocation {
    pub(crate) column_family: ColumnFamilyId,
    pub(crate) place: BlobPlace,
}

/// Where one logical file's records are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlobPlace {
    /// Where they were written: in the file of the same number, at the offsets in the pointers.
    InPlace,
    /// A collection wrote them to another file, and their new offsets to a relocation map.
    Moved {
        file: BlobFileNumber,
        map: FileNumber,
    },
}

/// The location of every logical blob file of a database. A copy shares what does not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocationTable {
    /// By logical number.
    entries: SharedMap<BlobFileNumber, BlobLocation>,
}

impl LocationTable {
    /// The table with these locations. Of several for one logical file the last one counts.
    pub(crate) fn new(locations: impl IntoIterator<Item = (BlobFileNumber, BlobLocation)>) -> Self {
        LocationTable {
            entries: locations.into_iter().collect(),
        }
    }

    /// This table without the logical files `removed` and with `added`, which replaces older
    /// locations of the same logical files.
    #[must_use]
    pub(crate) fn with(
        &self,
        added: impl IntoIterator<Item = (BlobFileNumber, BlobLocation)>,
        removed: &[BlobFileNumber],
    ) -> Self {
        let mut table = self.clone();
        for logical in removed {
            table.entries.remove(logical);
        }
        for (logical, location) in added {
            table.entries.insert(logical, location);
        }
        table
    }

    /// The location of one logical file.
    ///
    /// # Errors
    /// `Corruption` naming the logical file, if the table does not have it: a pointer in the tree
    /// pins its file (BLOB-2).
    pub(crate) fn location(&self, logical: BlobFileNumber) -> Result<BlobLocation> {
        self.entries.get(&logical).copied().ok_or_else(|| {
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
        let logical = |t: &LocationTable| t.entries.keys().map(|n| n.0).collect::<Vec<_>>();
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
