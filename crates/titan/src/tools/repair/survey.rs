//! Reading every table, whole or not: what it holds, what it refers to, what is wrong with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Repair;
use super::hint::HintedTable;
use crate::cache::BlockCache;
use crate::error::{Error, ErrorKind, Result};
use crate::format::blob_index::{BlobIndex, BlobRefs};
use crate::format::file_name::FileKind;
use crate::format::internal_key::{InternalKeyComparator, ParsedInternalKey, ValueType};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::{BlobFileNumber, ColumnFamilyId, FileNumber, SequenceNumber};
use crate::table::writer::bounds;
use crate::table::{
    LostPart, Salvage, TableIdentity, TableProperties, TableReader, TableReaderOptions,
    TableVisitor,
};
use crate::tools::pointers::FileReferences;
use crate::version::choose_comparator;
use crate::version::edit::{NewFile, TableFacts};
use crate::vfs::Access;

/// A table that is there.
pub(super) struct Table {
    pub(super) meta: NewFile,
    pub(super) facts: TableFacts,
    /// Whether the MANIFEST is to have the facts. Not those of a table of RocksDB with other bounds
    /// than its content, whose range deletions may reach beyond them: only tables without facts may
    /// be so.
    pub(super) record_facts: bool,
    /// Unknown where neither a MANIFEST nor the table says it.
    pub(super) family: Option<ColumnFamilyId>,
    pub(super) family_name: Option<String>,
    pub(super) comparator: InternalKeyComparator,
    pub(super) entries: u64,
    /// What is wrong with it, if anything is: the first of it.
    pub(super) damage: Option<Error>,
    /// Whether it can be the table that the MANIFEST describes.
    pub(super) as_recorded: bool,
    /// What it refers to.
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
}

impl Repair<'_> {
    /// Reads a table of the database; `None` if it is not there.
    ///
    /// # Errors
    /// Failures to read; features and comparators that are not supported. Damage is no error.
    pub(super) fn survey(
        &mut self,
        number: FileNumber,
        hinted: Option<&HintedTable>,
    ) -> Result<Option<Table>> {
        let kind = FileKind::Table(number);
        let path = kind.path(self.dir);
        let file = match self.vfs.open(&path, Access::Sequential) {
            Ok(file) => file,
            Err(e) if e.is_not_found() => return Ok(None),
            Err(e) => return Err(e),
        };
        let size = file.size()?;
        let salvage = self.salvage(number, hinted)?;
        let displaced = hinted.is_some_and(|hinted| is_another(&salvage, &hinted.meta));
        let hinted = hinted.filter(|_| !displaced);
        let comparator = self.comparator_of(hinted, &salvage)?;
        let mut walk = Walk {
            order: &comparator,
            recorded: hinted.map(|hinted| &hinted.meta),
            as_recorded: !displaced,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seq: SequenceNumber::MAX,
            largest_seq: SequenceNumber::ZERO,
            files: BTreeMap::new(),
            damage: None,
            deletions: 0,
            entries: 0,
            raw_key_size: 0,
            raw_value_size: 0,
        };
        let options = TableReaderOptions {
            // Which table it is was told already.
            identity: TableIdentity {
                number,
                size: hinted.map_or(size, |hinted| hinted.meta.size),
                largest_seq: hinted.map(|hinted| hinted.meta.largest_seq),
                unique_id: None,
            },
            comparator: comparator.clone(),
            block_cache: Arc::new(BlockCache::new(0)),
        };
        match TableReader::open(file, &path, options) {
            Ok(reader) => {
                reader.verify(&mut walk);
            }
            // A feature that salvaging did not meet is damage: the footer has no checksum.
            Err(e) if e.is_corruption() || e.kind() == ErrorKind::Unsupported => {
                walk.damage = Some(e);
            }
            Err(e) => return Err(e),
        }
        if let Some(damage) = walk.damage.take() {
            walk.restart();
            salvage.entries(&comparator, &mut |ikey, value| {
                walk.add(ParsedInternalKey::parse(ikey)?, ikey, value);
                Ok(())
            })?;
            walk.damage = Some(damage);
        }
        self.tell(kind, size);
        let properties = salvage.properties();
        let id = properties.and_then(|p| p.column_family_id);
        let mut table = walk.table(number, size, salvage.range_tombstones());
        table.meta.unique_id = properties.and_then(TableProperties::unique_id);
        table.family_name = properties.and_then(|p| p.column_family_name());
        table.db_id = properties.and_then(|p| p.db_id());
        // Bounds that do not hold are another table's: then only what the file says counts.
        let hinted = hinted.filter(|_| table.as_recorded);
        table.family = hinted.map(|hinted| hinted.family).or(id);
        if let Some(hinted) = hinted {
            let scanned = std::mem::replace(&mut table.meta, hinted.meta.clone());
            table.meta.oldest_blob_file = scanned.oldest_blob_file;
            table.meta.unique_id = scanned.unique_id;
            let bounds = |meta: &NewFile| {
                let sequences = (meta.smallest_seq, meta.largest_seq);
                (meta.smallest.clone(), meta.largest.clone(), sequences)
            };
            let exact = bounds(&scanned) == bounds(&table.meta);
            if hinted.facts.is_none() {
                table.record_facts = exact;
            } else if !exact && table.damage.is_none() {
                (table.meta, table.as_recorded) = (scanned, false);
            }
        }
        Ok(Some(table))
    }

    /// Opens a table, whatever is left of it.
    pub(super) fn salvage(
        &self,
        number: FileNumber,
        hinted: Option<&HintedTable>,
    ) -> Result<Salvage> {
        let path = FileKind::Table(number).path(self.dir);
        let file = self.vfs.open(&path, Access::Sequential)?;
        let largest_seq = hinted.map(|hinted| hinted.meta.largest_seq);
        Salvage::open(
            file,
            &path,
            &|properties| {
                let recorded = properties.and_then(|p| p.comparator.as_deref());
                let id = properties.and_then(|p| p.column_family_id);
                let name = properties.and_then(|p| p.column_family_name());
                self.comparator(hinted.map(|h| h.family).or(id), name, recorded)
            },
            largest_seq,
        )
    }

    fn comparator_of(
        &self,
        hinted: Option<&HintedTable>,
        salvage: &Salvage,
    ) -> Result<InternalKeyComparator> {
        let properties = salvage.properties();
        let id = properties.and_then(|p| p.column_family_id);
        let name = properties.and_then(|p| p.column_family_name());
        let recorded = properties.and_then(|p| p.comparator.as_deref());
        self.comparator(hinted.map(|h| h.family).or(id), name, recorded)
    }

    /// The order of a family's keys: as a MANIFEST names it, else as the table does, else the one
    /// that the options have.
    pub(super) fn comparator(
        &self,
        id: Option<ColumnFamilyId>,
        name: Option<String>,
        recorded: Option<&str>,
    ) -> Result<InternalKeyComparator> {
        let hinted = id.and_then(|id| self.hint.families.get(&id));
        let name = hinted
            .map(|family| family.name.clone())
            .or(name)
            .unwrap_or_else(|| "default".to_owned());
        let given = &self.options.family(&name).comparator;
        let recorded = hinted.and_then(|f| f.comparator.as_deref()).or(recorded);
        let user = match recorded {
            Some(recorded) => choose_comparator(&name, recorded, given)?,
            None => Arc::clone(given),
        };
        Ok(InternalKeyComparator::new(user))
    }
}

/// Whether the file is another table than the MANIFEST says, and not just damaged.
fn is_another(salvage: &Salvage, meta: &NewFile) -> bool {
    let found = salvage.properties().and_then(TableProperties::unique_id);
    meta.unique_id.is_some() && found.is_some() && found != meta.unique_id
}

/// Gathers what a table holds.
struct Walk<'w> {
    order: &'w InternalKeyComparator,
    recorded: Option<&'w NewFile>,
    as_recorded: bool,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    smallest_seq: SequenceNumber,
    largest_seq: SequenceNumber,
    files: BTreeMap<BlobFileNumber, FileReferences>,
    damage: Option<Error>,
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

impl Walk<'_> {
    fn add(&mut self, key: ParsedInternalKey<'_>, ikey: &[u8], value: &[u8]) {
        if let Some(recorded) = self.recorded {
            self.as_recorded &= self.order.compare(&recorded.smallest, ikey).is_le()
                && self.order.compare(ikey, &recorded.largest).is_le()
                && (recorded.smallest_seq..=recorded.largest_seq).contains(&key.sequence);
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
            ValueType::BlobIndex => {
                if let Ok(index) = BlobIndex::decode(value) {
                    let file = self.files.entry(index.file).or_default();
                    file.add(key.user_key, &index, 0);
                }
            }
            _ => {}
        }
    }

    /// Forgets what was gathered up to damage.
    fn restart(&mut self) {
        self.smallest.clear();
        self.largest.clear();
        (self.smallest_seq, self.largest_seq) = (SequenceNumber::MAX, SequenceNumber::ZERO);
        self.files.clear();
        (self.deletions, self.entries) = (0, 0);
        (self.raw_key_size, self.raw_value_size) = (0, 0);
    }

    fn table(mut self, number: FileNumber, size: u64, tombstones: &[RangeTombstone]) -> Table {
        for tombstone in tombstones {
            self.smallest_seq = self.smallest_seq.min(tombstone.sequence);
            self.largest_seq = self.largest_seq.max(tombstone.sequence);
            if let Some(recorded) = self.recorded {
                let sequences = recorded.smallest_seq..=recorded.largest_seq;
                self.as_recorded &= sequences.contains(&tombstone.sequence);
            }
            self.raw_key_size += (tombstone.start.len() + 8) as u64;
            self.raw_value_size += tombstone.end.len() as u64;
        }
        let points = (self.smallest, self.largest);
        let (smallest, largest) = bounds(points, tombstones, self.order);
        let blob_refs = self.files.iter().map(|(file, references)| BlobRefs {
            file: *file,
            count: references.pointers.len() as u64,
            bytes: references
                .pointers
                .iter()
                .fold(0, |sum: u64, p| sum.saturating_add(p.record_len())),
        });
        Table {
            record_facts: true,
            facts: TableFacts {
                table: number,
                num_entries: self.entries,
                num_deletions: self.deletions,
                num_range_deletions: tombstones.len() as u64,
                raw_key_bytes: self.raw_key_size,
                raw_value_bytes: self.raw_value_size,
                shadowed_bytes: 0,
                blob_refs: blob_refs.collect(),
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
            comparator: self.order.clone(),
            entries: self.entries,
            damage: self.damage,
            as_recorded: self.as_recorded,
            files: self.files,
            db_id: None,
        }
    }
}

/// A part of a table that was lost, with its place and, where the index does not bound the keys,
/// those of the table.
pub(super) fn lost_keys(
    part: &LostPart,
    meta: Option<&NewFile>,
) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let user_key = |ikey: &Vec<u8>| crate::format::internal_key::user_key(ikey).to_vec();
    (
        part.from.clone().or(meta.map(|m| user_key(&m.smallest))),
        part.to.clone().or(meta.map(|m| user_key(&m.largest))),
    )
}
