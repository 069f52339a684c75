//! The state that all operations of a volume share: its store, locks, counters, queues; and the
//! change.

pub(in crate::volume) mod attempts;
pub(in crate::volume) mod change;
pub(in crate::volume) mod found_room;
pub(in crate::volume) mod locks;
pub(in crate::volume) mod numbers;
pub(in crate::volume) mod options;
pub(in crate::volume) mod places;
pub(in crate::volume) mod reclaim_queue;
pub(in crate::volume) mod references;
pub(in crate::volume) mod usage;
pub(in crate::volume) mod volume;
