//! Locks on inodes, in memory.
//!
//! Each inode has a lock of its own. An operation on one inode may take many seconds, such as a truncation that
//! cuts off millions of blocks, and users of others must not wait for it. A lock exists while somebody has it or
//! waits for it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::{ArcRwLockReadGuard, ArcRwLockWriteGuard, Mutex, RawRwLock, RwLock};

use crate::schema::InodeNumber;

/// How many parts the table of locks has, so that threads seldom wait for the table.
const PARTS: usize = 64;

type Lock = Arc<RwLock<()>>;
type Part = Mutex<HashMap<InodeNumber, Lock>>;

/// A lock for each inode.
///
/// Cost of a lock that is free: an allocation and a look into a table.
pub(super) struct InodeLocks(Vec<Part>);

impl InodeLocks {
    pub(super) fn new() -> Self {
        InodeLocks((0..PARTS).map(|_| Part::default()).collect())
    }

    /// Excludes changes of an inode.
    pub(super) fn shared(&self, inode: InodeNumber) -> Shared<'_> {
        let entry = self.entry(inode);
        let guard = entry.lock().read_arc();
        Guard::new(guard, entry)
    }

    /// Excludes all other users of these inodes. A thread that has any lock must not call this: locks
    /// are taken in order, so that no two threads wait for each other.
    pub(super) fn exclusive(&self, inodes: &[InodeNumber]) -> Vec<Exclusive<'_>> {
        let mut inodes = inodes.to_vec();
        inodes.sort_unstable();
        inodes.dedup();
        let lock = |inode: &InodeNumber| {
            let entry = self.entry(*inode);
            let guard = entry.lock().write_arc();
            Guard::new(guard, entry)
        };
        inodes.iter().map(lock).collect()
    }

    fn entry(&self, inode: InodeNumber) -> Entry<'_> {
        Entry {
            part: &self.0[inode.0 as usize % PARTS],
            inode,
        }
    }
}

/// A shared lock.
pub(super) type Shared<'a> = Guard<'a, ArcRwLockReadGuard<RawRwLock, ()>>;
/// An exclusive lock.
pub(super) type Exclusive<'a> = Guard<'a, ArcRwLockWriteGuard<RawRwLock, ()>>;

/// A lock that was taken. It ends when this is dropped.
pub(super) struct Guard<'a, G> {
    /// `None` only while this is dropped.
    guard: Option<G>,
    entry: Entry<'a>,
}

impl<'a, G> Guard<'a, G> {
    fn new(guard: G, entry: Entry<'a>) -> Self {
        let guard = Some(guard);
        Guard { guard, entry }
    }
}

impl<G> Drop for Guard<'_, G> {
    fn drop(&mut self) {
        // ORDER: released first, or the table could not see that nobody has it any more.
        self.guard = None;
        self.entry.remove_unused();
    }
}

/// Where the lock of an inode is in the table.
struct Entry<'a> {
    part: &'a Part,
    inode: InodeNumber,
}

impl Entry<'_> {
    fn lock(&self) -> Lock {
        Arc::clone(self.part.lock().entry(self.inode).or_default())
    }

    /// Removes the lock if nobody has it or waits for it.
    fn remove_unused(&self) {
        let mut part = self.part.lock();
        if part
            .get(&self.inode)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            part.remove(&self.inode);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_inode_does_not_wait_for_others() {
        let (say, said) = mpsc::channel();
        // In a thread, so that a failure is one, and no test that does not end.
        std::thread::spawn(move || {
            let locks = InodeLocks::new();
            let all: Vec<_> = (1..=5000).map(InodeNumber).collect();
            let taken: Vec<_> = all.iter().map(|inode| locks.exclusive(&[*inode])).collect();
            drop(taken);
            let left: usize = locks.0.iter().map(|part| part.lock().len()).sum();
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
                        let taken = locks.exclusive(&[one, other]);
                        add(one);
                        drop(taken);
                        drop(locks.shared(other));
                    }
                });
            }
        });
        let sum: u64 = counters.iter().map(|counter| *counter.lock()).sum();
        assert_eq!(sum, THREADS * ROUNDS);
        assert!(locks.0.iter().all(|part| part.lock().is_empty()));
    }
}
