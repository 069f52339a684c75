//! Timestamps: moments in the order of all commits.

use std::fmt;
use std::time::Duration;

use serde::Serialize;

/// Bits of the counter below the milliseconds.
const COUNTER_BITS: u32 = 18;

/// A moment in the order of all commits: milliseconds since 1970 (UTC) above a counter of 18 bits.
/// TiKV's timestamps have the same form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Before every commit.
    pub const ZERO: Timestamp = Timestamp(0);
    /// After every commit.
    pub const MAX: Timestamp = Timestamp(u64::MAX);

    /// The first timestamp of a millisecond, or `None` for a time after the year 4199, which
    /// exceeds 46 bits.
    pub fn at(unix_time: Duration) -> Option<Timestamp> {
        let millis = u64::try_from(unix_time.as_millis()).ok()?;
        let fits = millis >> (64 - COUNTER_BITS) == 0;
        fits.then_some(Timestamp(millis << COUNTER_BITS))
    }

    /// Milliseconds since 1970 (UTC). A timestamp may be ahead of the clock that made it, if the
    /// clock was set back.
    pub fn unix_time(self) -> Duration {
        Duration::from_millis(self.0 >> COUNTER_BITS)
    }

    /// The position among the timestamps of its millisecond.
    pub fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// The timestamps of a millisecond.
    pub(crate) const PER_MILLISECOND: u64 = 1 << COUNTER_BITS;

    /// The first of `count` timestamps of one millisecond, not before this one. `None` if there are
    /// none.
    pub(crate) fn with_room_for(self, count: u64) -> Option<Timestamp> {
        if self.counter() + count <= Timestamp::PER_MILLISECOND {
            return Some(self);
        }
        Timestamp::at(self.unix_time() + Duration::from_millis(1))
    }

    /// The next timestamp, or `None` after [`Timestamp::MAX`].
    pub(crate) fn next(self) -> Option<Timestamp> {
        self.0.checked_add(1).map(Timestamp)
    }

    /// The timestamp before this one, or [`Timestamp::ZERO`] for itself.
    pub(crate) fn previous(self) -> Timestamp {
        Timestamp(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_has_milliseconds_and_a_counter() {
        let first = Timestamp::at(Duration::from_micros(5_700)).unwrap();
        assert_eq!(first, Timestamp(5 << 18));
        let second = first.next().unwrap();
        assert_eq!(second.unix_time(), Duration::from_millis(5));
        assert_eq!((first.counter(), second.counter()), (0, 1));
        assert_eq!(second.previous(), first);
        assert_eq!(Timestamp::ZERO.previous(), Timestamp::ZERO);
        assert_eq!(Timestamp::MAX.next(), None);
    }

    #[test]
    fn a_run_is_in_one_millisecond() {
        let last = Timestamp((6 << 18) - 1);
        assert_eq!(last.with_room_for(1), Some(last));
        assert_eq!(last.with_room_for(2), Some(Timestamp(6 << 18)));
        let most = Timestamp::PER_MILLISECOND;
        assert_eq!(
            Timestamp(5 << 18).with_room_for(most),
            Some(Timestamp(5 << 18))
        );
        assert_eq!(Timestamp::MAX.with_room_for(2), None);
    }

    #[test]
    fn times_that_do_not_fit_are_refused() {
        let last = Duration::from_millis((1 << 46) - 1);
        assert_eq!(Timestamp::at(last).unwrap().unix_time(), last);
        assert_eq!(Timestamp::at(last + Duration::from_millis(1)), None);
        assert_eq!(Timestamp::at(Duration::MAX), None);
    }
}
