//! Values that prove that they were written: each is determined by its family, its key, and its
//! version among a few.

use std::ops::Range;

/// The keys of a base.
pub(super) const KEYS: Range<u32> = 0..24;
/// The versions in which a key may have been written.
pub(super) const VERSIONS: Range<u32> = 0..4;
/// An additional version, so long that a few of its values occupy whole blocks of a file.
pub(super) const LONG: u32 = 4;
/// The families of the bases.
const FAMILIES: [&str; 2] = ["default", "other"];
/// The length of each version's value.
const LENGTHS: [usize; 5] = [24, 60, 200, 40, 3000];

pub(super) fn key(n: u32) -> Vec<u8> {
    format!("key{n:03}").into_bytes()
}

/// A version's value: repeated text, which is compressible and unique to this value.
pub(super) fn value(family: &str, key: &[u8], version: u32) -> Vec<u8> {
    let key = key.escape_ascii();
    let phrase = format!("{family} {key} {version}. ").into_bytes();
    let len = LENGTHS[version as usize % LENGTHS.len()];
    phrase.into_iter().cycle().take(len).collect()
}

/// Whether the pair was ever written to the family. A family that a repair could not name may be
/// any.
pub(super) fn was_written(family: &str, key: &[u8], found: &[u8]) -> bool {
    let unnamed = family.starts_with("recovered-");
    let families = [family]
        .into_iter()
        .chain(FAMILIES.into_iter().filter(|_| unnamed));
    let mut versions = families.flat_map(|family| (0..=LONG).map(|v| value(family, key, v)));
    KEYS.map(self::key).any(|k| k == key) && versions.any(|v| v == found)
}
