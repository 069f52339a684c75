//! Raw keys: without versions, with an optional time to live.
//!
//! | file | owns |
//! |---|---|
//! | `entry` | a value with its expiry, in bytes |
//! | `expiry` | dropping expired values in compactions |
//! | `store` | reads and writes |

mod entry;
mod expiry;
mod store;

pub(crate) use expiry::DropExpired;
pub(crate) use store::{Put, RawStore};
