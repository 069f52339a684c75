//! The content of files: reads, writes, ranges, truncation, room on the device, reclaiming.

pub(in crate::volume) mod access;
pub(in crate::volume) mod blocks;
pub(in crate::volume) mod ranges;
pub(in crate::volume) mod reads;
pub(in crate::volume) mod reclaim;
pub(in crate::volume) mod room;
pub(in crate::volume) mod truncate;
pub(in crate::volume) mod writes;
