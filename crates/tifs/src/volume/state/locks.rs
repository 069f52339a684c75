//! Locks on inodes, in memory.
//!
//! Each inode has a lock of its own. An operation on one inode may take many seconds, such as a
//! truncation that cuts off millions of blocks, and users of others must not wait for it. A lock
//! exists while a thread has it or waits for it.

use std::cell::Cell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock};
use rustix::io::Errno;
use titan::invariants::CHECKED;
use titan::{Process, invariant};

use crate::error::{Error, Result};
use crate::schema::InodeNumber;

/// Parts of the table of locks, so that threads seldom wait for the table.
const PARTS: usize = 64;

type Lock = Arc<RwLock<()>>;
type Part = Mutex<HashMap<InodeNumber, Lock, RandomState>>;

/// A lock for each inode.
///
/// Cost of a lock that is free: an allocation and a look into a table.
pub(in crate::volume) struct InodeLocks {
    parts: Vec<Part>,
    made_by: Process,
}

impl InodeLocks {
    pub(in crate::volume) fn new() -> Self {
        InodeLocks {
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            made_by: Process::current(),
        }
    }

    /// Fails with `EROFS` in a child that a process made by `fork` while it had the volume open:
    /// the volume is the parent's, and so are the threads that have locks.
    pub(in crate::volume) fn check_not_inherited(&self) -> Result<()> {
        match self.made_by.is_current() {
            true => Ok(()),
            false => {
                let what = "the volume was opened by a parent of this process, before a fork: only the parent \
                            may change or close it";
                Err(Error::new(Errno::ROFS, what))
            }
        }
    }

    /// Excludes changes of an inode. A thread that has any lock must not call this, see
    /// [`exclusive`](Self::exclusive).
    pub(in crate::volume) fn shared(&self, inode: InodeNumber) -> Shared<'_> {
        check_nothing_held(inode);
        let slot = self.slot(inode);
        let lock = slot.lock().read_arc();
        Guard {
            _lock: lock,
            _slot: slot,
            _held: Held::new(),
        }
    }

    /// Excludes all other users of these inodes. A thread that has any lock must not call this:
    /// locks are taken in order, so that no two threads wait for each other.
    ///
    /// # Errors
    /// Those of [`check_not_inherited`](Self::check_not_inherited).
    pub(in crate::volume) fn exclusive(
        &self,
        inodes: &[InodeNumber],
    ) -> Result<Vec<Exclusive<'_>>> {
        self.check_not_inherited()?;
        let mut inodes = inodes.to_vec();
        inodes.sort_unstable();
        inodes.dedup();
        check_nothing_held(inodes.first().copied().unwrap_or(InodeNumber::ROOT));
        let lock = |inode: &InodeNumber| {
            let slot = self.slot(*inode);
            let lock = slot.lock().write_arc();
            Guard {
                _lock: lock,
                _slot: slot,
                _held: Held::new(),
            }
        };
        Ok(inodes.iter().map(lock).collect())
    }

    fn slot(&self, inode: InodeNumber) -> Slot<'_> {
        Slot {
            part: &self.parts[inode.0 as usize % PARTS],
            inode,
        }
    }
}

/// A shared lock.
pub(in crate::volume) type Shared<'a> = Guard<'a, ArcRwLockReadGuard<RawRwLock, ()>>;
/// An exclusive lock.
pub(in crate::volume) type Exclusive<'a> = Guard<'a, ArcRwLockWriteGuard<RawRwLock, ()>>;

/// A lock that was taken. It ends when this is dropped.
pub(in crate::volume) struct Guard<'a, L> {
    // ORDER: fields are dropped in this order. The lock is released first, so that the slot sees
    // whether it was the last.
    _lock: L,
    _slot: Slot<'a>,
    _held: Held,
}

thread_local! {
    /// The locks of this thread. They are counted where invariants are checked.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A lock of this thread.
struct Held;

impl Held {
    fn new() -> Held {
        if CHECKED {
            HELD.with(|held| held.set(held.get() + 1));
        }
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if CHECKED {
            HELD.with(|held| {
                invariant!(held.get() > 0, "a lock is given back by another thread");
                held.set(held.get().saturating_sub(1));
            });
        }
    }
}

/// Two threads that take locks one after the other could wait for each other.
fn check_nothing_held(inode: InodeNumber) {
    invariant!(
        HELD.with(Cell::get) == 0,
        "the lock of inode {inode} is taken by a thread that has one"
    );
}

/// The place of an inode's lock in the table. Dropping this removes the lock, unless a thread has
/// it or waits for it.
struct Slot<'a> {
    part: &'a Part,
    inode: InodeNumber,
}

impl Slot<'_> {
    fn lock(&self) -> Lock {
        Arc::clone(self.part.lock().entry(self.inode).or_default())
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut part = self.part.lock();
        // Only the table has it: a thread that has or awaits a lock has a reference of its own,
        // which it gets while it has the part.
        if let Entry::Occupied(lock) = part.entry(self.inode)
            && Arc::strong_count(lock.get()) == 1
        {
            lock.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Barrier, mpsc};
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_inode_does_not_wait_for_others() {
        let (say, said) = mpsc::channel();
        // In a thread, so that a failure is one, and no test that does not end.
        std::thread::spawn(move || {
            const THREADS: u64 = 200;
            let locks = InodeLocks::new();
            let barrier = Barrier::new(THREADS as usize);
            std::thread::scope(|scope| {
                for inode in (1..=THREADS).map(InodeNumber) {
                    let (locks, barrier) = (&locks, &barrier);
                    scope.spawn(move || {
                        let _taken = locks.exclusive(&[inode]).unwrap();
                        barrier.wait();
                    });
                }
            });
            let left: usize = locks.parts.iter().map(|part| part.lock().len()).sum();
            say.send(left)
        });
        let left = said.recv_timeout(Duration::from_secs(60));
        assert_eq!(left, Ok(0), "locks that are left");
    }

    #[test]
    fn users_of_one_inode_exclude_each_other() {
        const THREADS: u64 = 4;
        const ROUNDS: u64 = 2000;
        let locks = InodeLocks::new();
        let counters = [const { Mutex::new(0) }; 3];
        let add = |inode: InodeNumber| {
            let counter = &counters[inode.0 as usize];
            // Read and written apart: without the inode's lock some additions would be lost.
            let before = *counter.lock();
            std::thread::yield_now();
            *counter.lock() = before + 1;
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (locks, add) = (&locks, &add);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let one = InodeNumber((thread + round) % 3);
                        let other = InodeNumber((one.0 + round % 3) % 3);
                        let taken = locks.exclusive(&[one, other]).unwrap();
                        add(one);
                        drop(taken);
                        drop(locks.shared(other));
                    }
                });
            }
        });
        let sum: u64 = counters.iter().map(|counter| *counter.lock()).sum();
        assert_eq!(sum, THREADS * ROUNDS);
        assert!(locks.parts.iter().all(|part| part.lock().is_empty()));
    }
}
