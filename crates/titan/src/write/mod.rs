//! Writing: the commit pipeline with its queue, WAL files and hook, and the transactions in WAL
//! files.

pub(crate) mod conditions;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
#[cfg(workspace)]
mod golden_tests;
pub(crate) mod hook;
mod options;
pub(crate) mod pipeline;
#[cfg(test)]
mod pipeline_tests;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod predecessor;
pub(crate) mod queue;
#[cfg(all(test, loom))]
mod queue_models;
mod reentry;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod sync_record;
#[allow(missing_docs, reason = "reached through `internals` only")]
pub(crate) mod transactions;
mod validate;
pub(crate) mod wal_set;

pub use options::WriteOptions;
