//! The database: opening, recovering, committing, background work, closing.
//!
//! | file | owns |
//! |---|---|
//! | [`core`] | what all parts share, and what ends when the last handle goes |
//! | [`handle`], [`family`] | the faces users hold |
//! | [`open`], [`replay`] | from a directory to a running database |
//! | [`commit`] | a group of batches: WAL, memtables, publication; switching memtables |
//! | [`state`] | what the state lock guards: memtables to flush, who runs what, stalls |
//! | [`background`], [`flush`], [`compact`], [`purge`], [`warm_up`] | the threads and their jobs |
//! | [`failure`] | refusing writes after a failure, and `resume` |
//! | [`metrics`] | sizes and counts |
//!
//! Locks, in the order they are taken: the lead of the commit queue, the version set, the state.
//! The state lock is held for moments only, never over I/O.

mod background;
mod commit;
mod compact;
mod core;
mod failure;
mod family;
mod flush;
mod handle;
mod metrics;
mod open;
mod purge;
mod replay;
mod state;
mod warm_up;

pub use family::ColumnFamily;
pub use handle::Db;
pub use metrics::{FamilyMetrics, LevelMetrics, Metrics};
