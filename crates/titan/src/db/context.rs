//! Context of a database: its options, its clock, and where events, counts and times of writes go.

use std::sync::Arc;

use super::write_times::WriteTimes;
use crate::batch::OpeningId;
use crate::clock::SystemClock;
use crate::options::{DbOptions, TakenOptions};
use crate::stats::{Listeners, Statistics};
use crate::sync::ArcSwap;
use crate::version::Moment;

/// Context with which the database is opened. Only options change while it is open.
pub(crate) struct Context {
    /// Tells handles and batches of this opening from those of others.
    pub(super) opening: OpeningId,
    /// Replaced under the lock of the version set.
    pub(super) options: ArcSwap<DbOptions>,
    pub(super) clock: Arc<dyn SystemClock>,
    /// Options that were taken over from the database.
    pub(super) taken: Vec<TakenOptions>,
    /// The moment that is shown, if it is not the present.
    pub(super) moment: Option<Moment>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) write_times: WriteTimes,
    pub(super) listeners: Listeners,
}
