//! Block and blob compression in RocksDB's framing: a varint of the uncompressed size before the
//! codec's raw output (Snappy output has its own size, so it has no prefix).

use std::sync::OnceLock;

use bytes::Bytes;

use super::codec::{bzip2, lz4, snappy, zlib, zstd};
use crate::error::{Error, Result};
use crate::format::coding::{Decoder, put_varint};

/// Compression of a block or blob. The numbers are RocksDB's. All of them can be read, if the crate
/// was built with the codec's feature.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "lowercase")
)]
#[repr(u8)]
#[non_exhaustive]
pub enum CompressionType {
    /// Stored as it is.
    #[default]
    None = 0,
    /// Snappy.
    Snappy = 1,
    /// Raw deflate. Only read.
    Zlib = 2,
    /// bzip2. Only read.
    Bzip2 = 3,
    /// LZ4 block format.
    Lz4 = 4,
    /// LZ4 block format, from an encoder that compresses harder. Only read.
    Lz4hc = 5,
    /// Zstandard.
    Zstd = 7,
    /// Zstandard before its format was final, as RocksDB calls it. Only read.
    #[cfg_attr(feature = "serde", serde(skip))]
    ZstdNotFinal = 0x40,
}

impl CompressionType {
    /// Decodes the byte that blocks, blob headers and blob indexes carry.
    pub fn from_u8(v: u8) -> Result<Self> {
        Ok(match v {
            0 => CompressionType::None,
            1 => CompressionType::Snappy,
            2 => CompressionType::Zlib,
            3 => CompressionType::Bzip2,
            4 => CompressionType::Lz4,
            5 => CompressionType::Lz4hc,
            7 => CompressionType::Zstd,
            0x40 => CompressionType::ZstdNotFinal,
            6 => return Err(Error::unsupported("xpress compression")),
            // RocksDB leaves these to compression managers of applications.
            0x80..=0xfe => {
                return Err(Error::unsupported(format!("custom compression type {v}")));
            }
            _ => return Err(Error::corruption(format!("unknown compression type {v}"))),
        })
    }

    /// All codecs.
    pub(crate) const ALL: [CompressionType; 8] = [
        CompressionType::None,
        CompressionType::Snappy,
        CompressionType::Zlib,
        CompressionType::Bzip2,
        CompressionType::Lz4,
        CompressionType::Lz4hc,
        CompressionType::Zstd,
        CompressionType::ZstdNotFinal,
    ];

    /// Whether this build has all codecs, so that no file of ours needs one that is missing.
    pub(crate) fn are_all_compiled_in() -> bool {
        Self::ALL.into_iter().all(Self::is_compiled_in)
    }

    /// Compression of SST blocks if none is stated.
    pub(crate) const OF_TABLES: CompressionType = match cfg!(feature = "lz4") {
        true => CompressionType::Lz4,
        false => CompressionType::None,
    };

    /// Whether the engine writes files that are compressed this way, if the codec is
    /// [compiled in](CompressionType::is_compiled_in).
    pub fn can_write(self) -> bool {
        use CompressionType::{Lz4, None, Snappy, Zstd};
        matches!(self, None | Snappy | Lz4 | Zstd)
    }

    /// The feature of the crate `titan` that compiles the codec in; `None` for data that are stored
    /// as they are.
    pub fn feature(self) -> Option<&'static str> {
        match self {
            CompressionType::None => None,
            CompressionType::Snappy => Some("snappy"),
            CompressionType::Zlib => Some("zlib"),
            CompressionType::Bzip2 => Some("bzip2"),
            CompressionType::Lz4 | CompressionType::Lz4hc => Some("lz4"),
            CompressionType::Zstd | CompressionType::ZstdNotFinal => Some("zstd"),
        }
    }

    /// Whether this build has the codec.
    pub fn is_compiled_in(self) -> bool {
        match self {
            CompressionType::None => true,
            CompressionType::Snappy => cfg!(feature = "snappy"),
            CompressionType::Zlib => cfg!(feature = "zlib"),
            CompressionType::Bzip2 => cfg!(feature = "bzip2"),
            CompressionType::Lz4 | CompressionType::Lz4hc => cfg!(feature = "lz4"),
            CompressionType::Zstd | CompressionType::ZstdNotFinal => cfg!(feature = "zstd"),
        }
    }

    /// Refuses a codec that this build does not have.
    ///
    /// # Errors
    /// `Unsupported` naming the feature that has it.
    pub(crate) fn require(self) -> Result<()> {
        match self.feature() {
            Some(feature) if !self.is_compiled_in() => Err(Error::missing_codec(format!(
                "{} compression: this program was built without the feature `{feature}` of titan",
                self.property_name()
            ))),
            _ => Ok(()),
        }
    }

    /// The most bytes that one stored byte can decompress to. Bounds the memory that a false size
    /// can reserve.
    pub(crate) fn max_expansion(self) -> usize {
        match self {
            CompressionType::None => 1,
            // A copy of 64 bytes takes 3.
            CompressionType::Snappy => 32,
            // A copy of 258 bytes takes two bits.
            CompressionType::Zlib => 1032,
            // 46 MB of one byte take 40. Memory is allocated only as output is produced.
            CompressionType::Bzip2 => 1 << 20,
            // A byte that lengthens a match counts up to 255.
            CompressionType::Lz4 | CompressionType::Lz4hc => 255,
            // A block of 128 KiB of one byte takes 4.
            CompressionType::Zstd | CompressionType::ZstdNotFinal => 32 << 10,
        }
    }

    /// RocksDB's name in the `rocksdb.compression` property of an SST.
    pub(crate) fn property_name(self) -> &'static str {
        match self {
            CompressionType::None => "NoCompression",
            CompressionType::Snappy => "Snappy",
            CompressionType::Zlib => "Zlib",
            CompressionType::Bzip2 => "BZip2",
            CompressionType::Lz4 => "LZ4",
            CompressionType::Lz4hc => "LZ4HC",
            CompressionType::Zstd => "ZSTD",
            CompressionType::ZstdNotFinal => "ZSTDNotFinal",
        }
    }

    /// RocksDB's name in an OPTIONS file.
    pub fn option_name(self) -> &'static str {
        match self {
            CompressionType::None => "kNoCompression",
            CompressionType::Snappy => "kSnappyCompression",
            CompressionType::Zlib => "kZlibCompression",
            CompressionType::Bzip2 => "kBZip2Compression",
            CompressionType::Lz4 => "kLZ4Compression",
            CompressionType::Lz4hc => "kLZ4HCCompression",
            CompressionType::Zstd => "kZSTD",
            CompressionType::ZstdNotFinal => "kZSTDNotFinalCompression",
        }
    }
}

/// Bytes that a codec is given before the first byte of each data block of a table, so that small
/// blocks need not repeat the bytes that they share.
pub struct Dictionary {
    bytes: Bytes,
    /// The form that Zstandard uses; created on first use, `None` if Zstandard rejects the bytes.
    zstd: OnceLock<Option<zstd::Prepared>>,
}

impl Dictionary {
    /// Bytes that Zstandard adds to its copy of a dictionary: tables for entropy decoding.
    const PREPARED: usize = 28 << 10;

    pub(crate) fn new(bytes: Bytes) -> Self {
        Dictionary {
            bytes,
            zstd: OnceLock::new(),
        }
    }

    fn zstd(&self) -> Result<&zstd::Prepared> {
        let prepared = self
            .zstd
            .get_or_init(|| zstd::prepare(&self.bytes))
            .as_ref();
        prepared.ok_or_else(|| Error::corruption("zstd cannot use the table's dictionary"))
    }

    /// An upper bound of its memory in bytes. It includes Zstandard's copy even before that exists,
    /// so the number does not change.
    pub(crate) fn memory_usage(&self) -> usize {
        2 * self.bytes.len() + Self::PREPARED
    }
}

/// Appends the compressed form of `raw` to `out`. For `None` that is `raw` itself.
pub(crate) fn compress(kind: CompressionType, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
    kind.require()?;
    let packed = match kind {
        CompressionType::None => {
            out.extend_from_slice(raw);
            Some(())
        }
        CompressionType::Snappy => snappy::compress(raw, out),
        CompressionType::Lz4 => {
            put_varint(out, raw.len() as u64);
            lz4::compress(raw, out)
        }
        CompressionType::Zstd => {
            put_varint(out, raw.len() as u64);
            zstd::compress(raw, out)
        }
        kind => {
            let text = format!("{} can be read, not written", kind.property_name());
            return Err(Error::unsupported(text));
        }
    };
    packed.ok_or_else(|| Error::corruption(format!("{} compression failed", kind.property_name())))
}

/// The inverse of [`compress`]. `stored` comes from a file: any defect is corruption, and a codec
/// that this build does not have is `Unsupported`.
/// Allocates at most `max_size` bytes, even if the size prefix claims more.
pub fn decompress(kind: CompressionType, stored: &[u8], max_size: usize) -> Result<Vec<u8>> {
    decompress_with(kind, None, stored, max_size)
}

/// [`decompress`] for data compressed with a dictionary. Snappy and bzip2 have no use for one.
pub(crate) fn decompress_with(
    kind: CompressionType,
    dictionary: Option<&Dictionary>,
    stored: &[u8],
    max_size: usize,
) -> Result<Vec<u8>> {
    let bad = || Error::corruption(format!("{} data does not decompress", kind.property_name()));
    let limited = |size: usize| {
        if size > max_size {
            return Err(Error::corruption(format!(
                "uncompressed size {size} exceeds the limit of {max_size}"
            )));
        }
        Ok(size)
    };
    if kind == CompressionType::None {
        return Ok(stored.to_vec());
    }
    kind.require()?;
    if kind == CompressionType::Snappy {
        limited(snappy::size(stored).ok_or_else(bad)?)?;
        return snappy::decompress(stored).ok_or_else(bad);
    }
    let mut d = Decoder::new(stored);
    let size = limited(d.varint32()? as usize)?;
    let packed = d.rest();
    let bytes = dictionary.map(|dictionary| &dictionary.bytes[..]);
    let raw = match kind {
        CompressionType::Zlib => zlib::decompress(packed, bytes, size),
        CompressionType::Bzip2 => bzip2::decompress(packed, size),
        CompressionType::Lz4 | CompressionType::Lz4hc => lz4::decompress(packed, bytes, size),
        _ => {
            let prepared = dictionary.map(Dictionary::zstd).transpose()?;
            zstd::decompress(packed, prepared, size)
        }
    };
    let raw = raw.ok_or_else(bad)?;
    if raw.len() != size {
        return Err(Error::corruption(format!(
            "decompressed to {} bytes where {size} were announced",
            raw.len()
        )));
    }
    Ok(raw)
}

/// Bytes that RocksDB stores for `raw`, with a dictionary or without, and also with codecs that are
/// only read here.
#[cfg(any(test, fuzzing))]
pub(crate) fn compress_as_rocksdb(
    kind: CompressionType,
    dictionary: Option<&[u8]>,
    raw: &[u8],
) -> Result<Vec<u8>> {
    let failed = || Error::corruption("compression failed");
    let mut out = Vec::new();
    if kind == CompressionType::None || kind == CompressionType::Snappy {
        compress(kind, raw, &mut out)?;
        return Ok(out);
    }
    put_varint(&mut out, raw.len() as u64);
    let given = dictionary.unwrap_or_default();
    match kind {
        CompressionType::Zlib => {
            let level = flate2::Compression::default();
            let mut stream = flate2::Compress::new_with_window_bits(level, false, 14);
            if let Some(dictionary) = dictionary {
                stream.set_dictionary(dictionary).map_err(|_| failed())?;
            }
            out.reserve(64 + 2 * raw.len());
            let finish = flate2::FlushCompress::Finish;
            let status = stream.compress_vec(raw, &mut out, finish);
            assert_eq!(status.map_err(|_| failed())?, flate2::Status::StreamEnd);
        }
        CompressionType::Bzip2 => {
            let mut stream = ::bzip2::Compress::new(::bzip2::Compression::fast(), 30);
            out.reserve(1000 + 2 * raw.len());
            let status = stream.compress_vec(raw, &mut out, ::bzip2::Action::Finish);
            assert_eq!(status.map_err(|_| failed())?, ::bzip2::Status::StreamEnd);
        }
        CompressionType::Lz4 | CompressionType::Lz4hc => {
            out.extend(lz4_flex::block::compress_with_dict(raw, given));
        }
        _ => {
            let packer = ::zstd::bulk::Compressor::with_dictionary(zstd::LEVEL, given);
            let packed = packer.and_then(|mut packer| packer.compress(raw));
            out.extend(packed.map_err(|_| failed())?);
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> [Vec<u8>; 5] {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut noise = |n: usize| std::iter::repeat_with(|| rng.u8(..)).take(n).collect();
        [
            b"".to_vec(),
            b"x".to_vec(),
            b"the same again and again ".repeat(200),
            vec![0; 400_000],
            noise(70_000),
        ]
    }

    #[test]
    fn everything_comes_back() {
        for kind in CompressionType::ALL {
            assert_eq!(CompressionType::from_u8(kind as u8).unwrap(), kind);
            for raw in texts() {
                let packed = compress_as_rocksdb(kind, None, &raw).unwrap();
                let limit = (packed.len() * kind.max_expansion()).min(raw.len() + 1);
                assert!(limit >= raw.len(), "{kind:?}");
                assert_eq!(decompress(kind, &packed, limit).unwrap(), raw, "{kind:?}");
                let mut written = b"in front".to_vec();
                if kind.can_write() {
                    compress(kind, &raw, &mut written).unwrap();
                    assert_eq!(decompress(kind, &written[8..], limit).unwrap(), raw);
                } else {
                    let e = compress(kind, &raw, &mut written).unwrap_err();
                    assert_eq!(e.kind(), crate::ErrorKind::Unsupported);
                }
            }
        }
    }

    #[test]
    fn what_a_dictionary_holds_need_not_be_stored() {
        let sample = |i: u32| format!("user {i}: a name, an address in {}, a date", i % 37);
        let sampled: String = (0..500).map(sample).collect();
        let raw = sample(499).repeat(2).into_bytes();
        for kind in CompressionType::ALL {
            let with = compress_as_rocksdb(kind, Some(sampled.as_bytes()), &raw).unwrap();
            let dictionary = Dictionary::new(Bytes::from(sampled.clone()));
            let memory = dictionary.memory_usage();
            let back = decompress_with(kind, Some(&dictionary), &with, raw.len());
            assert_eq!(back.unwrap(), raw, "{kind:?}");
            // The same before and after Zstandard has made its copy.
            assert_eq!(dictionary.memory_usage(), memory, "{kind:?}");
            if kind == CompressionType::Zstd {
                let prepared = dictionary.zstd().unwrap().as_ddict().sizeof();
                let counted = memory - sampled.len();
                assert!(
                    (prepared..prepared + 2048).contains(&counted),
                    "{prepared} {counted}"
                );
            }
            let indifferent = [
                CompressionType::None,
                CompressionType::Snappy,
                CompressionType::Bzip2,
            ];
            if !indifferent.contains(&kind) {
                let without = compress_as_rocksdb(kind, None, &raw).unwrap();
                assert!(with.len() < without.len(), "{kind:?}");
                let lost = decompress(kind, &with, raw.len());
                assert!(!lost.is_ok_and(|lost| lost == raw), "{kind:?}");
            }
        }
        // Begins like a trained dictionary, but is none.
        let torn = Dictionary::new(Bytes::from_static(b"\x37\xa4\x30\xec and so on"));
        let packed = compress_as_rocksdb(CompressionType::Zstd, None, &raw).unwrap();
        let read = decompress_with(CompressionType::Zstd, Some(&torn), &packed, raw.len());
        assert!(read.unwrap_err().is_corruption());
    }

    #[test]
    fn damage_is_corruption_and_never_a_large_allocation() {
        for kind in &CompressionType::ALL[1..] {
            let raw = b"abcdefgh".repeat(100);
            let mut packed = compress_as_rocksdb(*kind, None, &raw).unwrap();
            let failure = |packed: &[u8], limit| decompress(*kind, packed, limit).unwrap_err();
            assert!(failure(&packed, 100).is_corruption());
            if *kind != CompressionType::Snappy {
                // A size that is too small, or too large.
                for wrong in [799u32, 801, 1_000_000] {
                    let mut false_size = Vec::new();
                    put_varint(&mut false_size, wrong.into());
                    false_size.extend_from_slice(&packed[2..]);
                    assert!(failure(&false_size, 1 << 20).is_corruption(), "{kind:?}");
                }
            }
            packed.truncate(packed.len() / 2);
            assert!(failure(&packed, 1 << 20).is_corruption());
            assert!(failure(&[0xff; 9], 1 << 20).is_corruption());
        }
    }

    #[test]
    fn a_false_size_takes_no_memory_in_bzip2() {
        let mut packed = Vec::new();
        put_varint(&mut packed, u32::MAX.into());
        let stream = compress_as_rocksdb(CompressionType::Bzip2, None, b"little").unwrap();
        packed.extend_from_slice(&stream[1..]);
        let read = decompress(CompressionType::Bzip2, &packed, usize::MAX);
        assert!(read.unwrap_err().is_corruption());
        assert_eq!(
            bzip2::decompress(&stream[1..], u32::MAX as usize).unwrap(),
            b"little"
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_from_what_is_damaged() {
        for unknown in [6u8, 0x80, 0xfe] {
            let e = CompressionType::from_u8(unknown).unwrap_err();
            assert_eq!(e.kind(), crate::ErrorKind::Unsupported, "{unknown}");
        }
        for damaged in [8u8, 0x3f, 0x41, 0xff] {
            assert!(
                CompressionType::from_u8(damaged)
                    .unwrap_err()
                    .is_corruption()
            );
        }
    }
}
