//! Deleting what orphans and truncations left, piece by piece.
//!
//! What is to be done is stored, in the transaction that causes it, so a crash forgets nothing. The queue
//! in memory is only where the work is found. Each piece is a transaction, and after any of them the
//! volume is as right as before.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::Volume;
use super::change::Change;
use super::truncate::PIECE;
use crate::error::Result;
use crate::kv::{Kv, Scan, Space};
use crate::schema::{InodeNumber, Key};

/// How long what was done may stay unsynced, at most.
const SYNC_AFTER: Duration = Duration::from_secs(5);

/// The inodes that have something to delete.
pub(super) struct Reclaimer {
    queue: Mutex<VecDeque<InodeNumber>>,
    /// Something was queued, or the volume ends.
    wake: Condvar,
}

impl Reclaimer {
    /// A queue with what is stored.
    pub(super) fn load(kv: &dyn Kv) -> Result<Self> {
        let mut queue = VecDeque::new();
        for prefix in [b"O", b"D"] {
            let found = kv.scan(&Scan::prefix(Space::Meta, prefix).keys_only())?;
            queue.extend(found.iter().filter_map(|(key, _)| Key::inode_of(key)));
        }
        Ok(Reclaimer {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
        })
    }

    /// How many inodes have something to delete.
    pub(super) fn len(&self) -> usize {
        self.queue.lock().len()
    }

    pub(super) fn queue(&self, inode: InodeNumber) {
        self.queue.lock().push_back(inode);
        self.wake.notify_one();
    }
}

/// The thread that deletes, and syncs from time to time. It ends when this is dropped.
pub struct Background {
    volume: Weak<Volume>,
    thread: Option<std::thread::JoinHandle<()>>,
    ending: Arc<Mutex<bool>>,
}

impl Volume {
    /// Starts the thread that deletes what nobody needs any more, and that syncs at most five seconds
    /// after a change.
    ///
    /// # Errors
    /// Those of starting a thread. `failed` is called with errors of the thread's work, which goes on.
    pub fn start_background(
        self: &Arc<Self>,
        failed: impl Fn(crate::Error) + Send + 'static,
    ) -> std::io::Result<Background> {
        let ending = Arc::new(Mutex::new(false));
        let (volume, end) = (Arc::clone(self), Arc::clone(&ending));
        let thread = std::thread::Builder::new()
            .name("tifs-background".to_owned())
            .spawn(move || volume.work_until(&end, &failed))?;
        Ok(Background {
            volume: Arc::downgrade(self),
            thread: Some(thread),
            ending,
        })
    }

    fn work_until(&self, ending: &Mutex<bool>, failed: &dyn Fn(crate::Error)) {
        loop {
            // What fails is tried again after a pause, and others wait until then: it is the store that
            // fails.
            let mut must_pause = false;
            while let Some(inode) = self.next_to_reclaim() {
                if let Err(e) = self.reclaim(inode) {
                    // MUTANT: what could not be deleted is forgotten until the next opening.
                    if !mutant!("failed-reclaim-forgotten", "-p tifs --test it moods::what") {
                        self.reclaimer.queue(inode);
                    }
                    failed(e);
                    must_pause = true;
                    break;
                }
                if *ending.lock() {
                    return;
                }
            }
            if !self.options.read_only
                && let Err(e) = self.sync_if_needed()
            {
                failed(e);
            }
            let mut queue = self.reclaimer.queue.lock();
            if *ending.lock() {
                return;
            }
            if queue.is_empty() || must_pause {
                self.reclaimer.wake.wait_for(&mut queue, SYNC_AFTER);
            }
        }
    }

    fn next_to_reclaim(&self) -> Option<InodeNumber> {
        self.reclaimer.queue.lock().pop_front()
    }

    /// Deletes everything that nobody needs any more, now.
    ///
    /// # Errors
    /// Those of the store. What is left to do is done by a later call.
    pub fn reclaim_all(&self) -> Result<()> {
        while let Some(inode) = self.next_to_reclaim() {
            self.reclaim(inode)
                .inspect_err(|_| self.reclaimer.queue(inode))?;
        }
        Ok(())
    }

    /// Deletes what is left of an inode: all of it, if it has no names and nobody uses it. Between two
    /// pieces, others may use the inode.
    fn reclaim(&self, number: InodeNumber) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        while !self.reclaim_piece(number)? {}
        Ok(())
    }

    /// True if nothing is left.
    fn reclaim_piece(&self, number: InodeNumber) -> Result<bool> {
        let _lock = self.locks.exclusive(&[number]);
        let has = |key: Key<'_>| {
            let value = self.kv.get(Space::Meta, &key.encode());
            value.map(|value| value.is_some())
        };
        // An orphan in use may be here because it was truncated. When the last reference goes, it is
        // queued again.
        if has(Key::Orphan(number))? && !self.references.has(number) {
            self.change(|change| change.delete_orphan(number))
        } else if has(Key::Inode(number))? {
            self.change(|change| change.cut_stale_blocks(number))
        } else {
            Ok(true)
        }
    }
}

impl Change<'_> {
    /// Deletes a piece of an orphan. True if it was the last.
    fn delete_orphan(&mut self, number: InodeNumber) -> Result<bool> {
        let stored = self.stored_blocks(number, 0..u64::MAX, PIECE)?;
        // MUTANT: the last block of a deleted file stays.
        let forgotten = mutant!(
            "last-block-not-deleted",
            "-p tifs --test it crash::a_deletion"
        );
        for block in stored.iter().rev().skip(usize::from(forgotten)) {
            self.delete_block(number, *block)?;
        }
        if stored.len() == PIECE {
            return Ok(false);
        }
        let inode = self.inode(number)?;
        let prefix = Key::Inode(number).encode();
        let all = Scan::prefix(Space::Meta, &prefix).keys_only();
        for (key, _) in self.transaction.scan(&all)? {
            self.transaction.delete(Space::Meta, &key)?;
        }
        self.delete(Key::Orphan(number))?;
        self.delete(Key::Reclaim(number))?;
        self.usage.inodes -= 1;
        self.usage.blocks -= inode.blocks as i64;
        Ok(true)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        *self.ending.lock() = true;
        if let Some(volume) = self.volume.upgrade() {
            // The lock: or the thread could miss this between its look and its wait.
            let _queue = volume.reclaimer.queue.lock();
            volume.reclaimer.wake.notify_all();
        }
        if let Some(thread) = self.thread.take() {
            let _: std::thread::Result<()> = thread.join();
        }
    }
}
