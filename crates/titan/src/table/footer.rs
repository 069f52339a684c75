//! Block handles and the footer: where reading a table starts.

use crate::error::{Error, Result};
use crate::format::checksum::ChecksumType;
use crate::format::coding::{Decoder, put_varint};

/// The magic number of block-based tables.
const MAGIC: u64 = 0x88e2_41b7_85f4_cff7;
const MAGIC_BLOCK_BASED_V0: u64 = 0xdb47_7524_8b80_fb57;
const MAGIC_PLAIN: [u64; 2] = [0x8242_2296_63bf_9564, 0x4f34_18eb_7a8f_13b8];
const MAGIC_CUCKOO: u64 = 0x9267_89d0_c5f1_7873;

/// Whether a file that ends with this number, little-endian, is a table of some kind.
pub fn is_magic(number: u64) -> bool {
    number == MAGIC
        || number == MAGIC_BLOCK_BASED_V0
        || number == MAGIC_CUCKOO
        || MAGIC_PLAIN.contains(&number)
}

/// Whether the last bytes of a file are the footer of a table of the kind that can be read, in any
/// version.
pub fn is_block_based(footer: &[u8; FOOTER_LEN]) -> bool {
    footer.ends_with(&MAGIC.to_le_bytes()) || footer.ends_with(&MAGIC_BLOCK_BASED_V0.to_le_bytes())
}

/// The format version this engine writes.
const WRITTEN_VERSION: u32 = 5;
/// The footer's bytes, from version 1 on.
pub const FOOTER_LEN: usize = 53;
/// The footer's bytes in version 0, which is LevelDB's: two handles, padded, and the magic number.
const FOOTER_LEN_V0: usize = 48;
/// Compression type and checksum after each block.
pub const BLOCK_TRAILER_LEN: usize = 5;
/// Checksum type and handles: where `format_version` starts in versions 1 to 5.
const HANDLES_END: usize = 41;
const EXTENDED_MAGIC: [u8; 4] = [0x3e, 0, 0x7a, 0];

/// Where a block is. `size` excludes the 5-byte trailer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockHandle {
    pub offset: u64,
    pub size: u64,
}

impl BlockHandle {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        put_varint(out, self.offset);
        put_varint(out, self.size);
    }

    pub fn decode(d: &mut Decoder<'_>) -> Result<Self> {
        Ok(BlockHandle {
            offset: d.varint()?,
            size: d.varint()?,
        })
    }

    /// The block's bytes on disk, trailer included; fails unless they end at or before `limit`.
    pub(super) fn stored_len(self, limit: u64) -> Result<usize> {
        let len = self.size.checked_add(BLOCK_TRAILER_LEN as u64);
        match len.and_then(|len| Some((len, self.offset.checked_add(len)?))) {
            // The format keeps block sizes in 32 bits.
            Some((len, end)) if end <= limit && len <= u64::from(u32::MAX) => Ok(len as usize),
            _ => Err(Error::corruption(format!(
                "block handle {}+{} reaches beyond {limit}",
                self.offset, self.size
            ))),
        }
    }
}

/// The fixed-size end of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footer {
    pub format_version: u32,
    pub checksum: ChecksumType,
    /// Mixed into every block's checksum with its offset; 0 before version 6.
    pub base_context_checksum: u32,
    pub metaindex: BlockHandle,
    /// `None` from version 6 on: the metaindex names it.
    pub index: Option<BlockHandle>,
}

/// Addition of a block's offset to its checksum from version 6 on, so that misplaced blocks are
/// detected.
pub fn context_modifier(base: u32, offset: u64) -> u32 {
    if base == 0 {
        return 0;
    }
    base ^ (offset as u32).wrapping_add((offset >> 32) as u32)
}

impl Footer {
    /// Appends a version 5 footer.
    pub(super) fn encode_v5(
        out: &mut Vec<u8>,
        checksum: ChecksumType,
        metaindex: BlockHandle,
        index: BlockHandle,
    ) {
        let start = out.len();
        out.push(checksum as u8);
        metaindex.encode(out);
        index.encode(out);
        out.resize(start + HANDLES_END, 0);
        out.extend_from_slice(&WRITTEN_VERSION.to_le_bytes());
        out.extend_from_slice(&MAGIC.to_le_bytes());
    }

    /// Reads the last [`FOOTER_LEN`] bytes of a file, which start at `offset`.
    pub fn decode(bytes: &[u8; FOOTER_LEN], offset: u64) -> Result<Self> {
        let mut tail = Decoder::new(bytes.get(HANDLES_END..).unwrap_or_default());
        let format_version = tail.u32()?;
        match tail.u64()? {
            MAGIC => {}
            MAGIC_BLOCK_BASED_V0 => return Self::decode_v0(bytes),
            m if MAGIC_PLAIN.contains(&m) => return Err(Error::unsupported("plain table")),
            MAGIC_CUCKOO => return Err(Error::unsupported("cuckoo table")),
            _ => return Err(Error::corruption("not a table: wrong magic number")),
        }
        let mut d = Decoder::new(bytes);
        let checksum = ChecksumType::from_u8(d.u8()?)?;
        match format_version {
            2..=5 => {
                let metaindex = BlockHandle::decode(&mut d)?;
                let index = Some(BlockHandle::decode(&mut d)?);
                if d.position() > HANDLES_END {
                    return Err(Error::corruption("footer handles run into the version"));
                }
                let base_context_checksum = 0;
                Ok(Footer {
                    format_version,
                    checksum,
                    base_context_checksum,
                    metaindex,
                    index,
                })
            }
            6 | 7 => Self::decode_v6(bytes, d, format_version, checksum, offset),
            0 | 1 | 8..=64 => Err(Error::unsupported(format!(
                "table of format version {format_version}"
            ))),
            _ => Err(Error::corruption(format!(
                "table of format version {format_version}"
            ))),
        }
    }

    /// Version 0 has no version number and no checksum type: it is always CRC32c.
    fn decode_v0(bytes: &[u8; FOOTER_LEN]) -> Result<Self> {
        let handles = bytes.get(FOOTER_LEN - FOOTER_LEN_V0..FOOTER_LEN - size_of::<u64>());
        let mut d = Decoder::new(handles.unwrap_or_default());
        Ok(Footer {
            format_version: 0,
            checksum: ChecksumType::Crc32c,
            base_context_checksum: 0,
            metaindex: BlockHandle::decode(&mut d)?,
            index: Some(BlockHandle::decode(&mut d)?),
        })
    }

    /// Its length in bytes.
    pub fn encoded_len(&self) -> usize {
        match self.format_version {
            0 => FOOTER_LEN_V0,
            _ => FOOTER_LEN,
        }
    }

    fn decode_v6(
        bytes: &[u8; FOOTER_LEN],
        mut d: Decoder<'_>,
        format_version: u32,
        checksum: ChecksumType,
        offset: u64,
    ) -> Result<Self> {
        if d.bytes(EXTENDED_MAGIC.len())? != EXTENDED_MAGIC {
            return Err(Error::corruption(
                "footer without its extended magic number",
            ));
        }
        let at = d.position();
        let stored = d.u32()?;
        let base_context_checksum = d.u32()?;
        let size = u64::from(d.u32()?);
        let mut zeroed = *bytes;
        if let Some(field) = zeroed.get_mut(at..at + 4) {
            field.fill(0);
        }
        let [payload @ .., last] = &zeroed;
        let expected = checksum
            .block_checksum(payload, *last)
            .wrapping_add(context_modifier(base_context_checksum, offset));
        if checksum != ChecksumType::None && stored != expected {
            return Err(Error::corruption("footer checksum mismatch"));
        }
        let start = offset.checked_sub(BLOCK_TRAILER_LEN as u64 + size);
        let Some(start) = start else {
            return Err(Error::corruption("metaindex is larger than the file"));
        };
        Ok(Footer {
            format_version,
            checksum,
            base_context_checksum,
            metaindex: BlockHandle {
                offset: start,
                size,
            },
            index: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_back() {
        let metaindex = BlockHandle {
            offset: 1 << 40,
            size: 77,
        };
        let index = BlockHandle {
            offset: 3,
            size: 1 << 20,
        };
        let mut out = Vec::new();
        Footer::encode_v5(&mut out, ChecksumType::Xxh3, metaindex, index);
        let footer = Footer::decode(out.first_chunk().unwrap(), 0).unwrap();
        assert_eq!((footer.metaindex, footer.index), (metaindex, Some(index)));
        assert_eq!(
            (footer.format_version, footer.checksum),
            (5, ChecksumType::Xxh3)
        );
    }

    #[test]
    fn that_of_level_db_is_shorter() {
        let mut bytes = vec![0xaa; FOOTER_LEN - FOOTER_LEN_V0];
        for at in [300_u64, 20, 400, 1 << 20] {
            put_varint(&mut bytes, at);
        }
        bytes.resize(FOOTER_LEN - 8, 0);
        bytes.extend_from_slice(&MAGIC_BLOCK_BASED_V0.to_le_bytes());
        let footer = Footer::decode(bytes.first_chunk().unwrap(), 0).unwrap();
        let handle = |offset, size| BlockHandle { offset, size };
        assert_eq!(footer.metaindex, handle(300, 20));
        assert_eq!(footer.index, Some(handle(400, 1 << 20)));
        assert_eq!((footer.format_version, footer.encoded_len()), (0, 48));
        assert_eq!(footer.checksum, ChecksumType::Crc32c);
        // Handles that do not end within the footer.
        for byte in &mut bytes[..FOOTER_LEN - 8] {
            *byte = 0xff;
        }
        let damaged = Footer::decode(bytes.first_chunk().unwrap(), 0).unwrap_err();
        assert!(damaged.is_corruption(), "{damaged}");
    }

    #[test]
    fn what_is_foreign_is_named_and_what_is_no_table_is_corruption() {
        let with_magic = |magic: u64, version: u32| {
            let mut bytes = [0u8; FOOTER_LEN];
            bytes[41..45].copy_from_slice(&version.to_le_bytes());
            bytes[45..].copy_from_slice(&magic.to_le_bytes());
            Footer::decode(&bytes, 0).unwrap_err()
        };
        for magic in [MAGIC_PLAIN[0], MAGIC_PLAIN[1], MAGIC_CUCKOO] {
            assert_eq!(with_magic(magic, 2).kind(), crate::ErrorKind::Unsupported);
        }
        assert_eq!(with_magic(MAGIC, 8).kind(), crate::ErrorKind::Unsupported);
        assert!(with_magic(MAGIC, 1 << 30).is_corruption());
        assert!(with_magic(1, 5).is_corruption());
    }

    #[test]
    fn handles_stay_inside_the_file() {
        assert_eq!(
            BlockHandle {
                offset: 10,
                size: 5
            }
            .stored_len(20)
            .unwrap(),
            10
        );
        for bad in [(11, 5), (u64::MAX, 5), (0, u64::MAX), (0, 16)] {
            assert!(
                BlockHandle {
                    offset: bad.0,
                    size: bad.1
                }
                .stored_len(20)
                .is_err()
            );
        }
    }
}
