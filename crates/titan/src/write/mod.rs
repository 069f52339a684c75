//! Writing: batches, the commit queue, WAL files.

pub(crate) mod batch;
pub(crate) mod predecessor;
pub(crate) mod queue;
pub(crate) mod wal_set;

pub use batch::{BatchOp, BatchOps, WriteBatch};
