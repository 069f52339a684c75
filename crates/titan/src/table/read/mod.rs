//! Reading a table that is sound: opening it, lookups, cursors, readahead.

pub(in crate::table) mod iterator;
pub(in crate::table) mod open;
mod range_sum;
pub(in crate::table) mod read_ahead;
pub(crate) mod reader;
