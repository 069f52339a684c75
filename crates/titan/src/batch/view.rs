//! Reads encoded batches without copying them.

use std::ops::Range;

use super::op::BatchOp;
use crate::error::{Error, Result};
use crate::format::coding::Decoder;
use crate::format::numbers::SequenceNumber;

/// Bytes before the operations.
pub(super) const HEADER_SIZE: usize = 12;

/// An encoded batch: the payload of a WAL record.
#[derive(Clone, Copy)]
pub struct BatchView<'a> {
    sequence: SequenceNumber,
    count: u32,
    operations: &'a [u8],
}

impl<'a> BatchView<'a> {
    /// Reads the header. The operations are checked as they are read.
    pub fn parse(data: &'a [u8]) -> Result<Self> {
        let mut d = Decoder::new(data);
        let sequence = SequenceNumber(d.u64()?);
        let count = d.u32()?;
        match sequence.0.checked_add(count.into()) {
            Some(next) if next <= SequenceNumber::MAX.0 + 1 => {}
            _ => {
                return Err(Error::corruption(
                    "a write batch exceeds the sequence numbers",
                ));
            }
        }
        Ok(BatchView {
            sequence,
            count,
            operations: d.rest(),
        })
    }

    /// The log data of a WAL record that is nothing else, and that replays as nothing: private
    /// records have this form. `None` for any other record.
    pub(crate) fn only_log_data(record: &'a [u8]) -> Option<&'a [u8]> {
        let view = BatchView::parse(record).ok()?;
        let mut ops = view.ops();
        match (ops.next(), ops.next()) {
            (Some(Ok(BatchOp::LogData { data })), None) if view.count == 0 => Some(data),
            _ => None,
        }
    }

    /// The sequence number of the first operation that takes one.
    pub fn sequence(&self) -> SequenceNumber {
        self.sequence
    }

    /// Number of sequence numbers that the batch takes, according to its header.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The operations.
    pub fn ops(&self) -> BatchOps<'a> {
        BatchOps::new(self.operations)
    }

    /// Some of the encoded operations, by [positions](BatchOps::position).
    pub(crate) fn encoded(&self, range: Range<usize>) -> &'a [u8] {
        self.operations.get(range).unwrap_or_default()
    }

    /// Reads the header and all operations once. Recovery does this before it applies the first
    /// one.
    pub fn parse_whole(data: &'a [u8]) -> Result<Self> {
        let batch = BatchView::parse(data)?;
        batch.validate()?;
        Ok(batch)
    }

    /// Reads all operations once: they must be whole, and as many must take a sequence number as
    /// the header says.
    pub fn validate(&self) -> Result<()> {
        let mut found = 0u64;
        for op in self.ops() {
            found += u64::from(op?.takes_sequence());
        }
        if found != u64::from(self.count) {
            return Err(Error::corruption(format!(
                "a write batch has {found} operations, its header says {}",
                self.count
            )));
        }
        Ok(())
    }
}

/// The operations of a batch, in order. Ends after the first error.
#[derive(Clone)]
pub struct BatchOps<'a> {
    rest: Decoder<'a>,
    failed: bool,
}

impl<'a> BatchOps<'a> {
    /// `operations` is a batch without its header.
    pub(crate) fn new(operations: &'a [u8]) -> Self {
        BatchOps {
            rest: Decoder::new(operations),
            failed: false,
        }
    }

    /// Where the next operation begins.
    pub(crate) fn position(&self) -> usize {
        self.rest.position()
    }
}

impl<'a> Iterator for BatchOps<'a> {
    type Item = Result<BatchOp<'a>>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        let at = self.rest.position() + HEADER_SIZE;
        let op = BatchOp::decode(&mut self.rest);
        if op.is_err() {
            self.failed = true;
        }
        Some(op.map_err(|e| e.context(format!("write batch, operation at byte {at}"))))
    }
}

impl std::iter::FusedIterator for BatchOps<'_> {}

impl std::fmt::Debug for BatchOps<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchOps")
            .field("bytes_left", &self.rest.rest().len())
            .finish()
    }
}
