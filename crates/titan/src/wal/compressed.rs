//! Records of a compressed log: each logical record is a separate Zstandard frame.

use std::io::Read;

/// The method that a log can be compressed with.
pub(super) const ZSTD: u32 = 7;
/// No batch is larger. Fuzzing has a lower limit, because its inputs try to be as large as
/// possible.
const MAX_SIZE: u64 = if cfg!(fuzzing) { 1 << 26 } else { 1 << 32 };

/// Decompresses a record into `out`, with no more memory than the result needs; false if it is not
/// a valid frame, or is larger than a record can be.
pub(super) fn decompress(stored: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let Ok(decoder) = zstd::stream::read::Decoder::with_buffer(stored) else {
        return false;
    };
    let read = decoder.take(MAX_SIZE).read_to_end(out);
    read.is_ok_and(|n| (n as u64) < MAX_SIZE)
}
