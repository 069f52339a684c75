//! The session: the record of the one mount that may write a volume, and its lease.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tikv_client::{Timestamp, TransactionClient};

use super::client::{Cluster, options};
use super::failures::has_surely_failed;
use crate::error::{Error, Result};
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::holder::Holder;
use crate::kv::remote::keys::Keys;
use crate::kv::remote::session::{Owner, decode, encode, taken_over};
use crate::kv::remote::slots::{Mark, SLOTS};

/// The record of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    #[serde(flatten)]
    owner: Owner,
    /// The end of the lease, in milliseconds of the cluster's timestamps.
    expires: u64,
    /// The volume is not complete yet.
    #[serde(default)]
    is_making: bool,
}

impl AsRef<Owner> for Record {
    fn as_ref(&self) -> &Owner {
        &self.owner
    }
}

/// The decision about a record.
enum Decision {
    /// It stays.
    Keep,
    /// It is replaced; and all slots are marked, if somebody else may have written them.
    Store(Record, bool),
    Remove,
}

/// The right of this process to write a volume.
pub(super) struct Session {
    pub(super) id: u64,
    lease: Duration,
    /// The end of the lease, at most the one stored. In milliseconds of the cluster's timestamps.
    expires: AtomicU64,
    /// The volume is not complete yet.
    is_making: AtomicBool,
    /// The reason why it has ended, if it has. Locked by a thread that changes the record.
    ended: Mutex<Option<Error>>,
    /// The record is not that of this process any more.
    is_given_up: AtomicBool,
}

impl Session {
    /// Takes a volume for this process.
    ///
    /// # Errors
    /// `EBUSY` if another one has it, and says which. Those of the cluster.
    pub(super) fn take(cluster: &Cluster, keys: &Keys, lease: Duration) -> Result<Session> {
        let owner = Owner::current();
        let (expires, is_making) = (AtomicU64::new(0), AtomicBool::new(false));
        change(cluster, keys, cluster.deadline(), |now, found| {
            // Of an earlier session, too.
            let was_making = found.is_some_and(|record| record.is_making);
            is_making.store(was_making, Ordering::Relaxed);
            match found {
                // An attempt without an answer.
                Some(own) if own.owner.id == owner.id => {
                    expires.store(own.expires, Ordering::Relaxed);
                    return Ok(Decision::Keep);
                }
                Some(other) if now < other.expires && !other.owner.process.has_ended() => {
                    let seconds = (other.expires - now).div_ceil(1000);
                    return Err(other.owner.holder().in_use(seconds));
                }
                _ => {}
            }
            let record = Record {
                owner: owner.clone(),
                expires: after(now, lease),
                is_making: was_making,
            };
            expires.store(record.expires, Ordering::Relaxed);
            Ok(Decision::Store(record, true))
        })?;
        Ok(Session {
            id: owner.id,
            lease,
            expires,
            is_making,
            ended: Mutex::new(None),
            is_given_up: AtomicBool::new(false),
        })
    }

    /// Whether nobody else had the volume at a timestamp that was got after the session began.
    pub(super) fn covers(&self, at: &Timestamp) -> bool {
        mutant!(lease_outlived) || millis(at) < self.expires.load(Ordering::Acquire)
    }

    /// Puts off the end of the lease.
    ///
    /// # Errors
    /// `EIO` if another process has the volume now. Those of the cluster.
    pub(super) fn renew(&self, cluster: &Cluster, keys: &Keys, deadline: Deadline) -> Result<()> {
        self.store(cluster, keys, deadline, None)
    }

    /// Whether the volume is not complete yet.
    pub(super) fn is_making(&self) -> bool {
        self.is_making.load(Ordering::Relaxed)
    }

    /// Notes whether the volume is not complete yet.
    ///
    /// # Errors
    /// As for [`renew`](Self::renew).
    pub(super) fn set_making(&self, cluster: &Cluster, keys: &Keys, is_making: bool) -> Result<()> {
        self.store(cluster, keys, cluster.deadline(), Some(is_making))?;
        self.is_making.store(is_making, Ordering::Relaxed);
        Ok(())
    }

    /// Stores the record with a new end of the lease.
    fn store(
        &self,
        cluster: &Cluster,
        keys: &Keys,
        deadline: Deadline,
        is_making: Option<bool>,
    ) -> Result<()> {
        let mut ended = cluster.lock(&self.ended, deadline)?;
        if let Some(reason) = &*ended {
            return Err(reason.clone());
        }
        let expires = AtomicU64::new(0);
        let lost = Mutex::new(None);
        let renewed = change(cluster, keys, deadline, |now, found| match found {
            Some(own) if own.owner.id == self.id => {
                let record = Record {
                    expires: after(now, self.lease).max(own.expires),
                    is_making: is_making.unwrap_or(own.is_making),
                    ..own.clone()
                };
                expires.store(record.expires, Ordering::Relaxed);
                Ok(Decision::Store(record, false))
            }
            other => {
                let reason = taken_over(other.map(|record| record.owner.holder()).as_ref());
                *lost.lock() = Some(reason.clone());
                Err(reason)
            }
        });
        if let Some(reason) = lost.into_inner() {
            *ended = Some(reason);
        }
        renewed?;
        self.expires.store(expires.into_inner(), Ordering::Release);
        Ok(())
    }

    /// Gives the volume up. Afterwards nothing more is written.
    ///
    /// # Errors
    /// Those of the cluster: the lease has to run out then, unless this process ends before.
    pub(super) fn end(&self, cluster: &Cluster, keys: &Keys) -> Result<()> {
        let mut ended = self.ended.lock();
        if self.is_given_up.load(Ordering::Relaxed) {
            return Ok(());
        }
        ended.get_or_insert_with(|| Error::new(Errno::IO, "the volume is closed"));
        // ORDER: no transaction begins after the removal.
        self.expires.store(0, Ordering::Release);
        change(cluster, keys, cluster.deadline(), |_, found| match found {
            // The next one has to know that the volume is not complete.
            Some(own) if own.owner.id == self.id && own.is_making => {
                let ended = Record {
                    expires: 0,
                    ..own.clone()
                };
                Ok(Decision::Store(ended, false))
            }
            Some(own) if own.owner.id == self.id => Ok(Decision::Remove),
            _ => Ok(Decision::Keep),
        })?;
        self.is_given_up.store(true, Ordering::Relaxed);
        Ok(())
    }
}

/// The process that has a volume, if one does and its lease lasts.
///
/// # Errors
/// Those of the cluster.
pub(super) fn holder(cluster: &Cluster, keys: &Keys) -> Result<Option<Holder>> {
    let holder = Mutex::new(None);
    change(cluster, keys, cluster.deadline(), |now, found| {
        let found =
            found.filter(|record| now < record.expires && !record.owner.process.has_ended());
        *holder.lock() = found.map(|record| record.owner.holder());
        Ok(Decision::Keep)
    })?;
    Ok(holder.into_inner())
}

fn millis(at: &Timestamp) -> u64 {
    at.physical.cast_unsigned()
}

fn after(now: u64, lease: Duration) -> u64 {
    now.saturating_add(u64::try_from(lease.as_millis()).unwrap_or(u64::MAX))
}

/// Changes the record, as decided from the time of the cluster and the present one, perhaps
/// several times: an attempt without an answer may have been done.
fn change(
    cluster: &Cluster,
    keys: &Keys,
    deadline: Deadline,
    decide: impl Fn(u64, Option<&Record>) -> Result<Decision>,
) -> Result<()> {
    loop {
        let done = cluster.call(deadline, async |client: TransactionClient| {
            let mut transaction = client.begin_with_options(options()).await?;
            let start = transaction.start_timestamp();
            let found = transaction.get(keys.session()).await?;
            let found = found.as_deref().map(decode::<Record>).transpose();
            let decision = found.and_then(|found| decide(millis(&start), found.as_ref()));
            match decision {
                Err(refused) => return Ok(Some(Err(refused))),
                Ok(Decision::Keep) => return Ok(Some(Ok(()))),
                Ok(Decision::Remove) => transaction.delete(keys.session()).await?,
                Ok(Decision::Store(record, marks)) => {
                    let value = match encode(&record) {
                        Ok(value) => value,
                        Err(error) => return Ok(Some(Err(error))),
                    };
                    transaction.put(keys.session(), value).await?;
                    let mark = Mark {
                        session: record.owner.id,
                        transaction: 0,
                    };
                    for slot in (0..SLOTS).filter(|_| marks && !mutant!(slots_not_marked)) {
                        transaction.put(keys.slot(slot), mark.encode()).await?;
                    }
                }
            }
            let Err(error) = transaction.commit().await else {
                return Ok(Some(Ok(())));
            };
            if has_surely_failed(&error, tikv_client::TimestampExt::version(&start)) {
                // Without its locks, the next attempt does not wait.
                let _ = transaction.rollback().await;
            }
            // The next attempt sees whether this one was done.
            Ok(None)
        })?;
        match done {
            Some(done) => return done,
            None => cluster.wait_before_repetition(deadline)?,
        }
    }
}
