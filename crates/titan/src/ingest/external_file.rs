//! The facts that a file made elsewhere states of itself, and the files that are refused.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use crate::block_cache::BlockCache;
use crate::collector::CollectedReport;
use crate::error::{Error, ErrorKind, Result};
use crate::format::internal_key::{
    InternalKeyComparator, ParsedInternalKey, ValueType, internal_key, pack, trailer, user_key,
};
use crate::format::range_tombstone::RangeTombstone;
use crate::format::unique_id::UniqueId;
use crate::format::{ColumnFamilyId, FileNumber, SequenceNumber};
use crate::iterator::InternalIterator;
use crate::table::properties::{EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE, TableProperties};
use crate::table::writer::bounds;
use crate::table::{
    TableCheck, TableIdentity, TableIterOptions, TableReader, TableReaderOptions, TableVisitor,
};
use crate::version::edit::{NewFile, TableFacts};
use crate::vfs::{Access, Vfs};

/// The family that is to have a file.
#[derive(Clone, Copy)]
pub(crate) struct ForFamily<'a> {
    pub(crate) id: ColumnFamilyId,
    pub(crate) name: &'a str,
    pub(crate) comparator: &'a InternalKeyComparator,
    pub(crate) takes_merges: bool,
}

/// A file that can be ingested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExternalFile {
    /// Bytes.
    pub(crate) size: u64,
    /// Internal keys with the sequence number 0.
    smallest: Vec<u8>,
    largest: Vec<u8>,
    unique_id: Option<UniqueId>,
    /// Without the number of the table.
    facts: TableFacts,
}

impl ExternalFile {
    /// Reads the ends of a file. Cost: a few reads.
    ///
    /// # Errors
    /// `InvalidArgument` for a table that was not made for ingestion, has a sequence number
    /// already, is empty, or of another family; `InvalidOption` for another order of keys;
    /// `Unsupported` for one that cannot be read; `Corruption`; `NotFound`; `Io`.
    pub(crate) fn read(vfs: &dyn Vfs, path: &Path, family: ForFamily<'_>) -> Result<Self> {
        let (table, size) = open(vfs, path, family.comparator)?;
        let found = Self::of(&table, size, family);
        found.map_err(|e| e.in_file(path))
    }

    fn of(table: &Arc<TableReader>, size: u64, family: ForFamily<'_>) -> Result<Self> {
        let properties = table.properties();
        refuse(properties, family)?;
        let mut entries = table.iter(TableIterOptions {
            fill_cache: false,
            readahead: 0,
        });
        let mut ends = (Vec::new(), Vec::new());
        entries.seek_to_first()?;
        if entries.valid() {
            ParsedInternalKey::parse(entries.key())?;
            ends.0 = entries.key().to_vec();
            entries.seek_to_last()?;
            ParsedInternalKey::parse(entries.key())?;
            ends.1 = entries.key().to_vec();
        }
        let order = family.comparator;
        if !ends.0.is_empty() && order.compare(&ends.0, &ends.1).is_gt() {
            return Err(Error::corruption("the last key comes before the first"));
        }
        let tombstones = table.range_tombstones();
        let is_real = |t: &RangeTombstone| order.compare_user(&t.start, &t.end).is_lt();
        if !tombstones.iter().all(is_real) {
            return Err(Error::corruption("a range deletion ends before it starts"));
        }
        let (smallest, largest) = bounds(ends, tombstones, order);
        if smallest.is_empty() {
            return Err(Error::invalid_argument("the file has no entries"));
        }
        // All deletions, those of ranges too.
        let deletions = properties.num_deletions;
        Ok(ExternalFile {
            size,
            smallest,
            largest,
            unique_id: properties.unique_id(),
            facts: TableFacts {
                table: FileNumber(0),
                num_entries: properties.points(),
                num_deletions: deletions.saturating_sub(properties.num_range_deletions),
                num_range_deletions: tombstones.len() as u64,
                raw_key_bytes: properties.raw_key_size,
                raw_value_bytes: properties.raw_value_size,
                shadowed_bytes: 0,
                num_shadowed: 0,
                blob_refs: Vec::new(),
                // A table that is not certain to be Titan's own is asked itself.
                collected: CollectedReport::default(),
                foreign: true,
            },
        })
    }

    /// The first user key of the file.
    pub(crate) fn begin(&self) -> &[u8] {
        user_key(&self.smallest)
    }

    /// The end of its keys.
    pub(crate) fn end(&self) -> Bound<&[u8]> {
        let last = user_key(&self.largest);
        match trailer(&self.largest) == end_of_tombstone() {
            true => Bound::Excluded(last),
            false => Bound::Included(last),
        }
    }

    /// Record of the file as a table of the database; `now` is in seconds since 1970.
    pub(crate) fn as_table(
        &self,
        number: FileNumber,
        sequence: SequenceNumber,
        now: u64,
    ) -> NewFile {
        NewFile {
            number,
            size: self.size,
            smallest: with_sequence(&self.smallest, sequence),
            largest: with_sequence(&self.largest, sequence),
            smallest_seq: sequence,
            largest_seq: sequence,
            oldest_blob_file: self.facts.blob_refs.first().map(|refs| refs.file),
            unique_id: self.unique_id,
            // Its entries are as old as their ingestion, for readers and for compaction filters.
            oldest_ancester_time: now,
            file_creation_time: now,
            ..NewFile::default()
        }
    }

    /// Facts about it as a table of the database.
    pub(crate) fn facts(&self, number: FileNumber) -> TableFacts {
        TableFacts {
            table: number,
            ..self.facts.clone()
        }
    }
}

/// Opens a file whose number nobody knows. Also returns its size.
pub(crate) fn open(
    vfs: &dyn Vfs,
    path: &Path,
    comparator: &InternalKeyComparator,
) -> Result<(Arc<TableReader>, u64)> {
    let file = vfs.open(path, Access::Sequential)?;
    let size = file.size().map_err(|e| e.in_file(path))?;
    let options = TableReaderOptions {
        identity: TableIdentity {
            number: FileNumber(0),
            size,
            largest_seq: None,
            unique_id: None,
        },
        comparator: comparator.clone(),
        // For this file alone: no block of it is kept.
        block_cache: Arc::new(BlockCache::new(0)),
    };
    Ok((TableReader::open(file, path, options)?, size))
}

/// Reads and checks all of a file, which the caller knows as `given`.
///
/// # Errors
/// `Corruption` with the first damage; `InvalidArgument` for pointers to values elsewhere.
pub(crate) fn verify(
    vfs: &dyn Vfs,
    path: &Path,
    given: &Path,
    comparator: &InternalKeyComparator,
) -> Result<()> {
    let mut found = FirstDamage(None);
    let (table, _) = open(vfs, path, comparator)?;
    let check: TableCheck = table.verify(&mut found);
    let named = |e: Error| e.context(format!("checking {}", given.display()));
    match found.0 {
        Some(error) => Err(named(error)),
        None if !check.blob_refs.is_empty() => Err(points_elsewhere().in_file(given)),
        None => Ok(()),
    }
}

struct FirstDamage(Option<Error>);

impl TableVisitor for FirstDamage {
    fn entry(&mut self, _: ParsedInternalKey<'_>, _: &[u8], _: &[u8], _: u64) {}

    fn damage(&mut self, error: Error) {
        self.0.get_or_insert(error);
    }
}

/// The error for a file with pointers to blob files.
pub(crate) fn points_elsewhere() -> Error {
    Error::invalid_argument("the file points to values in blob files, which it does not bring")
}

fn refuse(properties: &TableProperties, family: ForFamily<'_>) -> Result<()> {
    match properties.external_version {
        EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE => {}
        0 => {
            let text = "the table was not made for ingestion: write it with an SstFileWriter";
            return Err(Error::invalid_argument(text));
        }
        other => {
            let text = format!("a file for ingestion of version {other}; only version 2 is read");
            return Err(Error::unsupported(text));
        }
    }
    if let Some(sequence) = properties.global_sequence
        && sequence > SequenceNumber::ZERO
    {
        let text = format!(
            "the file has the sequence number {sequence} of an earlier ingestion, which wrote into \
             it"
        );
        return Err(Error::invalid_argument(text));
    }
    if properties.comparator.is_none() {
        let text = "the file does not name the order of its keys";
        return Err(Error::new(ErrorKind::InvalidOption, text));
    }
    if properties.liveness.is_some() {
        return Err(points_elsewhere());
    }
    let name = properties.column_family_name();
    let is_other = match (&name, properties.column_family_id) {
        (Some(name), _) => name != family.name,
        (None, Some(id)) => id != family.id,
        (None, None) => false,
    };
    if is_other {
        let made_for = match (name, properties.column_family_id) {
            (Some(name), _) => name,
            (None, id) => id.map_or_else(String::new, |id| format!("number {id}")),
        };
        let text = format!(
            "the file was made for column family {made_for}, not for {}",
            family.name
        );
        return Err(Error::invalid_argument(text));
    }
    if properties.num_merge_operands > 0 && !family.takes_merges {
        let text = format!(
            "the file has merge operands, and column family {} has no merge operator",
            family.name
        );
        return Err(Error::invalid_argument(text));
    }
    Ok(())
}

/// The trailer of the largest key of a table that ends with a range tombstone.
fn end_of_tombstone() -> u64 {
    pack(SequenceNumber::MAX, ValueType::RangeDeletion as u8)
}

/// An internal key with another sequence number; the end of a range tombstone stays.
fn with_sequence(ikey: &[u8], sequence: SequenceNumber) -> Vec<u8> {
    let stored = trailer(ikey);
    match stored == end_of_tombstone() {
        true => ikey.to_vec(),
        false => internal_key(user_key(ikey), sequence, stored as u8),
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::format::blob_index::BlobIndex;
    use crate::format::{BlobFileNumber, BytewiseComparator, CompressionType};
    use crate::table::{TableFamily, TableWriter, TableWriterOptions};
    use crate::vfs::MemoryVfs;

    const PATH: &str = "/made.sst";

    /// A table for ingestion with one entry.
    fn made(vfs: &MemoryVfs, value_type: ValueType, value: &[u8]) -> InternalKeyComparator {
        let order = InternalKeyComparator::new(Arc::new(BytewiseComparator));
        let options = TableWriterOptions {
            comparator: order.clone(),
            block_size: 4096,
            restart_interval: 16,
            bloom_bits_per_key: 10.0,
            prefix_extractor: None,
            compression: CompressionType::None,
            family: TableFamily {
                id: ColumnFamilyId(0),
                name: String::new(),
                merge_operator: None,
            },
            db_id: "db".to_owned(),
            db_session_id: "ABCDEFGHIJKLMNOPQRST".to_owned(),
            file_number: FileNumber(1),
            creation_time: 0,
        };
        let file = vfs.create(Path::new(PATH)).unwrap();
        let mut table = TableWriter::new(file, Path::new(PATH), options);
        table.make_external();
        let key = internal_key(b"k", SequenceNumber::ZERO, value_type as u8);
        table.add(&key, value).unwrap();
        table.finish().unwrap();
        order
    }

    fn read(vfs: &MemoryVfs, order: &InternalKeyComparator) -> Result<ExternalFile> {
        let family = ForFamily {
            id: ColumnFamilyId(0),
            name: "default",
            comparator: order,
            takes_merges: false,
        };
        ExternalFile::read(vfs, Path::new(PATH), family)
    }

    #[test]
    fn pointers_to_values_elsewhere_are_refused() {
        let vfs = MemoryVfs::default();
        let order = made(&vfs, ValueType::Value, b"v");
        let path = Path::new(PATH);
        read(&vfs, &order).unwrap();
        verify(&vfs, path, path, &order).unwrap();
        let mut pointer = Vec::new();
        let index = BlobIndex {
            file: BlobFileNumber(7),
            offset: 100,
            size: 10,
            compression: CompressionType::None,
        };
        index.encode(&mut pointer);
        let order = made(&vfs, ValueType::BlobIndex, &pointer);
        // RocksDB's writer would not say so in a property.
        for refused in [
            read(&vfs, &order).map(drop).unwrap_err(),
            verify(&vfs, path, path, &order).unwrap_err(),
        ] {
            assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
            assert!(refused.message().contains("blob files"), "{refused}");
        }
    }

    #[test]
    fn the_sequence_number_of_an_ingestion_replaces_that_of_the_file() {
        let vfs = MemoryVfs::default();
        let order = made(&vfs, ValueType::Deletion, b"");
        let file = read(&vfs, &order).unwrap();
        let table = file.as_table(FileNumber(9), SequenceNumber(5), 1000);
        assert_eq!((table.smallest_seq.0, table.largest_seq.0), (5, 5));
        let key = internal_key(b"k", SequenceNumber(5), ValueType::Deletion as u8);
        assert_eq!((&table.smallest, &table.largest), (&key, &key));
        assert_eq!(file.end(), Bound::Included(&b"k"[..]));
        let facts = file.facts(FileNumber(9));
        assert_eq!((facts.num_entries, facts.num_deletions), (1, 1));
    }
}
