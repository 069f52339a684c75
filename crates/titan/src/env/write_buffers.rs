//! The memory of the memtables of all databases of an `Env`.
//!
//! Owns: the bound on it, and how much each database takes. Promises: once memtables that are
//! written to take seven eighths of the bound, or all of them together take more than it and those
//! half of it, the database with most of them, of those that can flush, is asked to seal its
//! largest one. Nothing is refused: what is written while flushes run may exceed the bound.
//! Assumes: each memtable is charged after it has grown.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::format::OpeningId;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct WriteBuffers {
    /// Bytes; 0 for no bound.
    bound: u64,
    /// Bytes of all memtables.
    all: AtomicU64,
    /// Bytes of those that are written to.
    mutable: AtomicU64,
    accounts: Mutex<BTreeMap<OpeningId, Arc<Account>>>,
}

/// Memory of the memtables of one database.
pub(crate) struct Account {
    buffers: Arc<WriteBuffers>,
    id: OpeningId,
    /// Bytes of those that are written to.
    mutable: AtomicU64,
    /// It is to seal its largest memtable.
    asked: AtomicBool,
    /// It cannot flush now, so sealing frees nothing.
    held_up: AtomicBool,
}

/// The database that is to seal a memtable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sealer {
    /// The one that asks.
    Own,
    Other(OpeningId),
}

impl WriteBuffers {
    pub(super) fn new(bound: u64) -> Arc<Self> {
        Arc::new(WriteBuffers {
            bound,
            ..WriteBuffers::default()
        })
    }

    /// Bytes of all memtables that have been charged.
    pub(super) fn usage(&self) -> u64 {
        self.all.load(Ordering::Relaxed)
    }

    /// An account for one more database, until [`WriteBuffers::close`].
    pub(super) fn open(self: &Arc<Self>, id: OpeningId) -> Arc<Account> {
        let account = Arc::new(Account {
            buffers: Arc::clone(self),
            id,
            mutable: AtomicU64::new(0),
            asked: AtomicBool::new(false),
            held_up: AtomicBool::new(false),
        });
        self.accounts.lock().insert(id, Arc::clone(&account));
        account
    }

    /// The database is closed: it seals nothing any more.
    pub(super) fn close(&self, id: OpeningId) {
        self.accounts.lock().remove(&id);
    }

    fn is_exceeded(&self) -> bool {
        let bound = self.bound;
        let mutable = self.mutable.load(Ordering::Relaxed);
        let all = self.all.load(Ordering::Relaxed);
        bound > 0 && (mutable > bound - bound / 8 || all >= bound && mutable >= bound / 2)
    }
}

impl Account {
    /// Whether there is a bound. Without one nothing needs to be charged.
    pub(crate) fn is_bounded(&self) -> bool {
        self.buffers.bound > 0
    }

    /// The database that is to seal a memtable now, if one is, and it has not been asked yet. Cost:
    /// O(databases) if the bound is exceeded.
    pub(crate) fn sealer(&self) -> Option<Sealer> {
        if !self.buffers.is_exceeded() {
            return None;
        }
        let accounts = self.buffers.accounts.lock();
        let size = |account: &&Arc<Account>| account.mutable.load(Ordering::Relaxed);
        let able = accounts.values();
        let able = able.filter(|account| !account.held_up.load(Ordering::Relaxed));
        let largest = able.max_by_key(size)?;
        if largest.id == self.id {
            return Some(Sealer::Own);
        }
        let is_new = !largest.asked.swap(true, Ordering::AcqRel);
        is_new.then_some(Sealer::Other(largest.id))
    }

    /// Whether another database has asked this one to seal a memtable.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// The same, and takes it: the caller seals one if the bound is still exceeded.
    pub(crate) fn take_asked(&self) -> bool {
        self.asked.swap(false, Ordering::AcqRel)
    }

    /// Whether the bound is exceeded.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.buffers.is_exceeded()
    }

    /// Says whether the database cannot flush: a failure is in force, or there is no room.
    pub(crate) fn set_held_up(&self, held_up: bool) {
        let ignored = mutant!(sealing_asked_of_a_stopped_database);
        self.held_up.store(held_up && !ignored, Ordering::Relaxed);
    }
}

/// The memory of one memtable, which is given back when this is dropped.
pub(crate) struct Charge {
    account: Arc<Account>,
    bytes: AtomicU64,
    sealed: AtomicBool,
}

impl Charge {
    /// Nothing yet.
    pub(crate) fn new(account: &Arc<Account>) -> Self {
        Charge {
            account: Arc::clone(account),
            bytes: AtomicU64::new(0),
            sealed: AtomicBool::new(false),
        }
    }

    /// The memtable takes so many bytes by now. Only the leader of the commit queue calls this, and
    /// seals it.
    pub(crate) fn set(&self, bytes: u64) {
        if self.sealed.load(Ordering::Relaxed) {
            return;
        }
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        invariant!(bytes >= before, "a memtable shrinks to {bytes} bytes");
        let (added, buffers) = (bytes - before, &self.account.buffers);
        if added > 0 {
            buffers.all.fetch_add(added, Ordering::Relaxed);
            buffers.mutable.fetch_add(added, Ordering::Relaxed);
            self.account.mutable.fetch_add(added, Ordering::Relaxed);
        }
    }

    /// The memtable is not written to any more.
    pub(crate) fn seal(&self) {
        if !self.sealed.swap(true, Ordering::Relaxed) {
            let bytes = self.bytes.load(Ordering::Relaxed);
            let buffers = &self.account.buffers;
            buffers.mutable.fetch_sub(bytes, Ordering::Relaxed);
            self.account.mutable.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.seal();
        let bytes = self.bytes.load(Ordering::Relaxed);
        let before = self.account.buffers.all.fetch_sub(bytes, Ordering::Relaxed);
        invariant!(
            before >= bytes,
            "a memtable gives back {bytes} bytes, and all take {before}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_with_most_is_asked_once_and_what_is_sealed_counts_until_it_is_freed() {
        let buffers = WriteBuffers::new(800);
        let [small, large] = [(); 2].map(|()| buffers.open(OpeningId::new()));
        let [of_small, of_large] = [&small, &large].map(Charge::new);
        of_small.set(300);
        of_large.set(400);
        assert_eq!(small.sealer(), None, "seven eighths and no more");
        of_small.set(301);
        assert_eq!(small.sealer(), Some(Sealer::Other(large.id)));
        assert_eq!(small.sealer(), None, "it has been asked");
        assert_eq!(large.sealer(), Some(Sealer::Own));
        assert!(large.take_asked() && !large.take_asked() && !small.take_asked());

        of_large.seal();
        assert_eq!(buffers.usage(), 701);
        assert_eq!(small.sealer(), None, "as long as all is within the bound");
        of_small.set(399);
        assert_eq!(small.sealer(), None, "less than half can be sealed");
        of_small.set(400);
        assert_eq!(small.sealer(), Some(Sealer::Own));
        drop(of_large);
        assert_eq!(buffers.usage(), 400);
        assert_eq!(small.sealer(), None);

        let of_large = Charge::new(&large);
        of_large.set(500);
        large.set_held_up(true);
        assert_eq!(
            small.sealer(),
            Some(Sealer::Own),
            "the largest cannot flush"
        );
        assert_eq!(large.sealer(), Some(Sealer::Other(small.id)));
        large.set_held_up(false);
        assert_eq!(small.sealer(), Some(Sealer::Other(large.id)));
        assert!(small.take_asked() && large.take_asked());
        drop(of_large);

        buffers.close(small.id);
        of_small.set(799);
        assert_eq!(large.sealer(), Some(Sealer::Own), "the other is closed");
        drop(of_small);
        assert_eq!(buffers.usage(), 0);
        let unbounded = WriteBuffers::new(0).open(OpeningId::new());
        assert!(!unbounded.is_bounded() && unbounded.sealer().is_none());
    }
}
