//! The session: a key under a lease of etcd, which the mount that may write a volume renews.
//!
//! Each commit has the condition that the key is the one that its mount has stored. When the lease
//! ends, etcd removes the key, and another mount may store one. So a commit of an old mount fails,
//! whenever it arrives, and no clocks are compared.
//!
//! A second key has the last session, whose lease may have ended. A mount that finds itself there
//! goes on with a new lease: nobody else had the volume meanwhile. A session that was given up
//! leaves zero there.
//!
//! A process that takes a session ends that of a mount which sleeps past its lease, and the mount
//! cannot go on: an object that it wrote and has not named yet may have been deleted as one that
//! nothing names. So work that need not be done takes a session only if the last one was given up
//! ([`Claim`]).

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::base::Base;
use super::client::{Cluster, EtcdClient};
use super::clock::now;
use super::wire::{
    Compare, DeleteRequest, KeyValue, Operation, PutRequest, RangeRequest, Request,
    TransactionRequest, TransactionResponse,
};
use crate::error::{Error, Result};
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::holder::Holder;
use crate::kv::remote::keys::Keys;
use crate::kv::remote::session::{Owner, decode, encode, taken_over};

/// The last session, if it was given up. No session has this number.
const GIVEN_UP: u64 = 0;

/// The keys of sessions, as they are now.
struct Found {
    /// The session, with its key's revision and lease.
    session: Option<(Owner, KeyValue)>,
    /// The last session, and the revision of its key.
    last: (u64, i64),
    revision: i64,
}

/// The sessions that a new one may replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Any whose lease or process has ended.
    Ended,
    /// Only one that was given up, or whose process has ended.
    GivenUp,
}

/// The right of this process to write a volume.
pub(super) struct Session {
    owner: Owner,
    lease: Duration,
    /// The revision at which the key was stored.
    fence: AtomicI64,
    /// Nobody else had the volume before, by the clock of this machine, in nanoseconds.
    until: AtomicU64,
    /// Locked by a thread that changes the session.
    present: Mutex<Present>,
    /// The record is not that of this process any more.
    is_given_up: AtomicBool,
}

struct Present {
    /// The number of the lease.
    lease: i64,
    /// The reason why it has ended, if it has.
    ended: Option<Error>,
}

impl Session {
    /// Takes a volume for this process. Returns the revision of that, too.
    ///
    /// # Errors
    /// `EBUSY` if another one has it, and says which, or if it may go on. Those of the cluster.
    pub(super) fn take(base: &Base, claim: Claim) -> Result<(Session, i64)> {
        let (cluster, keys, lease) = (&base.cluster, &base.keys, base.url.lease);
        let session = Session {
            owner: Owner::current(),
            lease,
            fence: AtomicI64::new(0),
            until: AtomicU64::new(0),
            present: Mutex::new(Present {
                lease: 0,
                ended: None,
            }),
            is_given_up: AtomicBool::new(false),
        };
        let deadline = cluster.deadline();
        let mut present = session.present.lock();
        loop {
            let found = look(cluster, keys, deadline)?;
            if let Some((other, key)) = &found.session
                && other.id != session.owner.id
                && !other.process.has_ended()
            {
                let rest = cluster.call(deadline, async |client: EtcdClient| {
                    client.time_to_live(key.lease).await
                })?;
                return Err(other.holder().in_use(rest.ttl.max(1).cast_unsigned()));
            }
            if claim == Claim::GivenUp && found.session.is_none() && found.last.0 != GIVEN_UP {
                let what = "the last mount did not give the volume up, and may go on";
                return Err(Error::new(Errno::BUSY, what));
            }
            if session.store(cluster, keys, &found, &mut present, deadline)? {
                break;
            }
        }
        drop(present);
        let began = session.fence();
        base.moments.reached(began);
        Ok((session, began))
    }

    /// The revision that the session's key has: the condition of each commit.
    pub(super) fn fence(&self) -> i64 {
        self.fence.load(Ordering::Acquire)
    }

    pub(super) fn id(&self) -> u64 {
        self.owner.id
    }

    /// Whether nobody else can have the volume now.
    pub(super) fn lasts(&self) -> bool {
        mutant!(lease_on_etcd_outlived) || nanos(now()) < self.until.load(Ordering::Acquire)
    }

    /// Notes that the lease has so many seconds from a time on.
    fn lasts_for(&self, asked: Duration, seconds: i64) {
        let seconds = u64::try_from(seconds).unwrap_or(0);
        let until = asked + Duration::from_secs(seconds);
        self.until.store(nanos(until), Ordering::Release);
    }

    /// Stores the session in place of the one found, under a new lease. False if others changed
    /// that.
    fn store(
        &self,
        cluster: &Cluster,
        keys: &Keys,
        found: &Found,
        present: &mut Present,
        deadline: Deadline,
    ) -> Result<bool> {
        if let Some((own, key)) = &found.session
            && own.id == self.owner.id
        {
            // An attempt without an answer has done it.
            present.lease = key.lease;
            self.fence.store(key.mod_revision, Ordering::Release);
            return self.keep(cluster, present, deadline);
        }
        let (asked, seconds) = (now(), self.lease.as_secs().cast_signed());
        let lease = cluster.call(deadline, async |client: EtcdClient| {
            client.grant(seconds).await
        })?;
        let value = encode(&self.owner)?;
        let before = found.session.as_ref();
        let request = TransactionRequest {
            compare: vec![
                Compare::unchanged(
                    keys.session(),
                    before.map_or(0, |(_, key)| key.mod_revision),
                ),
                Compare::unchanged(keys.last_session(), found.last.1),
            ],
            success: vec![
                put(keys.session(), value, lease.id),
                put(keys.last_session(), self.owner.id.to_be_bytes().to_vec(), 0),
            ],
            failure: Vec::new(),
        };
        let stored = cluster.call(deadline, async |client: EtcdClient| {
            client.transaction(request.clone()).await
        })?;
        if stored.succeeded {
            present.lease = lease.id;
            self.lasts_for(asked, lease.ttl);
            self.fence.store(stored.revision(), Ordering::Release);
        }
        Ok(stored.succeeded)
    }

    /// Puts off the end of the lease. False if it has ended.
    fn keep(&self, cluster: &Cluster, present: &Present, deadline: Deadline) -> Result<bool> {
        let (asked, lease) = (now(), present.lease);
        let kept = cluster.call(deadline, async |client: EtcdClient| {
            client.keep_alive(lease).await
        })?;
        self.lasts_for(asked, kept.ttl);
        Ok(kept.ttl > 0)
    }

    /// Puts off the end of the lease. If it has ended and nobody else had the volume since, the
    /// session begins again.
    ///
    /// # Errors
    /// `EIO` if another process has or had the volume. Those of the cluster.
    pub(super) fn renew(&self, base: &Base, deadline: Deadline) -> Result<()> {
        let (cluster, keys) = (&base.cluster, &base.keys);
        let mut present = cluster.lock(&self.present, deadline)?;
        if let Some(reason) = &present.ended {
            return Err(reason.clone());
        }
        if self.keep(cluster, &present, deadline)? {
            // The key may have been removed by hand, and the lease may be an old one.
            let found = look(cluster, keys, deadline)?;
            base.moments.reached(found.revision);
            if { found.session.as_ref() }.is_some_and(|(own, _)| own.id == self.owner.id) {
                return Ok(());
            }
        }
        loop {
            let found = look(cluster, keys, deadline)?;
            base.moments.reached(found.revision);
            let other = found.session.as_ref().map(|(owner, _)| owner);
            let other = other.filter(|owner| owner.id != self.owner.id);
            if found.last.0 != self.owner.id || other.is_some() {
                let reason = taken_over(other.map(Owner::holder).as_ref());
                self.until.store(0, Ordering::Release);
                present.ended = Some(reason.clone());
                return Err(reason);
            }
            if self.store(cluster, keys, &found, &mut present, deadline)? {
                base.moments.reached(self.fence());
                return Ok(());
            }
        }
    }

    /// Stores the session's key again, so that no commit succeeds whose request was sent before.
    ///
    /// # Errors
    /// As for [`renew`](Self::renew).
    pub(super) fn replace(&self, base: &Base, deadline: Deadline) -> Result<()> {
        let value = encode(&self.owner)?;
        let present = base.cluster.lock(&self.present, deadline)?;
        let request = TransactionRequest {
            compare: vec![Compare::unchanged(base.keys.session(), self.fence())],
            success: vec![put(base.keys.session(), value, present.lease)],
            failure: Vec::new(),
        };
        let cluster = &base.cluster;
        let done: TransactionResponse = cluster.call(deadline, async |client: EtcdClient| {
            client.transaction(request.clone()).await
        })?;
        base.moments.reached(done.revision());
        if done.succeeded {
            self.fence.store(done.revision(), Ordering::Release);
            return Ok(());
        }
        drop(present);
        self.find_fence(base, deadline)
    }

    /// Finds out the revision of the session's key, after a commit met another one than it knew.
    ///
    /// # Errors
    /// As for [`renew`](Self::renew).
    pub(super) fn find_fence(&self, base: &Base, deadline: Deadline) -> Result<()> {
        let present = base.cluster.lock(&self.present, deadline)?;
        let found = look(&base.cluster, &base.keys, deadline)?;
        base.moments.reached(found.revision);
        if let Some((own, key)) = &found.session
            && own.id == self.owner.id
        {
            self.fence.store(key.mod_revision, Ordering::Release);
            return Ok(());
        }
        drop(present);
        self.renew(base, deadline)
    }

    /// Gives the volume up. Afterwards nothing more is written.
    ///
    /// # Errors
    /// Those of the cluster: the lease has to run out then, unless this process ends before.
    pub(super) fn end(&self, base: &Base) -> Result<()> {
        let mut present = self.present.lock();
        if self.is_given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        let closed = || Error::new(Errno::IO, "the volume is closed");
        present.ended.get_or_insert_with(closed);
        // ORDER: no transaction begins after the removal.
        self.until.store(0, Ordering::Release);
        let key = base.keys.session();
        let deadline = base.cluster.deadline();
        let request = DeleteRequest {
            key: key.clone(),
            prev_kv: false,
        };
        let given_up = Request::Put(PutRequest {
            key: base.keys.last_session(),
            value: GIVEN_UP.to_be_bytes().to_vec().into(),
            ..PutRequest::default()
        });
        // If the key is another one, it is not this process's.
        let is_own = || vec![Compare::unchanged(key.clone(), self.fence())];
        let delete = Request::Delete(request);
        let both = vec![delete.clone(), given_up.clone()];
        let is_removed = match base.change_if(is_own(), both, deadline) {
            // A full etcd deletes, and takes no record of it.
            Err(e) if e.errno() == Errno::NOSPC => {
                base.change_if(is_own(), vec![delete], deadline)?
            }
            changed => changed?,
        };
        if !is_removed {
            // It may have gone with the lease.
            let found = look(&base.cluster, &base.keys, deadline)?;
            if found.session.is_none() && found.last.0 == self.owner.id {
                let last = Compare::unchanged(base.keys.last_session(), found.last.1);
                let none = Compare::unchanged(key, 0);
                base.change_if(vec![none, last], vec![given_up], deadline)?;
            }
        }
        self.is_given_up.store(true, Ordering::Relaxed);
        let lease = present.lease;
        // It runs out by itself.
        let _ = base
            .cluster
            .once(base.url.timeout, async |client: EtcdClient| {
                client.revoke(lease).await
            });
        Ok(())
    }
}

/// The process that has a volume, if one does.
///
/// # Errors
/// Those of the cluster.
pub(super) fn holder(base: &Base) -> Result<Option<Holder>> {
    let found = look(&base.cluster, &base.keys, base.cluster.deadline())?;
    let owner = found.session.map(|(owner, _)| owner);
    let owner = owner.filter(|owner| !owner.process.has_ended());
    Ok(owner.as_ref().map(Owner::holder))
}

fn look(cluster: &Cluster, keys: &Keys, deadline: Deadline) -> Result<Found> {
    let range = |key: Vec<u8>| {
        Operation::from(Request::Range(RangeRequest {
            key,
            ..RangeRequest::default()
        }))
    };
    let request = TransactionRequest {
        success: vec![range(keys.session()), range(keys.last_session())],
        ..TransactionRequest::default()
    };
    let answer = cluster.call(deadline, async |client: EtcdClient| {
        client.transaction(request.clone()).await
    })?;
    let mut found = Found {
        session: None,
        last: (GIVEN_UP, 0),
        revision: answer.revision(),
    };
    for pair in answer.into_pairs() {
        if pair.key == keys.session() {
            found.session = Some((decode(&pair.value)?, pair));
        } else {
            let id = <[u8; 8]>::try_from(&pair.value[..]);
            let id = id.map_err(|_| Error::corrupt("the last session cannot be read"))?;
            found.last = (u64::from_be_bytes(id), pair.mod_revision);
        }
    }
    Ok(found)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn put(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Operation {
    Request::Put(PutRequest {
        key,
        value: value.into(),
        lease,
        prev_kv: false,
    })
    .into()
}
