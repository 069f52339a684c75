//! Writing: batches, the commit pipeline with its queue and WAL files, and the transactions in those.

pub(crate) mod batch;
pub(crate) mod conditions;
mod options;
pub(crate) mod pipeline;
#[cfg(test)]
mod pipeline_tests;
pub(crate) mod predecessor;
pub(crate) mod queue;
#[cfg(all(test, loom))]
mod queue_models;
pub(crate) mod transactions;
mod validate;
pub(crate) mod wal_set;

pub use batch::{BatchOp, BatchOps, BatchTarget, WriteBatch};
pub use options::WriteOptions;
