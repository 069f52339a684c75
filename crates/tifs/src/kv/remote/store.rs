//! The interface of a store on a cluster: a store with an address, which one process may write.

use super::holder::Holder;
use super::url::RemoteUrl;
use crate::error::Result;
use crate::kv::Kv;

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

    /// Bytes that may be written before the room is asked for again, `None` for as many as on a
    /// disk.
    fn room_at_once(&self) -> Option<u64> {
        None
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
}
