//! The pointers of tables into blob files, collected to be compared with the records.

use titan::internals::blob::RelocationMap;
use titan::internals::format::{BLOB_RECORD_HEADER_LEN, BlobIndex, total};
use titan::{BlobFileNumber, CompressionType, Error};
use xxhash_rust::xxh3::xxh3_64;

/// A pointer of a table: enough to tell whether a record is the right one.
pub(super) struct Pointer {
    /// Where the value's bytes start.
    pub(super) offset: u64,
    /// The stored length of the value in bytes.
    pub(super) size: u64,
    pub(super) key_hash: u64,
    pub(super) key_len: u32,
    /// The table it is in, in the numbering of the caller that collects the pointers.
    pub(super) table: u32,
}

impl Pointer {
    /// Where the record starts.
    pub(super) fn record_offset(&self) -> u64 {
        let front = BLOB_RECORD_HEADER_LEN + u64::from(self.key_len);
        self.offset.saturating_sub(front)
    }

    /// The length of the record in bytes.
    pub(super) fn record_len(&self) -> u64 {
        (BLOB_RECORD_HEADER_LEN + u64::from(self.key_len)).saturating_add(self.size)
    }
}

/// Pointers into one blob file.
#[derive(Default)]
pub(super) struct FileReferences {
    pub(super) pointers: Vec<Pointer>,
    /// The compressions that the pointers name: one in an undamaged database.
    pub(super) compressions: Vec<CompressionType>,
}

impl FileReferences {
    /// Adds the pointers of `other`.
    pub(super) fn join(&mut self, other: FileReferences) {
        for compression in other.compressions {
            if !self.compressions.contains(&compression) {
                self.compressions.push(compression);
            }
        }
        self.pointers.extend(other.pointers);
    }

    /// The number of pointers, and the bytes of their records.
    pub(super) fn totals(&self) -> (u64, u64) {
        let lengths = self.pointers.iter().map(Pointer::record_len);
        (self.pointers.len() as u64, total(lengths))
    }

    /// Translates pointers into a logical file to their offsets in the physical one; drops those
    /// that the map does not have. Reads the whole map of the file; returns what is wrong with it.
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

/// A hash to compare keys by. It has 64 bits, so a record of another key passes for the right one
/// once in 10^19 times.
pub(super) fn hash_of(user_key: &[u8]) -> u64 {
    xxh3_64(user_key)
}
