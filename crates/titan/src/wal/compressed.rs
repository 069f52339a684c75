//! Records of a compressed log: each logical one is a Zstandard frame of its own.

use std::io::Read;

/// The method that a log can be compressed with.
pub(super) const ZSTD: u32 = 7;
/// No batch is larger. While inputs are made up to be as large as possible, less is.
const MAX_SIZE: u64 = if cfg!(fuzzing) { 1 << 26 } else { 1 << 32 };

/// Puts what a record stands for into `out`, which costs no more memory than that; false if it
/// stands for nothing, or for more than a record can hold.
pub(super) fn decompress(stored: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(stored) else {
        return false;
    };
    let read = decoder.take(MAX_SIZE).read_to_end(out);
    read.is_ok_and(|n| (n as u64) < MAX_SIZE)
}
