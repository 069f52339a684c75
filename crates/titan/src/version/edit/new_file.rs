//! Record in the MANIFEST of one SST.

use std::ops::Bound;

use super::tags::{self, CUSTOM_NOT_IGNORABLE, custom};
use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_length_prefixed, put_varint};
use crate::format::internal_key::{TRAILER_LEN, ValueType, pack, trailer, user_key};
use crate::format::numbers::{BlobFileNumber, FileNumber, SequenceNumber};
use crate::format::unique_id::UniqueId;
use crate::table::TableIdentity;

/// An SST as it joins a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFile {
    pub number: FileNumber,
    /// Which of the configured directories it is in.
    pub path_id: u8,
    /// Bytes.
    pub size: u64,
    /// Smallest internal key; range tombstones count.
    pub smallest: Vec<u8>,
    /// Largest internal key; range tombstones count.
    pub largest: Vec<u8>,
    /// Smallest sequence number in the file; 0 if the edit is too old to tell.
    pub smallest_seq: SequenceNumber,
    /// Largest sequence number in the file; `MAX` if the edit is too old to tell.
    pub largest_seq: SequenceNumber,
    /// The oldest blob file that the SST points to, if it points to any.
    pub oldest_blob_file: Option<BlobFileNumber>,
    /// When the oldest data in it was first written to an SST, in seconds since 1970; 0 unknown.
    pub oldest_ancester_time: u64,
    /// When it was written, in seconds since 1970; 0 unknown.
    pub file_creation_time: u64,
    /// Orders the files of level 0: larger is newer. Absent in files from before RocksDB had
    /// epochs.
    pub epoch_number: Option<u64>,
    /// Identifies the table under any name; absent if an old RocksDB wrote the edit.
    pub unique_id: Option<UniqueId>,
    /// Checksum of the whole file; empty if there is none.
    pub checksum: Vec<u8>,
    /// Name of the algorithm of `checksum`; empty if there is none.
    pub checksum_method: Vec<u8>,
    /// Whether a compaction of the file was requested.
    pub marked_for_compaction: bool,
    /// RocksDB's storage temperature; 0 unknown.
    pub temperature: u8,
    /// RocksDB's estimate of the bytes its range tombstones cover.
    pub compensated_range_deletion_size: u64,
    /// Bytes from the end of the data blocks to the end of the file; 0 unknown.
    pub tail_size: u64,
    /// Whether its keys carry their user-defined timestamps.
    pub user_defined_timestamps_persisted: bool,
    /// Ignorable fields this version does not know.
    pub unknown: Vec<(u32, Vec<u8>)>,
}

impl Default for NewFile {
    fn default() -> Self {
        NewFile {
            number: FileNumber(0),
            path_id: 0,
            size: 0,
            smallest: Vec::new(),
            largest: Vec::new(),
            smallest_seq: SequenceNumber::ZERO,
            largest_seq: SequenceNumber::MAX,
            oldest_blob_file: None,
            oldest_ancester_time: 0,
            file_creation_time: 0,
            epoch_number: None,
            unique_id: None,
            checksum: Vec::new(),
            checksum_method: Vec::new(),
            marked_for_compaction: false,
            temperature: 0,
            compensated_range_deletion_size: 0,
            tail_size: 0,
            user_defined_timestamps_persisted: true,
            unknown: Vec::new(),
        }
    }
}

impl NewFile {
    /// Identity that its reader compares with the file.
    pub fn identity(&self) -> TableIdentity {
        TableIdentity {
            number: self.number,
            size: self.size,
            largest_seq: Some(self.largest_seq),
            unique_id: self.unique_id,
        }
    }

    /// Whether the sequence numbers are those of its entries. RocksDB writes the largest number as
    /// the smallest one, and 0 as the largest, of tables whose numbers LevelDB's MANIFEST did not
    /// have.
    pub fn knows_sequences(&self) -> bool {
        self.smallest_seq <= self.largest_seq
    }

    /// Whether an entry may have this sequence number.
    pub fn may_have(&self, sequence: SequenceNumber) -> bool {
        !self.knows_sequences() || (self.smallest_seq..=self.largest_seq).contains(&sequence)
    }

    /// The end of the table's keys: excluded if the largest key is the end of a range tombstone.
    pub fn end(&self) -> Bound<&[u8]> {
        let last = user_key(&self.largest);
        let sentinel = pack(SequenceNumber::MAX, ValueType::RangeDeletion as u8);
        if trailer(&self.largest) == sentinel {
            Bound::Excluded(last)
        } else {
            Bound::Included(last)
        }
    }

    /// Appends the fields after the level under tag 103.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.number.0);
        put_varint(out, self.size);
        put_length_prefixed(out, &self.smallest);
        put_length_prefixed(out, &self.largest);
        put_varint(out, self.smallest_seq.0);
        put_varint(out, self.largest_seq.0);

        put_custom_number(out, custom::OLDEST_ANCESTER_TIME, self.oldest_ancester_time);
        put_custom_number(out, custom::FILE_CREATION_TIME, self.file_creation_time);
        if let Some(epoch) = self.epoch_number {
            put_custom_number(out, custom::EPOCH_NUMBER, epoch);
        }
        if !self.checksum_method.is_empty() || !self.checksum.is_empty() {
            put_custom(out, custom::FILE_CHECKSUM, &self.checksum);
            put_custom(out, custom::FILE_CHECKSUM_FUNC_NAME, &self.checksum_method);
        }
        if self.path_id != 0 {
            put_custom(out, custom::PATH_ID, &[self.path_id]);
        }
        if self.temperature != 0 {
            put_custom(out, custom::TEMPERATURE, &[self.temperature]);
        }
        if self.marked_for_compaction {
            put_custom(out, custom::NEED_COMPACTION, &[1]);
        }
        if let Some(blob_file) = self.oldest_blob_file {
            put_custom_number(out, custom::OLDEST_BLOB_FILE, blob_file.0);
        }
        if let Some(id) = &self.unique_id {
            put_custom(out, custom::UNIQUE_ID, id);
        }
        if self.compensated_range_deletion_size != 0 {
            let size = self.compensated_range_deletion_size;
            put_custom_number(out, custom::COMPENSATED_RANGE_DELETION_SIZE, size);
        }
        if self.tail_size != 0 {
            put_custom_number(out, custom::TAIL_SIZE, self.tail_size);
        }
        if !self.user_defined_timestamps_persisted {
            put_custom(out, custom::USER_DEFINED_TIMESTAMPS_PERSISTED, &[0]);
        }
        for (tag, value) in &self.unknown {
            put_custom(out, *tag, value);
        }
        put_varint(out, custom::TERMINATE.into());
    }

    /// Reads the fields after the level under one of the tags of a new file. Also returns the
    /// `min_log_number_to_keep` that old versions of RocksDB stored here.
    pub(super) fn decode(tag: u32, d: &mut Decoder<'_>) -> Result<(Self, Option<FileNumber>)> {
        let mut file = NewFile {
            number: FileNumber(d.varint()?),
            ..NewFile::default()
        };
        if tag == tags::NEW_FILE_3 {
            file.path_id = u8::try_from(d.varint32()?)
                .map_err(|_| Error::corruption("an SST in a directory beyond the 256th"))?;
        }
        file.size = d.varint()?;
        file.smallest = internal_key(d)?;
        file.largest = internal_key(d)?;
        if tag != tags::NEW_FILE {
            file.smallest_seq = sequence(d)?;
            file.largest_seq = sequence(d)?;
        }
        let mut min_log = None;
        if tag == tags::NEW_FILE_4 {
            loop {
                let custom = d.varint32()?;
                if custom == custom::TERMINATE {
                    break;
                }
                file.set_custom(custom, d.length_prefixed()?, &mut min_log)
                    .map_err(|e| e.context(format!("field {custom} of SST {}", file.number)))?;
            }
        }
        Ok((file, min_log))
    }

    fn set_custom(
        &mut self,
        tag: u32,
        value: &[u8],
        min_log: &mut Option<FileNumber>,
    ) -> Result<()> {
        match tag {
            custom::NEED_COMPACTION => self.marked_for_compaction = byte(value)? == 1,
            custom::MIN_LOG_NUMBER_TO_KEEP => {
                *min_log = Some(FileNumber(u64::from_le_bytes(array(value)?)));
            }
            custom::OLDEST_BLOB_FILE => {
                self.oldest_blob_file = Some(BlobFileNumber(number(value)?));
            }
            custom::OLDEST_ANCESTER_TIME => self.oldest_ancester_time = number(value)?,
            custom::FILE_CREATION_TIME => self.file_creation_time = number(value)?,
            custom::FILE_CHECKSUM => self.checksum = value.to_vec(),
            custom::FILE_CHECKSUM_FUNC_NAME => self.checksum_method = value.to_vec(),
            custom::TEMPERATURE => self.temperature = byte(value)?,
            custom::UNIQUE_ID => self.unique_id = Some(array(value)?),
            custom::EPOCH_NUMBER => self.epoch_number = Some(number(value)?),
            custom::COMPENSATED_RANGE_DELETION_SIZE => {
                self.compensated_range_deletion_size = number(value)?;
            }
            custom::TAIL_SIZE => self.tail_size = number(value)?,
            custom::USER_DEFINED_TIMESTAMPS_PERSISTED => {
                self.user_defined_timestamps_persisted = byte(value)? == 1;
            }
            custom::PATH_ID => self.path_id = byte(value)?,
            _ if tag & CUSTOM_NOT_IGNORABLE != 0 => {
                return Err(Error::unsupported(
                    "the MANIFEST uses a feature this version does not know",
                ));
            }
            _ => self.unknown.push((tag, value.to_vec())),
        }
        Ok(())
    }
}

fn put_custom(out: &mut Vec<u8>, tag: u32, value: &[u8]) {
    put_varint(out, tag.into());
    put_length_prefixed(out, value);
}

fn put_custom_number(out: &mut Vec<u8>, tag: u32, value: u64) {
    let mut encoded = Vec::new();
    put_varint(&mut encoded, value);
    put_custom(out, tag, &encoded);
}

/// The whole of `value` as one varint.
fn number(value: &[u8]) -> Result<u64> {
    let mut d = Decoder::new(value);
    let number = d.varint()?;
    if !d.is_empty() {
        return Err(Error::corruption("bytes after a number"));
    }
    Ok(number)
}

fn byte(value: &[u8]) -> Result<u8> {
    array::<1>(value).map(|[byte]| byte)
}

fn array<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    value
        .try_into()
        .map_err(|_| Error::corruption(format!("{} bytes instead of {N}", value.len())))
}

fn internal_key(d: &mut Decoder<'_>) -> Result<Vec<u8>> {
    let key = d.length_prefixed()?;
    if key.len() < TRAILER_LEN {
        return Err(Error::corruption(
            "a file boundary is shorter than an internal key",
        ));
    }
    Ok(key.to_vec())
}

fn sequence(d: &mut Decoder<'_>) -> Result<SequenceNumber> {
    let sequence = SequenceNumber(d.varint()?);
    if sequence > SequenceNumber::MAX {
        return Err(Error::corruption("a sequence number exceeds 56 bits"));
    }
    Ok(sequence)
}
