//! An id that distinguishes a table from all others, of this database or another.
//!
//! RocksDB computes it from three properties of a table: the database's id, the id of the session
//! that wrote it and the file number it got there. The MANIFEST has it too, so that opening a table
//! detects whether it was replaced by another, by a mistake of people or disks.

use super::FileNumber;

/// The form in the MANIFEST: two little-endian 64-bit words.
pub(crate) type UniqueId = [u8; 16];

/// The possible lengths of session ids: base-36 digits, of which the last twelve count within a
/// process.
const SESSION_DIGITS: std::ops::RangeInclusive<usize> = 13..=24;
const LOWER_DIGITS: usize = 12;

/// The unique id of a table; `None` if the other ids are not valid, as in tables of old RocksDB.
pub(crate) fn unique_id(db_id: &[u8], session_id: &[u8], number: FileNumber) -> Option<UniqueId> {
    if db_id.is_empty() || number.0 == 0 || !SESSION_DIGITS.contains(&session_id.len()) {
        return None;
    }
    let (high, low) = session_id.split_at(session_id.len() - LOWER_DIGITS);
    let (high, low) = (base36(high)?, base36(low)?);
    // The lowest two bits of the upper digits move to the top of the lower half.
    let upper = high >> 2;
    let lower = (low & (u64::MAX >> 2)) | high << 62;
    let hash = xxhash_rust::xxh3::xxh3_128_with_seed(db_id, upper);
    let second = (hash >> 64) as u64 ^ number.0;
    let mut id = UniqueId::default();
    id[..8].copy_from_slice(&lower.to_le_bytes());
    id[8..].copy_from_slice(&second.to_le_bytes());
    Some(id)
}

/// Parses base-36 digits: digits and capital letters.
fn base36(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'A'..=b'Z' => digit - b'A' + 10,
            _ => return None,
        };
        number.checked_mul(36)?.checked_add(u64::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_what_rocksdb_recorded() {
        let cases: [(&str, &str, u64, &UniqueId); 3] = [
            (
                "07706c61-5bba-4bd7-a3d6-633b1d78dcb5",
                "FED9GKZHMX426INQ9184",
                28,
                b"t$\xcc\x15\xdf\x9f\xddi\x1f1\xab\xcb\xb1\xb6\x84\xbd",
            ),
            (
                "1244491c-cda6-46b5-8c49-34091a4f0052",
                "97HJD14NK35WP611KS39",
                14,
                b"5\xb0\xf5\x1b[b\xb1\xe4\xef0pk\x90$\x85\xff",
            ),
            (
                "59d1563c-8235-4444-b7e9-e5dbbd3607c6",
                "240AHCCIKA9NHP43RIA6",
                9,
                b"N\xd8\xf0c\x00\xa9\r\xa5K\t*\xd9h\x99\xb4\xd6",
            ),
        ];
        for (db, session, number, recorded) in cases {
            let id = unique_id(db.as_bytes(), session.as_bytes(), FileNumber(number));
            assert_eq!(id.as_ref(), Some(recorded));
        }
    }

    #[test]
    fn ids_that_give_none() {
        let of = |db: &[u8], session: &[u8], number| unique_id(db, session, FileNumber(number));
        assert!(of(b"db", b"0123456789ABC", 1).is_some());
        assert!(of(b"db", b"ZZZZZZZZZZZZZZZZZZZZZZZZ", 1).is_some());
        for (db, session, number) in [
            (&b""[..], &b"0123456789ABC"[..], 1),
            (b"db", b"0123456789AB", 1),
            (b"db", b"0123456789012345678901234", 1),
            (b"db", b"0123456789abc", 1),
            (b"db", b"0123456789ABC", 0),
        ] {
            assert_eq!(of(db, session, number), None);
        }
    }
}
