//! Reads that the engine answered: the samples from which maintenance picks ranges to load.

use crate::segments::cold_points::ColdPoints;
use crate::segments::cold_scans::ColdScans;
use crate::segments::gaps::Gaps;

/// The three samples.
#[derive(Default)]
pub(crate) struct ColdReads {
    pub(crate) points: ColdPoints,
    pub(crate) scans: ColdScans,
    pub(crate) gaps: Gaps,
}
