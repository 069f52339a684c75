//! Ranges that are not held, and the steps that scans of the engine wasted in them.
//!
//! Only scans that wasted many steps write the list. It is short, and a scan never waits for it:
//! the next scan reports again.

use parking_lot::Mutex;

use crate::content::keys::EncodedRange;

/// The most ranges in the list.
const MOST: usize = 64;
/// A scan that wasted fewer steps is not counted.
const SMALL: u64 = 16;
/// The wasted steps between two passes, as a decaying average, that make a range worth holding:
/// about a thousandth of a processor.
pub(crate) const WORTH: u64 = 10_000;
/// The passes in a row for which that must last.
const PASSES: u32 = 2;

/// A range that may be worth holding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) range: EncodedRange,
    /// Steps wasted between two passes.
    pub(crate) rate: u64,
    /// Steps wasted for a row.
    pub(crate) each: u64,
    wasted: u64,
    rows: u64,
    passes: u32,
}

/// The list of ranges.
#[derive(Default)]
pub(crate) struct ColdScans(Mutex<Vec<Candidate>>);

pub(crate) fn overlap(a: &EncodedRange, b: &EncodedRange) -> bool {
    a.1.as_ref().is_none_or(|end| b.0 < *end) && b.1.as_ref().is_none_or(|end| a.0 < *end)
}

fn union(a: &EncodedRange, b: &EncodedRange) -> EncodedRange {
    let upper = match (&a.1, &b.1) {
        (Some(a), Some(b)) => Some(a.max(b).clone()),
        _ => None,
    };
    (a.0.clone().min(b.0.clone()), upper)
}

impl ColdScans {
    /// Counts a scan from the encoded key `lower` to before `upper`, its wasted steps and its rows.
    pub(crate) fn add(&self, lower: &[u8], upper: Option<&[u8]>, wasted: u64, rows: u64) {
        if wasted < SMALL {
            return;
        }
        let Some(mut list) = self.0.try_lock() else {
            return;
        };
        let range = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        if let Some(candidate) = list.iter_mut().find(|w| overlap(&w.range, &range)) {
            candidate.range = union(&candidate.range, &range);
            candidate.wasted += wasted;
            candidate.rows += rows;
        } else if list.len() < MOST {
            list.push(Candidate {
                range,
                rate: 0,
                each: 0,
                wasted,
                rows,
                passes: 0,
            });
        }
    }

    /// Ends the time between two passes. Returns the ranges that are worth holding by now, those
    /// first that waste most, and forgets them, and those of which nothing is heard any more.
    pub(crate) fn end_pass(&self) -> Vec<Candidate> {
        let mut list = self.0.lock();
        let mut merged: Vec<Candidate> = Vec::with_capacity(list.len());
        list.sort_by(|a, b| a.range.cmp(&b.range));
        for candidate in list.drain(..) {
            match merged
                .last_mut()
                .filter(|w| overlap(&w.range, &candidate.range))
            {
                Some(last) => {
                    last.range = union(&last.range, &candidate.range);
                    last.wasted += candidate.wasted;
                    last.rows += candidate.rows;
                    last.rate += candidate.rate;
                }
                None => merged.push(candidate),
            }
        }
        for candidate in &mut merged {
            candidate.rate = (candidate.rate + candidate.wasted) / 2;
            if candidate.wasted > 0 {
                candidate.each = candidate.wasted / candidate.rows.max(1);
            }
            (candidate.wasted, candidate.rows) = (0, 0);
            candidate.passes = match candidate.rate >= WORTH {
                true => candidate.passes + 1,
                false => 0,
            };
        }
        merged.retain(|candidate| candidate.rate >= SMALL);
        let (mut ready, rest): (Vec<_>, Vec<_>) = merged
            .into_iter()
            .partition(|candidate| candidate.passes >= PASSES);
        *list = rest;
        ready.sort_by_key(|candidate| std::cmp::Reverse(candidate.rate));
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_worth_holding_after_scans_have_wasted_much_for_two_looks() {
        let cold_scans = ColdScans::default();
        let scan = |lower: &[u8], upper: Option<&[u8]>, wasted, scans| {
            for _ in 0..scans {
                cold_scans.add(lower, upper, wasted, 2);
            }
        };
        scan(b"a", Some(b"c"), 15, 100_000);
        scan(b"a", Some(b"c"), 300, 100);
        scan(b"m", None, 20, 10);
        assert_eq!(cold_scans.end_pass(), []);
        scan(b"b", Some(b"d"), 500, 100);
        let ready = cold_scans.end_pass();
        assert_eq!(ready.len(), 1);
        assert_eq!(ready[0].range, (b"a".to_vec(), Some(b"d".to_vec())));
        assert_eq!((ready[0].rate, ready[0].each), ((15_000 + 50_000) / 2, 250));
        // Once is not enough, however much it was.
        scan(b"m", None, 1_000_000, 1);
        assert_eq!(cold_scans.end_pass(), []);
        for _ in 0..40 {
            cold_scans.end_pass();
        }
        assert!(cold_scans.0.lock().is_empty());
    }
}
