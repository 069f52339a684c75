//! Ranges that are not held, and what reads of the engine have wasted in them.
//!
//! Owns the list. It is short, and a scan never waits for it: what does not fit is told again by the next scan. Only
//! scans that have wasted many steps write it.

use parking_lot::Mutex;

use crate::content::keys::EncodedRange;

/// Ranges that are known at most.
const MOST: usize = 64;
/// A scan that has wasted less is not worth a word.
const SMALL: u64 = 16;
/// A range is worth holding if scans waste so many steps in it between two looks, as an average that forgets: about a
/// thousandth of a processor's second.
pub(crate) const WORTH: u64 = 10_000;
/// For so many looks in a row.
const LOOKS: u32 = 2;

/// A range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) range: EncodedRange,
    /// Steps wasted between two looks.
    pub(crate) rate: u64,
    /// Steps that were wasted for a row.
    pub(crate) each: u64,
    wasted: u64,
    rows: u64,
    looks: u32,
}

/// See the module.
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
    /// A scan from the encoded key `lower` to before `upper` has wasted so many steps for so many rows.
    pub(crate) fn add(&self, lower: &[u8], upper: Option<&[u8]>, wasted: u64, rows: u64) {
        if wasted < SMALL {
            return;
        }
        let Some(mut list) = self.0.try_lock() else {
            return;
        };
        let range = (lower.to_vec(), upper.map(<[u8]>::to_vec));
        if let Some(wanted) = list.iter_mut().find(|w| overlap(&w.range, &range)) {
            wanted.range = union(&wanted.range, &range);
            wanted.wasted += wasted;
            wanted.rows += rows;
        } else if list.len() < MOST {
            list.push(Candidate {
                range,
                rate: 0,
                each: 0,
                wasted,
                rows,
                looks: 0,
            });
        }
    }

    /// Ends the time between two looks. Returns the ranges that are worth holding by now, those first that waste
    /// most, and forgets them, and those of which nothing is heard any more.
    pub(crate) fn look(&self) -> Vec<Candidate> {
        let mut list = self.0.lock();
        let mut merged: Vec<Candidate> = Vec::with_capacity(list.len());
        list.sort_by(|a, b| a.range.cmp(&b.range));
        for wanted in list.drain(..) {
            match merged
                .last_mut()
                .filter(|w| overlap(&w.range, &wanted.range))
            {
                Some(last) => {
                    last.range = union(&last.range, &wanted.range);
                    last.wasted += wanted.wasted;
                    last.rows += wanted.rows;
                    last.rate += wanted.rate;
                }
                None => merged.push(wanted),
            }
        }
        for wanted in &mut merged {
            wanted.rate = (wanted.rate + wanted.wasted) / 2;
            if wanted.wasted > 0 {
                wanted.each = wanted.wasted / wanted.rows.max(1);
            }
            (wanted.wasted, wanted.rows) = (0, 0);
            wanted.looks = match wanted.rate >= WORTH {
                true => wanted.looks + 1,
                false => 0,
            };
        }
        merged.retain(|wanted| wanted.rate >= SMALL);
        let (mut ready, rest): (Vec<_>, Vec<_>) =
            merged.into_iter().partition(|wanted| wanted.looks >= LOOKS);
        *list = rest;
        ready.sort_by_key(|wanted| std::cmp::Reverse(wanted.rate));
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
        assert_eq!(cold_scans.look(), []);
        scan(b"b", Some(b"d"), 500, 100);
        let ready = cold_scans.look();
        assert_eq!(ready.len(), 1);
        assert_eq!(ready[0].range, (b"a".to_vec(), Some(b"d".to_vec())));
        assert_eq!((ready[0].rate, ready[0].each), ((15_000 + 50_000) / 2, 250));
        // Once is not enough, however much it was.
        scan(b"m", None, 1_000_000, 1);
        assert_eq!(cold_scans.look(), []);
        for _ in 0..40 {
            cold_scans.look();
        }
        assert!(cold_scans.0.lock().is_empty());
    }
}
