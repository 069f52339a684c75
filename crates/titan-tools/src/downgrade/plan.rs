//! Finds out what a downgrade has to do.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use titan::internals::format::{FileKind, InternalKeyComparator};
use titan::internals::version::{TableFile, Version};
use titan::{BlobFileNumber, ColumnFamilyId, FileNumber, Result};

use super::state::Downgrade;

/// Steps of a downgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DowngradePlan {
    /// Whether the database has anything that RocksDB refuses; otherwise nothing is done.
    pub needed: bool,
    /// Tables that point to relocated records: they are rewritten.
    pub tables: Vec<RewrittenTable>,
    /// Bytes of those tables: about as much is written, plus a MANIFEST, and as much free space
    /// is needed.
    pub table_bytes: u64,
    /// Files written by garbage collection: they become ordinary blob files and are not
    /// rewritten.
    pub blob_files: usize,
    /// Bytes of the relocation maps into them, which are deleted.
    pub map_bytes: u64,
}

/// A table that a downgrade rewrites.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RewrittenTable {
    /// Its name.
    pub file: String,
    /// The column family.
    pub family: String,
    /// The level of the table, and of the one that replaces it.
    pub level: usize,
    /// Bytes.
    pub bytes: u64,
}

/// A physical blob file to which records were relocated, and its relocation map.
#[derive(Clone, Copy)]
pub(super) struct MovedTo {
    pub(super) file: BlobFileNumber,
    pub(super) map: FileNumber,
}

/// The plan for one family.
pub(super) struct FamilyPlan {
    pub(super) id: ColumnFamilyId,
    /// The locations of logical files.
    pub(super) moved: BTreeMap<BlobFileNumber, MovedTo>,
    /// The tables to rewrite, with their levels.
    pub(super) tables: Vec<(usize, Arc<TableFile>)>,
}

/// The plan for the whole database.
pub(super) struct Plan {
    pub(super) summary: DowngradePlan,
    pub(super) families: Vec<FamilyPlan>,
}

impl Downgrade<'_> {
    pub(super) fn plan(&self) -> Result<Plan> {
        let mut summary = DowngradePlan {
            needed: self.needed,
            ..DowngradePlan::default()
        };
        let mut families = Vec::new();
        for (&id, family) in self.versions.families() {
            let version = &family.current;
            let mut moved = BTreeMap::new();
            for (file, logical) in version.physical_blob_files().into_values() {
                let Some(map) = file.map else {
                    continue;
                };
                summary.blob_files += 1;
                summary.map_bytes += self.vfs.size(&FileKind::BlobMap(map).path(self.dir))?;
                let to = MovedTo {
                    file: file.number,
                    map,
                };
                moved.extend(logical.iter().map(|meta| (meta.shared.number, to)));
            }
            let tables = self.tables_to_rewrite(version, &family.comparator, &moved)?;
            for (level, table) in &tables {
                summary.table_bytes += table.size();
                summary.tables.push(RewrittenTable {
                    file: FileKind::Table(table.number()).name(),
                    family: family.name.clone(),
                    level: *level,
                    bytes: table.size(),
                });
            }
            families.push(FamilyPlan { id, moved, tables });
        }
        Ok(Plan { summary, families })
    }

    /// The tables that refer to a relocated file.
    fn tables_to_rewrite(
        &self,
        version: &Version,
        order: &InternalKeyComparator,
        moved: &BTreeMap<BlobFileNumber, MovedTo>,
    ) -> Result<Vec<(usize, Arc<TableFile>)>> {
        let mut tables = Vec::new();
        for (level, table) in version.tables().filter(|_| !moved.is_empty()) {
            let refers = match table.facts() {
                Some(facts) => facts.blob_refs.iter().any(|r| moved.contains_key(&r.file)),
                None => {
                    let reader = self.open_files.table(table.meta.identity(), order)?;
                    let references = reader.blob_refs()?;
                    let mut files = references.files();
                    files.any(|(file, _)| moved.contains_key(&file))
                }
            };
            if refers {
                tables.push((level, Arc::clone(table)));
            }
        }
        Ok(tables)
    }
}
