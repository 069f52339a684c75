//! The numbers of the fields. The numbers and, where it has one, the names are RocksDB's.

pub(super) const COMPARATOR: u32 = 1;
pub(super) const LOG_NUMBER: u32 = 2;
pub(super) const NEXT_FILE_NUMBER: u32 = 3;
pub(super) const LAST_SEQUENCE: u32 = 4;
pub(super) const COMPACT_CURSOR: u32 = 5;
pub(super) const DELETED_FILE: u32 = 6;
pub(super) const NEW_FILE: u32 = 7;
pub(super) const PREV_LOG_NUMBER: u32 = 9;
pub(super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 10;
pub(super) const NEW_FILE_2: u32 = 100;
pub(super) const NEW_FILE_3: u32 = 102;
pub(super) const NEW_FILE_4: u32 = 103;
pub(super) const COLUMN_FAMILY: u32 = 200;
pub(super) const COLUMN_FAMILY_ADD: u32 = 201;
pub(super) const COLUMN_FAMILY_DROP: u32 = 202;
pub(super) const MAX_COLUMN_FAMILY: u32 = 203;
pub(super) const IN_ATOMIC_GROUP: u32 = 300;
pub(super) const BLOB_FILE_ADDITION: u32 = 400;
pub(super) const BLOB_FILE_GARBAGE: u32 = 401;

/// Fields with this bit are followed by a length, so that readers that do not know them can skip
/// them.
pub(super) const IGNORABLE: u32 = 1 << 13;

pub(super) const DB_ID: u32 = 8193;
pub(super) const OLD_BLOB_FILE_ADDITION: u32 = 8194;
pub(super) const OLD_BLOB_FILE_GARBAGE: u32 = 8195;
pub(super) const OLD_WAL_ADDITION: u32 = 8196;
pub(super) const OLD_WAL_DELETION: u32 = 8197;
pub(super) const WAL_ADDITION: u32 = 8199;
pub(super) const WAL_DELETION: u32 = 8200;
pub(super) const PERSIST_USER_DEFINED_TIMESTAMPS: u32 = 8201;

/// Bit 12 marks our own fields among the ignorable ones.
pub(super) const TABLE_FACTS: u32 = IGNORABLE | (1 << 12) | 1;
pub(super) const SYNCED_BEFORE: u32 = IGNORABLE | (1 << 12) | 2;
pub(super) const STATE_FOLLOWS: u32 = IGNORABLE | (1 << 12) | 3;
pub(super) const KEPT_SETTINGS: u32 = IGNORABLE | (1 << 12) | 4;
pub(super) const UNLOGGED: u32 = IGNORABLE | (1 << 12) | 5;

/// Our own, and not ignorable: without it pointers would be read at the wrong offset.
pub(super) const RELOCATION: u32 = (1 << 12) | 1;

/// Ends the fields of a WAL addition.
pub(super) const WAL_TERMINATE: u32 = 1;
pub(super) const WAL_SYNCED_SIZE: u32 = 2;

/// Ends the further fields of a blob file addition or garbage.
pub(super) const BLOB_TERMINATE: u32 = 0;

/// Fields within a new file, a blob file addition or garbage that have this bit must be known.
pub(super) const CUSTOM_NOT_IGNORABLE: u32 = 1 << 6;

/// The further fields of a new file.
pub(super) mod custom {
    pub(in super::super) const TERMINATE: u32 = 1;
    pub(in super::super) const NEED_COMPACTION: u32 = 2;
    pub(in super::super) const MIN_LOG_NUMBER_TO_KEEP: u32 = 3;
    pub(in super::super) const OLDEST_BLOB_FILE: u32 = 4;
    pub(in super::super) const OLDEST_ANCESTER_TIME: u32 = 5;
    pub(in super::super) const FILE_CREATION_TIME: u32 = 6;
    pub(in super::super) const FILE_CHECKSUM: u32 = 7;
    pub(in super::super) const FILE_CHECKSUM_FUNC_NAME: u32 = 8;
    pub(in super::super) const TEMPERATURE: u32 = 9;
    pub(in super::super) const UNIQUE_ID: u32 = 12;
    pub(in super::super) const EPOCH_NUMBER: u32 = 13;
    pub(in super::super) const COMPENSATED_RANGE_DELETION_SIZE: u32 = 14;
    pub(in super::super) const TAIL_SIZE: u32 = 15;
    pub(in super::super) const USER_DEFINED_TIMESTAMPS_PERSISTED: u32 = 16;
    pub(in super::super) const PATH_ID: u32 = 65;
}
