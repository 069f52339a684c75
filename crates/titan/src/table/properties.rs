//! The properties block: the facts that a table states about itself, by name.
//!
//! Entries sorted by name, delta-coded, one restart point. Numbers are varints except for the three
//! fixed-width ones below. Unknown names are kept and otherwise ignored. RocksDB does the same, so
//! it accepts the private `titan.*` ones.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;

use crate::collector::CollectedReport;
use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::format::sequence_times::SequenceTimes;
use crate::format::unique_id::{UniqueId, unique_id};
use crate::format::{ColumnFamilyId, CompressionType, FileNumber, SequenceNumber};
use crate::table::block::Block;
use crate::table::block::builder::BlockBuilder;
use crate::table::block::iter::BlockIter;
use crate::table::footer::BlockHandle;
use crate::table::index::IndexType;

/// The names in the file.
pub(super) mod name {
    pub(crate) const INDEX_TYPE: &str = "rocksdb.block.based.table.index.type";
    pub(crate) const PREFIX_FILTERING: &str = "rocksdb.block.based.table.prefix.filtering";
    pub(crate) const WHOLE_KEY_FILTERING: &str = "rocksdb.block.based.table.whole.key.filtering";
    pub(crate) const COLUMN_FAMILY_ID: &str = "rocksdb.column.family.id";
    pub(crate) const COLUMN_FAMILY_NAME: &str = "rocksdb.column.family.name";
    pub(crate) const COMPARATOR: &str = "rocksdb.comparator";
    pub(crate) const COMPRESSION: &str = "rocksdb.compression";
    pub(crate) const COMPRESSION_OPTIONS: &str = "rocksdb.compression_options";
    pub(crate) const DB_ID: &str = "rocksdb.creating.db.identity";
    pub(crate) const HOST_ID: &str = "rocksdb.creating.host.identity";
    pub(crate) const DB_SESSION_ID: &str = "rocksdb.creating.session.identity";
    pub(crate) const CREATION_TIME: &str = "rocksdb.creation.time";
    pub(crate) const DATA_SIZE: &str = "rocksdb.data.size";
    pub(crate) const DELETED_KEYS: &str = "rocksdb.deleted.keys";
    pub(crate) const EXTERNAL_VERSION: &str = "rocksdb.external_sst_file.version";
    pub(crate) const GLOBAL_SEQUENCE: &str = "rocksdb.external_sst_file.global_seqno";
    pub(crate) const FILE_CREATION_TIME: &str = "rocksdb.file.creation.time";
    pub(crate) const FILTER_POLICY: &str = "rocksdb.filter.policy";
    pub(crate) const FILTER_SIZE: &str = "rocksdb.filter.size";
    pub(crate) const FIXED_KEY_LEN: &str = "rocksdb.fixed.key.length";
    pub(crate) const FORMAT_VERSION: &str = "rocksdb.format.version";
    pub(crate) const INDEX_KEY_IS_USER_KEY: &str = "rocksdb.index.key.is.user.key";
    pub(crate) const INDEX_SIZE: &str = "rocksdb.index.size";
    pub(crate) const INDEX_DELTA_ENCODED: &str = "rocksdb.index.value.is.delta.encoded";
    pub(crate) const MERGE_OPERANDS: &str = "rocksdb.merge.operands";
    pub(crate) const MERGE_OPERATOR: &str = "rocksdb.merge.operator";
    pub(crate) const NUM_DATA_BLOCKS: &str = "rocksdb.num.data.blocks";
    pub(crate) const NUM_ENTRIES: &str = "rocksdb.num.entries";
    pub(crate) const NUM_FILTER_ENTRIES: &str = "rocksdb.num.filter_entries";
    pub(crate) const NUM_RANGE_DELETIONS: &str = "rocksdb.num.range-deletions";
    pub(crate) const OLDEST_KEY_TIME: &str = "rocksdb.oldest.key.time";
    pub(crate) const ORIGINAL_FILE_NUMBER: &str = "rocksdb.original.file.number";
    pub(crate) const PREFIX_EXTRACTOR: &str = "rocksdb.prefix.extractor.name";
    pub(crate) const COLLECTORS: &str = "rocksdb.property.collectors";
    pub(crate) const RAW_KEY_SIZE: &str = "rocksdb.raw.key.size";
    pub(crate) const RAW_VALUE_SIZE: &str = "rocksdb.raw.value.size";
    /// See [`SequenceTimes`](crate::format::sequence_times::SequenceTimes).
    pub(crate) const SEQUENCE_TIMES: &str = "rocksdb.seqno.time.map";
    /// Written by RocksDB 11 if an index of the application is to be used instead of its own.
    pub(crate) const USER_INDEX_IS_PRIMARY: &str = "rocksdb.udi.is.primary.index";
    /// Written by RocksDB 11 if the table has embedded blobs.
    pub(crate) const EMBEDDED_BLOBS: &str = "rocksdb.embedded.blob.stats";
    /// The handle of the liveness block, and the totals to which its contents must add up.
    pub(crate) const LIVENESS: &str = "titan.liveness";
    pub(crate) const LIVENESS_COUNT: &str = "titan.liveness.count";
    pub(crate) const LIVENESS_BYTES: &str = "titan.liveness.bytes";
    /// See [`CollectedReport`](crate::collector::CollectedReport).
    pub(crate) const GARBAGE: &str = "titan.garbage";
}

/// The version of files made for ingestion that has a global sequence number.
pub(crate) const EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE: u32 = 2;

/// The first format version whose index normally is delta-coded and has user keys. Assumed where
/// the properties, which say so, are damaged.
pub const DELTA_ENCODED_SINCE: u32 = 4;

/// The position of the liveness block, and the totals to which it adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessProperty {
    pub handle: BlockHandle,
    pub(super) count: u64,
    pub(super) bytes: u64,
}

/// A table's properties. Sizes are in bytes; a number that the file leaves out is 0.
#[derive(Clone, Debug)]
pub struct TableProperties {
    /// Entries: points and range tombstones.
    pub(crate) num_entries: u64,
    /// Deletions of every kind, range tombstones included.
    pub(crate) num_deletions: u64,
    pub num_range_deletions: u64,
    pub(crate) num_merge_operands: u64,
    pub(crate) num_data_blocks: u64,
    /// Internal keys, uncompressed; range tombstones included.
    pub(crate) raw_key_size: u64,
    pub(crate) raw_value_size: u64,
    pub column_family_id: Option<ColumnFamilyId>,
    /// Name of the comparator of user keys; `None` in very old files.
    pub comparator: Option<String>,
    /// 2 for files made for ingestion, whose sequence number is global.
    pub(crate) external_version: u32,
    /// The sequence number of every entry of an ingested file, if written into it.
    pub global_sequence: Option<SequenceNumber>,
    pub index_type: IndexType,
    pub index_user_keys: bool,
    pub index_delta_encoded: bool,
    pub(super) whole_key_filtering: bool,
    /// The name of the extractor whose prefixes the filter has.
    pub(super) prefix_extractor: Option<String>,
    pub liveness: Option<LivenessProperty>,
    /// All of them, as stored.
    pub(crate) all: BTreeMap<Bytes, Bytes>,
}

/// Number of entries of a table, range tombstones left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryCounts {
    pub(crate) entries: u64,
    /// Deletions and single deletions among them.
    pub(crate) deletions: u64,
}

impl TableProperties {
    /// Reads a properties block. Also returns where in the block the 8 bytes of the global sequence
    /// number are, because RocksDB rewrites them in place when it ingests a file.
    pub fn decode(data: Bytes) -> Result<(Self, Option<usize>)> {
        let mut all = BTreeMap::new();
        let mut global_at = None;
        let mut iter = BlockIter::over(Block::new(data)?);
        iter.seek_to_first()?;
        while iter.valid() {
            if iter.key() == name::GLOBAL_SEQUENCE.as_bytes() && iter.value().len() == 8 {
                global_at = Some(iter.value_range().start);
            }
            all.insert(Bytes::copy_from_slice(iter.key()), iter.value_bytes());
            iter.next()?;
        }
        Ok((Self::from_map(all)?, global_at))
    }

    fn from_map(all: BTreeMap<Bytes, Bytes>) -> Result<Self> {
        let raw = |name: &str| all.get(name.as_bytes());
        let number = |name: &str| match raw(name) {
            Some(value) => read(name, value, Decoder::varint),
            None => Ok(0),
        };
        let fixed32 = |name: &str| match raw(name) {
            Some(value) => read(name, value, Decoder::u32),
            None => Ok(0),
        };
        let global_sequence = match raw(name::GLOBAL_SEQUENCE) {
            Some(value) => {
                let n = read(name::GLOBAL_SEQUENCE, value, Decoder::u64)?;
                if n > SequenceNumber::MAX.0 {
                    return Err(Error::corruption("global sequence number exceeds 56 bits"));
                }
                Some(SequenceNumber(n))
            }
            None => None,
        };
        let column_family_id = match raw(name::COLUMN_FAMILY_ID) {
            // RocksDB writes 2^31 - 1 for an unknown family.
            Some(value) => u32::try_from(read(name::COLUMN_FAMILY_ID, value, Decoder::varint)?)
                .ok()
                .filter(|id| *id < i32::MAX as u32)
                .map(ColumnFamilyId),
            None => None,
        };
        let liveness = match raw(name::LIVENESS) {
            Some(value) => Some(LivenessProperty {
                handle: read(name::LIVENESS, value, BlockHandle::decode)?,
                count: number(name::LIVENESS_COUNT)?,
                bytes: number(name::LIVENESS_BYTES)?,
            }),
            None => None,
        };
        // Old releases do not say whether the filter has prefixes.
        let has_prefixes = raw(name::PREFIX_FILTERING).is_some_and(|v| v[..] == b"1"[..]);
        let prefix_extractor = raw(name::PREFIX_EXTRACTOR)
            .filter(|_| has_prefixes)
            .map(|name| String::from_utf8_lossy(name).into_owned())
            .filter(|name| name != "nullptr");
        Ok(TableProperties {
            num_entries: number(name::NUM_ENTRIES)?,
            num_deletions: number(name::DELETED_KEYS)?,
            num_range_deletions: number(name::NUM_RANGE_DELETIONS)?,
            num_merge_operands: number(name::MERGE_OPERANDS)?,
            num_data_blocks: number(name::NUM_DATA_BLOCKS)?,
            raw_key_size: number(name::RAW_KEY_SIZE)?,
            raw_value_size: number(name::RAW_VALUE_SIZE)?,
            column_family_id,
            comparator: raw(name::COMPARATOR).map(|n| String::from_utf8_lossy(n).into_owned()),
            external_version: fixed32(name::EXTERNAL_VERSION)?,
            global_sequence,
            index_type: IndexType::from_u32(fixed32(name::INDEX_TYPE)?)?,
            index_user_keys: number(name::INDEX_KEY_IS_USER_KEY)? != 0,
            index_delta_encoded: number(name::INDEX_DELTA_ENCODED)? != 0,
            whole_key_filtering: raw(name::WHOLE_KEY_FILTERING).is_none_or(|v| v[..] != b"0"[..]),
            prefix_extractor,
            liveness,
            all,
        })
    }

    /// Fails if reading the table needs a feature that this version does not have, and names it.
    ///
    /// # Errors
    /// `Unsupported`; `Corruption` if the compression types cannot be parsed.
    pub fn refuse_unreadable(&self) -> Result<()> {
        if self.get(name::EMBEDDED_BLOBS).is_some() {
            return Err(Error::unsupported("table with blobs embedded in it"));
        }
        if let Some(flag) = self.get(name::USER_INDEX_IS_PRIMARY)
            && flag != [0]
        {
            return Err(Error::unsupported("table with a user-defined index"));
        }
        let compression = self.get(name::COMPRESSION).unwrap_or_default();
        refuse_compression(&String::from_utf8_lossy(compression))
    }

    /// The properties to assume of a table whose own are lost: those that tables of this format
    /// version normally have.
    pub fn assumed(format_version: u32) -> Self {
        let newer = format_version >= DELTA_ENCODED_SINCE;
        TableProperties {
            num_entries: 0,
            num_deletions: 0,
            num_range_deletions: 0,
            num_merge_operands: 0,
            num_data_blocks: 0,
            raw_key_size: 0,
            raw_value_size: 0,
            column_family_id: None,
            comparator: None,
            external_version: 0,
            global_sequence: None,
            index_type: IndexType::Binary,
            index_user_keys: newer,
            index_delta_encoded: newer,
            whole_key_filtering: true,
            prefix_extractor: None,
            liveness: None,
            all: BTreeMap::new(),
        }
    }

    /// Number of entries that the table says it has; `None` if it does not say.
    pub(super) fn entry_counts(&self) -> Option<EntryCounts> {
        self.get(name::NUM_ENTRIES).map(|_| EntryCounts {
            entries: self.points(),
            deletions: self.num_deletions.saturating_sub(self.num_range_deletions),
        })
    }

    /// Whether all entries have one sequence number, which the table itself does not have: that of
    /// its ingestion.
    pub fn lacks_sequence_number(&self) -> bool {
        let stored = self.global_sequence.unwrap_or_default();
        self.external_version >= EXTERNAL_VERSION_WITH_GLOBAL_SEQUENCE
            && stored == SequenceNumber::ZERO
    }

    /// Whether these are the properties of a table and not another block that decodes.
    pub fn names_a_table(&self) -> bool {
        self.get(name::NUM_ENTRIES).is_some() && self.get(name::DATA_SIZE).is_some()
    }

    /// Point entries.
    pub fn points(&self) -> u64 {
        self.num_entries.saturating_sub(self.num_range_deletions)
    }

    /// The name of the family it was written for.
    pub fn column_family_name(&self) -> Option<String> {
        let name = self.get(name::COLUMN_FAMILY_NAME)?;
        Some(String::from_utf8_lossy(name).into_owned()).filter(|name| !name.is_empty())
    }

    /// The identity of the database that wrote it.
    pub fn db_id(&self) -> Option<String> {
        let id = self.get(name::DB_ID)?;
        Some(String::from_utf8_lossy(id).into_owned()).filter(|id| !id.is_empty())
    }

    /// Identity of the table among all tables; `None` in tables of old RocksDB versions.
    pub fn unique_id(&self) -> Option<UniqueId> {
        let number = self.get(name::ORIGINAL_FILE_NUMBER)?;
        let number = FileNumber(Decoder::new(number).varint().ok()?);
        unique_id(
            self.get(name::DB_ID)?,
            self.get(name::DB_SESSION_ID)?,
            number,
        )
    }

    /// Which entries had been written by which time, if the table has that and it can be read.
    pub(crate) fn sequence_times(&self) -> Option<SequenceTimes> {
        SequenceTimes::decode(self.get(name::SEQUENCE_TIMES)?).ok()
    }

    /// Whether the table may have timed values: RocksDB writes them only beside the times of
    /// sequence numbers, since it finds the preferred ones by them.
    pub(super) fn may_be_timed(&self) -> bool {
        self.get(name::SEQUENCE_TIMES)
            .is_some_and(|times| !times.is_empty())
    }

    /// Reports of collectors on the table: the properties of applications, and the garbage.
    ///
    /// # Errors
    /// `Corruption`.
    pub fn collected(&self) -> Result<CollectedReport> {
        let all = self.all.iter().map(|(name, value)| (&name[..], &value[..]));
        CollectedReport::of_table(all, self.get(name::GARBAGE))
            .map_err(|e| e.context(format!("property {}", name::GARBAGE)))
    }

    /// The property as stored, if the table has it.
    pub(crate) fn get(&self, name: &str) -> Option<&[u8]> {
        self.all.get(name.as_bytes()).map(|value| &value[..])
    }

    pub(super) fn memory_usage(&self) -> usize {
        self.all
            .iter()
            .map(|(name, value)| name.len() + value.len() + 96)
            .sum()
    }
}

/// Refuses a table whose compression cannot be read, also for want of a codec in this build, by the
/// property that names it. Up to version 6 that is a codec's name; from version 7 on
/// `manager;types;`, with two hexadecimal digits for each type in use.
fn refuse_compression(property: &str) -> Result<()> {
    let Some((manager, rest)) = property.split_once(';') else {
        let mut codecs = CompressionType::ALL.into_iter();
        let codec = codecs.find(|codec| codec.property_name() == property);
        return match (property, codec) {
            ("Xpress", _) => CompressionType::from_u8(XPRESS).map(|_| ()),
            (_, Some(codec)) => codec.require(),
            // Blocks themselves name their compression.
            (_, None) => Ok(()),
        };
    };
    if !BUILTIN_MANAGERS.contains(&manager) {
        let text = format!("table compressed by '{manager}', an application's compression manager");
        return Err(Error::unsupported(text));
    }
    let types = rest.split(';').next().unwrap_or_default().as_bytes();
    for digits in types.chunks(2) {
        let number = str::from_utf8(digits).ok();
        let number = number.filter(|digits| digits.len() == 2);
        let number = number.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let unknown = || Error::corruption(format!("invalid compression types '{property}'"));
        CompressionType::from_u8(number.ok_or_else(unknown)?)?.require()?;
    }
    Ok(())
}

/// Names of the compression managers whose types are RocksDB's own; empty where nothing is
/// compressed.
const BUILTIN_MANAGERS: [&str; 3] = ["BuiltinV2", "nullptr", ""];
const XPRESS: u8 = 6;

fn read<'a, T>(
    name: &str,
    value: &'a [u8],
    field: impl FnOnce(&mut Decoder<'a>) -> Result<T>,
) -> Result<T> {
    field(&mut Decoder::new(value)).map_err(|e| e.context(format!("property {name}")))
}

/// The value of a property for people to read: numbers as numbers, text as it is, other bytes
/// escaped. The properties that are text or raw bytes are known by name; any other value that
/// decodes as one varint is taken for a number.
pub fn value_text(property: &[u8], value: &[u8]) -> String {
    let fixed = |name: &str| property == name.as_bytes();
    let mut d = Decoder::new(value);
    let number = if fixed(name::INDEX_TYPE) || fixed(name::EXTERNAL_VERSION) {
        d.u32().map(u64::from)
    } else if fixed(name::GLOBAL_SEQUENCE) {
        d.u64()
    } else if TEXT.iter().any(|name| fixed(name)) {
        return value.escape_ascii().to_string();
    } else {
        d.varint()
    };
    match number {
        Ok(number) if d.is_empty() => number.to_string(),
        _ => value.escape_ascii().to_string(),
    }
}

/// The properties whose values are text.
const TEXT: [&str; 13] = [
    name::PREFIX_FILTERING,
    name::WHOLE_KEY_FILTERING,
    name::COLUMN_FAMILY_NAME,
    name::COMPARATOR,
    name::COMPRESSION,
    name::COMPRESSION_OPTIONS,
    name::DB_ID,
    name::HOST_ID,
    name::DB_SESSION_ID,
    name::FILTER_POLICY,
    name::MERGE_OPERATOR,
    name::PREFIX_EXTRACTOR,
    name::COLLECTORS,
];

/// Collects properties to be written.
#[derive(Default)]
pub(super) struct PropertiesBuilder {
    all: BTreeMap<Cow<'static, [u8]>, Vec<u8>>,
}

impl PropertiesBuilder {
    pub(super) fn number(&mut self, name: &'static str, value: u64) {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        self.bytes(name, bytes);
    }

    pub(super) fn bytes(&mut self, name: &'static str, value: impl Into<Vec<u8>>) {
        let name = Cow::Borrowed(name.as_bytes());
        self.all.insert(name, value.into());
    }

    /// Adds the reports of collectors.
    pub(super) fn collected(&mut self, report: &CollectedReport) {
        if let Some(garbage) = report.garbage_property() {
            self.bytes(name::GARBAGE, garbage);
        }
        let properties = report.properties.iter();
        self.all
            .extend(properties.map(|(name, value)| (Cow::Owned(name.clone()), value.clone())));
    }

    /// The block.
    pub(super) fn finish(self) -> Vec<u8> {
        let mut block = BlockBuilder::new(usize::MAX);
        for (name, value) in &self.all {
            block.add(name, value);
        }
        block.finish().to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    fn judged(properties: &[(&'static str, &[u8])]) -> Result<()> {
        let mut builder = PropertiesBuilder::default();
        for (name, value) in properties {
            builder.bytes(name, *value);
        }
        let (properties, _) = TableProperties::decode(Bytes::from(builder.finish()))?;
        properties.refuse_unreadable()
    }

    #[test]
    fn what_a_table_needs_is_refused_by_name() {
        let compression = |text: &'static str| judged(&[(name::COMPRESSION, text.as_bytes())]);
        for readable in [
            "",
            "NoCompression",
            "BZip2",
            "LZ4HC",
            ";;",
            "BuiltinV2;;",
            "BuiltinV2;0102030507;",
            "BuiltinV2;07;more of a later version",
        ] {
            compression(readable).unwrap();
        }
        for (refused, why) in [
            ("Xpress", "xpress"),
            ("BuiltinV2;0406;", "xpress"),
            ("BuiltinV2;FE;", "custom compression type 254"),
            ("com.example.Fast;;", "'com.example.Fast'"),
        ] {
            let e = compression(refused).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported, "{refused}: {e}");
            assert!(e.message().contains(why), "{refused}: {e}");
        }
        for damaged in ["BuiltinV2;7;", "BuiltinV2;0x;", "BuiltinV2;08;"] {
            assert!(compression(damaged).unwrap_err().is_corruption());
        }
        for (property, why) in [
            (name::USER_INDEX_IS_PRIMARY, "user-defined index"),
            (name::EMBEDDED_BLOBS, "blobs embedded"),
        ] {
            let e = judged(&[(property, &[1])]).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.message().contains(why), "{e}");
        }
        // An index of the application in addition to RocksDB's own is harmless.
        judged(&[(name::USER_INDEX_IS_PRIMARY, &[0])]).unwrap();
    }
}
