//! Reading a table: opening it, lookups, cursors, readahead, and verifying all of it.

mod blob_refs;
pub(in crate::table) mod iterator;
pub(crate) mod open;
mod points_to;
mod range_sum;
pub(in crate::table) mod read_ahead;
pub(crate) mod reader;
pub(in crate::table) mod verify;
