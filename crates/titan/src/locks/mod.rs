//! Locks on keys, for transactions.
//!
//! Owns which transaction has which key locked, and which one waits for which. Knows neither values
//! nor the database. Promises:
//!
//! 1. A key that is locked exclusively has one owner. A key that is locked shared has any number.
//! 2. A request waits until it is granted, its time is over, or it would wait for ever: a request
//!    that closes a circle of waiting owners fails, and the error lists the circle. No request
//!    fails because of a circle that does not exist.
//! 3. Once the table is closed, every request that waits or would wait fails.
//! 4. Locks are not queued: of several requests that can be granted, any may be the next.
//!
//! The table is striped: a key belongs to one of 64 maps, each with a lock of its own.
//! Requests that wait are in one list for all stripes, which is locked after a stripe, and only by
//! requests that wait and by releases for which something waits.

mod owners;
mod request;
mod table;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
mod waits;

pub(crate) use request::{Acquired, LockKey, Mode, OwnerId, Request};
pub(crate) use table::LockTable;
