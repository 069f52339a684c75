//! The path of writes: commit hook, log of pending writes, segments.

pub(crate) mod applier;
pub(crate) mod apply;
pub(crate) mod chained_hook;
pub(crate) mod hook;
