//! The field that says where a collection put records.

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};
use crate::format::file_name::FileKind;
use crate::format::numbers::{BlobFileNumber, FileNumber};

const VERSION: u64 = 1;

/// Records of logical blob files, relocated to a physical file of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relocation {
    /// The file that has the records now.
    pub file: BlobFileNumber,
    /// The relocation map.
    pub map: FileNumber,
    /// Records in the file.
    pub count: u64,
    /// Their headers, keys and values, in bytes.
    pub total_bytes: u64,
    /// The logical files, ascending. Their records are in this file now, wherever they were before.
    pub logical: Vec<BlobFileNumber>,
}

impl Relocation {
    /// The names of the file and its map.
    pub(crate) fn files(&self) -> [FileKind; 2] {
        [FileKind::Blob(self.file), FileKind::BlobMap(self.map)]
    }

    /// Appends the encoding.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let numbers = [
            VERSION,
            self.file.0,
            self.map.0,
            self.count,
            self.total_bytes,
        ];
        for number in numbers {
            put_varint(out, number);
        }
        put_varint(out, self.logical.len() as u64);
        for logical in &self.logical {
            put_varint(out, logical.0);
        }
    }

    /// Reads the encoding.
    ///
    /// # Errors
    /// `Unsupported` if it is of a later version; `Corruption`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut d = Decoder::new(bytes);
        let version = d.varint()?;
        if version != VERSION {
            let text = format!("relocation of version {version}");
            return Err(Error::unsupported(text));
        }
        let mut relocation = Relocation {
            file: BlobFileNumber(d.varint()?),
            map: FileNumber(d.varint()?),
            count: d.varint()?,
            total_bytes: d.varint()?,
            logical: Vec::new(),
        };
        let n = d.varint()?;
        if n == 0 || n > d.rest().len() as u64 {
            return Err(Error::corruption("a relocation of no or too many files"));
        }
        for _ in 0..n {
            let logical = BlobFileNumber(d.varint()?);
            if relocation.logical.last() >= Some(&logical) {
                return Err(Error::corruption(
                    "the files of a relocation are out of order",
                ));
            }
            relocation.logical.push(logical);
        }
        match d.is_empty() {
            true => Ok(relocation),
            false => Err(Error::corruption("bytes after a relocation")),
        }
    }
}
