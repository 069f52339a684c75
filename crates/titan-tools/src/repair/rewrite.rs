//! Rewrites the readable entries of damaged tables, and tables whose values are in damaged blob
//! files: their values move to new blob files, and entries whose value is lost are left out.

use bytes::Bytes;
use titan::internals::compaction::{JobOutput, OutputFamily, OutputWriter};
use titan::internals::format::entity::{columns, encode, may_have_pointers};
use titan::internals::format::{
    BlobIndex, ColumnValue, FileKind, ParsedInternalKey, ValueType, internal_key,
};
use titan::internals::range_del::FragmentedTombstones;
use titan::internals::version::{VersionEdit, within};
use titan::{ColumnFamilyId, Error, ErrorKind, Result};

use super::report::{Loss, Salvaged};
use super::state::Repair;
use super::survey::lost_keys;
use super::table::{Placed, Table};
use crate::forensics::salvage::{LostPart, Salvage};

/// Losses of values reported separately for one table; further ones are reported as one.
const MAX_LOSSES: usize = 1000;

impl Repair<'_> {
    /// Replaces every damaged table by one that is whole and whose pointers all lead to their
    /// records.
    pub(super) fn rewrite_damaged(&mut self) -> Result<()> {
        for (number, table) in std::mem::take(&mut self.found.listed) {
            let level = match self.from.hint.trusted {
                true => self
                    .from
                    .hint
                    .tables
                    .get(&number)
                    .map(|hinted| hinted.level),
                false => None,
            };
            let suspect = table.files.keys().find_map(|file| {
                let blobs = self.blob_files.get(file)?;
                blobs.damage.clone()
            });
            match table.damage.clone().or(suspect) {
                None => self.placed.push(Placed::kept(table, level)),
                Some(reason) => self.rewrite(table, level, &reason)?,
            }
        }
        Ok(())
    }

    fn rewrite(&mut self, table: Table, level: Option<usize>, reason: &Error) -> Result<()> {
        let id = table.family.unwrap_or_default();
        let family = self.output_family(id)?;
        let hinted = self.from.hint.tables.get(&table.number()).cloned();
        let salvage = self.salvage(table.number(), hinted.as_ref())?;
        let tombstones = match &hinted {
            Some(hinted) => within(&hinted.meta, salvage.range_tombstones(), &family.comparator),
            None => salvage.range_tombstones().to_vec(),
        };
        let tombstones = FragmentedTombstones::build(tombstones, &family.comparator);
        let writer = OutputWriter::uncut(self.env.clone(), family.clone(), tombstones);
        let mut copy = Copy {
            repair: self,
            family: &family,
            writer,
            losses: Vec::new(),
            running: false,
            entries: 0,
        };
        let copied = copy.all(&salvage);
        let output = match copied {
            Ok(output) => output,
            Err(e) => {
                let created = copy.writer.created();
                self.env.discard(&created);
                return Err(e);
            }
        };
        let (mut losses, entries, parts) = (copy.losses, copy.entries, output.1);
        for part in parts {
            let recorded = hinted.as_ref().map(|hinted| &hinted.meta);
            let (from, to) = lost_keys(&part, recorded);
            let what = match part.range_deletions {
                true => "range deletions",
                false => "entries",
            };
            losses.push(Loss {
                family: Some(family.name.clone()),
                offset: Some(part.at.offset),
                size: Some(part.at.size),
                from,
                to,
                sequences: recorded.map(|m| (m.smallest_seq.0, m.largest_seq.0)),
                ..Loss::of_file(
                    &table.name(),
                    format!("{what} cannot be read: {}", part.error.message()),
                )
            });
        }
        // If there is only one gap, it has all the missing entries.
        let expected = salvage.properties().map(|p| p.points());
        let in_values: u64 = losses.iter().filter_map(|loss| loss.entries).sum();
        let mut unknown = losses.iter_mut().filter(|loss| loss.entries.is_none());
        if let (Some(expected), Some(loss), None) = (expected, unknown.next(), unknown.next()) {
            loss.entries = expected.checked_sub(entries + in_values);
        }
        self.report.lost.append(&mut losses);
        self.report.salvaged.push(Salvaged {
            file: table.name(),
            family: family.name.clone(),
            entries,
            reason: reason.to_string(),
        });
        let epoch = hinted.filter(|_| level.is_some());
        let epoch = epoch.and_then(|hinted| hinted.meta.epoch_number);
        let first = self.placed.len();
        self.written(id, level, output.0);
        for placed in self.placed.iter_mut().skip(first) {
            placed.meta.epoch_number = epoch;
        }
        Ok(())
    }

    /// Records the files that the repair wrote.
    pub(super) fn written(&mut self, id: ColumnFamilyId, level: Option<usize>, output: JobOutput) {
        let mut edit = VersionEdit::default();
        output.add_to(&mut edit, 0, self.env.unix_seconds());
        let facts = edit.table_facts.into_iter();
        for ((_, meta), facts) in edit.new_files.into_iter().zip(facts) {
            self.placed.push(Placed {
                family: id,
                level,
                new: true,
                entries: facts.num_entries,
                meta,
                facts,
                record_facts: true,
            });
        }
        let blob_files = output.blob_files.into_iter().map(|blob| (id, blob));
        self.new_blob_files.extend(blob_files);
    }
}

/// Copies the readable entries of one table.
struct Copy<'c, 'r> {
    repair: &'c Repair<'r>,
    family: &'c OutputFamily,
    writer: OutputWriter,
    losses: Vec<Loss>,
    /// Whether the previous entry was lost too.
    running: bool,
    entries: u64,
}

/// The fate of a separated value.
enum Rescued {
    /// Its file is kept.
    NotNeeded,
    Value(Bytes),
    Lost,
}

impl Copy<'_, '_> {
    fn all(&mut self, salvage: &Salvage) -> Result<(JobOutput, Vec<LostPart>)> {
        let order = self.family.comparator.clone();
        let lost = salvage.entries(&order, &mut |ikey, value| self.entry(ikey, value))?;
        Ok((self.writer.finish()?, lost))
    }

    fn entry(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        let key = ParsedInternalKey::parse(ikey)?;
        match key.value_type {
            ValueType::BlobIndex => match self.rescue(&key, &BlobIndex::decode(value)?)? {
                Rescued::NotNeeded => self.keep(ikey, value),
                Rescued::Value(value) => {
                    let ikey = internal_key(key.user_key, key.sequence, ValueType::Value as u8);
                    self.keep(&ikey, &value)
                }
                Rescued::Lost => Ok(()),
            },
            ValueType::WideColumnEntity if may_have_pointers(value) => {
                self.entity(&key, ikey, value)
            }
            _ => self.keep(ikey, value),
        }
    }

    /// Copies an entity whose columns are all there. It is lost if one of them is: what is left
    /// would pass for what was written.
    fn entity(&mut self, key: &ParsedInternalKey<'_>, ikey: &[u8], entity: &[u8]) -> Result<()> {
        let mut columns = columns(entity)?;
        let mut rescued = Vec::new();
        for (at, column) in columns.iter().enumerate() {
            let ColumnValue::Pointer(index) = &column.value else {
                continue;
            };
            match self.rescue(key, index)? {
                Rescued::NotNeeded => {}
                Rescued::Value(value) => rescued.push((at, value)),
                Rescued::Lost => return Ok(()),
            }
        }
        for (at, value) in &rescued {
            if let Some(column) = columns.get_mut(*at) {
                column.value = ColumnValue::Inline(value);
            }
        }
        match rescued.is_empty() {
            true => self.keep(ikey, entity),
            false => self.keep(ikey, &encode(&columns)),
        }
    }

    fn keep(&mut self, ikey: &[u8], value: &[u8]) -> Result<()> {
        self.running = false;
        self.entries += 1;
        self.writer.add(ikey, value)
    }

    /// Reads a value that is in a file that cannot be kept. If it is lost, that is reported.
    fn rescue(&mut self, key: &ParsedInternalKey<'_>, index: &BlobIndex) -> Result<Rescued> {
        let blobs = self.repair.blob_files.get(&index.file);
        let Some(blobs) = blobs.filter(|blobs| blobs.damage.is_some()) else {
            return Ok(Rescued::NotNeeded);
        };
        match blobs.rescue(key.user_key, index) {
            Ok(value) => Ok(Rescued::Value(value)),
            Err(e) if e.kind() == ErrorKind::Io || e.lacks_codec() => Err(e),
            Err(e) => {
                self.lost(key, index, &e);
                Ok(Rescued::Lost)
            }
        }
    }

    /// Reports a lost value, together with the previous one if that was lost too.
    fn lost(&mut self, key: &ParsedInternalKey<'_>, index: &BlobIndex, error: &Error) {
        let file = FileKind::Blob(index.file).name();
        let full = self.losses.len() >= MAX_LOSSES;
        if let Some(last) = self.losses.last_mut()
            && (full || (self.running && last.file == file))
        {
            last.to = Some(key.user_key.to_vec());
            last.entries = last.entries.map(|n| n + 1);
            (last.offset, last.size) = (None, None);
            last.sequences = last
                .sequences
                .map(|(a, b)| (a.min(key.sequence.0), b.max(key.sequence.0)));
        } else {
            let record = index.record_len(key.user_key.len());
            self.losses.push(Loss {
                offset: (index.offset + index.size).checked_sub(record),
                size: Some(record),
                family: Some(self.family.name.clone()),
                from: Some(key.user_key.to_vec()),
                to: Some(key.user_key.to_vec()),
                sequences: Some((key.sequence.0, key.sequence.0)),
                entries: Some(1),
                ..Loss::of_file(&file, format!("values are gone: {}", error.message()))
            });
        }
        self.running = true;
    }
}
