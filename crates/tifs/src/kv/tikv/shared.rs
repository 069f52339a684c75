//! The parts of a store that transactions and threads share.

use rustix::io::Errno;
use tikv_client::Timestamp;

use super::client::{Cluster, timestamp};
use super::session::Session;
use super::windows::Windows;
use crate::error::Result;
use crate::kv::RemoteUrl;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::keys::Keys;
use crate::kv::remote::slots::Slots;

/// The parts that transactions and the thread share.
pub(super) struct Shared {
    pub(super) url: RemoteUrl,
    pub(super) cluster: Cluster,
    pub(super) keys: Keys,
    pub(super) session: Option<Session>,
    pub(super) slots: Slots,
    pub(super) windows: Windows,
}

impl Shared {
    /// A timestamp of now, at which nobody else had the volume.
    pub(super) fn now(&self) -> Result<Timestamp> {
        let deadline = self.cluster.deadline();
        loop {
            let now = timestamp(&self.cluster, deadline)?;
            if self.may_go_on(&now, deadline)? {
                return Ok(now);
            }
        }
    }

    /// Whether the lease covers a timestamp. If not, it is renewed, for the next one.
    pub(super) fn may_go_on(&self, at: &Timestamp, deadline: Deadline) -> Result<bool> {
        match &self.session {
            Some(session) if !session.covers(at) => {
                session.renew(&self.cluster, &self.keys, deadline)?;
                Ok(false)
            }
            _ => Ok(true),
        }
    }

    /// Whether a volume is being made, or was and is not complete.
    pub(super) fn is_making(&self) -> bool {
        let session = self.session.as_ref();
        session.is_some_and(Session::is_making)
    }

    pub(super) fn set_making(&self, is_making: bool) -> Result<()> {
        match &self.session {
            Some(session) => session.set_making(&self.cluster, &self.keys, is_making),
            None => Err(Errno::ROFS.into()),
        }
    }

    pub(super) fn renew(&self) -> Result<()> {
        match &self.session {
            Some(session) => session.renew(&self.cluster, &self.keys, self.cluster.far_deadline()),
            None => Ok(()),
        }
    }
}
