//! Gaps: ranges in which scans of the engine met only dead rows.
//!
//! Scans report gaps here, and maintenance loads them. A loaded gap is a segment without rows: a
//! write into it is a row before it is published, and every rule of segments holds. The next scan
//! passes the gap in one step.
//!
//! The list is short, and a scan never waits for it: the next scan reports again.

use parking_lot::Mutex;

use crate::content::keys::EncodedRange;

/// The most gaps kept until the next pass.
const MOST: usize = 64;

/// The reported gaps.
#[derive(Default)]
pub(crate) struct Gaps(Mutex<Vec<EncodedRange>>);

impl Gaps {
    /// Adds a gap, unless the list is locked or full.
    pub(crate) fn add(&self, lower: &[u8], upper: Option<&[u8]>) {
        if let Some(mut gaps) = self.0.try_lock()
            && gaps.len() < MOST
            && !gaps.iter().any(|(other, _)| **other == *lower)
        {
            gaps.push((lower.to_vec(), upper.map(<[u8]>::to_vec)));
        }
    }

    /// The gaps since the last call.
    pub(crate) fn take(&self) -> Vec<EncodedRange> {
        std::mem::take(&mut *self.0.lock())
    }
}
