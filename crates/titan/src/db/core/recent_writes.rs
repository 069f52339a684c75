//! Whether a user writes: found out when it is asked for, so that writers need not report it.

use std::time::Duration;

use crate::format::SequenceNumber;

/// A user writes if a write was committed in this time.
const RECENT: Duration = Duration::from_secs(1);

/// The newest write that was seen, and when. A write is dated to the moment when it is first seen,
/// so that it may count for longer than it should, but never for less.
#[derive(Default)]
pub(crate) struct RecentWrites {
    newest: Option<(SequenceNumber, Duration)>,
}

impl RecentWrites {
    /// Whether a user writes at this moment, when `last` is the newest sequence number.
    pub(crate) fn are_going_on(&mut self, last: SequenceNumber, now: Duration) -> bool {
        let (newest, seen) = *self.newest.get_or_insert((last, now));
        if newest != last {
            self.newest = Some((last, now));
            return true;
        }
        now.saturating_sub(seen) < RECENT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_counts_for_a_second_and_the_next_one_at_once() {
        let mut writes = RecentWrites::default();
        let mut at = |last, millis| {
            let now = Duration::from_millis(millis);
            writes.are_going_on(SequenceNumber(last), now)
        };
        assert!(at(7, 5000), "nobody has looked before");
        assert!(at(7, 5999));
        assert!(!at(7, 6000));
        assert!(!at(7, 60_000));
        assert!(at(8, 60_001));
        assert!(at(8, 61_000));
        assert!(!at(8, 61_001));
    }
}
