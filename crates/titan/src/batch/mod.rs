//! `WriteBatch`: operations that are applied together or not at all.
//!
//! A batch has its operations in the form in which the WAL stores them, so committing it copies
//! bytes and nothing else. `lp` is a varint length and that many bytes; `cf` is a varint.
//!
//! ```text
//! sequence u64 | count u32 | operations
//!
//! 01 lp key, lp value   05 cf, ..  put             00 lp key       04 cf, ..  delete
//! 02 lp key, lp operand 06 cf, ..  merge           07 lp key       08 cf, ..  single delete
//! 0f lp begin, lp end   0e cf, ..  delete range    11 lp key, lp index  10 cf, ..  blob index
//! 16 lp key, lp columns 17 cf, ..  entity          18 lp key, lp value+time  19 cf, ..  timed put
//! 03 lp bytes  log data   0d  nothing   09, 12, 13  begin prepare   0a lp xid  end prepare
//! 0b lp xid    commit     0c lp xid  rollback   15 lp timestamp, lp xid  commit with timestamp
//! ```
//!
//! The forms without `cf` are for the default column family. Operations on data take consecutive
//! sequence numbers from the header's on, and `count` is their number; the others take none.

mod op;
mod target;
#[cfg(test)]
mod tests;
mod view;
mod write_batch;

pub use op::BatchOp;
pub use target::BatchTarget;
pub use view::BatchOps;
pub use view::BatchView;
pub use write_batch::WriteBatch;
pub(crate) use write_batch::{BatchShape, group_header};
