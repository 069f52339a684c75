//! The configurations of histories with a range cache. To add one, add an entry to
//! [`CONFIGURATIONS`].

use std::time::Duration;

use crate::mvcc::configurations::{Cache, Configuration, Phases, USUAL, collected};

/// All fits, and only what the present finds is kept.
const ALL: Cache = Cache {
    memory_limit: 1 << 30,
    limit_changes: false,
    segment_size: 4_000,
    safe_lag: Duration::ZERO,
    chooses: false,
};

/// The same, and the cache is some time behind.
const BEHIND: Cache = Cache {
    safe_lag: Duration::from_millis(100),
    ..ALL
};

/// Memory is short now and then.
const SHORT: Cache = Cache {
    memory_limit: 60_000,
    limit_changes: true,
    ..ALL
};

/// A cache that also decides which ranges it holds.
const CHOSEN: Cache = Cache {
    memory_limit: 200_000,
    limit_changes: true,
    chooses: true,
    ..ALL
};

/// All of them.
pub const CONFIGURATIONS: [Configuration; 19] = [
    Configuration {
        name: "all fits",
        cache: Some(ALL),
        ..USUAL
    },
    Configuration {
        name: "all fits, far behind",
        cache: Some(Cache {
            safe_lag: Duration::from_secs(180),
            ..ALL
        }),
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "some time behind, hundreds of versions a key, all kept",
        cache: Some(BEHIND),
        keys: 200,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "many keys",
        cache: Some(ALL),
        keys: 20_000,
        ..USUAL
    },
    Configuration {
        name: "many keys, memory is short",
        cache: Some(SHORT),
        keys: 20_000,
        ..USUAL
    },
    Configuration {
        name: "memory is short",
        cache: Some(SHORT),
        ..USUAL
    },
    Configuration {
        name: "segments of a leaf",
        cache: Some(Cache {
            segment_size: 1,
            ..BEHIND
        }),
        ..USUAL
    },
    Configuration {
        name: "one segment",
        cache: Some(Cache {
            segment_size: usize::MAX,
            ..ALL
        }),
        keys: 5_000,
        ..USUAL
    },
    Configuration {
        name: "chosen by the cache",
        cache: Some(CHOSEN),
        keys: 5_000,
        skewed: true,
        ..USUAL
    },
    Configuration {
        name: "chosen by the cache, all kept",
        cache: Some(CHOSEN),
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "safe point at the present",
        cache: Some(BEHIND),
        safe_point_lag: Some(0),
        ..USUAL
    },
    Configuration {
        name: "separated and collected behind the safe point",
        cache: Some(ALL),
        keys: 1_000,
        min_blob_size: 20,
        value_size: 300,
        more: collected,
        ..USUAL
    },
    Configuration {
        name: "large values",
        cache: Some(BEHIND),
        value_size: 6_000,
        keys: 500,
        ..USUAL
    },
    Configuration {
        name: "clock jumps",
        cache: Some(BEHIND),
        clock_jumps: true,
        keys: 30,
        ..USUAL
    },
    Configuration {
        name: "crashes, not synced, chosen by the cache",
        cache: Some(CHOSEN),
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "two phases",
        cache: Some(ALL),
        phases: Phases::Two { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "two phases, clients killed",
        cache: Some(BEHIND),
        phases: Phases::TwoAndKilled { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "two phases, async, clients killed, separated, memory is short",
        cache: Some(SHORT),
        phases: Phases::TwoAndKilled { is_async: true },
        min_blob_size: 20,
        ..USUAL
    },
    Configuration {
        name: "hot locks",
        cache: Some(BEHIND),
        keys: 30,
        locks_of_ten: 9,
        ..USUAL
    },
];
