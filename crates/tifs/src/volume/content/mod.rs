pub(in crate::volume) mod content;
pub(in crate::volume) mod ranges;
pub(in crate::volume) mod reclaim;
pub(in crate::volume) mod room;
pub(in crate::volume) mod truncate;
