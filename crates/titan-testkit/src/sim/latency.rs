//! The cost of operations, in simulated time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::op::{Call, OpKind};
use crate::clock::SimClock;
use crate::mix;

/// Time that operations take on a device; the times of
/// [`SimVfs::set_latency`](super::SimVfs::set_latency). The defaults are roughly those of a flash
/// drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Determines how far each operation deviates from the mean.
    pub seed: u64,
    /// Mean time of any operation.
    pub operation: Duration,
    /// Additional time of a sync, of a file or directory.
    pub sync: Duration,
    /// Additional time of every 4 KiB read or appended.
    pub block: Duration,
}

impl Latency {
    /// The defaults with a seed.
    pub fn with_seed(seed: u64) -> Self {
        Latency {
            seed,
            operation: Duration::from_micros(20),
            sync: Duration::from_micros(500),
            block: Duration::from_micros(2),
        }
    }
}

/// The active latency and the clock that it advances.
pub(super) struct Device {
    latency: Latency,
    clock: SimClock,
    /// The number of operations of each kind on each path, by a hash of the two.
    seen: BTreeMap<u64, u64>,
}

impl Device {
    pub(super) fn new(latency: Latency, clock: SimClock) -> Self {
        Device {
            latency,
            clock,
            seen: BTreeMap::new(),
        }
    }

    /// Advances the clock by the time of an operation: from half to one and a half times the
    /// mean, and once in a hundred times ten times that. The time depends on the operation, not
    /// on when it runs: the sum over several threads does not depend on their order.
    pub(super) fn spend(&mut self, call: &Call<'_>) {
        let path = call.path.as_os_str().as_encoded_bytes();
        let what = xxhash_rust::xxh3::xxh3_64_with_seed(path, call.kind as u64);
        let nth = self.seen.entry(what).or_default();
        *nth += 1;
        let mut rng = fastrand::Rng::with_seed(mix(mix(self.latency.seed, what), *nth));
        let mut mean = self.latency.operation;
        if matches!(call.kind, OpKind::Sync | OpKind::SyncDir) {
            mean += self.latency.sync;
        }
        if matches!(call.kind, OpKind::Read | OpKind::Append) {
            mean += self.latency.block.mul_f64(call.len as f64 / 4096.0);
        }
        let stretch = if rng.u8(..100) == 0 { 10.0 } else { 1.0 };
        self.clock
            .advance(mean.mul_f64((0.5 + rng.f64()) * stretch));
    }
}
