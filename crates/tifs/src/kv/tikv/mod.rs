//! The store on a cluster that speaks TiKV's protocol.
//!
//! The keys of a volume begin with its name ([`keys`](super::remote::keys)). A transaction of the
//! volume is an optimistic one of the cluster. It commits in one phase if it is small and all its
//! keys are in one region, and else in two. It is durable then, so a sync has nothing to do.
//!
//! No commit is an async one: the client cannot finish those of a process that was killed, and
//! their keys would be locked for ever.
//!
//! # One mount
//!
//! One process at a time may write a volume. It has the *session*, a key with its identity and the
//! end of its lease, which it puts off all the time ([`session`]). The end is in the
//! time of the cluster's timestamps, so no two clocks are compared:
//!
//! 1. Each transaction writes a *slot*, one of a fixed number of keys
//!    ([`slots`](super::remote::slots)). It goes on only if its start is before the end of the
//!    lease.
//! 2. Another process takes the volume in one transaction that replaces the session and writes all
//!    slots. It does so only if its start is after the end of the lease, or if it sees that the
//!    process of the session has ended.
//! 3. So an old transaction began before the new session did, and both write its slot. If the old
//!    one commits first, the new session sees it. If not, it conflicts, whenever its requests
//!    arrive. A process may be stopped at any point for any time. Its reads may then be old ones:
//!    only the next commit or begin finds out.
//!
//! # Commits without an answer
//!
//! The value of a slot identifies the last transaction there, so it tells later whether a commit
//! was done ([`transaction`]). A commit is [`Undetermined`](super::Commit::Undetermined) if the
//! cluster does not answer that question either, or if another mount has the volume since.
//!
//! # Costs
//!
//! A read outside of a transaction takes two round trips: one for a timestamp. A transaction takes
//! one to begin, one for each read, and one to commit if its keys are in one region and take at
//! most 16 KiB with their values; else three. A scan of blocks takes two for a page of them.
//!
//! | file | owns |
//! |---|---|
//! | `failures` | failures that pass, and those after which nothing was done |
//! | `client` | the client: its settings, and the time of the cluster |
//! | `session` | see above |
//! | `shared` | the parts that transactions and threads share |
//! | `windows` | the parts of ranges that scans ask for |
//! | `reads`, `transaction` | reads as of a timestamp; writes and their commit |
//! | `gc` | values that were replaced long ago |

mod client;
mod failures;
mod gc;
#[cfg(test)]
pub(super) mod node;
mod reads;
mod session;
mod shared;
#[cfg(test)]
#[cfg(workspace)]
mod tests;
mod transaction;
mod windows;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tikv_client::TransactionClient;

use self::client::{Cluster, writing};
use self::reads::Reads;
use self::session::Session;
use self::shared::Shared;
use self::transaction::TikvTransaction;
use self::windows::Windows;
use super::pending::{Pending, Writes};
use super::remote::keys::Keys;
use super::remote::slots::Slots;
use super::remote::upkeep::{PARTS, SOON, Upkeep};
use super::remote::{self, Holder, RemoteKv};
use super::{Budget, Kv, Pair, Reader, RemoteUrl, Scan, Space, Transaction};
use crate::error::Result;

/// A volume's part of a cluster as a store. Dropping it gives the volume up, if the cluster
/// answers.
pub struct TikvKv {
    shared: Arc<Shared>,
    /// Renews the lease and drops old values, unless the store is only read.
    upkeep: Mutex<Option<Upkeep>>,
}

impl TikvKv {
    /// Opens the store of a volume, and takes the right to write it. There need not be a volume
    /// yet.
    ///
    /// # Errors
    /// `EBUSY` if another process has it, and says which; `ETIMEDOUT` if the cluster does not
    /// answer.
    pub fn open(url: &RemoteUrl) -> Result<TikvKv> {
        let cluster = Cluster::connect(url)?;
        let keys = Keys::new(&url.name);
        let session = Session::take(&cluster, &keys, url.lease)?;
        let shared = Arc::new(Shared {
            url: url.clone(),
            cluster,
            keys,
            slots: Slots::new(session.id),
            session: Some(session),
            windows: Windows::default(),
        });
        let store = TikvKv {
            shared,
            upkeep: Mutex::new(None),
        };
        // If this fails, the store gives the volume up.
        *store.upkeep.lock() = Some(store.start_upkeep()?);
        Ok(store)
    }

    /// Opens the store of a volume for reading. Another process may write it meanwhile, so only
    /// [snapshots](Kv::snapshot) are of one moment.
    ///
    /// # Errors
    /// `ETIMEDOUT` if the cluster does not answer.
    pub fn open_read_only(url: &RemoteUrl) -> Result<TikvKv> {
        let shared = Shared {
            url: url.clone(),
            cluster: Cluster::connect(url)?,
            keys: Keys::new(&url.name),
            slots: Slots::new(0),
            session: None,
            windows: Windows::default(),
        };
        Ok(TikvKv {
            shared: Arc::new(shared),
            upkeep: Mutex::new(None),
        })
    }

    fn reads(&self) -> Result<Reads<'_>> {
        Ok(Reads {
            store: &self.shared,
            at: self.shared.now()?,
            is_long: false,
            deadline: None,
        })
    }

    fn start_upkeep(&self) -> Result<Upkeep> {
        let mut upkeep = Upkeep::new();
        let shared = Arc::clone(&self.shared);
        let pause = shared.url.lease / PARTS;
        upkeep.add("tifs-lease", pause, pause, move || shared.renew())?;
        if let Some(age) = self.shared.url.gc {
            let shared = Arc::clone(&self.shared);
            upkeep.add("tifs-gc", SOON.min(age / PARTS), age / PARTS, move || {
                gc::drop_replaced(&shared, age)
            })?;
        }
        Ok(upkeep)
    }

    /// Nobody renews the lease any more, or drops replaced values.
    #[cfg(test)]
    #[cfg(workspace)]
    pub(in crate::kv) fn stop_upkeep(&self) {
        self.upkeep.lock().take();
    }
}

impl RemoteKv for TikvKv {
    fn url(&self) -> &RemoteUrl {
        &self.shared.url
    }

    fn holder(&self) -> Result<Option<Holder>> {
        session::holder(&self.shared.cluster, &self.shared.keys)
    }

    fn is_making(&self) -> Result<bool> {
        Ok(self.shared.is_making())
    }

    fn set_making(&self, is_making: bool) -> Result<()> {
        self.shared.set_making(is_making)
    }
}

impl Drop for TikvKv {
    fn drop(&mut self) {
        if self.shared.cluster.is_usable() {
            // The lease runs out otherwise.
            let _ = self.close();
        }
    }
}

impl Kv for TikvKv {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        self.begin_within(&Budget::default())
    }

    fn begin_within(&self, budget: &Budget) -> Result<Box<dyn Transaction + '_>> {
        let store = &*self.shared;
        if store.session.is_none() {
            return Err(remote::read_only());
        }
        // ORDER: before the start. Two transactions that run at the same time have two slots.
        let slot = store.slots.take()?;
        let deadline = store.cluster.deadline_to_begin(budget)?;
        loop {
            let begun = store
                .cluster
                .call(deadline, async |client: TransactionClient| {
                    client.begin_with_options(writing()).await
                })?;
            let at = begun.start_timestamp();
            if store.may_go_on(&at, deadline)? {
                return Ok(Box::new(TikvTransaction {
                    reads: Reads {
                        store,
                        at,
                        is_long: false,
                        deadline: Some(store.cluster.deadline_within(budget)),
                    },
                    begun,
                    slot,
                    pending: Pending::default(),
                }));
            }
        }
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        Ok(Box::new(Reads {
            is_long: true,
            ..self.reads()?
        }))
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.reads()?.get(space, key)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        self.reads()?.multi_get(space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        Reader::scan(&self.reads()?, scan)
    }

    fn close(&self) -> Result<()> {
        let upkeep = self.upkeep.lock().take();
        self.shared.cluster.end_long();
        drop(upkeep);
        match &self.shared.session {
            Some(session) => session.end(&self.shared.cluster, &self.shared.keys),
            None => Ok(()),
        }
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
        let values = Reads::multi_get(self, space, keys)?.into_iter();
        Ok(values.map(|value| value.map(|value| value.len())).collect())
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        Reads::scan(self, scan, &Writes::new())
    }
}
