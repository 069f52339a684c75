//! The configurations of histories with a range cache. To add one, add an entry to
//! [`CONFIGURATIONS`].

use std::time::Duration;

use crate::mvcc::configurations::{
    ALL_KINDS, CLIENTS, Cache, Configuration, Phases, RETENTION, USUAL, collected,
};

/// All fits, and only versions that the present finds are kept.
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
pub const CONFIGURATIONS: [Configuration; 23] = [
    Configuration {
        name: "cache: all fits",
        cache: Some(ALL),
        ..USUAL
    },
    Configuration {
        name: "cache: far behind",
        cache: Some(Cache {
            safe_lag: Duration::from_secs(180),
            ..ALL
        }),
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "cache: some time behind, hundreds of versions a key, all kept",
        cache: Some(BEHIND),
        keys: 200,
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "cache: many keys",
        cache: Some(ALL),
        keys: 20_000,
        ..USUAL
    },
    Configuration {
        name: "cache: many keys, memory is short",
        cache: Some(SHORT),
        keys: 20_000,
        ..USUAL
    },
    Configuration {
        name: "cache: memory is short",
        cache: Some(SHORT),
        ..USUAL
    },
    Configuration {
        name: "cache: segments of a leaf",
        cache: Some(Cache {
            segment_size: 1,
            ..BEHIND
        }),
        ..USUAL
    },
    Configuration {
        name: "cache: one segment",
        cache: Some(Cache {
            segment_size: usize::MAX,
            ..ALL
        }),
        keys: 5_000,
        ..USUAL
    },
    Configuration {
        name: "cache: chosen by the cache",
        cache: Some(CHOSEN),
        keys: 5_000,
        skewed: true,
        ..USUAL
    },
    Configuration {
        name: "cache: chosen by the cache, all kept",
        cache: Some(CHOSEN),
        safe_point_lag: None,
        ..USUAL
    },
    Configuration {
        name: "cache: safe point at the present",
        cache: Some(BEHIND),
        safe_point_lag: Some(0),
        ..USUAL
    },
    Configuration {
        name: "cache: separated and collected behind the safe point",
        cache: Some(ALL),
        keys: 1_000,
        min_blob_size: 20,
        value_size: 300,
        more: collected,
        ..USUAL
    },
    Configuration {
        name: "cache: large values",
        cache: Some(BEHIND),
        value_size: 6_000,
        keys: 500,
        ..USUAL
    },
    Configuration {
        name: "cache: clock jumps",
        cache: Some(BEHIND),
        clock_jumps: true,
        keys: 30,
        ..USUAL
    },
    Configuration {
        name: "cache: crashes, not synced, chosen by the cache",
        cache: Some(CHOSEN),
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "cache: two phases",
        cache: Some(ALL),
        phases: Phases::Two { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "cache: two phases, clients killed",
        cache: Some(BEHIND),
        phases: Phases::TwoAndKilled { is_async: false },
        ..USUAL
    },
    Configuration {
        name: "cache: two phases, async, clients killed, separated, memory is short",
        cache: Some(SHORT),
        phases: Phases::TwoAndKilled { is_async: true },
        min_blob_size: 20,
        ..USUAL
    },
    Configuration {
        name: "cache: hot locks",
        cache: Some(BEHIND),
        keys: 30,
        locks_of_ten: 9,
        ..USUAL
    },
    Configuration {
        name: "cache: clients between its loads",
        cache: Some(Cache {
            segment_size: 300,
            ..ALL
        }),
        kinds: &ALL_KINDS,
        keys: 30,
        ..USUAL
    },
    Configuration {
        name: "cache: clients, crashes, memory is short",
        cache: Some(SHORT),
        kinds: &CLIENTS,
        keys: 60,
        crashes: true,
        ..USUAL
    },
    Configuration {
        name: "cache: all kinds, waits, swept by time",
        cache: Some(BEHIND),
        kinds: &ALL_KINDS,
        keys: 20,
        waits: true,
        retention: RETENTION,
        ..USUAL
    },
    Configuration {
        name: "cache: small segments, split and joined",
        cache: Some(Cache {
            segment_size: 600,
            ..BEHIND
        }),
        keys: 100,
        value_size: 200,
        safe_point_lag: Some(20),
        ..USUAL
    },
];
