//! `BlobIndex`: the pointer that a table stores in place of a value in a blob file.
//!
//! `01 | file varint64 | offset varint64 | size varint64 | compression u8`, RocksDB's layout for
//! values without expiry. The file is the *logical* one, for ever: a version says where its
//! records are now.

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::format::compression::CompressionType;
use crate::format::numbers::BlobFileNumber;

const TYPE_INLINED_TTL: u8 = 0;
const TYPE_BLOB: u8 = 1;
const TYPE_BLOB_TTL: u8 = 2;

/// A pointer to a value in a blob file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlobIndex {
    /// The logical blob file.
    pub file: BlobFileNumber,
    /// Where the value's bytes start, in bytes (not the record, which starts before the key).
    pub offset: u64,
    /// Stored (compressed) size of the value in bytes.
    pub size: u64,
    /// Compression of the value; the same for all records of a file.
    pub compression: CompressionType,
}

/// Bytes before the key in a blob record: part of the bytes that a pointer keeps live.
pub const BLOB_RECORD_HEADER_LEN: u64 = 32;

/// The records of one blob file that a table points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlobRefs {
    /// The logical blob file.
    pub file: BlobFileNumber,
    /// Number of pointers.
    pub count: u64,
    /// Bytes of the records they point to: header, key and stored value each.
    pub bytes: u64,
}

impl BlobIndex {
    /// Bytes of the whole record, for a key of this length.
    pub fn record_len(&self, key_len: usize) -> u64 {
        (BLOB_RECORD_HEADER_LEN + key_len as u64).saturating_add(self.size)
    }

    /// Appends the encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(TYPE_BLOB);
        put_varint(out, self.file.0);
        put_varint(out, self.offset);
        put_varint(out, self.size);
        out.push(self.compression as u8);
    }

    /// Reads a pointer; trailing bytes are corruption.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes);
        match d.u8()? {
            TYPE_BLOB => {}
            TYPE_INLINED_TTL | TYPE_BLOB_TTL => {
                return Err(Error::unsupported("blob index with an expiry time"));
            }
            t => return Err(Error::corruption(format!("unknown blob index type {t}"))),
        }
        let index = BlobIndex {
            file: BlobFileNumber(d.varint()?),
            offset: d.varint()?,
            size: d.varint()?,
            compression: CompressionType::from_u8(d.u8()?)?,
        };
        if !d.is_empty() {
            return Err(Error::corruption("trailing bytes after a blob index"));
        }
        if index.offset.checked_add(index.size).is_none() {
            return Err(Error::corruption("blob index points beyond any file"));
        }
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back_and_damage_is_noticed() {
        let index = BlobIndex {
            file: BlobFileNumber(300),
            offset: 1 << 33,
            size: 4096,
            compression: CompressionType::Lz4,
        };
        let mut out = Vec::new();
        index.encode(&mut out);
        assert_eq!(BlobIndex::decode(&out).unwrap(), index);
        for cut in 0..out.len() {
            assert!(BlobIndex::decode(&out[..cut]).is_err());
        }
        out.push(0);
        assert!(BlobIndex::decode(&out).unwrap_err().is_corruption());
    }
}
