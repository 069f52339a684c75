//! The store on etcd, with blocks of files in an object store.
//!
//! The keys of a volume begin with its name ([`keys`](super::remote::keys)). Metadata are values of
//! etcd; of a block, etcd has the number of its [object](objects). A transaction reads as of a
//! revision, and commits by one transaction of etcd ([`commit`]). It is durable then, so a sync has
//! nothing to do.
//!
//! A key that a transaction found without a value is guarded by that alone: if others gave it a
//! value and removed it since, there is no conflict, and nothing to be seen.
//!
//! # One mount
//!
//! One process at a time may write a volume: it has the [session](session). Each commit has the
//! condition that the session's key is the one that its mount stored.
//!
//! # Commits without an answer
//!
//! Each transaction writes a *slot* ([`slots`](super::remote::slots)), whose value identifies it.
//! So the slot tells whether a commit happened, and a commit that did not is kept from happening
//! later ([`commit`]).
//!
//! # Dropping old data
//!
//! etcd keeps all revisions until it is told to compact them, which a mount does behind its oldest
//! [moment](moments) and that of all [readers]. Objects go then, too: nothing names them any more
//! ([`collection`]). A transaction whose revision was compacted begins again.
//!
//! # Costs
//!
//! A begin takes no round trip, a read one: of one key or a range to any member, else to the
//! leader. A commit takes one to the leader, which asks a majority, and another read for keys that
//! were not read before.
//!
//! | file | owns |
//! |---|---|
//! | `wire` | the messages of etcd's protocol |
//! | `failures` | failures that pass, and those after which nothing was done |
//! | `credentials` | users, passwords and keys |
//! | `client` | a connection to a member |
//! | `clock` | time that counts while the machine sleeps |
//! | `moments` | the revisions that are read at |
//! | `objects`, `directory`, `refusals` | the object store; one that is a directory; its failures |
//! | `session` | the right to write |
//! | `base` | the cluster as a volume sees it |
//! | `shared` | the parts that transactions and threads share |
//! | `readers` | processes that only read |
//! | `reads`, `transaction`, `commit` | reads at a revision; writes; commits and their fates |
//! | `garbage`, `collection` | objects that nothing names; dropping data that nothing reads |
//! | `listing` | objects that are missing |

mod base;
mod client;
mod clock;
mod collection;
mod commit;
mod credentials;
mod directory;
mod failures;
mod garbage;
mod listing;
mod moments;
mod objects;
mod readers;
mod reads;
mod refusals;
mod session;
mod shared;
#[cfg(test)]
#[cfg(workspace)]
mod tests;
mod transaction;
mod wire;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use rustix::io::Errno;

use self::base::Base;
use self::garbage::Garbage;
use self::objects::Objects;
use self::reads::Reads;
use self::session::{Claim, Session};
use self::shared::Shared;
use self::transaction::EtcdTransaction;
use super::pending::{Pending, Writes};
use super::remote::slots::Slots;
use super::remote::upkeep::{PARTS, SOON, Upkeep};
use super::remote::{AskHolder, Holder, RemoteKv, Room};
use super::{Budget, Kv, Pair, Reader, RemoteUrl, Scan, Space, Transaction};
use crate::error::{Error, Result};
use crate::log;

/// A volume's part of etcd, and an object store, as a store. Dropping it gives the volume up, if
/// the cluster answers.
pub struct EtcdKv {
    shared: Arc<Shared>,
    upkeep: Mutex<Option<Upkeep>>,
}

impl EtcdKv {
    /// Opens the store of a volume, and takes the right to write it. There need not be a volume
    /// yet.
    ///
    /// # Errors
    /// `EBUSY` if another process has it, and says which; `ETIMEDOUT` if the cluster does not
    /// answer; `EINVAL` if the object store is not that of the volume.
    pub fn open(url: &RemoteUrl) -> Result<EtcdKv> {
        EtcdKv::open_instead(url, Claim::Ended)
    }

    fn open_instead(url: &RemoteUrl, of: Claim) -> Result<EtcdKv> {
        let base = Base::connect(url)?;
        let objects = Objects::open(url, true)?;
        let (session, began) = Session::take(&base, of)?;
        let shared = Shared {
            slots: Slots::new(session.id()),
            session: Some(session),
            began,
            ..EtcdKv::shared(base, objects)
        };
        let store = EtcdKv {
            shared: Arc::new(shared),
            upkeep: Mutex::new(None),
        };
        // If one of these fails, the store gives the volume up.
        store.shared.find_identity()?;
        *store.upkeep.lock() = Some(store.start_upkeep()?);
        Ok(store)
    }

    /// Opens the store of a volume for reading. Another process may write it meanwhile, so only
    /// [snapshots](Kv::snapshot) are of one moment.
    ///
    /// # Errors
    /// As for [`open`](Self::open), but for `EBUSY`.
    pub fn open_read_only(url: &RemoteUrl) -> Result<EtcdKv> {
        let base = Base::connect(url)?;
        let reader = match readers::Reader::begin(&base) {
            // A full cluster takes no keys. It can still be read, if nothing is dropped meanwhile.
            Err(error) if error.errno() == Errno::NOSPC => {
                log::record(&error.to_string());
                None
            }
            begun => Some(begun?),
        };
        let shared = Shared {
            reader,
            ..EtcdKv::shared(base, Objects::open(url, false)?)
        };
        let store = EtcdKv {
            shared: Arc::new(shared),
            upkeep: Mutex::new(None),
        };
        store.shared.find_identity()?;
        let (shared, mut upkeep) = (Arc::clone(&store.shared), Upkeep::new());
        let pause = url.lease / PARTS;
        upkeep.add("tifs-lease", pause, pause, move || {
            { shared.reader.as_ref() }.map_or(Ok(()), |reader| reader.renew(&shared.base))
        })?;
        *store.upkeep.lock() = Some(upkeep);
        Ok(store)
    }

    fn shared(base: Base, objects: Objects) -> Shared {
        Shared {
            base,
            objects,
            garbage: Garbage::default(),
            session: None,
            reader: None,
            slots: Slots::new(0),
            commits: RwLock::new(()),
            is_one_late: AtomicBool::new(false),
            ends: AtomicBool::new(false),
            compacted: AtomicI64::new(0),
            began: 0,
        }
    }

    /// Deletes objects that nothing names, and returns how many there were.
    fn collect(&self) -> Result<u64> {
        let count = collection::collect(&self.shared)?;
        let oldest = readers::oldest(&self.shared.base)?;
        let oldest = oldest.min(self.shared.base.moments.oldest());
        collection::delete_all(&self.shared, oldest)?;
        Ok(count)
    }

    fn start_upkeep(&self) -> Result<Upkeep> {
        let mut upkeep = Upkeep::new();
        let shared = Arc::clone(&self.shared);
        let pause = shared.base.url.lease / PARTS;
        upkeep.add("tifs-lease", pause, pause, move || {
            let deadline = shared.base.cluster.far_deadline();
            shared.session()?.renew(&shared.base, deadline)
        })?;
        let shared = Arc::clone(&self.shared);
        let is_collected = AtomicBool::new(false);
        let age = shared.base.url.gc.unwrap_or(shared.base.url.lease);
        upkeep.add("tifs-gc", SOON.min(age / PARTS), age / PARTS, move || {
            // Revisions go even if objects cannot be listed.
            collection::drop_replaced(&shared)?;
            if !is_collected.load(Ordering::Relaxed) {
                collection::collect(&shared)?;
                is_collected.store(true, Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(upkeep)
    }

    /// Nobody renews the lease any more, or drops replaced values.
    #[cfg(test)]
    #[cfg(workspace)]
    pub(in crate::kv) fn stop_upkeep(&self) {
        self.upkeep.lock().take();
    }
}

/// Connects to a cluster, only to ask which process may write a volume.
///
/// # Errors
/// `ETIMEDOUT` if the cluster does not answer.
pub(super) fn connect_to_ask(url: &RemoteUrl) -> Result<AskHolder> {
    let base = Base::connect(url)?;
    Ok(Box::new(move || session::holder(&base)))
}

/// Deletes the objects of a volume that nothing names, and returns their number. `None` if a
/// process has the volume, or had it and did not give it up: it may go on.
///
/// # Errors
/// As for [`EtcdKv::open`], but for `EBUSY`.
pub(super) fn collect(url: &RemoteUrl) -> Result<Option<u64>> {
    let store = match EtcdKv::open_instead(url, Claim::GivenUp) {
        Err(error) if error.errno() == Errno::BUSY => return Ok(None),
        opened => opened?,
    };
    let collected = store.collect();
    store.close()?;
    collected.map(Some)
}

impl RemoteKv for EtcdKv {
    fn url(&self) -> &RemoteUrl {
        &self.shared.base.url
    }

    fn holder(&self) -> Result<Option<Holder>> {
        session::holder(&self.shared.base)
    }

    fn is_making(&self) -> Result<bool> {
        self.shared.is_making()
    }

    fn set_making(&self, is_making: bool) -> Result<()> {
        self.shared.set_making(is_making)
    }

    fn room(&self) -> Result<Option<Room>> {
        let room = self.shared.room()?;
        if room.used < room.total / 4 * 3 {
            return Ok(Some(room));
        }
        match collection::drop_all_replaced(&self.shared) {
            Ok(true) => self.shared.room().map(Some),
            // Revisions that are not dropped now are dropped later.
            Ok(false) | Err(_) => Ok(Some(room)),
        }
    }

    fn room_at_once(&self) -> Option<u64> {
        Some(self.shared.room_at_once())
    }
}

impl Drop for EtcdKv {
    fn drop(&mut self) {
        if self.shared.base.cluster.is_usable() {
            // The lease runs out otherwise.
            let _ = self.close();
        }
    }
}

impl Kv for EtcdKv {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        self.begin_within(&Budget::default())
    }

    fn begin_within(&self, budget: &Budget) -> Result<Box<dyn Transaction + '_>> {
        let store = &*self.shared;
        store.session()?;
        store.check_process()?;
        let to_begin = store.base.cluster.deadline_to_begin(budget)?;
        // ORDER: before the begin. Two transactions that run at the same time have two slots.
        let slot = store.slots.take()?;
        let at = store.now_until(to_begin)?;
        Ok(Box::new(EtcdTransaction {
            reads: Reads::new(store, at).until(store.base.cluster.deadline_within(budget)),
            slot,
            pending: Pending::default(),
        }))
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reads::new(&self.shared, self.shared.now()?)))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        let shared = &self.shared;
        shared.at_present(|at| Reads::new(shared, at).get(space, key))
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        let shared = &self.shared;
        shared.at_present(|at| Reads::new(shared, at).multi_get(space, keys))
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        let shared = &self.shared;
        shared.at_present(|at| Reads::new(shared, at).scan(scan, &Writes::new()))
    }

    fn close(&self) -> Result<()> {
        let upkeep = self.upkeep.lock().take();
        let shared = &*self.shared;
        shared.ends.store(true, Ordering::Relaxed);
        shared.base.cluster.end_long();
        drop(upkeep);
        if let Some(reader) = &shared.reader {
            reader.end(&shared.base);
        }
        if let Some(session) = &shared.session {
            session.end(&shared.base)?;
            // Nothing of this process reads any more. The next mount finds the objects that stay.
            if let Ok(oldest) = readers::oldest(&shared.base) {
                let _ = collection::delete_some(shared, oldest);
            }
        }
        Ok(())
    }
}

impl Reader for Reads<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        Reads::get(self, space, key)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        Reads::multi_get(self, space, keys)
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        Reads::lengths(self, space, keys)
    }

    fn lost(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Error>>> {
        Reads::lost(self, space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        Reads::scan(self, scan, &Writes::new())
    }
}
