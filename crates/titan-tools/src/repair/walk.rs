//! Collects the facts about a table while it is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use titan::internals::collector::CollectedReport;
use titan::internals::format::{
    BlobRefs, InternalKeyComparator, KeyText, ParsedInternalKey, RangeTombstone, ValueType,
    each_pointer,
};
use titan::internals::table::{TableReader, TableVisitor, bounds};
use titan::internals::version::{NewFile, TableFacts};
use titan::{BlobFileNumber, Error, FileNumber, Result, SequenceNumber};

use super::table::Table;
use crate::forensics::salvage::Salvage;
use crate::pointers::FileReferences;

/// Collects the facts about a table.
pub(super) struct Walk<'w> {
    order: &'w InternalKeyComparator,
    recorded: Option<&'w NewFile>,
    as_recorded: bool,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    smallest_seq: SequenceNumber,
    largest_seq: SequenceNumber,
    files: BTreeMap<BlobFileNumber, FileReferences>,
    damage: Option<Error>,
    /// Content of another version: what cannot be understood must not be taken for lost.
    unsupported: Option<Error>,
    deletions: u64,
    entries: u64,
    raw_key_size: u64,
    raw_value_size: u64,
}

impl TableVisitor for Walk<'_> {
    fn entry(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], value: &[u8], _: u64) {
        self.add(key, ikey, value);
    }

    fn damage(&mut self, error: Error) {
        self.damage.get_or_insert(error);
    }
}

impl<'w> Walk<'w> {
    /// `recorded` is the table as MANIFESTs describe it, if they do.
    pub(super) fn new(order: &'w InternalKeyComparator, recorded: Option<&'w NewFile>) -> Self {
        Walk {
            order,
            recorded,
            as_recorded: true,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seq: SequenceNumber::MAX,
            largest_seq: SequenceNumber::ZERO,
            files: BTreeMap::new(),
            damage: None,
            unsupported: None,
            deletions: 0,
            entries: 0,
            raw_key_size: 0,
            raw_value_size: 0,
        }
    }

    /// Reads all of a table, or what can be salvaged of a damaged one.
    ///
    /// # Errors
    /// Failures to read; `Unsupported` for entries that are not understood. Damage is no error.
    pub(super) fn read(
        &mut self,
        opened: Result<Arc<TableReader>>,
        salvage: &Salvage,
    ) -> Result<()> {
        match opened {
            Ok(reader) => {
                reader.verify(self);
            }
            // A feature that salvaging did not find is damage: the footer has no checksum.
            Err(e) if e.is_unreadable() => {
                self.damage = Some(e);
            }
            Err(e) => return Err(e),
        }
        if let Some(damage) = self.damage.take() {
            self.restart();
            salvage.entries(self.order, &mut |ikey, value| {
                self.add(ParsedInternalKey::parse(ikey)?, ikey, value);
                Ok(())
            })?;
            self.damage = Some(damage);
        }
        self.unsupported.take().map_or(Ok(()), Err)
    }

    fn add(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], value: &[u8]) {
        if let Some(recorded) = self.recorded {
            self.as_recorded &= self.order.compare(&recorded.smallest, ikey).is_le()
                && self.order.compare(ikey, &recorded.largest).is_le()
                && recorded.may_have(key.sequence);
        }
        if self.entries == 0 {
            self.smallest = ikey.to_vec();
        }
        self.largest.clear();
        self.largest.extend_from_slice(ikey);
        self.smallest_seq = self.smallest_seq.min(key.sequence);
        self.largest_seq = self.largest_seq.max(key.sequence);
        self.entries += 1;
        self.raw_key_size += ikey.len() as u64;
        self.raw_value_size += value.len() as u64;
        match key.value_type {
            ValueType::Deletion | ValueType::SingleDeletion => self.deletions += 1,
            _ => {}
        }
        let pointers = each_pointer(key.value_type, value, |index| {
            let file = self.files.entry(index.file).or_default();
            file.add(key.user_key, &index, 0);
            Ok(())
        });
        if let Err(e) = pointers.map_err(|e| e.context(KeyText(key.user_key))) {
            match e.is_corruption() {
                true => self.damage.get_or_insert(e),
                false => self.unsupported.get_or_insert(e),
            };
        }
    }

    /// Discards what was collected before the damage was found.
    fn restart(&mut self) {
        self.smallest.clear();
        self.largest.clear();
        (self.smallest_seq, self.largest_seq) = (SequenceNumber::MAX, SequenceNumber::ZERO);
        self.files.clear();
        (self.deletions, self.entries) = (0, 0);
        (self.raw_key_size, self.raw_value_size) = (0, 0);
    }

    /// The table, as far as its own contents describe it.
    pub(super) fn table(
        mut self,
        number: FileNumber,
        size: u64,
        tombstones: &[RangeTombstone],
    ) -> Table {
        for tombstone in tombstones {
            self.smallest_seq = self.smallest_seq.min(tombstone.sequence);
            self.largest_seq = self.largest_seq.max(tombstone.sequence);
            if let Some(recorded) = self.recorded {
                self.as_recorded &= recorded.may_have(tombstone.sequence);
            }
            self.raw_key_size += (tombstone.start.len() + 8) as u64;
            self.raw_value_size += tombstone.end.len() as u64;
        }
        let points = (self.smallest, self.largest);
        let (smallest, largest) = bounds(points, tombstones, self.order);
        let blob_refs = self.files.iter().map(|(file, references)| {
            let (count, bytes) = references.totals();
            let file = *file;
            BlobRefs { file, count, bytes }
        });
        Table {
            record_facts: true,
            facts: TableFacts {
                table: number,
                num_entries: self.entries,
                num_deletions: self.deletions,
                num_range_deletions: tombstones.len() as u64,
                num_shadowed: 0,
                raw_key_bytes: self.raw_key_size,
                raw_value_bytes: self.raw_value_size,
                shadowed_bytes: 0,
                blob_refs: blob_refs.collect(),
                collected: CollectedReport::default(),
                foreign: false,
            },
            meta: NewFile {
                number,
                size,
                smallest,
                largest,
                smallest_seq: self.smallest_seq,
                largest_seq: self.largest_seq,
                oldest_blob_file: self.files.keys().next().copied(),
                ..NewFile::default()
            },
            family: None,
            family_name: None,
            foreign: false,
            comparator: self.order.clone(),
            entries: self.entries,
            damage: self.damage,
            as_recorded: self.as_recorded,
            files: self.files,
            db_id: None,
        }
    }
}
