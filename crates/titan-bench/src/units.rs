//! Numbers in readable form. Nothing here rounds values that are used in calculations.

use std::time::{Duration, UNIX_EPOCH};

use humansize::{BINARY, DECIMAL, FormatSizeOptions, format_size};
use serde::{Deserialize, Serialize};

/// The unit of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    #[default]
    Number,
    Micros,
    Seconds,
    /// On a device or in files.
    Bytes,
    Memory,
    BytesPerSecond,
    /// 0 to 1.
    Share,
    /// 0 to 100, of one processor.
    Percent,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Number => number(value),
            Unit::Micros => micros(value),
            Unit::Seconds => seconds(value),
            Unit::Bytes => bytes(value),
            Unit::Memory => memory(value),
            Unit::BytesPerSecond => format!("{}/s", bytes(value)),
            Unit::Share => percent(value),
            Unit::Percent => percent(value / 100.0),
        }
    }
}

/// Three digits, or all digits before the point in groups of three.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return if value > 0.0 { "∞" } else { "?" }.to_owned();
    }
    match size {
        _ if size >= 99.95 => grouped(value),
        _ if size >= 9.995 => format!("{value:.1}"),
        _ if size >= 0.01 => format!("{value:.2}"),
        _ if size == 0.0 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 {
        format!("-{text}")
    } else {
        text
    }
}

/// A count.
pub(crate) fn count(value: u64) -> String {
    grouped(value as f64)
}

/// Bytes on a device or in files, in powers of 1,000.
pub(crate) fn bytes(value: f64) -> String {
    size(value, 1000.0, DECIMAL)
}

/// Bytes of memory, in powers of 1,024.
pub(crate) fn memory(value: f64) -> String {
    size(value, 1024.0, BINARY)
}

/// Three digits, no more.
fn size(value: f64, base: f64, options: FormatSizeOptions) -> String {
    let mut leading = value;
    while leading >= base {
        leading /= base;
    }
    let decimals = match leading {
        _ if leading >= 100.0 => 0,
        _ if leading >= 10.0 => 1,
        _ => 2,
    };
    format_size(value.max(0.0) as u64, options.decimal_places(decimals))
}

fn micros(value: f64) -> String {
    match value {
        _ if value >= 999_500.0 => format!("{} s", number(value / 1e6)),
        _ if value >= 999.5 => format!("{} ms", number(value / 1e3)),
        _ => format!("{} µs", number(value)),
    }
}

pub(crate) fn seconds(value: f64) -> String {
    match value {
        _ if value >= 7200.0 => format!("{} h", number(value / 3600.0)),
        _ if value >= 120.0 => format!("{} min", number(value / 60.0)),
        _ => micros(value * 1e6),
    }
}

/// A share.
fn percent(value: f64) -> String {
    format!("{:.1} %", value * 100.0)
}

/// A moment, given in seconds since 1970, in the format of RFC 3339.
pub(crate) fn moment(since_1970: u64) -> String {
    humantime::format_rfc3339_seconds(UNIX_EPOCH + Duration::from_secs(since_1970)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        let shown = [1_234_567.0, 999.96, 99.96, 12.345, 1.0, 0.123, 0.00123, 0.0];
        let expected = [
            "1,234,567",
            "1,000",
            "100",
            "12.3",
            "1.00",
            "0.12",
            "0.0012",
            "0",
        ];
        assert_eq!(shown.map(number), expected);
        assert_eq!(number(f64::INFINITY), "∞");
        assert_eq!(number(-1234.0), "-1,234");
        assert_eq!(micros(12.0), "12.0 µs");
        assert_eq!(micros(12_500.0), "12.5 ms");
        assert_eq!(seconds(2.5), "2.50 s");
        assert_eq!(seconds(7200.0), "2.00 h");
        assert_eq!(bytes(1_500_000.0), "1.50 MB");
        assert_eq!(bytes(792_480_000.0), "792 MB");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(memory(f64::from(64 << 20)), "64 MiB");
    }
}
