//! Empty gaps: ranges in which scans of the engine met nothing but dead rows.
//!
//! Owns the list of ranges that scans reported. Maintenance loads them: a gap is a segment without rows, so that a
//! write into it is a row of it before it is published, and every rule of segments holds. The next scan passes the gap
//! in one step.
//!
//! The list is short, and a scan never waits for it: what does not fit is reported again by the next scan.

use parking_lot::Mutex;

use crate::content::keys::EncodedRange;

/// Ranges that are remembered until the next maintenance.
const MOST: usize = 64;

/// See the module.
#[derive(Default)]
pub(crate) struct Gaps(Mutex<Vec<EncodedRange>>);

impl Gaps {
    /// Remembers a range, unless another thread is in the list or it is full.
    pub(crate) fn add(&self, lower: &[u8], upper: Option<&[u8]>) {
        if let Some(mut gaps) = self.0.try_lock()
            && gaps.len() < MOST
            && !gaps.iter().any(|(other, _)| **other == *lower)
        {
            gaps.push((lower.to_vec(), upper.map(<[u8]>::to_vec)));
        }
    }

    /// The ranges since the last call.
    pub(crate) fn take(&self) -> Vec<EncodedRange> {
        std::mem::take(&mut *self.0.lock())
    }
}
