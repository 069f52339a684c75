//! Windows: the parts of ranges that the pages of a scan ask for.
//!
//! The client asks all regions of a range at once, each for as many rows as are wanted altogether.
//! A range of many regions is therefore read through windows, whose width follows the density of
//! its keys: about a page of them is in one. Only the first page of a range asks all of it, for
//! few rows.
//!
//! A window ends at a key that is a multiple of its width, where keys are fractions in binary.

use std::collections::BTreeMap;
use std::ops::Range;

use parking_lot::Mutex;

use crate::kv::{Direction, Pair, Scan, Space};

/// Rows of the first page of a range.
const FIRST: usize = 64;
/// Ranges whose widths are known.
const KNOWN: usize = 64;

/// The widths of windows of ranges, by the ends that their scans go to.
#[derive(Default)]
pub(super) struct Windows(Mutex<BTreeMap<(Space, Vec<u8>), Width>>);

/// The width of a window.
#[derive(Clone, Copy, Debug)]
struct Width {
    /// Windows begin and end at keys whose bits beyond these are zero.
    bits: u32,
    /// Bits that the next empty window takes away.
    step: u32,
}

/// The part of a range that a page asks for.
pub(super) struct Window {
    pub(super) range: Range<Vec<u8>>,
    /// The most rows.
    pub(super) rows: usize,
}

impl Windows {
    /// The first window of the rest of a range, with at most so many rows.
    pub(super) fn of(&self, scan: &Scan, rest: &Range<Vec<u8>>, rows: usize) -> Window {
        let Some(width) = self.0.lock().get(&far_end(scan, rest)).copied() else {
            return Window {
                range: rest.clone(),
                rows: rows.min(FIRST),
            };
        };
        let range = match scan.direction {
            Direction::Forward => {
                let end = after(&rest.start, width.bits);
                let end = end.filter(|end| *end < rest.end);
                rest.start.clone()..end.unwrap_or_else(|| rest.end.clone())
            }
            Direction::Backward => {
                let begin = before(&rest.end, width.bits);
                begin.max(rest.start.clone())..rest.end.clone()
            }
        };
        Window { range, rows }
    }

    /// Notes the pairs that a page found in a window of the rest of a range.
    pub(super) fn note(&self, scan: &Scan, rest: &Range<Vec<u8>>, window: &Window, found: &[Pair]) {
        let key = far_end(scan, rest);
        let mut known = self.0.lock();
        if found.len() >= window.rows {
            let ends = found.first().zip(found.last());
            let Some(bits) = ends.and_then(|((first, _), (last, _))| width_of(first, last)) else {
                return;
            };
            if known.len() >= KNOWN && !known.contains_key(&key) {
                known.clear();
            }
            known.insert(key, Width { bits, step: 1 });
        } else if let Some(width) = known.get_mut(&key) {
            if found.is_empty() {
                width.bits = width.bits.saturating_sub(width.step);
                width.step *= 2;
            } else {
                width.step = 1;
                if found.len() < window.rows / 2 {
                    width.bits = width.bits.saturating_sub(1);
                }
            }
        }
    }
}

/// The end that a scan goes to, which all its pages have.
fn far_end(scan: &Scan, rest: &Range<Vec<u8>>) -> (Space, Vec<u8>) {
    let end = match scan.direction {
        Direction::Forward => &rest.end,
        Direction::Backward => &rest.start,
    };
    (scan.space, end.clone())
}

/// The bits of windows that are about as wide as two keys are apart; `None` for the same key.
fn width_of(one: &[u8], other: &[u8]) -> Option<u32> {
    let differs = |at: &usize| one.get(*at) != other.get(*at);
    let first = (0..one.len().max(other.len())).find(differs)?;
    let fraction = |key: &[u8]| {
        let byte = |at| u128::from(key.get(at).copied().unwrap_or(0));
        (first..first + 16).fold(0, |all, at| all << 8 | byte(at))
    };
    let apart = fraction(one).abs_diff(fraction(other)).max(1);
    let common = u32::try_from(8 * first).ok()?;
    Some(common + apart.leading_zeros() + 1)
}

/// The first multiple of a width after a key, if there is one.
fn after(key: &[u8], bits: u32) -> Option<Vec<u8>> {
    let mut multiple = cut(key, bits);
    let mut carry = unit(bits);
    for byte in multiple.iter_mut().rev() {
        let (sum, overflows) = byte.overflowing_add(carry);
        *byte = sum;
        if !overflows {
            return Some(without_zeros(multiple));
        }
        carry = 1;
    }
    None
}

/// The last multiple of a width before a key; the empty key if there is none.
fn before(key: &[u8], bits: u32) -> Vec<u8> {
    let mut multiple = cut(key, bits);
    let shortest = without_zeros(multiple.clone());
    if shortest[..] < *key {
        return shortest;
    }
    let mut borrow = unit(bits);
    for byte in multiple.iter_mut().rev() {
        let (rest, overflows) = byte.overflowing_sub(borrow);
        *byte = rest;
        if !overflows {
            return without_zeros(multiple);
        }
        borrow = 1;
    }
    Vec::new()
}

/// The last multiple of a width that is not after a key, with all bytes that it may have.
fn cut(key: &[u8], bits: u32) -> Vec<u8> {
    let bytes = bits.div_ceil(8) as usize;
    let mut cut: Vec<u8> = key
        .iter()
        .copied()
        .chain(std::iter::repeat(0))
        .take(bytes)
        .collect();
    if let Some(last) = cut.last_mut() {
        *last &= !(unit(bits) - 1);
    }
    cut
}

/// The lowest of the bits, within its byte.
fn unit(bits: u32) -> u8 {
    1 << (8 * bits.div_ceil(8) - bits)
}

/// The smallest key that is the same fraction.
fn without_zeros(mut key: Vec<u8>) -> Vec<u8> {
    while key.last() == Some(&0) {
        key.pop();
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_at_multiples_of_their_width() {
        assert_eq!(after(&[0x12, 0x34], 12), Some(vec![0x12, 0x40]));
        assert_eq!(after(&[0x12, 0xf4], 12), Some(vec![0x13]));
        assert_eq!(after(&[0x12], 12), Some(vec![0x12, 0x10]));
        assert_eq!(after(&[0xff, 0xf1], 12), None);
        assert_eq!(before(&[0x12, 0x34], 12), [0x12, 0x30]);
        assert_eq!(before(&[0x12, 0x30], 12), [0x12, 0x20]);
        assert_eq!(before(&[0x12, 0x30, 0], 12), [0x12, 0x30]);
        assert_eq!(before(&[0x12], 12), [0x11, 0xf0]);
        assert_eq!(before(&[0, 0], 12), [0u8; 0]);
        assert_eq!((after(&[1], 0), before(&[1], 0)), (None, vec![]));
    }

    #[test]
    fn a_window_is_about_as_wide_as_the_keys_of_a_page() {
        let key = |number: u32| [&b"B"[..], &number.to_be_bytes()].concat();
        let pairs = |numbers: Range<u32>| -> Vec<Pair> {
            { numbers.map(|number| (key(number).into(), Default::default())) }.collect()
        };
        let windows = Windows::default();
        let scan = Scan::prefix(Space::Data, b"B");
        let rest = scan.begin.clone()..scan.end.clone();
        let first = windows.of(&scan, &rest, 100);
        assert_eq!((&first.range, first.rows), (&rest, FIRST));
        windows.note(&scan, &rest, &first, &pairs(0..64));
        // 63 apart, so 32 wide.
        let rest = key(64)..scan.end.clone();
        let second = windows.of(&scan, &rest, 100);
        assert_eq!(second.range, key(64)..key(96));
        windows.note(&scan, &rest, &second, &pairs(64..96));
        let rest = key(96)..scan.end.clone();
        let third = windows.of(&scan, &rest, 100);
        assert_eq!(third.range, key(96)..key(128));
        // Steps over an empty range become larger.
        let mut at = third.range.end;
        for steps in 0.. {
            let rest = at..scan.end.clone();
            let window = windows.of(&scan, &rest, 100);
            if window.range.end == scan.end {
                assert!(steps < 10, "{steps}");
                break;
            }
            windows.note(&scan, &rest, &window, &[]);
            at = window.range.end;
        }
        let backward = Scan {
            direction: Direction::Backward,
            ..scan.clone()
        };
        let rest = scan.begin.clone()..key(200);
        let last = windows.of(&backward, &rest, 100);
        windows.note(&backward, &rest, &last, &pairs(136..200));
        let rest = scan.begin..key(136);
        assert_eq!(windows.of(&backward, &rest, 100).range, key(128)..key(136));
    }
}
