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
//! | `cluster` | the connection: threads, repeated calls, deadlines |
//! | `patience` | waits for what may be out of reach |
//! | `keys` | the keys of a volume |
//! | `slots` | the marks by which the fate of a commit is found |
//! | `writes` | the writes of a transaction on top of pages |
//! | `upkeep` | threads that do something again and again |
//! | `making` | a volume that is not complete yet |

#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod cluster;
pub(super) mod holder;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod keys;
mod making;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod patience;
pub(super) mod process;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod slots;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod upkeep;
pub(super) mod url;
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) mod writes;

use self::url::RemoteUrl;
use super::Kv;
#[cfg(any(feature = "etcd", feature = "tikv"))]
use crate::error::Error;
use crate::error::Result;

pub use self::holder::Holder;

/// The room of a cluster, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The bytes that may be used.
    pub total: u64,
    /// The bytes in use.
    pub used: u64,
}

/// The store of a volume on a cluster. Dropping it gives the volume up, if the cluster answers.
pub trait RemoteKv: Kv {
    /// The address.
    fn url(&self) -> &RemoteUrl;

    /// The process that may write the volume; `None` if none does.
    ///
    /// # Errors
    /// Those of the cluster.
    fn holder(&self) -> Result<Option<Holder>>;

    /// Whether the volume is not complete yet.
    ///
    /// # Errors
    /// Those of the cluster.
    fn is_making(&self) -> Result<bool>;

    /// Notes whether the volume is not complete yet.
    ///
    /// # Errors
    /// Those of the cluster; `EIO` if another process has the volume now.
    fn set_making(&self, is_making: bool) -> Result<()>;

    /// The room of the cluster, if it is known.
    ///
    /// # Errors
    /// Those of the cluster.
    fn room(&self) -> Result<Option<Room>> {
        Ok(None)
    }

    /// Removes what nothing names, and returns how much there was. Only for the process that may
    /// write the volume.
    ///
    /// # Errors
    /// Those of the cluster.
    fn collect(&self) -> Result<u64> {
        Ok(0)
    }

    /// Begins to make a volume. What an attempt left that did not come to its end is removed. A
    /// complete volume has the key `last` of its metadata, which is stored last.
    ///
    /// # Errors
    /// `EEXIST` if there is a volume, or one that has lost that key. Those of the cluster.
    fn begin_making(&self, last: &[u8]) -> Result<()> {
        making::begin(self, last)
    }

    /// Ends the making of a volume, which is complete. Does nothing if it has ended already.
    ///
    /// # Errors
    /// Those of the cluster.
    fn finish_making(&self) -> Result<()> {
        match self.is_making()? {
            true => self.set_making(false),
            false => Ok(()),
        }
    }

    /// Removes everything of a volume that is not complete, or that is not to be. `last` as before.
    ///
    /// # Errors
    /// Those of the cluster. The rest is removed when the volume is made again.
    fn undo_making(&self, last: &[u8]) -> Result<()> {
        making::undo(self, last)
    }
}

/// The error of a change through a store that was opened for reading.
#[cfg(any(feature = "etcd", feature = "tikv"))]
pub(super) fn read_only() -> Error {
    Error::new(
        rustix::io::Errno::ROFS,
        "the volume was opened for reading only",
    )
}
