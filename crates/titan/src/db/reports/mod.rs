//! Answers about the size and the space of a database.
//!
//! | file | owns |
//! |---|---|
//! | [`metrics`] | sizes and counts of the families |
//! | [`properties`] | figures by RocksDB's names |
//! | [`prometheus`] | the metrics in the form of Prometheus |
//! | [`space`], [`file_sizes`] | the report on space; the lengths of files on disk |
//! | [`space_holders`], [`pinned_contents`] | the holders that keep older versions, and the data that only they need |
//!
//! Promises: a report waits for no job and reads no whole file. Assumes: nothing; files that change
//! meanwhile show as unlisted.

pub(super) mod file_sizes;
pub(super) mod metrics;
pub(super) mod pinned_contents;
pub(super) mod prometheus;
pub(super) mod properties;
pub(super) mod space;
pub(super) mod space_holders;
