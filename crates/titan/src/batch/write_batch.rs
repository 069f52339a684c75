//! A batch and its operations.

use std::fmt;

use super::op::{self, BatchOp};
use super::target::BatchTarget;
use super::view::{BatchOps, BatchView, HEADER_SIZE};
use crate::error::{Error, Result};
use crate::format::OpeningId;
use crate::format::coding::{put_varint, varint_len};
use crate::format::entity::encode_columns;
use crate::format::internal_key::MAX_ENTRY;
use crate::format::numbers::{ColumnFamilyId, SequenceNumber};

const COUNT_OFFSET: usize = 8;
/// The room of a batch that is not told how much it needs, in bytes: most have one small operation.
const SMALL: usize = 256 - HEADER_SIZE;
/// Bytes of the largest batch, header included: a table must be able to have each of its entries.
const MAX_SIZE: usize = MAX_ENTRY;

/// Operations that become visible and durable together, in the order in which they were added.
///
/// A later operation on a key wins over an earlier one. Adding an operation copies its key and
/// value to the end of one buffer. A batch holds at most 4 GiB - 64 MiB; an operation that does
/// not fit is refused with `InvalidArgument` and leaves the batch as it was.
///
/// Families are named by a handle or by a [`ColumnFamilyId`]. A batch with a handle belongs to the
/// opening of that handle: only that opening writes it, and handles of another database, or of
/// another opening of the same one, are refused. Ids are checked only by the database to which the
/// batch is written.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteBatch {
    data: Vec<u8>,
    /// The opening of the handles that named families.
    opening: Option<OpeningId>,
    save_points: Vec<SavePoint>,
    ticket: Option<u64>,
}

/// A state to go back to.
#[derive(Clone, Copy, PartialEq, Eq)]
struct SavePoint {
    size: usize,
    count: u32,
    opening: Option<OpeningId>,
}

/// The shape of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchShape {
    bytes: usize,
    save_points: usize,
}

impl Default for WriteBatch {
    fn default() -> Self {
        WriteBatch::new()
    }
}

impl WriteBatch {
    /// A batch with nothing in it.
    pub fn new() -> Self {
        WriteBatch::with_capacity(SMALL)
    }

    /// A batch with nothing in it and room for `bytes` of encoded operations.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut data = Vec::with_capacity(HEADER_SIZE + bytes);
        data.resize(HEADER_SIZE, 0);
        WriteBatch {
            data,
            opening: None,
            save_points: Vec::new(),
            ticket: None,
        }
    }

    /// Takes over an encoded batch, as returned by [`WriteBatch::data`] or read from a WAL file.
    ///
    /// # Errors
    /// `Corruption` unless it consists of whole operations, as many as its header says.
    pub fn from_data(data: impl Into<Vec<u8>>) -> Result<Self> {
        let data = data.into();
        if data.len() > MAX_SIZE {
            return Err(Error::corruption("a write batch exceeds 4 GiB - 64 MiB"));
        }
        BatchView::parse(&data)?.validate()?;
        Ok(WriteBatch {
            data,
            opening: None,
            save_points: Vec::new(),
            ticket: None,
        })
    }

    /// Sets `key` to `value`.
    ///
    /// # Errors
    /// `InvalidArgument` if the batch would exceed 4 GiB - 64 MiB, or `cf` is a handle of another
    /// opening than the handles before.
    pub fn put(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(op::PUT, Some(cf.into()), &[key.as_ref(), value.as_ref()])
    }

    /// Sets `key` to an entity of these columns, in any order: see
    /// [`WideColumns`](crate::WideColumns). Readers that do not know of columns see the column with
    /// the empty name.
    ///
    /// # Errors
    /// As [`WriteBatch::put`]; `InvalidArgument` if two columns have the same name.
    pub fn put_entity<N: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
        columns: impl IntoIterator<Item = (N, V)>,
    ) -> Result<()> {
        self.put_encoded_entity(cf, key, &encode_columns(columns)?)
    }

    /// The same with the columns encoded.
    pub(crate) fn put_encoded_entity(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
        entity: &[u8],
    ) -> Result<()> {
        self.add(op::ENTITY, Some(cf.into()), &[key.as_ref(), entity])
    }

    /// Changes the value of `key` by an operand for the family's
    /// [merge operator](crate::merge::MergeOperator). A batch with a merge is refused with
    /// `InvalidArgument` when it is written to a family without one.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn merge(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(
            op::MERGE,
            Some(cf.into()),
            &[key.as_ref(), operand.as_ref()],
        )
    }

    /// Removes `key`. Nothing happens if it is not there.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete(&mut self, cf: impl Into<BatchTarget>, key: impl AsRef<[u8]>) -> Result<()> {
        self.add(op::DELETE, Some(cf.into()), &[key.as_ref()])
    }

    /// Removes a `key` that was put at most once since it was last removed; cheaper than
    /// [`WriteBatch::delete`]. If it was put more often, the result of later reads is undefined.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn single_delete(
        &mut self,
        cf: impl Into<BatchTarget>,
        key: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(op::SINGLE_DELETE, Some(cf.into()), &[key.as_ref()])
    }

    /// Removes all keys from `begin` up to but not including `end`, at a cost that does not depend
    /// on their number. A batch with a range that ends before it begins is refused when it is
    /// written.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn delete_range(
        &mut self,
        cf: impl Into<BatchTarget>,
        begin: impl AsRef<[u8]>,
        end: impl AsRef<[u8]>,
    ) -> Result<()> {
        self.add(
            op::DELETE_RANGE,
            Some(cf.into()),
            &[begin.as_ref(), end.as_ref()],
        )
    }

    /// Sets `key` to the value in a blob file that the encoded `index` points to.
    #[cfg(test)]
    pub(super) fn put_blob_index(
        &mut self,
        cf: ColumnFamilyId,
        key: &[u8],
        index: &[u8],
    ) -> Result<()> {
        self.add(op::BLOB_INDEX, Some(cf.into()), &[key, index])
    }

    /// Adds bytes that go to the WAL with the batch and nowhere else.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn put_log_data(&mut self, data: impl AsRef<[u8]>) -> Result<()> {
        self.add(op::LOG_DATA, None, &[data.as_ref()])
    }

    /// Adds the operations of `other` after those of this batch. The save points and the ticket of
    /// `other` are not taken over.
    ///
    /// # Errors
    /// As [`WriteBatch::put`].
    pub fn append(&mut self, other: &WriteBatch) -> Result<()> {
        let operations = other.operations();
        let opening = self.opening_with(other.opening)?;
        self.check_room(operations.len())?;
        let count = self
            .count()
            .checked_add(other.count())
            .ok_or_else(too_large)?;
        self.data.extend_from_slice(operations);
        self.set_count(count);
        self.opening = opening;
        Ok(())
    }

    /// Removes all operations and save points, and the ticket. Keeps the memory.
    pub fn clear(&mut self) {
        self.data.truncate(HEADER_SIZE);
        self.data.fill(0);
        self.opening = None;
        self.save_points.clear();
        self.ticket = None;
    }

    /// Gives the batch a number that the [commit hook](crate::CommitHook::after_publish) is told
    /// when the batch is visible; if the batch is empty, perhaps not. It is not stored. Default:
    /// none.
    pub fn set_ticket(&mut self, ticket: u64) {
        self.ticket = Some(ticket);
    }

    /// The number that [`WriteBatch::set_ticket`] gave it.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.ticket
    }

    /// Takes the content out without leaving memory for another one: the caller may do nothing with
    /// the emptied batch but put another one in its place.
    pub(crate) fn lend(&mut self) -> WriteBatch {
        invariant!(!self.is_lent(), "the content of a batch is taken out twice");
        WriteBatch {
            data: std::mem::take(&mut self.data),
            opening: self.opening.take(),
            save_points: std::mem::take(&mut self.save_points),
            ticket: self.ticket.take(),
        }
    }

    /// Whether the content was taken out.
    pub(crate) fn is_lent(&self) -> bool {
        self.data.is_empty()
    }

    /// Bytes and save points: other ones than before show that the content is another one.
    pub(crate) fn shape(&self) -> BatchShape {
        BatchShape {
            bytes: self.data.len(),
            save_points: self.save_points.len(),
        }
    }

    /// Number of operations, [log data](WriteBatch::put_log_data) not counted.
    pub fn count(&self) -> u32 {
        match self.data.get(COUNT_OFFSET..).and_then(<[u8]>::first_chunk) {
            Some(bytes) => u32::from_le_bytes(*bytes),
            None => 0,
        }
    }

    /// Whether there is nothing in the batch, log data included.
    pub fn is_empty(&self) -> bool {
        self.data.len() == HEADER_SIZE
    }

    /// Bytes of the encoded batch, its header of 12 included.
    pub fn size_bytes(&self) -> usize {
        self.data.len()
    }

    /// The encoded batch.
    pub fn data(&self) -> &[u8] {
        &self.data
    }

    /// The encoded operations: the batch without its header.
    pub(crate) fn operations(&self) -> &[u8] {
        self.data.get(HEADER_SIZE..).unwrap_or_default()
    }

    /// The operations in the order in which they were added.
    pub fn iter(&self) -> BatchOps<'_> {
        BatchOps::new(self.operations())
    }

    /// Remembers the present state for [`WriteBatch::rollback_to_save_point`]. They nest.
    pub fn set_save_point(&mut self) {
        let point = SavePoint {
            size: self.data.len(),
            count: self.count(),
            opening: self.opening,
        };
        self.save_points.push(point);
    }

    /// Removes the operations added since the last save point, and the save point.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no save point.
    pub fn rollback_to_save_point(&mut self) -> Result<()> {
        let SavePoint {
            size,
            count,
            opening,
        } = self.take_save_point()?;
        invariant!(
            (HEADER_SIZE..=self.data.len()).contains(&size) && count <= self.count(),
            "a save point has {count} operations, and the batch after it {}",
            self.count()
        );
        self.data.truncate(size);
        self.set_count(count);
        self.opening = opening;
        invariant!(
            BatchView::parse(&self.data).is_ok_and(|batch| batch.validate().is_ok()),
            "a save point was not between two operations"
        );
        Ok(())
    }

    /// Removes the last save point and keeps the operations added since.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no save point.
    pub fn pop_save_point(&mut self) -> Result<()> {
        self.take_save_point().map(|_| ())
    }

    fn take_save_point(&mut self) -> Result<SavePoint> {
        self.save_points
            .pop()
            .ok_or_else(|| Error::invalid_argument("the write batch has no save point"))
    }

    /// The sequence number of the first operation; 0 before the batch is committed.
    pub(crate) fn sequence(&self) -> SequenceNumber {
        match self.data.first_chunk() {
            Some(bytes) => SequenceNumber(u64::from_le_bytes(*bytes)),
            None => SequenceNumber::ZERO,
        }
    }

    /// Gives the first operation its sequence number, and thereby all others theirs.
    pub(crate) fn set_sequence(&mut self, sequence: SequenceNumber) {
        if let Some(bytes) = self.data.first_chunk_mut() {
            *bytes = sequence.0.to_le_bytes();
        }
    }

    fn set_count(&mut self, count: u32) {
        if let Some(bytes) = self
            .data
            .get_mut(COUNT_OFFSET..)
            .and_then(<[u8]>::first_chunk_mut)
        {
            *bytes = count.to_le_bytes();
        }
    }

    /// Fails with `InvalidArgument` unless `opening` may write the batch.
    pub(crate) fn check_opening(&self, opening: OpeningId) -> Result<()> {
        self.opening_with(Some(opening)).map(|_| ())
    }

    /// The opening that the batch belongs to once it has something of `other`.
    fn opening_with(&self, other: Option<OpeningId>) -> Result<Option<OpeningId>> {
        match (self.opening, other) {
            (Some(own), Some(other)) if own != other => Err(Error::invalid_argument(
                "the write batch names families by handles of another database, or of an earlier \
                 opening of this one",
            )),
            (own, other) => Ok(own.or(other)),
        }
    }

    /// Adds one operation. With a family it takes a sequence number.
    pub(super) fn add(
        &mut self,
        tag: op::Tag,
        cf: Option<BatchTarget>,
        fields: &[&[u8]],
    ) -> Result<()> {
        let opening = self.opening_with(cf.and_then(|cf| cf.opening))?;
        let family = cf.map(|cf| cf.family);
        let family = family.filter(|&family| family != ColumnFamilyId::DEFAULT);
        let mut size = 1 + family.map_or(0, |cf| varint_len(cf.0.into()));
        for field in fields {
            let len = varint_len(field.len() as u64).saturating_add(field.len());
            size = size.saturating_add(len);
        }
        self.check_room(size)?;
        if cf.is_some() {
            let count = self.count().checked_add(1).ok_or_else(too_large)?;
            self.set_count(count);
        }
        self.opening = opening;

        let end = self.data.len() + size;
        self.data.reserve(size);
        match family {
            Some(cf) => {
                self.data.push(tag.with_family);
                put_varint(&mut self.data, cf.0.into());
            }
            None => self.data.push(tag.plain),
        }
        for field in fields {
            put_varint(&mut self.data, field.len() as u64);
            self.data.extend_from_slice(field);
        }
        invariant!(
            self.data.len() == end,
            "an operation of {size} bytes ends at {}, not at {end}",
            self.data.len()
        );
        Ok(())
    }

    fn check_room(&self, more: usize) -> Result<()> {
        match more <= MAX_SIZE - self.data.len() {
            true => Ok(()),
            false => Err(too_large()),
        }
    }
}

/// The header of `count` operations from the sequence number `first` on. Followed by the
/// [operations](WriteBatch::operations) of several batches, it makes them one batch.
pub(crate) fn group_header(first: SequenceNumber, count: u32) -> [u8; HEADER_SIZE] {
    let mut header = [0; HEADER_SIZE];
    let (sequence, rest) = header.split_at_mut(COUNT_OFFSET);
    sequence.copy_from_slice(&first.0.to_le_bytes());
    rest.copy_from_slice(&count.to_le_bytes());
    header
}

fn too_large() -> Error {
    Error::invalid_argument("the write batch would exceed 4 GiB - 64 MiB")
}

impl<'a> IntoIterator for &'a WriteBatch {
    type Item = Result<BatchOp<'a>>;
    type IntoIter = BatchOps<'a>;

    fn into_iter(self) -> BatchOps<'a> {
        self.iter()
    }
}

impl fmt::Debug for WriteBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch")
            .field("sequence", &self.sequence())
            .field("count", &self.count())
            .field("size_bytes", &self.size_bytes())
            .finish()
    }
}
