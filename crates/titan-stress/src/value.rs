//! Self-describing values.
//!
//! ```text
//! version u64 | amount u64 | length of the key u8 | key | family's name | filler
//! ```
//!
//! Length and filler are determined by the rest: a value of another key or version is
//! recognised as such, and a torn or damaged one is not a value at all.

use crate::op::{Cell, Key};

/// Sizes near which values are frequent: the separation thresholds of the families, see
/// `plan.rs`.
pub const EDGES: [usize; 4] = [64, 256, 1024, 4096];

/// The value of `key` with the contents `cell`. No value is longer than about `max` bytes.
pub fn value(actor: usize, key: Key, cell: Cell, max: usize) -> Vec<u8> {
    let name = key.bytes(actor);
    let mut value = Vec::with_capacity(64);
    value.extend_from_slice(&cell.version.to_le_bytes());
    value.extend_from_slice(&cell.amount.to_le_bytes());
    value.push(name.len() as u8);
    value.extend_from_slice(&name);
    value.extend_from_slice(key.family.name(actor).as_bytes());

    let mut rng = fastrand::Rng::with_seed(seed(actor, key, cell));
    let len = match rng.u8(..20) {
        0..8 => value.len() + rng.usize(..64),
        8..14 => EDGES[rng.usize(..EDGES.len())] - 2 + rng.usize(..5),
        14..19 => rng.usize(..=max.min(4200)),
        _ => rng.usize(..=max),
    };
    let filled = value.len();
    value.resize(len.max(filled), 0);
    let filler = value.get_mut(filled..).unwrap_or_default();
    match rng.bool() {
        true => rng.fill(filler),
        // Compressible bytes.
        false => {
            let letter = rng.u8(b'a'..=b'y');
            for (i, byte) in filler.iter_mut().enumerate() {
                *byte = letter + (i % 32 == 0) as u8;
            }
        }
    }
    value
}

fn seed(actor: usize, key: Key, cell: Cell) -> u64 {
    let parts = [
        actor as u64,
        key.family as u64,
        u64::from(key.number),
        cell.version,
        cell.amount,
    ];
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |hash, part| {
        (hash ^ part)
            .wrapping_mul(0xff51_afd7_ed55_8ccd)
            .rotate_left(29)
    })
}

/// The contents that `bytes`, read at `key`, claim.
///
/// # Errors
/// Why they are not a value that was ever written there.
pub fn read(actor: usize, key: Key, bytes: &[u8], max: usize) -> Result<Cell, String> {
    let place = format!("{key} of actor {actor} ({} bytes)", bytes.len());
    let number = |at: usize| -> Option<u64> {
        let bytes = bytes.get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    };
    let (Some(version), Some(amount)) = (number(0), number(8)) else {
        return Err(format!("{place} holds a value cut short"));
    };
    let cell = Cell { version, amount };
    let expected = value(actor, key, cell, max);
    if expected == bytes {
        return Ok(cell);
    }
    let name_len = bytes.get(16).map_or(0, |len| usize::from(*len));
    let name = bytes.get(17..17 + name_len).unwrap_or_default();
    if name != key.bytes(actor) {
        let name = String::from_utf8_lossy(name);
        return Err(format!(
            "{place} holds a value of key '{name}', version {version}"
        ));
    }
    let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b);
    Err(format!(
        "{place} holds a value that claims version {version}, which has {} bytes, and differs from \
         byte {} on",
        expected.len(),
        same.count()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Family, parse_key};

    #[test]
    fn a_value_is_recognised_and_anything_else_is_not() {
        let (key, max) = (parse_key("b7").unwrap(), 30_000);
        for version in 0..300 {
            let cell = Cell { version, amount: 5 };
            let mut bytes = value(2, key, cell, max);
            assert_eq!(read(2, key, &bytes, max), Ok(cell));
            let other = Key { number: 8, ..key };
            assert!(
                read(2, other, &bytes, max)
                    .unwrap_err()
                    .contains("'02.0000007'")
            );
            let other = Key {
                family: Family::Inline,
                ..key
            };
            assert!(read(2, other, &bytes, max).is_err());
            let at = version as usize * 97 % bytes.len();
            bytes[at] ^= 4;
            assert!(
                read(2, key, &bytes, max).is_err(),
                "version {version}, byte {at}"
            );
            bytes[at] ^= 4;
            bytes.pop();
            assert!(read(2, key, &bytes, max).is_err());
        }
    }
}
