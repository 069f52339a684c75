//! The rate at which collections have freed space, and that at which users may write if collecting
//! does not keep up.

use std::time::Duration;

/// Bytes that a collection writes between two checks of its rate.
pub(crate) const STEP: u64 = 256 << 10;

/// The longest delay of one group of writes for space.
const MAX_WRITE_DELAY: Duration = Duration::from_millis(100);
/// Bytes per second that writes may always reach.
const MIN_WRITE_RATE: f64 = (1 << 20) as f64;
/// The excess from which writes are delayed, as a part of the usable allowance.
const DELAY_FROM: f64 = 0.5;

/// Rate at which recent collections have freed space.
#[derive(Clone, Copy, Default)]
pub(crate) struct FreeingRate {
    /// Zero before the first collection.
    bytes_per_second: f64,
}

impl FreeingRate {
    /// Adds a collection that freed so many bytes.
    pub(crate) fn add(&mut self, bytes: u64, took: Duration) {
        let rate = bytes as f64 / took.as_secs_f64().max(1e-3);
        self.bytes_per_second = match self.bytes_per_second {
            0.0 => rate,
            before => 0.7 * before + 0.3 * rate,
        };
    }

    /// Time for which a group of writes of so many bytes is delayed if files exceed their bound by
    /// `excess`, a part of the usable allowance: so that writes are at first faster than
    /// collecting, and slower before the allowance is used up. `unknown` is the rate before the
    /// first collection.
    pub(crate) fn delay(&self, bytes: u64, excess: f64, unknown: u64) -> Duration {
        let freeing = match self.bytes_per_second {
            0.0 => unknown as f64,
            known => known,
        };
        let factor = (2.0 - 4.0 * (excess - DELAY_FROM)).clamp(0.25, 2.0);
        let rate = (freeing * factor).max(MIN_WRITE_RATE);
        Duration::from_secs_f64(bytes as f64 / rate).min(MAX_WRITE_DELAY)
    }
}

/// Whether writes have to be delayed so that collecting keeps up.
pub(crate) fn must_delay_writes(excess: f64) -> bool {
    excess > DELAY_FROM
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_slower_than_collecting_before_the_constant_is_used_up() {
        let mut freeing = FreeingRate::default();
        let unknown = 16 << 20;
        let rate = |freeing: &FreeingRate, excess| {
            (1 << 20) as f64 / freeing.delay(1 << 20, excess, unknown).as_secs_f64()
        };
        assert!((rate(&freeing, 0.5) / (2.0 * unknown as f64) - 1.0).abs() < 0.01);
        freeing.add(100 << 20, Duration::from_secs(1));
        let collecting = f64::from(100 << 20);
        assert!(rate(&freeing, 0.6) > collecting);
        assert!(rate(&freeing, 0.9) < collecting);
        // Capped: never a stop.
        assert_eq!(freeing.delay(u64::MAX, 100.0, unknown), MAX_WRITE_DELAY);
        assert!(
            rate(
                &FreeingRate {
                    bytes_per_second: 1.0
                },
                9.0
            ) >= MIN_WRITE_RATE
        );
    }
}
