//! What is fixed when a database opens: its options, and where events, counts and times of writes go.

use super::write_times::WriteTimes;
use crate::batch::OpeningId;
use crate::options::{DbOptions, TakenOptions};
use crate::stats::{Listeners, Statistics};
use crate::version::Moment;
use std::sync::Arc;

/// What does not change while the database is open.
pub(crate) struct Context {
    /// Tells handles and batches of this opening from those of others.
    pub(super) opening: OpeningId,
    pub(super) options: DbOptions,
    /// Options that were taken over from the database.
    pub(super) taken: Vec<TakenOptions>,
    /// The moment that is shown, if it is not the present.
    pub(super) moment: Option<Moment>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) write_times: WriteTimes,
    pub(super) listeners: Listeners,
}
