//! The parts of a store that transactions and threads share.

use std::sync::atomic::{AtomicBool, AtomicI64};

use bytes::Bytes;
use parking_lot::RwLock;

use super::base::Base;
use super::client::EtcdClient;
use super::garbage::Garbage;
use super::moments::Moment;
use super::objects::Objects;
use super::readers::Reader;
use super::session::Session;
use super::wire::{Compare, DeleteRequest, PutRequest, Request};
use crate::error::{Error, Result};
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::slots::Slots;
use crate::kv::remote::{self, Room};

/// The part of etcd's quota that is used before the volume is full, in percent. The rest is for
/// deletions, and for revisions that are not compacted yet.
const FULL: u64 = 85;

/// The part of what is kept that may be written before etcd is asked again, as a divisor.
const AT_ONCE: u64 = 4;

/// The parts that transactions and threads share.
pub(super) struct Shared {
    pub(super) base: Base,
    pub(super) objects: Objects,
    pub(super) garbage: Garbage,
    pub(super) session: Option<Session>,
    /// The process as one that only reads, if it could say so.
    pub(super) reader: Option<Reader>,
    pub(super) slots: Slots,
    /// Held by each commit; alone by one with more keys than a condition can have.
    pub(super) commits: RwLock<()>,
    /// A commit without conditions on keys may still be on its way.
    pub(super) is_one_late: AtomicBool,
    /// The latest revision behind which this process has let all be dropped.
    pub(super) compacted: AtomicI64,
    /// The threads are to end.
    pub(super) ends: AtomicBool,
    /// The revision at which the present session began.
    pub(super) began: i64,
}

impl Shared {
    /// # Errors
    /// `EROFS` without a session.
    pub(super) fn session(&self) -> Result<&Session> {
        self.session.as_ref().ok_or_else(remote::read_only)
    }

    /// The present. All that this process has committed is there. If other processes write, that of
    /// the cluster.
    pub(super) fn now(&self) -> Result<Moment> {
        self.now_until(self.base.cluster.deadline())
    }

    /// The same, if it is known at the deadline.
    pub(super) fn now_until(&self, deadline: Deadline) -> Result<Moment> {
        match &self.session {
            Some(session) => {
                if !session.lasts() {
                    session.renew(&self.base, deadline)?;
                } else if self.base.cluster.is_silent() {
                    // A caller that finds out now has sent no commit, whose fate would be unknown.
                    self.base.ask()?;
                }
            }
            None => self.base.ask()?,
        }
        Ok(self.base.moments.open())
    }

    /// The result of a read at the present. If the cluster has dropped that since, the present
    /// begins again.
    pub(super) fn at_present<T>(&self, read: impl Fn(Moment) -> Result<T>) -> Result<T> {
        match read(self.now()?) {
            Err(error) if error.is_outdated() => read(self.now()?),
            done => done,
        }
    }

    /// The revision by which this session's objects are told from those of others.
    pub(super) fn objects_of(&self) -> u64 {
        self.began.cast_unsigned()
    }

    /// The result of an operation of the object store, if it is there at the deadline. Others wait
    /// less after one that waited its time.
    pub(super) fn with_objects<T>(
        &self,
        deadline: Deadline,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let (objects, cluster) = (&self.objects, &self.base.cluster);
        let at_most = deadline.rest().min(objects.patience.get());
        let done = cluster.within(at_most, work);
        done.unwrap_or_else(|| {
            if objects.patience.ended(at_most) {
                cluster.spawn(objects.probe());
            }
            Err(objects.out_of_reach())
        })
    }

    /// The same for work that may take long, such as a list or many deletions: it waits the whole
    /// time, and others wait as long as before.
    pub(super) fn with_objects_behind<T>(
        &self,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let done = { &self.base.cluster }.within(self.objects.patience.whole(), work);
        done.unwrap_or_else(|| Err(self.objects.out_of_reach()))
    }

    /// The room of the volume in the quota of etcd.
    pub(super) fn room(&self) -> Result<Room> {
        let cluster = &self.base.cluster;
        let status = cluster.call(cluster.deadline(), async |client: EtcdClient| {
            client.status().await
        })?;
        Ok(Room {
            total: self.base.url.room / 100 * FULL,
            used: status.db_size_in_use.max(0).cast_unsigned(),
        })
    }

    /// Bytes that may be written before etcd is asked for its room again.
    pub(super) fn room_at_once(&self) -> u64 {
        self.base.url.room / 100 * (100 - FULL) / AT_ONCE
    }

    /// Whether this process was taken for one that does not read any more, so that what it reads
    /// may be gone.
    pub(super) fn has_lapsed(&self) -> bool {
        self.reader.as_ref().is_some_and(|reader| {
            // The thread that renews may still sleep, as this machine has. Without an answer nobody
            // knows.
            reader.renew(&self.base).is_err() || reader.has_lapsed()
        })
    }

    /// # Errors
    /// `EIO` in a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        match self.base.cluster.is_usable() {
            true => Ok(()),
            false => Err(Error::corrupt(
                "a forked child cannot use the connection of its parent to the cluster",
            )),
        }
    }
}

/// The values that are stored once for a volume.
impl Shared {
    /// Notes the number of the volume, if it has one.
    ///
    /// # Errors
    /// `EINVAL` if the object store is another volume's.
    pub(super) fn find_identity(&self) -> Result<()> {
        let Some(value) = self.base.value(self.base.keys.identity())? else {
            return Ok(());
        };
        let identity = <[u8; 8]>::try_from(&value[..]);
        let identity = identity.map_err(|_| Error::corrupt("the number of the volume"))?;
        let identity = u64::from_be_bytes(identity);
        let deadline = self.base.cluster.deadline();
        self.with_objects(deadline, self.objects.check_sign(identity))?;
        self.objects.identify(identity);
        Ok(())
    }

    /// Gives the volume a number, if it has none, before its first block is written.
    pub(super) fn identify(&self, deadline: Deadline) -> Result<()> {
        while self.objects.identity().is_none() {
            let identity = self.objects.new_identity;
            // ORDER: the object store has the sign before the volume has the number.
            self.with_objects(deadline, self.objects.write_sign(identity))?;
            let put = PutRequest {
                key: self.base.keys.identity(),
                value: identity.to_be_bytes().to_vec().into(),
                ..PutRequest::default()
            };
            let conditions = vec![
                Compare::unchanged(self.base.keys.identity(), 0),
                Compare::unchanged(self.base.keys.session(), self.session()?.fence()),
            ];
            if self
                .base
                .change_if(conditions, vec![Request::Put(put)], deadline)?
            {
                self.objects.identify(identity);
                return Ok(());
            }
            // An attempt without an answer, or another session.
            self.session()?.find_fence(&self.base, deadline)?;
            self.find_identity()?;
        }
        Ok(())
    }

    /// Whether a volume is being made, or was and is not complete.
    pub(super) fn is_making(&self) -> Result<bool> {
        Ok(self.base.value(self.base.keys.making())?.is_some())
    }

    /// Notes whether the volume is not complete yet.
    pub(super) fn set_making(&self, is_making: bool) -> Result<()> {
        let deadline = self.base.cluster.deadline();
        let change = match is_making {
            true => Request::Put(PutRequest {
                key: self.base.keys.making(),
                value: Bytes::from_static(&[1]),
                ..PutRequest::default()
            }),
            false => Request::Delete(DeleteRequest {
                key: self.base.keys.making(),
                prev_kv: false,
            }),
        };
        loop {
            let session = self.session()?;
            let same = Compare::unchanged(self.base.keys.session(), session.fence());
            if self
                .base
                .change_if(vec![same], vec![change.clone()], deadline)?
            {
                return Ok(());
            }
            session.find_fence(&self.base, deadline)?;
        }
    }
}
