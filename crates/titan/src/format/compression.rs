//! Block and blob compression in RocksDB's framing: a varint of the uncompressed size in front
//! of the codec's raw output (Snappy carries its own size, so it has no prefix).

use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};

/// How a block or blob is compressed. The numbers are RocksDB's.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum CompressionType {
    /// Stored as it is.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// LZ4 block format.
    Lz4 = 4,
    /// Zstandard.
    Zstd = 7,
}

impl CompressionType {
    /// Decodes the byte that blocks, blob headers and blob indexes carry.
    pub(crate) fn from_u8(v: u8) -> Result<Self> {
        Ok(match v {
            0 => CompressionType::None,
            1 => CompressionType::Snappy,
            // 5 is LZ4HC, which differs from LZ4 only in how hard the encoder tries.
            4 | 5 => CompressionType::Lz4,
            7 => CompressionType::Zstd,
            2 => return Err(Error::unsupported("zlib compression")),
            3 => return Err(Error::unsupported("bzip2 compression")),
            6 => return Err(Error::unsupported("xpress compression")),
            0x40 => return Err(Error::unsupported("pre-release zstd compression")),
            _ => return Err(Error::corruption(format!("unknown compression type {v}"))),
        })
    }

    /// The most bytes that one stored byte can stand for. Bounds what a false size can reserve.
    pub(crate) fn max_expansion(self) -> usize {
        match self {
            CompressionType::None => 1,
            // A copy of 64 bytes takes 3.
            CompressionType::Snappy => 32,
            // A byte that lengthens a match counts up to 255.
            CompressionType::Lz4 => 255,
            // A block of 128 KiB of one byte takes 4.
            CompressionType::Zstd => 32 << 10,
        }
    }

    /// RocksDB's name, as the `rocksdb.compression` property of an SST has it.
    pub(crate) fn property_name(self) -> &'static str {
        match self {
            CompressionType::None => "NoCompression",
            CompressionType::Snappy => "Snappy",
            CompressionType::Lz4 => "LZ4",
            CompressionType::Zstd => "ZSTD",
        }
    }

    /// RocksDB's name in an OPTIONS file.
    pub fn option_name(self) -> &'static str {
        match self {
            CompressionType::None => "kNoCompression",
            CompressionType::Snappy => "kSnappyCompression",
            CompressionType::Lz4 => "kLZ4Compression",
            CompressionType::Zstd => "kZSTD",
        }
    }
}

/// Zstandard's level where none is configured: RocksDB's default.
const ZSTD_LEVEL: i32 = 3;

/// Appends the compressed form of `raw` to `out`. For `None` that is `raw` itself.
pub(crate) fn compress(kind: CompressionType, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let failed = |what: &str| Error::corruption(format!("{what} compression failed"));
    match kind {
        CompressionType::None => out.extend_from_slice(raw),
        CompressionType::Snappy => {
            let start = out.len();
            out.resize(start + snap::raw::max_compress_len(raw.len()), 0);
            let room = out.get_mut(start..).unwrap_or_default();
            let n = snap::raw::Encoder::new()
                .compress(raw, room)
                .map_err(|_| failed("snappy"))?;
            out.truncate(start + n);
        }
        CompressionType::Lz4 => {
            put_varint(out, raw.len() as u64);
            let start = out.len();
            out.resize(
                start + lz4_flex::block::get_maximum_output_size(raw.len()),
                0,
            );
            let room = out.get_mut(start..).unwrap_or_default();
            let n = lz4_flex::block::compress_into(raw, room).map_err(|_| failed("lz4"))?;
            out.truncate(start + n);
        }
        CompressionType::Zstd => {
            put_varint(out, raw.len() as u64);
            let packed = zstd::bulk::compress(raw, ZSTD_LEVEL).map_err(|_| failed("zstd"))?;
            out.extend_from_slice(&packed);
        }
    }
    Ok(())
}

/// The inverse of [`compress`]. `stored` comes from a file: anything wrong is corruption.
/// Allocates at most `max_size` bytes, whatever the size prefix claims.
pub(crate) fn decompress(kind: CompressionType, stored: &[u8], max_size: usize) -> Result<Vec<u8>> {
    let bad = |what: &str| Error::corruption(format!("{what} data does not decompress"));
    let limited = |size: usize| {
        if size > max_size {
            return Err(Error::corruption(format!(
                "uncompressed size {size} exceeds the limit of {max_size}"
            )));
        }
        Ok(size)
    };
    match kind {
        CompressionType::None => Ok(stored.to_vec()),
        CompressionType::Snappy => {
            limited(snap::raw::decompress_len(stored).map_err(|_| bad("snappy"))?)?;
            snap::raw::Decoder::new()
                .decompress_vec(stored)
                .map_err(|_| bad("snappy"))
        }
        CompressionType::Lz4 | CompressionType::Zstd => {
            let mut d = Decoder::new(stored);
            let size = limited(d.varint32()? as usize)?;
            let raw = match kind {
                CompressionType::Lz4 => {
                    lz4_flex::block::decompress(d.rest(), size).map_err(|_| bad("lz4"))?
                }
                _ => zstd::bulk::decompress(d.rest(), size).map_err(|_| bad("zstd"))?,
            };
            if raw.len() != size {
                return Err(Error::corruption(format!(
                    "decompressed to {} bytes where {size} were announced",
                    raw.len()
                )));
            }
            Ok(raw)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [CompressionType; 4] = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];

    #[test]
    fn everything_comes_back() {
        let texts: [&[u8]; 3] = [b"", b"x", &b"the same again and again ".repeat(200)];
        for kind in ALL {
            for raw in texts {
                let mut packed = b"in front".to_vec();
                compress(kind, raw, &mut packed).unwrap();
                assert_eq!(
                    decompress(kind, &packed[8..], raw.len()).unwrap(),
                    raw,
                    "{kind:?}"
                );
                assert_eq!(CompressionType::from_u8(kind as u8).unwrap(), kind);
            }
        }
    }

    #[test]
    fn damage_is_corruption_and_never_a_large_allocation() {
        for kind in &ALL[1..] {
            let mut packed = Vec::new();
            compress(*kind, &b"abcdefgh".repeat(100), &mut packed).unwrap();
            assert!(decompress(*kind, &packed, 100).unwrap_err().is_corruption());
            packed.truncate(packed.len() / 2);
            assert!(
                decompress(*kind, &packed, 1 << 20)
                    .unwrap_err()
                    .is_corruption()
            );
            assert!(
                decompress(*kind, &[0xff; 9], 1 << 20)
                    .unwrap_err()
                    .is_corruption()
            );
        }
    }
}
