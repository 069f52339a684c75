//! Corrects the checksums of a damaged file, so that they do not reveal the damage.
//!
//! Each piece of a file that has a checksum is located in the undamaged file: a record of a log or
//! of a blob file by the lengths that lead to it, a block of a table by the checksum itself. After
//! damage that moves nothing, the checksums of the damaged pieces are recomputed.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

/// Bytes with a checksum.
pub(super) struct Piece {
    /// The bytes under the checksum.
    covered: Range<usize>,
    /// The offset of the checksum.
    at: usize,
    sum: fn(&[u8]) -> u32,
}

impl Piece {
    /// Whether any of the range is in it.
    pub(super) fn covers(&self, range: &Range<usize>) -> bool {
        range.start < self.covered.end && self.covered.start < range.end
    }
}

const LOG_BLOCK: usize = 32 << 10;
const LOG_HEADER: usize = 7;
const BLOB_FILE_HEADER: usize = 30;
const BLOB_HEADER: usize = 32;
/// Checksum type and length of a table's footer.
const TABLE_FOOTER: usize = 53;
const XXH3: u8 = 4;

/// The pieces of the file of this name.
pub(super) fn pieces(name: &str, file: &[u8]) -> Vec<Piece> {
    if name.ends_with(".log") || name.starts_with("MANIFEST-") {
        log(file)
    } else if name.ends_with(".blob") {
        blob_file(file)
    } else if name.ends_with(".sst") {
        table(file)
    } else {
        Vec::new()
    }
}

/// Recomputes the checksum of the piece.
pub(super) fn put_right(file: &mut [u8], piece: &Piece) {
    let sum = file.get(piece.covered.clone()).map(piece.sum);
    if let (Some(sum), Some(stored)) = (sum, file.get_mut(piece.at..piece.at + 4)) {
        stored.copy_from_slice(&sum.to_le_bytes());
    }
}

fn masked_crc32c(bytes: &[u8]) -> u32 {
    let crc = crc32c::crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// Of a block: its payload and its compression byte.
fn xxh3_of_block(bytes: &[u8]) -> u32 {
    let Some((&kind, payload)) = bytes.split_last() else {
        return 0;
    };
    xxh3_64(payload) as u32 ^ u32::from(kind).wrapping_mul(0x6b90_83d9)
}

fn number<const N: usize>(file: &[u8], at: usize) -> Option<[u8; N]> {
    file.get(at..)?.first_chunk::<N>().copied()
}

fn log(file: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some(len) = number(file, at + 4).map(u16::from_le_bytes) {
        let end = at + LOG_HEADER + usize::from(len);
        if end > file.len() || len == 0 {
            break;
        }
        pieces.push(Piece {
            covered: at + 6..end,
            at,
            sum: masked_crc32c,
        });
        let left = LOG_BLOCK - end % LOG_BLOCK;
        at = if left < LOG_HEADER { end + left } else { end };
    }
    pieces
}

fn blob_file(file: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let masked = |covered: Range<usize>, at| Piece {
        covered,
        at,
        sum: masked_crc32c,
    };
    let Some(footer) = file.len().checked_sub(BLOB_HEADER) else {
        return pieces;
    };
    let mut at = BLOB_FILE_HEADER;
    while at < footer {
        let len = |at| number(file, at).map_or(0, u64::from_le_bytes) as usize;
        let body = at + BLOB_HEADER;
        let end = body.saturating_add(len(at)).saturating_add(len(at + 8));
        if end > footer {
            break;
        }
        pieces.push(masked(at..at + 24, at + 24));
        pieces.push(masked(body..end, at + 28));
        at = end;
    }
    pieces.push(masked(footer..footer + 28, footer + 28));
    pieces
}

/// The blocks of a table follow each other, each followed by its checksum.
fn table(file: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let Some(footer) = file.len().checked_sub(TABLE_FOOTER) else {
        return pieces;
    };
    if file.get(footer) != Some(&XXH3) {
        return pieces;
    }
    let mut start = 0;
    let mut at = 1;
    while at + 4 <= footer {
        let covered = file.get(start..at).unwrap_or_default();
        if number(file, at).map(u32::from_le_bytes) == Some(xxh3_of_block(covered)) {
            pieces.push(Piece {
                covered: start..at,
                at,
                sum: xxh3_of_block,
            });
            start = at + 4;
            at = start;
        }
        at += 1;
    }
    pieces
}
