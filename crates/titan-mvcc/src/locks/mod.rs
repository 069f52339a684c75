//! Latches of commits and locks of transactions.
//!
//! | file | owns |
//! |---|---|
//! | `latches` | the exclusion of commits of the same key, and the newest write of each |
//! | `waits` | waits for locks, and deadlocks |
//! | `active_lock` | one lock in memory |
//! | `lock_table` | all locks, in memory and in the family `locks` |

mod active_lock;
mod latches;
mod lock_table;
mod waits;

pub(crate) use active_lock::{ActiveLock, Push};
pub(crate) use latches::{KeyHash, Latches, Taken};
pub(crate) use lock_table::{LockTable, lost_value};
pub(crate) use waits::NoWait;
