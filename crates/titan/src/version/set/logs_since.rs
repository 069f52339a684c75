//! The WAL files from which recovery reads on.

use super::database_record::DatabaseRecord;
use crate::format::FileNumber;

/// The WAL files from which recovery reads on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogsSince {
    /// The first WAL file that is kept: transactions may have been prepared from there on.
    pub kept: FileNumber,
    /// The first WAL file with data that a family needs.
    pub needed: FileNumber,
    /// A WAL file that must be there: the last one that the MANIFEST names, if its name was durable
    /// by then.
    pub present: Option<FileNumber>,
}

impl LogsSince {
    /// From the MANIFEST's record of the database, and the numbers of the first WAL files that each
    /// family needs.
    pub fn new(
        record: &DatabaseRecord,
        families: impl Iterator<Item = FileNumber> + Clone,
    ) -> Self {
        let kept = record.min_log_number_to_keep;
        let oldest = families.clone().min().unwrap_or_default();
        let newest = families.max().unwrap_or_default();
        // An opening names one file for all families, before it creates it. Where they differ, the
        // newest is from a flush or from the creation of a family, which sync the names of WAL
        // files before they name one. RocksDB does not.
        let named = record.is_titans && newest > oldest;
        LogsSince {
            kept,
            needed: kept.max(oldest),
            present: named.then_some(newest),
        }
    }
}
