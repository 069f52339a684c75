//! Records of a compressed log: each logical record is a separate Zstandard frame.

use crate::format::codec::zstd;

/// The method that a log can be compressed with.
pub(super) const ZSTD: u32 = 7;
/// No batch is larger. Fuzzing has a lower limit, because its inputs try to be as large as
/// possible.
const MAX_SIZE: u64 = if cfg!(fuzzing) { 1 << 26 } else { 1 << 32 };

/// Decompresses a record into `out`, with no more memory than the result needs; false if it is not
/// a valid frame, or is larger than a record can be.
pub(super) fn decompress(stored: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    zstd::decompress_frame(stored, MAX_SIZE, out).is_some()
}
