//! Volumes on clusters: all that stores on different clusters do in the same way.
//!
//! One process at a time may write a volume. It has the *session*, a record with its identity in
//! the cluster, for as long as it renews a lease. Each store makes sure that a process without the
//! session changes nothing, however long it was stopped.
//!
//! | file | owns |
//! |---|---|
//! | `url` | addresses |
//! | `holder`, `process` | the process that has a volume; whether a process has ended |
//! | `session` | the records of sessions, and messages on them |
//! | `cluster` | the connection: threads, repeated calls, deadlines |
//! | `patience` | the time that operations may take |
//! | `keys` | the keys of a volume |
//! | `slots` | the marks by which the fate of a commit is found |
//! | `writes` | the writes of a transaction on top of pages |
//! | `upkeep` | threads that do something again and again |
//! | `making` | a volume that is not complete yet |
//! | `store` | the interface of a store |

#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod cluster;
pub(super) mod holder;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod keys;
mod making;
pub(super) mod patience;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod process;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod session;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod slots;
mod store;
#[cfg(test)]
#[cfg(all(workspace, any(feature = "etcd", feature = "tikv")))]
pub(super) mod tests;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod upkeep;
pub(super) mod url;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod writes;

#[cfg(any(feature = "etcd", feature = "tikv"))]
use crate::error::Error;

pub use self::holder::{AskHolder, Holder};
pub use self::making::{begin_making, undo_making};
pub use self::patience::Budget;
pub use self::store::{RemoteKv, Room};

/// The error of a change through a store that was opened for reading.
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) fn read_only() -> Error {
    Error::new(
        rustix::io::Errno::ROFS,
        "the volume was opened for reading only",
    )
}
