//! The memory of the memtables of all databases of an `Env`.
//!
//! Owns: the bound on it, and how much each database takes. Promises: once memtables that can be
//! sealed take seven eighths of the bound, or all of them together take more than it and those half
//! of it, the database with most of them is asked to seal its largest one. Sealing is for those
//! that are written to, of databases that are open and can flush: the memory of others is not given
//! back by it, so it makes nobody seal. Nothing is refused: entries written while flushes run may
//! exceed the bound. Assumes: each memtable is charged after it has grown. Locks are held for
//! moments, and none is taken under that of an account.

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
    /// Bytes of those that can be sealed: the sum of [`Balance::sealable`].
    sealable: AtomicU64,
    accounts: Mutex<BTreeMap<OpeningId, Arc<Account>>>,
}

/// Memory of the memtables of one database.
pub(crate) struct Account {
    buffers: Arc<WriteBuffers>,
    id: OpeningId,
    balance: Mutex<Balance>,
    /// It is to seal its largest memtable.
    asked: AtomicBool,
}

#[derive(Default)]
struct Balance {
    /// Bytes of memtables that are written to.
    mutable: u64,
    /// It cannot flush now, so sealing frees nothing.
    held_up: bool,
    closed: bool,
}

impl Balance {
    /// Bytes that it can seal.
    fn sealable(&self) -> u64 {
        match self.held_up || self.closed {
            true => 0,
            false => self.mutable,
        }
    }
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

    /// The bound on them, if there is one.
    pub(super) fn bound(&self) -> Option<u64> {
        (self.bound > 0).then_some(self.bound)
    }

    /// An account for one more database, until [`WriteBuffers::close`].
    pub(super) fn open(self: &Arc<Self>, id: OpeningId) -> Arc<Account> {
        let account = Arc::new(Account {
            buffers: Arc::clone(self),
            id,
            balance: Mutex::default(),
            asked: AtomicBool::new(false),
        });
        self.accounts.lock().insert(id, Arc::clone(&account));
        account
    }

    /// The database is closed: it seals nothing any more.
    pub(super) fn close(&self, id: OpeningId) {
        let closed = self.accounts.lock().remove(&id);
        if let Some(closed) = closed {
            closed.change(|balance| balance.closed = true);
        }
    }

    fn is_exceeded(&self) -> bool {
        let bound = self.bound;
        let sealable = self.sealable.load(Ordering::Relaxed);
        let all = self.all.load(Ordering::Relaxed);
        bound > 0 && (sealable > bound - bound / 8 || all >= bound && sealable >= bound / 2)
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
        let sealable = |account: &Arc<Account>| account.balance.lock().sealable();
        let able = accounts
            .values()
            .map(|account| (sealable(account), account));
        let able = able.filter(|(bytes, _)| *bytes > 0);
        let (_, largest) = able.max_by_key(|(bytes, _)| *bytes)?;
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
        self.change(|balance| balance.held_up = held_up && !ignored);
    }

    fn change(&self, change: impl FnOnce(&mut Balance)) {
        let mut balance = self.balance.lock();
        let before = balance.sealable();
        change(&mut balance);
        let after = balance.sealable();
        // Under the lock, so that the sum is never less than the amount taken from it.
        let sum = &self.buffers.sealable;
        match after >= before {
            true => sum.fetch_add(after - before, Ordering::Relaxed),
            false => sum.fetch_sub(before - after, Ordering::Relaxed),
        };
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
            self.account.change(|balance| balance.mutable += added);
        }
    }

    /// The memtable is not written to any more.
    pub(crate) fn seal(&self) {
        if !self.sealed.swap(true, Ordering::Relaxed) {
            let bytes = self.bytes.load(Ordering::Relaxed);
            self.account.change(|balance| {
                invariant!(
                    balance.mutable >= bytes,
                    "a memtable of {bytes} bytes is sealed, and {} are written to",
                    balance.mutable
                );
                balance.mutable = balance.mutable.saturating_sub(bytes);
            });
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

        drop(of_small);
        assert_eq!(buffers.usage(), 0);
        let unbounded = WriteBuffers::new(0).open(OpeningId::new());
        assert!(!unbounded.is_bounded() && unbounded.sealer().is_none());
    }
    /// Otherwise each commit of the others would seal a memtable, and none would free anything.
    #[test]
    fn memory_that_nobody_can_seal_makes_no_other_database_seal() {
        let buffers = WriteBuffers::new(800);
        let [stuck, other] = [(); 2].map(|()| buffers.open(OpeningId::new()));
        let [of_stuck, of_other] = [&stuck, &other].map(Charge::new);
        of_stuck.set(790);
        of_other.set(20);
        assert_eq!(other.sealer(), Some(Sealer::Other(stuck.id)));
        stuck.set_held_up(true);
        assert_eq!(other.sealer(), None, "it cannot flush");
        of_stuck.set(900);
        assert_eq!(other.sealer(), None);
        of_other.set(400);
        assert_eq!(other.sealer(), Some(Sealer::Own), "half of the bound");
        drop(of_other);
        let of_other = Charge::new(&other);
        of_other.set(20);
        stuck.set_held_up(false);
        assert!(other.is_exceeded());
        buffers.close(stuck.id);
        assert_eq!(other.sealer(), None, "it is closed");
        stuck.set_held_up(false);
        assert!(!other.is_exceeded(), "however it is evaluated later");
        drop(of_stuck);
        of_other.set(701);
        assert_eq!(other.sealer(), Some(Sealer::Own));
        drop(of_other);
        assert_eq!(buffers.sealable.load(Ordering::Relaxed), 0);
        assert_eq!(buffers.usage(), 0);
    }
}
