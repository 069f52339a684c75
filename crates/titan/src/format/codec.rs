//! The codecs themselves, each behind the feature of the crate that has its name. Nothing else of
//! the engine calls them.
//!
//! Promises `None` for data that do not decompress to the given size. Without its feature, a codec
//! gives `None` for everything: [`CompressionType::require`](super::CompressionType) has refused it
//! before.

#[cfg(feature = "snappy")]
pub(crate) mod snappy {
    use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

    /// Appends the compressed form of `raw`.
    pub(in crate::format) fn compress(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        out.resize(start + max_compress_len(raw.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let n = Encoder::new().compress(raw, room).ok()?;
        out.truncate(start + n);
        Some(())
    }

    /// The size of the data, as they say themselves.
    pub(in crate::format) fn size(packed: &[u8]) -> Option<usize> {
        decompress_len(packed).ok()
    }

    pub(in crate::format) fn decompress(packed: &[u8]) -> Option<Vec<u8>> {
        Decoder::new().decompress_vec(packed).ok()
    }
}

#[cfg(not(feature = "snappy"))]
pub(crate) mod snappy {
    pub(in crate::format) fn compress(_: &[u8], _: &mut Vec<u8>) -> Option<()> {
        None
    }

    pub(in crate::format) fn size(_: &[u8]) -> Option<usize> {
        None
    }

    pub(in crate::format) fn decompress(_: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(feature = "lz4")]
pub(crate) mod lz4 {
    use lz4_flex::block;

    /// Appends the compressed form of `raw`.
    pub(in crate::format) fn compress(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let start = out.len();
        out.resize(start + block::get_maximum_output_size(raw.len()), 0);
        let room = out.get_mut(start..).unwrap_or_default();
        let n = block::compress_into(raw, room).ok()?;
        out.truncate(start + n);
        Some(())
    }

    pub(in crate::format) fn decompress(
        packed: &[u8],
        dictionary: Option<&[u8]>,
        size: usize,
    ) -> Option<Vec<u8>> {
        match dictionary {
            None => block::decompress(packed, size).ok(),
            Some(dictionary) => block::decompress_with_dict(packed, size, dictionary).ok(),
        }
    }
}

#[cfg(not(feature = "lz4"))]
pub(crate) mod lz4 {
    pub(in crate::format) fn compress(_: &[u8], _: &mut Vec<u8>) -> Option<()> {
        None
    }

    pub(in crate::format) fn decompress(_: &[u8], _: Option<&[u8]>, _: usize) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(feature = "zstd")]
pub(crate) mod zstd {
    use ::zstd::bulk::{self, Decompressor};
    use ::zstd::dict::DecoderDictionary;

    /// The level if none is configured: RocksDB's default.
    pub(in crate::format) const LEVEL: i32 = 3;

    /// A dictionary in the form that decompression needs.
    pub(in crate::format) type Prepared = DecoderDictionary<'static>;

    /// `None` if Zstandard rejects the bytes.
    pub(in crate::format) fn prepare(dictionary: &[u8]) -> Option<Prepared> {
        DecoderDictionary::try_copy(dictionary).ok()
    }

    /// Appends the compressed form of `raw`.
    pub(in crate::format) fn compress(raw: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.extend_from_slice(&bulk::compress(raw, LEVEL).ok()?);
        Some(())
    }

    pub(in crate::format) fn decompress(
        packed: &[u8],
        dictionary: Option<&Prepared>,
        size: usize,
    ) -> Option<Vec<u8>> {
        match dictionary {
            None => bulk::decompress(packed, size).ok(),
            Some(dictionary) => Decompressor::with_prepared_dictionary(dictionary)
                .and_then(|mut zstd| zstd.decompress(packed, size))
                .ok(),
        }
    }

    /// Decompresses a frame into `out`, with no more memory than the result needs. `None` if it is
    /// not a valid frame, or has `max` bytes or more.
    pub(crate) fn decompress_frame(stored: &[u8], max: u64, out: &mut Vec<u8>) -> Option<()> {
        use std::io::Read;

        let decoder = ::zstd::stream::read::Decoder::with_buffer(stored).ok()?;
        let read = decoder.take(max).read_to_end(out).ok()?;
        ((read as u64) < max).then_some(())
    }
}

#[cfg(not(feature = "zstd"))]
pub(crate) mod zstd {
    pub(in crate::format) struct Prepared;

    pub(in crate::format) fn prepare(_: &[u8]) -> Option<Prepared> {
        None
    }

    pub(in crate::format) fn compress(_: &[u8], _: &mut Vec<u8>) -> Option<()> {
        None
    }

    pub(in crate::format) fn decompress(
        _: &[u8],
        _: Option<&Prepared>,
        _: usize,
    ) -> Option<Vec<u8>> {
        None
    }

    pub(crate) fn decompress_frame(_: &[u8], _: u64, _: &mut Vec<u8>) -> Option<()> {
        None
    }
}

#[cfg(feature = "zlib")]
pub(crate) mod zlib {
    use flate2::{Decompress, FlushDecompress, Status};

    /// Raw deflate, without zlib's header: one whole stream of at most `size + 1` bytes.
    pub(in crate::format) fn decompress(
        packed: &[u8],
        dictionary: Option<&[u8]>,
        size: usize,
    ) -> Option<Vec<u8>> {
        let mut stream = Decompress::new(false);
        if let Some(dictionary) = dictionary {
            stream.set_dictionary(dictionary).ok()?;
        }
        let mut raw = Vec::with_capacity(size + 1);
        let status = stream.decompress_vec(packed, &mut raw, FlushDecompress::Finish);
        (status.ok()? == Status::StreamEnd).then_some(raw)
    }
}

#[cfg(not(feature = "zlib"))]
pub(crate) mod zlib {
    pub(in crate::format) fn decompress(_: &[u8], _: Option<&[u8]>, _: usize) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(feature = "bzip2")]
pub(crate) mod bzip2 {
    use ::bzip2::{Decompress, Status};

    /// Bytes of a stream's first output buffer.
    const ROOM: usize = 64 << 10;

    /// One whole stream of at most `size` bytes.
    pub(in crate::format) fn decompress(packed: &[u8], size: usize) -> Option<Vec<u8>> {
        let mut stream = Decompress::new(false);
        let mut raw = Vec::new();
        loop {
            // Each round at most doubles the buffer: the size prefix may be false.
            let room = raw.len().max(ROOM).min(size - raw.len());
            raw.reserve_exact(room);
            let rest = packed.get(stream.total_in() as usize..)?;
            let (read, written) = (stream.total_in(), raw.len());
            match stream.decompress_vec(rest, &mut raw).ok()? {
                Status::StreamEnd => return (raw.len() <= size).then_some(raw),
                _ if raw.len() > size => return None,
                _ if (stream.total_in(), raw.len()) == (read, written) => return None,
                _ => {}
            }
        }
    }
}

#[cfg(not(feature = "bzip2"))]
pub(crate) mod bzip2 {
    pub(in crate::format) fn decompress(_: &[u8], _: usize) -> Option<Vec<u8>> {
        None
    }
}
