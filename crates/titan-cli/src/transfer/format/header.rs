//! The header of an export.

use bytes::Bytes;
use titan::{Error, Result};
use titan_mvcc::Timestamp;

use super::Fields;
use crate::transfer::pairs::KeyRange;

/// The first bytes of every export.
pub(super) const MAGIC: [u8; 8] = *b"\x89ttnexp\n";
/// The version of the format that this program writes, and the only one that it reads. Exports of
/// version 1 have neither the timestamp that was asked for nor the age of the source.
const VERSION: u32 = 2;
/// Bytes before the body.
pub(super) const PRELUDE: usize = 20;
/// The most bytes of a body: a name and two keys.
pub(super) const LARGEST_BODY: u32 = 64 << 20;
/// Bytes of the checksum.
pub(super) const CHECKSUM: usize = 4;

/// The facts about an export that are known when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The timestamp as of which the pairs are.
    pub(crate) timestamp: Timestamp,
    /// The timestamp that was asked for, which may be later; that of the pairs if none was.
    pub(crate) asked: Timestamp,
    /// The age of the source.
    pub(crate) age: u64,
    /// Whether a later reading at the timestamp finds the same.
    pub(crate) is_resumable: bool,
    /// The name of the source.
    pub(crate) source: String,
    /// The keys that were asked for.
    pub(crate) range: KeyRange,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = Vec::new();
        for number in [self.timestamp.0, self.asked.0, self.age] {
            body.extend_from_slice(&number.to_le_bytes());
        }
        body.push(self.is_resumable.into());
        put_string(&mut body, self.source.as_bytes());
        let from = (!self.range.from.is_empty()).then_some(&self.range.from);
        for key in [from, self.range.to.as_ref()] {
            body.push(key.is_some().into());
            if let Some(key) = key {
                put_string(&mut body, key);
            }
        }
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.append(&mut body);
        let checksum = crc32c::crc32c(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// The length of the body, from the bytes before it.
    ///
    /// # Errors
    /// `InvalidArgument` for a file of another kind, `Unsupported` for another version,
    /// `Corruption`.
    pub(super) fn body_length(prelude: &[u8; PRELUDE]) -> Result<u32> {
        let mut fields = Fields(prelude);
        let (Some(magic), Some(version), Some(length), Some(checksum)) = (
            fields.array::<8>(),
            fields.u32(),
            fields.u32(),
            fields.u32(),
        ) else {
            return Err(damaged());
        };
        if magic != MAGIC {
            return Err(Error::invalid_argument("the file is not an export"));
        }
        if version != VERSION {
            return Err(Error::unsupported(format!(
                "the export has version {version} of its format; this program knows only {VERSION}: \
                 export again"
            )));
        }
        let is_right = crc32c::crc32c(&prelude[..PRELUDE - CHECKSUM]) == checksum;
        match is_right && length <= LARGEST_BODY {
            true => Ok(length),
            false => Err(damaged()),
        }
    }

    /// Decodes a header with its checksum.
    ///
    /// # Errors
    /// `Corruption`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Header> {
        let checked = bytes
            .split_last_chunk()
            .filter(|(before, checksum)| crc32c::crc32c(before) == u32::from_le_bytes(**checksum));
        let body = checked.and_then(|(before, _)| before.get(PRELUDE..));
        let header = body.and_then(|body| {
            let mut fields = Fields(body);
            let timestamp = Timestamp(fields.u64()?);
            let asked = Timestamp(fields.u64()?);
            let age = fields.u64()?;
            let is_resumable = fields.byte()? != 0;
            let source = String::from_utf8(fields.string()?.to_vec()).ok()?;
            let mut key = || {
                let is_given = fields.byte()? != 0;
                let key = if is_given {
                    Some(fields.string()?)
                } else {
                    None
                };
                Some(key.map(Bytes::copy_from_slice))
            };
            let (from, to) = (key()?, key()?);
            Some(Header {
                timestamp,
                asked,
                age,
                is_resumable,
                source,
                range: KeyRange {
                    from: from.unwrap_or_default(),
                    to,
                },
            })
        });
        header.ok_or_else(damaged)
    }
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn damaged() -> Error {
    Error::corruption("the header of the export is damaged")
}

#[cfg(test)]
mod tests {
    use titan::ErrorKind;

    use super::*;

    #[test]
    fn only_the_present_version_is_read() {
        for version in [0, VERSION - 1, VERSION + 1] {
            let mut prelude = MAGIC.to_vec();
            prelude.extend_from_slice(&version.to_le_bytes());
            prelude.extend_from_slice(&42_u32.to_le_bytes());
            let checksum = crc32c::crc32c(&prelude);
            prelude.extend_from_slice(&checksum.to_le_bytes());
            let refused = Header::body_length(prelude.first_chunk().unwrap()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Unsupported);
            let named = format!("version {version} of its format");
            assert!(refused.to_string().contains(&named), "{refused}");
        }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for (from, to) in [("", None), ("a", None), ("a", Some("b")), ("", Some("z"))] {
            let header = Header {
                timestamp: Timestamp(u64::MAX - 7),
                asked: Timestamp(u64::MAX - 6),
                age: 1 << 50,
                is_resumable: to.is_some(),
                source: "cluster 7".to_owned(),
                range: KeyRange {
                    from: from.into(),
                    to: to.map(Bytes::from),
                },
            };
            let bytes = header.encode();
            let prelude = bytes.first_chunk().unwrap();
            let body = Header::body_length(prelude).unwrap() as usize;
            assert_eq!(bytes.len(), PRELUDE + body + CHECKSUM);
            assert_eq!(Header::decode(&bytes).unwrap(), header);
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert!(Header::decode(&damaged).is_err(), "{at}");
            }
        }
    }
}
