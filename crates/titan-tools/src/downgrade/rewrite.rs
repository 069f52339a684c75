//! Rewrites tables with pointers to the locations of their records.

use titan::internals::blob::BlobReaders;
use titan::internals::compaction::{JobOutput, OutputFamily, OutputWriter};
use titan::internals::format::entity::{may_have_pointers, with_pointers};
use titan::internals::format::{BlobIndex, FileKind, ParsedInternalKey, ValueType};
use titan::internals::iterator::InternalIterator;
use titan::internals::range_del::FragmentedTombstones;
use titan::internals::table::TableIterOptions;
use titan::internals::version::{TableFile, within};
use titan::{Error, Result};

use super::plan::{FamilyPlan, Plan};
use super::state::Downgrade;
use crate::progress::Progress;

/// Bytes of a table that are read at once.
const READAHEAD: usize = 1 << 20;

impl Downgrade<'_> {
    /// Writes the tables of the plan, in its order. On return all of them and their names are
    /// durable. After an error none of them is left.
    pub(super) fn rewrite(
        &self,
        plan: &Plan,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<JobOutput>> {
        let mut done = Vec::new();
        let written = self.rewrite_all(plan, progress, &mut done);
        written.inspect_err(|_| {
            let files: Vec<FileKind> = done.iter().flat_map(JobOutput::files).collect();
            self.env.discard(&files);
        })?;
        Ok(done)
    }

    fn rewrite_all(
        &self,
        plan: &Plan,
        progress: &mut dyn FnMut(Progress),
        done: &mut Vec<JobOutput>,
    ) -> Result<()> {
        let mut done_bytes = 0;
        for family_plan in &plan.families {
            let Some(family) = self.versions.family(family_plan.id) else {
                continue;
            };
            let family = self.output_family(family_plan.id, family);
            for (_, table) in &family_plan.tables {
                done.push(self.rewrite_table(table, family_plan, &family)?);
                done_bytes += table.size();
                progress(Progress {
                    done_bytes,
                    total_bytes: plan.summary.table_bytes,
                    file: FileKind::Table(table.number()).name(),
                });
            }
        }
        Ok(())
    }

    fn rewrite_table(
        &self,
        table: &TableFile,
        plan: &FamilyPlan,
        family: &OutputFamily,
    ) -> Result<JobOutput> {
        let order = &family.comparator;
        let reader = self.open_files.table(table.meta.identity(), order)?;
        let tombstones = within(&table.meta, reader.range_tombstones(), order);
        let tombstones = FragmentedTombstones::build(tombstones, order);
        let mut writer = OutputWriter::uncut(self.env.clone(), family.clone(), tombstones);
        let mut entries = reader.iter(TableIterOptions {
            fill_cache: false,
            readahead: READAHEAD,
        });
        let mut copy = || {
            entries.seek_to_first()?;
            while entries.valid() {
                let (ikey, value) = (entries.key(), entries.value());
                match self.redirected(ikey, value, plan)? {
                    Some(redirected) => writer.add(ikey, &redirected)?,
                    None => writer.add(ikey, value)?,
                }
                entries.next()?;
            }
            writer.finish()
        };
        let copied = copy();
        copied.map_err(|e| {
            self.env.discard(&writer.created());
            e.context(format!("rewriting table {}", table.number()))
        })
    }

    /// The value of an entry with pointers to the locations of its records, if any was relocated.
    fn redirected(&self, ikey: &[u8], value: &[u8], plan: &FamilyPlan) -> Result<Option<Vec<u8>>> {
        match ParsedInternalKey::parse(ikey)?.value_type {
            ValueType::BlobIndex => {
                let pointer = self.redirected_pointer(&BlobIndex::decode(value)?, plan)?;
                Ok(pointer.map(|index| {
                    let mut encoded = Vec::new();
                    index.encode(&mut encoded);
                    encoded
                }))
            }
            ValueType::WideColumnEntity if may_have_pointers(value) => {
                with_pointers(value, |index| self.redirected_pointer(index, plan))
            }
            _ => Ok(None),
        }
    }

    /// The pointer to the location of a record, if it was relocated.
    fn redirected_pointer(
        &self,
        index: &BlobIndex,
        plan: &FamilyPlan,
    ) -> Result<Option<BlobIndex>> {
        let Some(to) = plan.moved.get(&index.file) else {
            return Ok(None);
        };
        let map = self.open_files.map(to.map)?;
        let blobs = self.open_files.reader(to.file)?;
        blobs.check_family(plan.id)?;
        let offset = map.lookup(index.file, index.offset)?;
        // RocksDB relies on the pointer; the file has one compression for all records.
        let fits = offset
            .checked_add(index.size)
            .is_some_and(|end| end <= blobs.size());
        if map.physical() != to.file || blobs.compression() != index.compression || !fits {
            let text =
                "the map and the MANIFEST, or the pointers into it, contradict the blob file";
            return Err(Error::corruption(text).in_file(&FileKind::Blob(to.file).path(self.dir)));
        }
        Ok(Some(BlobIndex {
            file: to.file,
            offset,
            ..*index
        }))
    }
}
