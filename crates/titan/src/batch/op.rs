//! One operation of a batch, and its encoding.

use crate::error::{Error, Result};
use crate::format::coding::Decoder;
use crate::format::entity::require_inline;
use crate::format::internal_key::ValueType;
use crate::format::numbers::ColumnFamilyId;

/// The two first bytes that an operation can have: for the default family and for any other.
#[derive(Clone, Copy)]
pub(super) struct Tag {
    pub(super) plain: u8,
    pub(super) with_family: u8,
}

const fn tag(plain: u8, with_family: u8) -> Tag {
    Tag { plain, with_family }
}

pub(super) const DELETE: Tag = tag(0x00, 0x04);
pub(super) const PUT: Tag = tag(0x01, 0x05);
pub(super) const MERGE: Tag = tag(0x02, 0x06);
pub(super) const SINGLE_DELETE: Tag = tag(0x07, 0x08);
pub(super) const DELETE_RANGE: Tag = tag(0x0f, 0x0e);
pub(super) const ENTITY: Tag = tag(0x16, 0x17);
#[cfg(test)]
pub(super) const BLOB_INDEX: Tag = tag(0x11, 0x10);
/// Log data has no family.
pub(super) const LOG_DATA: Tag = tag(0x03, 0x03);

/// One operation of a [`WriteBatch`](super::WriteBatch).
///
/// All operations that RocksDB writes can be represented; which of them the engine applies is
/// decided where it commits or recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the fields are what their names say")]
pub enum BatchOp<'a> {
    /// Sets a key.
    Put {
        cf: ColumnFamilyId,
        key: &'a [u8],
        value: &'a [u8],
    },
    /// Removes a key.
    Delete { cf: ColumnFamilyId, key: &'a [u8] },
    /// Removes a key that was put at most once.
    SingleDelete { cf: ColumnFamilyId, key: &'a [u8] },
    /// Removes the keys from `begin` up to but not including `end`.
    DeleteRange {
        cf: ColumnFamilyId,
        begin: &'a [u8],
        end: &'a [u8],
    },
    /// Combines a key's value with `operand`.
    Merge {
        cf: ColumnFamilyId,
        key: &'a [u8],
        operand: &'a [u8],
    },
    /// Sets a key to a value that is in a blob file.
    BlobIndex {
        cf: ColumnFamilyId,
        key: &'a [u8],
        index: &'a [u8],
    },
    /// Sets a key to encoded wide columns.
    PutEntity {
        cf: ColumnFamilyId,
        key: &'a [u8],
        entity: &'a [u8],
    },
    /// Sets a key, with the time its value was written.
    TimedPut {
        cf: ColumnFamilyId,
        key: &'a [u8],
        value: &'a [u8],
        write_time: u64,
    },
    /// Bytes for readers of the WAL.
    LogData { data: &'a [u8] },
    /// Nothing.
    Noop,
    /// The operations up to `EndPrepare` belong to a transaction.
    BeginPrepare,
    /// As `BeginPrepare`, under the write-prepared policy.
    BeginPersistedPrepare,
    /// As `BeginPrepare`, under the write-unprepared policy.
    BeginUnprepare,
    /// The transaction is prepared.
    EndPrepare { xid: &'a [u8] },
    /// A prepared transaction takes effect.
    Commit { xid: &'a [u8] },
    /// A prepared transaction takes effect, with a timestamp.
    CommitWithTimestamp { timestamp: &'a [u8], xid: &'a [u8] },
    /// A prepared transaction is rolled back.
    Rollback { xid: &'a [u8] },
}

/// Entry that an operation puts into a memtable: type, user key, value.
type Entry<'a> = (ValueType, &'a [u8], &'a [u8]);

impl<'a> BatchOp<'a> {
    /// Reads one operation.
    #[inline]
    pub(super) fn decode(d: &mut Decoder<'a>) -> Result<Self> {
        let tag = d.u8()?;
        let cf = match tag {
            0x04 | 0x05 | 0x06 | 0x08 | 0x0e | 0x10 | 0x17 | 0x19 => ColumnFamilyId(d.varint32()?),
            _ => ColumnFamilyId::DEFAULT,
        };
        Ok(match tag {
            0x00 | 0x04 => BatchOp::Delete {
                cf,
                key: d.length_prefixed()?,
            },
            0x01 | 0x05 => BatchOp::Put {
                cf,
                key: d.length_prefixed()?,
                value: d.length_prefixed()?,
            },
            0x02 | 0x06 => BatchOp::Merge {
                cf,
                key: d.length_prefixed()?,
                operand: d.length_prefixed()?,
            },
            0x03 => BatchOp::LogData {
                data: d.length_prefixed()?,
            },
            0x07 | 0x08 => BatchOp::SingleDelete {
                cf,
                key: d.length_prefixed()?,
            },
            0x09 => BatchOp::BeginPrepare,
            0x0a => BatchOp::EndPrepare {
                xid: d.length_prefixed()?,
            },
            0x0b => BatchOp::Commit {
                xid: d.length_prefixed()?,
            },
            0x0c => BatchOp::Rollback {
                xid: d.length_prefixed()?,
            },
            0x0d => BatchOp::Noop,
            0x0e | 0x0f => BatchOp::DeleteRange {
                cf,
                begin: d.length_prefixed()?,
                end: d.length_prefixed()?,
            },
            0x10 | 0x11 => BatchOp::BlobIndex {
                cf,
                key: d.length_prefixed()?,
                index: d.length_prefixed()?,
            },
            0x12 => BatchOp::BeginPersistedPrepare,
            0x13 => BatchOp::BeginUnprepare,
            0x15 => BatchOp::CommitWithTimestamp {
                timestamp: d.length_prefixed()?,
                xid: d.length_prefixed()?,
            },
            0x16 | 0x17 => BatchOp::PutEntity {
                cf,
                key: d.length_prefixed()?,
                entity: d.length_prefixed()?,
            },
            0x18 | 0x19 => {
                let key = d.length_prefixed()?;
                let Some((value, time)) = d.length_prefixed()?.split_last_chunk() else {
                    return Err(Error::corruption("a timed put without its time"));
                };
                BatchOp::TimedPut {
                    cf,
                    key,
                    value,
                    write_time: u64::from_le_bytes(*time),
                }
            }
            _ => {
                return Err(Error::corruption(format!(
                    "unknown operation {tag:#04x} in a write batch"
                )));
            }
        })
    }

    /// The family whose data the operation changes. The operations that have one are those that
    /// take a sequence number.
    #[inline]
    pub fn column_family(&self) -> Option<ColumnFamilyId> {
        match *self {
            BatchOp::Put { cf, .. }
            | BatchOp::Delete { cf, .. }
            | BatchOp::SingleDelete { cf, .. }
            | BatchOp::DeleteRange { cf, .. }
            | BatchOp::Merge { cf, .. }
            | BatchOp::BlobIndex { cf, .. }
            | BatchOp::PutEntity { cf, .. }
            | BatchOp::TimedPut { cf, .. } => Some(cf),
            BatchOp::LogData { .. }
            | BatchOp::Noop
            | BatchOp::BeginPrepare
            | BatchOp::BeginPersistedPrepare
            | BatchOp::BeginUnprepare
            | BatchOp::EndPrepare { .. }
            | BatchOp::Commit { .. }
            | BatchOp::CommitWithTimestamp { .. }
            | BatchOp::Rollback { .. } => None,
        }
    }

    /// Whether the operation takes a sequence number.
    #[inline]
    pub(crate) fn takes_sequence(&self) -> bool {
        self.column_family().is_some()
    }

    /// The entry that the operation makes; `None` for operations that make none.
    ///
    /// # Errors
    /// `Unsupported` for operations that the engine does not apply.
    pub fn entry(&self) -> Result<Option<Entry<'a>>> {
        Ok(Some(match *self {
            // The time of a timed put only says to which level RocksDB should move it.
            BatchOp::Put { key, value, .. } | BatchOp::TimedPut { key, value, .. } => {
                (ValueType::Value, key, value)
            }
            BatchOp::Delete { key, .. } => (ValueType::Deletion, key, &[]),
            BatchOp::SingleDelete { key, .. } => (ValueType::SingleDeletion, key, &[]),
            BatchOp::DeleteRange { begin, end, .. } => (ValueType::RangeDeletion, begin, end),
            BatchOp::Merge { key, operand, .. } => (ValueType::Merge, key, operand),
            BatchOp::PutEntity { key, entity, .. } => {
                require_inline(entity)?;
                (ValueType::WideColumnEntity, key, entity)
            }
            BatchOp::LogData { .. } | BatchOp::Noop => return Ok(None),
            BatchOp::BlobIndex { .. } => {
                return Err(Error::unsupported("a blob pointer in a write batch"));
            }
            _ => {
                return Err(Error::unsupported(
                    "a two-phase commit marker in a write batch",
                ));
            }
        }))
    }
}
