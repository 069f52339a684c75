//! The time since which no user writes, as the thread that collects garbage has seen it.

use std::time::Duration;

use crate::format::SequenceNumber;

/// A database is idle after so long without a write to any one of its `Env`, or after
/// [`ALONE_IDLE_AFTER`].
pub(crate) const IDLE_AFTER: Duration = Duration::from_secs(5);

/// And after so long without a write of its own, even if users write to others: one that is written
/// to all the time must not keep the others from cleaning up for ever.
const ALONE_IDLE_AFTER: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Clone, Copy, Default)]
pub(crate) struct Idle {
    /// Time at which the last write to any database of the `Env` was seen.
    pub(crate) since: Duration,
    /// Time at which the last write to this one was seen.
    pub(crate) own_since: Duration,
    /// Writes to any of them, as [`Activity`](crate::env::Activity) counts them.
    pub(crate) writes: u64,
    /// The newest write to this one.
    pub(crate) last_sequence: SequenceNumber,
}

impl Idle {
    /// The state at the moment `self`, which is taken for the time of a write if there were writes
    /// since `seen`.
    pub(crate) fn after(self, seen: &Idle) -> Idle {
        let wrote = self.last_sequence != seen.last_sequence;
        let any_wrote = wrote || self.writes != seen.writes;
        Idle {
            since: if any_wrote { self.since } else { seen.since },
            own_since: if wrote {
                self.own_since
            } else {
                seen.own_since
            },
            ..self
        }
    }

    /// Whether the database is idle at a time.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.since) >= IDLE_AFTER
            || now.saturating_sub(self.own_since) >= ALONE_IDLE_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(seconds: u64, writes: u64, own: u64) -> Idle {
        let now = Duration::from_secs(seconds);
        Idle {
            since: now,
            own_since: now,
            writes,
            last_sequence: SequenceNumber(own),
        }
    }

    /// The first second, of 200, at which a database is idle: it is written to up to second 10,
    /// others up to second `others`.
    fn idle_at(others: u64) -> Option<u64> {
        let mut idle = moment(0, 0, 0);
        (1..200).find(|&second| {
            let (own, others) = (second.min(10), second.min(others));
            idle = moment(second, own + others, own).after(&idle);
            idle.is_over(Duration::from_secs(second))
        })
    }

    #[test]
    fn others_postpone_the_idleness_of_a_database_but_not_for_ever() {
        assert_eq!(idle_at(0), Some(15));
        assert_eq!(idle_at(30), Some(35));
        assert_eq!(idle_at(200), Some(70));
    }
}
