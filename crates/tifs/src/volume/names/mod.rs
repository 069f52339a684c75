//! Names in directories: lookups, making, removing, renaming, listing.

pub(in crate::volume) mod create;
pub(in crate::volume) mod listing;
pub(in crate::volume) mod lookup;
pub(in crate::volume) mod remove;
pub(in crate::volume) mod rename;
