//! Loads, pruning, the choice of ranges, audits: everything that a thread beside reads and writes
//! does.

pub(crate) mod attached;
pub(crate) mod audit;
pub(crate) mod held_ranges;
pub(crate) mod hot_set;
pub(crate) mod passes;
pub(crate) mod policy;
pub(crate) mod range_load;
pub(crate) mod segment_load;
pub(crate) mod thread;
pub(crate) mod upkeep;
