//! The segments that a cache holds: their states, their list, pending writes, costs, eviction.

pub(crate) mod cold_points;
pub(crate) mod cold_reads;
pub(crate) mod cold_scans;
pub(crate) mod costs;
pub(crate) mod directory;
pub(crate) mod eviction;
pub(crate) mod faults;
pub(crate) mod gaps;
pub(crate) mod joins;
pub(crate) mod pending_writes;
pub(crate) mod segment;
pub(crate) mod shared;
pub(crate) mod splits;
