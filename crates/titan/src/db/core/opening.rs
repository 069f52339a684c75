//! One opening of a database: its options, its clock, its part in an `Env`, and where events,
//! counts and times of writes go.

use std::sync::Arc;

use super::write_times::WriteTimes;
use crate::clock::SystemClock;
use crate::env::Membership;
use crate::format::OpeningId;
use crate::options::{DbOptions, TakenOptions};
use crate::stats::{Listeners, Statistics};
use crate::sync::ArcSwap;
use crate::version::Moment;

/// One opening of a database. Only options change while it is open.
pub(crate) struct Opening {
    /// Tells handles and batches of this opening from those of others.
    pub(crate) id: OpeningId,
    /// Replaced under the lock of the version set.
    pub(crate) options: ArcSwap<DbOptions>,
    pub(crate) clock: Arc<dyn SystemClock>,
    /// Its part in the resources that databases share.
    pub(crate) env: Membership,
    /// Options that were taken over from the database.
    pub(crate) taken: Vec<TakenOptions>,
    /// The moment that is shown, if it is not the present.
    pub(crate) moment: Option<Moment>,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) write_times: WriteTimes,
    pub(crate) listeners: Listeners,
}
