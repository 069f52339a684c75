//! The log of pending writes: the commit hook has added them, and the segments do not have them
//! yet.
//!
//! The hook copies the writes of a group into the log before the group is published.
//! [`PendingWrites::apply_pending`] moves the log into the segments. Barriers of loads and audits,
//! and maintenance, call it before they look. The applier thread calls it when many writes are
//! pending, so that reads find few. A read applies within bounds
//! ([`PendingWrites::apply_pending_within`]): if much is pending or another thread applies, the
//! engine answers.
//!
//! Promises: after `apply_pending`, every write added before the call is in the segments, or the
//! cache is off. Each write gets there once, those of one key in the order of addition.

use std::sync::OnceLock;
use std::thread::Thread;
use std::time::Duration;

use titan::invariant;
use titan_mvcc::Timestamp;

use crate::content::versions::{LARGEST_INLINE, Tag};
use crate::content::write::Write;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The size of the log in bytes that wakes the applier. A read applies less, some two hundred rows.
/// Waking is cheap beside the commits that filled the log.
const MANY: usize = 32 << 10;
/// The size in bytes at which the writer applies the log: the applier lags, or there is none.
const TOO_MANY: usize = 512 << 10;

/// The log and its counters.
pub(crate) struct PendingWrites {
    /// Writes added since the beginning.
    added: AtomicU64,
    /// Writes applied since the beginning.
    applied: AtomicU64,
    filled: Mutex<Log>,
    /// Locked while writes are applied, empty at other times.
    applying: Mutex<Log>,
    applier: OnceLock<Thread>,
}

/// Writes in the order of addition. Their bytes are in one buffer.
#[derive(Default)]
struct Log {
    /// Key and value of each write.
    bytes: Vec<u8>,
    heads: Vec<Head>,
}

/// A write without its bytes.
struct Head {
    commit: Timestamp,
    key_len: usize,
    value_len: u16,
    tag: Tag,
}

impl Log {
    fn len(&self) -> usize {
        self.bytes.len() + size_of_val(&*self.heads)
    }

    fn capacity(&self) -> usize {
        self.bytes.capacity() + self.heads.capacity() * size_of::<Head>()
    }

    fn push(&mut self, write: &Write<'_>) {
        let (tag, value) = write.tagged();
        invariant!(
            value.len() <= LARGEST_INLINE,
            "a value of {} bytes is pending",
            value.len()
        );
        self.bytes.extend_from_slice(write.key);
        self.bytes.extend_from_slice(value);
        self.heads.push(Head {
            commit: write.commit,
            key_len: write.key.len(),
            // At most `LARGEST_INLINE`.
            value_len: value.len() as u16,
            tag,
        });
    }

    /// The writes in the order of their keys, those of one key in the order of addition.
    fn sorted(&self) -> Vec<Write<'_>> {
        let mut rest = &*self.bytes;
        let writes = self.heads.iter().map(|head| {
            let (key, after) = rest.split_at(head.key_len);
            let (value, after) = after.split_at(usize::from(head.value_len));
            rest = after;
            Write::of(key, head.commit, head.tag, value)
        });
        let mut writes: Vec<Write<'_>> = writes.collect();
        // Stable.
        writes.sort_by_key(|write| write.key);
        writes
    }

    /// Empties the log. Keeps the buffers unless one large group made them large.
    fn clear(&mut self) {
        if self.capacity() > 2 * TOO_MANY {
            *self = Log::default();
        }
        self.bytes.clear();
        self.heads.clear();
    }
}

/// The right to add writes, from [`PendingWrites::fill`]. Dropping it shows them to callers of
/// `apply_pending`.
pub(crate) struct Filling<'a> {
    pending: &'a PendingWrites,
    log: MutexGuard<'a, Log>,
    /// Bytes and writes of the log when this was made.
    before: (usize, usize),
}

impl Filling<'_> {
    pub(crate) fn add(&mut self, write: &Write<'_>) {
        self.log.push(write);
    }

    /// Ends, and wakes the applier if much is pending. True if the caller must apply the log.
    #[must_use]
    pub(crate) fn done(self) -> bool {
        let (pending, before, len) = (self.pending, self.before.0, self.log.len());
        drop(self);
        if before < MANY
            && len >= MANY
            && let Some(applier) = pending.applier.get()
        {
            applier.unpark();
        }
        len >= TOO_MANY
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        invariant!(
            self.log.heads.len() >= self.before.1,
            "pending writes were lost: {} of {}",
            self.log.heads.len(),
            self.before.1
        );
        let more = (self.log.heads.len() - self.before.1) as u64;
        // ORDER: with the lock of the log, so that the count and the log are of one moment, and
        // before the group is published, so that a reader who knows of the group knows of its
        // writes.
        self.pending.added.fetch_add(more, Ordering::Release);
    }
}

impl PendingWrites {
    pub(crate) fn new() -> Self {
        PendingWrites {
            added: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            filled: Mutex::new(Log::default()),
            applying: Mutex::new(Log::default()),
            applier: OnceLock::new(),
        }
    }

    /// Begins to add the writes of a group.
    pub(crate) fn fill(&self) -> Filling<'_> {
        let log = self.filled.lock();
        Filling {
            pending: self,
            before: (log.len(), log.heads.len()),
            log,
        }
    }

    /// Sets the thread that is woken when many writes are pending.
    pub(crate) fn set_applier(&self, thread: Thread) {
        // There is one for each cache.
        let _ = self.applier.set(thread);
    }

    /// Applies every write added before the call, by `apply`, which gets them in the order of their
    /// keys; or waits for the thread that does. Cost: two loads if nothing is pending.
    pub(crate) fn apply_pending(&self, apply: impl FnOnce(&[Write<'_>])) {
        let wanted = self.added.load(Ordering::Acquire);
        if self.has_applied(wanted) {
            return;
        }
        let log = self.applying.lock();
        if !self.has_applied(wanted) {
            self.apply(log, self.filled.lock(), apply);
        }
    }

    /// The same for a read. False if writes remain: so many that the applier must take them, or
    /// another thread did not finish in time.
    #[must_use]
    pub(crate) fn apply_pending_within(
        &self,
        wait: Duration,
        apply: impl FnOnce(&[Write<'_>]),
    ) -> bool {
        let wanted = self.added.load(Ordering::Acquire);
        if self.has_applied(wanted) {
            return true;
        }
        let Some(log) = lock_within(&self.applying, wait) else {
            return self.has_applied(wanted) || mutant!(settled_while_applied);
        };
        if self.has_applied(wanted) {
            return true;
        }
        let is_little = |log: &Log| log.len() < MANY || self.applier.get().is_none();
        match lock_within(&self.filled, wait).filter(|filled| is_little(filled)) {
            Some(filled) => self.apply(log, filled, apply),
            None => return false,
        }
        true
    }

    fn has_applied(&self, wanted: u64) -> bool {
        // ORDER: a thread that sees the number also sees the effects of `apply`.
        self.applied.load(Ordering::Acquire) >= wanted
    }

    fn apply(
        &self,
        mut log: MutexGuard<'_, Log>,
        mut filled: MutexGuard<'_, Log>,
        apply: impl FnOnce(&[Write<'_>]),
    ) {
        invariant!(
            log.heads.is_empty(),
            "{} writes are applied twice",
            log.heads.len()
        );
        std::mem::swap(&mut *filled, &mut *log);
        let added = self.added.load(Ordering::Relaxed);
        let applied = self.applied.load(Ordering::Relaxed);
        invariant!(
            added.checked_sub(applied) == Some(log.heads.len() as u64),
            "{} writes are pending, after {applied} of {added}",
            log.heads.len()
        );
        drop(filled);
        if mutant!(applied_too_early) {
            self.applied.store(added, Ordering::Release);
        }
        apply(&log.sorted());
        log.clear();
        self.applied.store(added, Ordering::Release);
    }

    /// Empties the log, also after a panic, and frees its memory. Called when the cache is off.
    pub(crate) fn forget(&self) {
        let mut log = self.applying.lock();
        let mut filled = self.filled.lock();
        (*log, *filled) = (Log::default(), Log::default());
        let added = self.added.load(Ordering::Relaxed);
        self.applied.store(added, Ordering::Release);
    }

    /// Excludes others from applying, as an applying thread does.
    #[cfg(test)]
    pub(crate) fn is_being_applied(&self) -> impl Sized {
        self.applying.lock()
    }

    /// Bytes of both buffers.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.applying.lock().capacity() + self.filled.lock().capacity()
    }
}

/// The lock, if it becomes free within that time.
fn lock_within<T>(mutex: &Mutex<T>, wait: Duration) -> Option<MutexGuard<'_, T>> {
    match wait.is_zero() {
        true => mutex.try_lock(),
        false => mutex.try_lock_for(wait),
    }
}
