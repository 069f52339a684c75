//! The time since which no user writes, as the thread that collects garbage has seen it.

use std::time::Duration;

use crate::format::SequenceNumber;

/// See the module.
#[derive(Clone, Copy, Default)]
pub(crate) struct Idle {
    /// Time at which the last write to any database of the `Env` was seen.
    pub(crate) since: Duration,
    /// Writes to any of them, as [`Activity`](crate::env::Activity) counts them.
    pub(crate) writes: u64,
    /// The newest write to this one.
    pub(crate) last_sequence: SequenceNumber,
}
