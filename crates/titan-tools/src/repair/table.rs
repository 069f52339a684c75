//! The tables of a repair: those that exist, and those of the repaired database.

use std::collections::BTreeMap;

use titan::internals::format::{FileKind, InternalKeyComparator, user_key};
use titan::internals::version::{NewFile, TableFacts, unknown_pointers};
use titan::{BlobFileNumber, ColumnFamilyId, Error, FileNumber, Result};

use super::hint::HintedTable;
use crate::pointers::FileReferences;

/// A table that exists.
pub(super) struct Table {
    pub(super) meta: NewFile,
    pub(super) facts: TableFacts,
    /// Whether to record the facts in the MANIFEST. Not those of a RocksDB table whose bounds
    /// differ from its content, because its range deletions may extend past them: only tables
    /// without facts may be like that.
    pub(super) record_facts: bool,
    /// `None` if neither a MANIFEST nor the table names it.
    pub(super) family: Option<ColumnFamilyId>,
    pub(super) family_name: Option<String>,
    /// Whether its properties exist and name no family: then it was ingested.
    pub(super) foreign: bool,
    pub(super) comparator: InternalKeyComparator,
    pub(super) entries: u64,
    /// The first damage found, if any.
    pub(super) damage: Option<Error>,
    /// Whether it can be the table that the MANIFEST describes, if that describes one.
    pub(super) as_recorded: bool,
    /// The blob files it refers to.
    pub(super) files: BTreeMap<BlobFileNumber, FileReferences>,
    pub(super) db_id: Option<String>,
}

impl Table {
    pub(super) fn number(&self) -> FileNumber {
        self.meta.number
    }

    pub(super) fn name(&self) -> String {
        FileKind::Table(self.meta.number).name()
    }

    /// Fails if another program wrote the table, and there is no pointer to the blob file that the
    /// MANIFEST calls the oldest one: the values to which it refers would be taken for unused.
    pub(super) fn require_pointers(&self, hinted: &HintedTable) -> Result<()> {
        let oldest = hinted.meta.oldest_blob_file;
        match oldest.filter(|_| hinted.facts.is_none() && self.damage.is_none()) {
            Some(oldest) if !self.files.contains_key(&oldest) => {
                Err(unknown_pointers(self.number(), oldest))
            }
            _ => Ok(()),
        }
    }

    /// Takes over facts that only the MANIFEST has, if it describes this table after all.
    pub(super) fn take_over(&mut self, hinted: &HintedTable) {
        self.family = Some(hinted.family);
        let scanned = std::mem::replace(&mut self.meta, hinted.meta.clone());
        self.meta.oldest_blob_file = scanned.oldest_blob_file;
        self.meta.unique_id = scanned.unique_id;
        if !self.meta.knows_sequences() {
            self.meta.smallest_seq = scanned.smallest_seq;
            self.meta.largest_seq = scanned.largest_seq;
        }
        let bounds = |meta: &NewFile| {
            let sequences = (meta.smallest_seq, meta.largest_seq);
            (meta.smallest.clone(), meta.largest.clone(), sequences)
        };
        let exact = bounds(&scanned) == bounds(&self.meta);
        if hinted.facts.is_none() {
            self.record_facts = exact;
        } else if !exact && self.damage.is_none() {
            (self.meta, self.as_recorded) = (scanned, false);
        }
    }
}

/// A whole table of the repaired database.
pub(super) struct Placed {
    pub(super) family: ColumnFamilyId,
    /// Its level, once that is known.
    pub(super) level: Option<usize>,
    /// Whether the repair wrote it; otherwise it existed before.
    pub(super) new: bool,
    pub(super) entries: u64,
    pub(super) meta: NewFile,
    pub(super) facts: TableFacts,
    /// Whether to record the facts in the MANIFEST.
    pub(super) record_facts: bool,
}

impl Placed {
    /// A table that is not rewritten.
    pub(super) fn kept(table: Table, level: Option<usize>) -> Self {
        Placed {
            family: table.family.unwrap_or_default(),
            level,
            new: false,
            entries: table.entries,
            meta: table.meta,
            facts: table.facts,
            record_facts: table.record_facts,
        }
    }

    /// Whether the key ranges of two tables overlap.
    pub(super) fn meets(&self, other: &Placed, order: &InternalKeyComparator) -> bool {
        let starts_within =
            |a: &NewFile, b: &NewFile| !order.is_beyond(user_key(&a.smallest), b.end());
        starts_within(&self.meta, &other.meta) && starts_within(&other.meta, &self.meta)
    }

    pub(super) fn is_newer_than(&self, other: &Placed) -> bool {
        self.meta.smallest_seq > other.meta.largest_seq
    }
}
