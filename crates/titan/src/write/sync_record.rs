//! Records in a WAL file that say up to where the WAL was durable when they were written.
//!
//! After a crash of the machine, blocks may be missing from the end of a WAL that was not synced,
//! while later ones are there. So records after damage do not show that the damaged part had been
//! durable. A *sync record* shows it: the first group after a sync brings one along, which names
//! the position up to which everything was durable by then. A file that is closed cleanly ends in
//! one.
//!
//! A sync record also has its own position: one that was copied into a value says another one.
//!
//! Like the [predecessor record](super::predecessor), it is an empty write batch with log data,
//! which RocksDB replays as nothing:
//!
//! ```text
//! sequence u64 | count u32 = 0 | 0x03 |
//!     lp("titan.wal" | 2 | varint own log number | varint own offset
//!                        | varint log number | varint offset)
//! ```

use crate::batch::BatchView;
use crate::format::coding::{Decoder, put_varint};
use crate::format::{FileNumber, SequenceNumber};

const MAGIC: &[u8] = b"titan.wal\x02";
/// Tag and count of a batch that has only log data.
const COUNT_AND_TAG: [u8; 5] = [0, 0, 0, 0, 3];
/// At most, all fields together: the magic and four varints.
const DATA_MAX: usize = MAGIC.len() + 4 * 10;

/// A position in the sequence of WAL files; positions ascend in the order of writing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct WalPosition {
    pub file: FileNumber,
    /// Bytes of the file before it.
    pub offset: u64,
}

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncRecord {
    /// Where the record starts.
    pub(crate) at: WalPosition,
    /// Everything before this position was durable before the record was written.
    pub synced: WalPosition,
}

impl SyncRecord {
    /// Writes the record's payload to `record`, whose content it replaces. `next` is the sequence
    /// number that the next operation takes. Cost: no allocation, once `record` has room.
    pub(crate) fn encode(&self, next: SequenceNumber, record: &mut Vec<u8>) {
        record.clear();
        record.extend_from_slice(&next.0.to_le_bytes());
        record.extend_from_slice(&COUNT_AND_TAG);
        // The length of the data, which is less than 128: one byte.
        const { assert!(DATA_MAX < 128) };
        let length = record.len();
        record.push(0);
        record.extend_from_slice(MAGIC);
        for position in [self.at, self.synced] {
            put_varint(record, position.file.0);
            put_varint(record, position.offset);
        }
        let data = record.len() - length - 1;
        if let Some(byte) = record.get_mut(length) {
            *byte = data as u8;
        }
    }

    /// Reads it from a WAL record; `None` if the record is something else.
    pub fn decode(record: &[u8]) -> Option<Self> {
        let data = BatchView::only_log_data(record)?;
        let mut d = Decoder::new(data.strip_prefix(MAGIC)?);
        let mut position = || {
            Some(WalPosition {
                file: FileNumber(d.varint().ok()?),
                offset: d.varint().ok()?,
            })
        };
        let (at, synced) = (position()?, position()?);
        d.is_empty().then_some(SyncRecord { at, synced })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::WriteBatch;
    use crate::write::predecessor::Predecessor;

    #[test]
    fn it_comes_back_and_other_records_are_not_taken_for_it() {
        let position = |file, offset| WalPosition {
            file: FileNumber(file),
            offset,
        };
        let mut encoded = Vec::new();
        for (at, synced) in [
            (position(7, 40), position(6, 4000)),
            (position(u64::MAX, u64::MAX), position(u64::MAX, u64::MAX)),
        ] {
            let record = SyncRecord { at, synced };
            record.encode(SequenceNumber(301), &mut encoded);
            assert_eq!(SyncRecord::decode(&encoded), Some(record));
            assert_eq!(Predecessor::decode(&encoded), None);
            let batch = BatchView::parse_whole(&encoded).unwrap();
            assert_eq!((batch.sequence().0, batch.count()), (301, 0));
            assert_eq!(SyncRecord::decode(&encoded[..encoded.len() - 1]), None);
        }
        let before = Predecessor {
            number: FileNumber(7),
            last_sequence: SequenceNumber(300),
        };
        let record = before.encode(SequenceNumber(301)).unwrap();
        assert_eq!(SyncRecord::decode(&record), None);
        let mut batch = WriteBatch::new();
        batch.put_log_data(MAGIC).unwrap();
        assert_eq!(SyncRecord::decode(batch.data()), None);
    }
}
