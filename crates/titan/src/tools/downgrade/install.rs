//! Replaces the old tables with the rewritten ones.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Downgrade;
use super::plan::{DowngradePlan, FamilyPlan, Plan};
use crate::compaction::building::job_output::JobOutput;
use crate::db::remove_leftovers;
use crate::error::{Error, Result};
use crate::format::BlobFileNumber;
use crate::format::file_name::FileKind;
use crate::version::Version;
use crate::version::edit::{BlobFileAddition, BlobFileGarbage, NewFile, VersionEdit};

/// The result of a downgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DowngradeReport {
    /// Steps that had to be done.
    pub plan: DowngradePlan,
    /// Bytes of the tables written.
    pub written_bytes: u64,
    /// Facts worth knowing: files that could not be deleted.
    pub notes: Vec<String>,
}

impl Downgrade<'_> {
    /// Installs the rewritten tables, which are those of the plan in its order.
    pub(super) fn install(
        mut self,
        plan: Plan,
        rewritten: Vec<JobOutput>,
    ) -> Result<DowngradeReport> {
        let written = rewritten.iter().map(JobOutput::table_bytes).sum();
        let mut report = DowngradeReport {
            written_bytes: written,
            ..DowngradeReport::default()
        };
        self.replace_tables(&plan, &rewritten).inspect_err(|_| {
            let files: Vec<FileKind> = rewritten.iter().flat_map(JobOutput::files).collect();
            self.env.discard(&files);
        })?;
        if mutant!(downgrade_deletes_before_the_switch) {
            for (_, table) in plan.families.iter().flat_map(|family| &family.tables) {
                self.vfs
                    .remove(&FileKind::Table(table.number()).path(self.dir))?;
            }
        }
        // ORDER: the new tables and their names are durable before CURRENT names the MANIFEST with
        // them. If this fails, CURRENT may name either MANIFEST: the next opening deletes the files
        // that are not needed.
        self.versions.start_manifest()?;
        // ORDER: CURRENT is durable; only now may the files be deleted that the previous MANIFEST
        // needed. The downgrade is done: a failure to delete them is only noted.
        let oldest_wal = self.versions.logs_since().kept;
        let mut left = Vec::new();
        let tidied = remove_leftovers(&*self.vfs, self.dir, &self.versions, oldest_wal, &mut |e| {
            left.push(e.clone());
        });
        let synced = tidied.and_then(|()| self.vfs.sync_dir(self.dir));
        for e in left.into_iter().chain(synced.err()) {
            let note = format!("files that are not used any more could not be removed: {e}");
            report.notes.push(note);
        }
        report.plan = plan.summary;
        Ok(report)
    }

    /// Creates the versions with the new tables, in memory.
    fn replace_tables(&mut self, plan: &Plan, rewritten: &[JobOutput]) -> Result<()> {
        let mut outputs = rewritten.iter();
        for family_plan in &plan.families {
            let Some(family) = self.versions.family(family_plan.id) else {
                continue;
            };
            let outputs = outputs.by_ref().take(family_plan.tables.len());
            let edit = self.edit(family_plan, &family.current, outputs)?;
            self.versions.apply_in_memory(&edit)?;
        }
        Ok(())
    }

    /// The edit that replaces the old tables, and the logical blob files by the physical ones that
    /// have their records.
    fn edit<'o>(
        &self,
        plan: &FamilyPlan,
        version: &Version,
        outputs: impl Iterator<Item = &'o JobOutput>,
    ) -> Result<VersionEdit> {
        let mut edit = VersionEdit {
            column_family: plan.id,
            ..VersionEdit::default()
        };
        let mut used: BTreeMap<BlobFileNumber, (u64, u64)> = BTreeMap::new();
        for ((level, old), output) in plan.tables.iter().zip(outputs) {
            let first = edit.new_files.len();
            edit.deleted_files.push((*level, old.number()));
            output.add_to(&mut edit, *level, self.env.unix_seconds());
            for (_, new) in edit.new_files.iter_mut().skip(first) {
                carry_on(&old.meta, new);
            }
            for refs in output.tables.iter().flat_map(|t| &t.summary.blob_refs) {
                let (count, bytes) = used.entry(refs.file).or_default();
                (*count, *bytes) = (*count + refs.count, *bytes + refs.bytes);
            }
        }
        for (number, (file, logical)) in version.physical_blob_files() {
            if file.map.is_none() {
                continue;
            }
            for meta in logical {
                // No pointer leads into it any more.
                let shared = &meta.shared;
                edit.blob_garbage.push(BlobFileGarbage {
                    number: shared.number,
                    count: shared.total_count.saturating_sub(meta.garbage_count),
                    bytes: shared.total_bytes.saturating_sub(meta.garbage_bytes),
                    unknown: Vec::new(),
                });
            }
            let Some((count, bytes)) = used.get(&number) else {
                continue;
            };
            let garbage = file.count.checked_sub(*count);
            let garbage = garbage.zip(file.total_bytes.checked_sub(*bytes));
            let Some((garbage_count, garbage_bytes)) = garbage else {
                let text = format!("there are more pointers into blob file {number} than records");
                return Err(Error::corruption(text));
            };
            edit.blob_additions.push(BlobFileAddition {
                number,
                count: file.count,
                total_bytes: file.total_bytes,
                ..BlobFileAddition::default()
            });
            let forgotten = mutant!(downgrade_forgets_garbage);
            if garbage_count > 0 && !forgotten {
                edit.blob_garbage.push(BlobFileGarbage {
                    number,
                    count: garbage_count,
                    bytes: garbage_bytes,
                    unknown: Vec::new(),
                });
            }
        }
        Ok(edit)
    }
}

/// Copies to the new table the facts that stay true because it has the same entries.
fn carry_on(old: &NewFile, new: &mut NewFile) {
    new.epoch_number = old.epoch_number;
    new.oldest_ancester_time = old.oldest_ancester_time;
    new.marked_for_compaction = old.marked_for_compaction;
    new.temperature = old.temperature;
    new.compensated_range_deletion_size = old.compensated_range_deletion_size;
}
