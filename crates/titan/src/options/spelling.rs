//! Values of options that RocksDB writes in other ways.

use super::setting::Setting;
use crate::format::CompressionType;

/// The text of a value, as [`Setting::parse`] reads it, from RocksDB's text or from ours.
pub(super) fn as_titan_has_it(name: &str, value: &str) -> String {
    if ["compression", "blob_compression_type"].contains(&name) {
        let codec = codec(name, value);
        return codec.map_or_else(|| value.to_owned(), Setting::text);
    }
    if let Some(never) = never(name, value) {
        return never;
    }
    let value = without_fraction(value);
    without_suffix(value).map_or_else(|| value.to_owned(), |number| number.to_string())
}

/// The codec to write files with where RocksDB would use the one of this name: the nearest of those
/// that can be written. `None` if RocksDB has no such name, or there is nothing near.
pub(super) fn codec(option: &str, name: &str) -> Option<CompressionType> {
    use CompressionType::{Lz4, Lz4hc, Snappy, Zstd};
    let mut all = CompressionType::ALL.into_iter();
    let codec = all.find(|codec| codec.option_name() == name)?;
    let nearest = match codec {
        Snappy if option == "blob_compression_type" => Lz4,
        Lz4hc => Lz4,
        codec if codec.can_write() => codec,
        _ => Zstd,
    };
    Some(match nearest.is_compiled_in() {
        true => nearest,
        false => CompressionType::OF_TABLES,
    })
}

/// A trigger that RocksDB disables by a negative number, as a number of files that is never
/// reached.
pub(super) fn never(name: &str, value: &str) -> Option<String> {
    let triggers = [
        "level0_slowdown_writes_trigger",
        "level0_stop_writes_trigger",
    ];
    (triggers.contains(&name) && value.starts_with('-')).then(|| i32::MAX.to_string())
}

/// RocksDB writes some whole numbers as decimals.
pub(super) fn without_fraction(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b == b'0') => whole,
        _ => text,
    }
}

/// The number that RocksDB's suffixes stand for: `64K`, `1M`.
fn without_suffix(text: &str) -> Option<u64> {
    let shift = match text.as_bytes().last()?.to_ascii_uppercase() {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        b'T' => 40,
        _ => return None,
    };
    let digits = text.get(..text.len() - 1)?.parse::<u64>().ok()?;
    digits.checked_mul(1 << shift)
}
