//! Record at the start of a WAL file about the file before it.
//!
//! Bytes of an earlier WAL file that were never synced may be lost in a crash of the machine while
//! those of a later one survive. Replaying the later one all the same would bring back operations
//! without those before them. So each WAL file names its predecessor and the last operation in it,
//! and recovery stops where that operation is missing, or the predecessor's own first record: the
//! predecessor may have no operation and still stand between this file and one that was lost. Hence
//! every WAL file has this record, also the first of a chain, which names file 0.
//!
//! The record is an empty write batch with log data, which RocksDB replays as nothing:
//!
//! ```text
//! sequence u64 | count u32 = 0 | 0x03 | lp("titan.wal" | 1 | varint log number | varint sequence)
//! ```

use crate::batch::{BatchView, WriteBatch};
use crate::error::Result;
use crate::format::coding::{Decoder, put_varint};
use crate::format::{FileNumber, SequenceNumber};

const MAGIC: &[u8] = b"titan.wal\x01";

/// The WAL file before this one; number 0 if everything before is in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Predecessor {
    pub number: FileNumber,
    /// The last operation in it; zero if there was none.
    pub last_sequence: SequenceNumber,
}

impl Predecessor {
    /// The record's payload. `next` is the sequence number that the first operation after it takes.
    pub fn encode(&self, next: SequenceNumber) -> Result<Vec<u8>> {
        let mut data = MAGIC.to_vec();
        put_varint(&mut data, self.number.0);
        put_varint(&mut data, self.last_sequence.0);
        let mut batch = WriteBatch::new();
        batch.put_log_data(data)?;
        batch.set_sequence(next);
        Ok(batch.data().to_vec())
    }

    /// Reads it from a WAL record; `None` if the record is something else.
    pub fn decode(record: &[u8]) -> Option<Self> {
        let data = BatchView::only_log_data(record)?;
        let mut d = Decoder::new(data.strip_prefix(MAGIC)?);
        let number = FileNumber(d.varint().ok()?);
        let last_sequence = SequenceNumber(d.varint().ok()?);
        d.is_empty().then_some(Predecessor {
            number,
            last_sequence,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::ColumnFamilyId;

    #[test]
    fn it_comes_back_and_other_records_are_not_taken_for_it() {
        let p = Predecessor {
            number: FileNumber(7),
            last_sequence: SequenceNumber(300),
        };
        let record = p.encode(SequenceNumber(301)).unwrap();
        assert_eq!(Predecessor::decode(&record), Some(p));
        let mut batch = WriteBatch::new();
        batch.put_log_data(b"titan.wal").unwrap();
        assert_eq!(Predecessor::decode(batch.data()), None);
        batch.put(ColumnFamilyId::DEFAULT, b"k", b"v").unwrap();
        assert_eq!(Predecessor::decode(batch.data()), None);
        assert_eq!(Predecessor::decode(&record[..record.len() - 1]), None);
    }
}
