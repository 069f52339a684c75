//! A family of the repaired database.

use titan::internals::format::InternalKeyComparator;
use titan::{ColumnFamilyId, FileNumber};

/// A family of the repaired database.
pub(super) struct Family {
    pub(super) name: String,
    pub(super) comparator: InternalKeyComparator,
    /// All entries of older WAL files are in the family's tables.
    pub(super) log_number: FileNumber,
    /// Whether the repair created it, for tables that may be of any family: no file belongs to it.
    pub(super) founded: bool,
}

impl Family {
    /// The name of a family whose name is lost.
    pub(super) fn name_of_unknown(id: ColumnFamilyId) -> String {
        format!("recovered-{id}")
    }
}
