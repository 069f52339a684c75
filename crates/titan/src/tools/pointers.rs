//! What tables refer to in blob files, gathered so that it can be held against the records.

use xxhash_rust::xxh3::xxh3_64;

use crate::blob::RelocationMap;
use crate::error::Error;
use crate::format::blob_index::{BLOB_RECORD_HEADER_LEN, BlobIndex};
use crate::format::{BlobFileNumber, CompressionType, total};

/// What stands in a table for a value: enough to tell whether a record is the right one.
pub(super) struct Pointer {
    /// Where the value's bytes start.
    pub(super) offset: u64,
    /// Stored bytes of the value.
    pub(super) size: u64,
    pub(super) key_hash: u64,
    pub(super) key_len: u32,
    /// Which table it is in, as whoever gathers pointers counts them.
    pub(super) table: u32,
}

impl Pointer {
    /// Where the record starts.
    pub(super) fn record_offset(&self) -> u64 {
        let front = BLOB_RECORD_HEADER_LEN + u64::from(self.key_len);
        self.offset.saturating_sub(front)
    }

    /// Bytes of the record.
    pub(super) fn record_len(&self) -> u64 {
        (BLOB_RECORD_HEADER_LEN + u64::from(self.key_len)).saturating_add(self.size)
    }
}

/// Pointers into one blob file.
#[derive(Default)]
pub(super) struct FileReferences {
    pub(super) pointers: Vec<Pointer>,
    /// The compressions they name: one, if all is well.
    pub(super) compressions: Vec<CompressionType>,
}

impl FileReferences {
    /// Takes over what is in another.
    pub(super) fn join(&mut self, other: FileReferences) {
        for compression in other.compressions {
            if !self.compressions.contains(&compression) {
                self.compressions.push(compression);
            }
        }
        self.pointers.extend(other.pointers);
    }

    /// How many there are, and the bytes of their records.
    pub(super) fn totals(&self) -> (u64, u64) {
        let lengths = self.pointers.iter().map(Pointer::record_len);
        (self.pointers.len() as u64, total(lengths))
    }

    /// Turns pointers into a logical file into where its map says they lead; those that lead
    /// nowhere are left out. Reads all that the map has of the file; returns what is wrong with it.
    pub(super) fn follow(&mut self, map: &RelocationMap, logical: BlobFileNumber) -> Vec<Error> {
        let mut problems = Vec::new();
        let all = self.pointers.len();
        self.pointers.sort_unstable_by_key(|pointer| pointer.offset);
        let mut pointers = std::mem::take(&mut self.pointers).into_iter().peekable();
        for record in map.records(logical) {
            let record = match record {
                Ok(record) => record,
                Err(e) => {
                    problems.push(e);
                    continue;
                }
            };
            while let Some(pointer) = pointers.next_if(|p| p.offset <= record.offset) {
                if pointer.offset == record.offset {
                    let offset = record.to;
                    self.pointers.push(Pointer { offset, ..pointer });
                }
            }
        }
        let astray = all - self.pointers.len();
        if astray > 0 {
            let text = format!(
                "{astray} pointers into blob file {logical} lead to records that the map does not \
                 have"
            );
            problems.push(Error::corruption(text).in_file(map.path()));
        }
        problems
    }

    pub(super) fn add(&mut self, user_key: &[u8], index: &BlobIndex, table: u32) {
        if !self.compressions.contains(&index.compression) {
            self.compressions.push(index.compression);
        }
        self.pointers.push(Pointer {
            offset: index.offset,
            size: index.size,
            key_hash: hash_of(user_key),
            key_len: user_key.len() as u32,
            table,
        });
    }
}

/// What keys are compared by: 64 bits, so that a record of another key passes for the right one
/// by chance once in 10^19 times.
pub(super) fn hash_of(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}
