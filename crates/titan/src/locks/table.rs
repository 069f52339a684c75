//! The lock table: see the [module](super).

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, OnceLock};

use super::owners::Owners;
use super::request::{Acquired, HashOfKey, LockKey, Mode, OwnerId, Request};
use super::waits::{Waiting, Waits};
use crate::clock::SystemClock;
use crate::error::{Error, ErrorKind, Result};
use crate::format::key_text::KeyText;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Into how many parts the table is divided.
pub(super) const STRIPES: usize = 64;

/// See the [module](super).
pub(crate) struct LockTable {
    stripes: Box<[Stripe]>,
    waits: Mutex<Waits>,
    last_owner: AtomicU64,
    clock: Arc<dyn SystemClock>,
    /// Why no request waits any more.
    closed: OnceLock<Error>,
}

#[derive(Default)]
struct Stripe {
    locks: Mutex<Locks>,
    /// Something was released, or owners changed for which something waits.
    changed: Condvar,
}

type Locks = HashMap<LockKey, Lock, BuildHasherDefault<HashOfKey>>;

/// The lock on one key. It exists while it has owners or something waits for it.
struct Lock {
    mode: Mode,
    owners: Owners,
    waiting: usize,
}

impl Lock {
    fn new() -> Self {
        Lock {
            mode: Mode::Shared,
            owners: Owners::default(),
            waiting: 0,
        }
    }

    /// Grants a request, if nobody else's lock excludes it.
    fn grant(&mut self, owner: OwnerId, mode: Mode) -> Option<Acquired> {
        let had = self.owners.contains(owner);
        let others = self.owners.len() > usize::from(had);
        let shares = mode == Mode::Shared && self.mode == Mode::Shared;
        if had && (mode == Mode::Shared || self.mode == Mode::Exclusive) {
            return Some(Acquired::Had);
        }
        let at_once = had && mutant!(shared_lock_upgraded_at_once);
        if others && !shares && !at_once {
            return None;
        }
        self.mode = mode;
        if had {
            self.state_invariants();
            return Some(Acquired::Upgraded);
        }
        self.owners.push(owner);
        self.state_invariants();
        Some(Acquired::New)
    }

    /// States the invariants of a lock that was granted.
    fn state_invariants(&self) {
        invariant!(
            self.mode == Mode::Shared || self.owners.len() == 1,
            "an exclusive lock has {} owners",
            self.owners.len()
        );
        invariant!(
            self.owners.iter().collect::<HashSet<_>>().len() == self.owners.len(),
            "an owner has a lock twice"
        );
    }

    fn blockers(&self, owner: OwnerId) -> Vec<OwnerId> {
        self.owners.iter().filter(|other| *other != owner).collect()
    }
}

impl LockTable {
    /// Without locks. `clock` measures how long requests wait.
    pub(crate) fn new(clock: Arc<dyn SystemClock>) -> Self {
        LockTable {
            stripes: (0..STRIPES).map(|_| Stripe::default()).collect(),
            waits: Mutex::default(),
            last_owner: AtomicU64::new(0),
            clock,
            closed: OnceLock::new(),
        }
    }

    /// An owner without locks.
    pub(crate) fn new_owner(&self) -> OwnerId {
        OwnerId(self.last_owner.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Locks a key.
    ///
    /// # Errors
    /// `Deadlock`, `LockTimeout`; the error with which the table was closed. The owner has the
    /// locks then that it had before.
    pub(crate) fn acquire(&self, request: &Request<'_>) -> Result<Acquired> {
        let Request { owner, key, .. } = *request;
        let stripe = self.stripe(key);
        let mut locks = stripe.locks.lock();
        if let Some(acquired) = self.grant(stripe, &mut locks, request) {
            return Ok(acquired);
        }
        locks.entry(key.clone()).or_insert_with(Lock::new).waiting += 1;
        let granted = self.wait_until_granted(stripe, &mut locks, request);
        self.waits.lock().end(owner);
        invariant!(
            granted.is_err()
                || locks
                    .get(key)
                    .is_some_and(|lock| lock.owners.contains(owner)),
            "a lock was granted, and has another owner"
        );
        if let Some(lock) = locks.get_mut(key) {
            invariant!(
                lock.waiting > 0,
                "a request waited for a lock that counts no waits"
            );
            lock.waiting -= 1;
            if lock.owners.is_empty() && lock.waiting == 0 {
                locks.remove(key);
            }
        }
        granted
    }

    fn grant(&self, stripe: &Stripe, locks: &mut Locks, request: &Request<'_>) -> Option<Acquired> {
        let lock = locks.entry(request.key.clone()).or_insert_with(Lock::new);
        let acquired = lock.grant(request.owner, request.mode)?;
        let untold = mutant!(new_owner_not_seen_by_waiters);
        if lock.waiting > 0 && acquired == Acquired::New && !untold {
            // They wait for this owner from now on, and must look for circles.
            stripe.changed.notify_all();
        }
        Some(acquired)
    }

    fn wait_until_granted(
        &self,
        stripe: &Stripe,
        locks: &mut MutexGuard<'_, Locks>,
        request: &Request<'_>,
    ) -> Result<Acquired> {
        let begun = self.clock.monotonic();
        loop {
            if let Some(closed) = self.closed.get() {
                return Err(closed.clone());
            }
            if let Some(acquired) = self.grant(stripe, locks, request) {
                return Ok(acquired);
            }
            let blockers = locks.get(request.key);
            let blockers = blockers.map_or(Vec::new(), |lock| lock.blockers(request.owner));
            invariant!(
                !blockers.is_empty(),
                "a request waits for a lock that nobody has"
            );
            self.note_wait(request, &blockers)?;
            gate!("lock: waits");
            let Some(timeout) = request.timeout else {
                stripe.changed.wait(locks);
                continue;
            };
            let waited = self.clock.monotonic().saturating_sub(begun);
            let left = timeout.saturating_sub(waited);
            if left.is_zero() {
                return Err(timed_out(request, &blockers));
            }
            let block = self.clock.begin_wait(left);
            stripe.changed.wait_for(locks, block);
        }
    }

    /// Notes for whom the request waits. Fails if that closes a circle.
    fn note_wait(&self, request: &Request<'_>, blockers: &[OwnerId]) -> Result<()> {
        let mut waits = self.waits.lock();
        let waiting = Waiting {
            key: request.key.clone(),
            family: request.family.to_owned(),
            blockers: blockers.to_vec(),
        };
        waits.begin(request.owner, waiting);
        match request.detect_deadlocks {
            true => match waits.circle_through(request.owner) {
                Some(circle) => Err(Error::new(
                    ErrorKind::Deadlock,
                    format!("{circle}: roll this transaction back, and retry"),
                )),
                None => Ok(()),
            },
            false => Ok(()),
        }
    }

    /// Releases the locks of `owner` on `keys`. Those that it does not have are ignored.
    pub(crate) fn release<'k>(&self, owner: OwnerId, keys: impl IntoIterator<Item = &'k LockKey>) {
        for key in keys {
            let stripe = self.stripe(key);
            let mut locks = stripe.locks.lock();
            let Some(lock) = locks.get_mut(key) else {
                continue;
            };
            lock.owners.remove(owner);
            invariant!(
                !lock.owners.contains(owner),
                "a lock that was released has its owner still"
            );
            if lock.waiting > 0 {
                self.waits.lock().released(owner, key);
                stripe.changed.notify_all();
            } else if lock.owners.is_empty() {
                locks.remove(key);
            }
        }
    }

    /// Requests wait no more: those that wait fail with `error`, and so do those that would have
    /// to.
    pub(crate) fn close(&self, error: Error) {
        // The first error stays.
        let _ = self.closed.set(error);
        for stripe in &self.stripes {
            // ORDER: a request that has not seen the error waits by the time that its stripe is
            // free.
            drop(stripe.locks.lock());
            stripe.changed.notify_all();
        }
    }

    /// Number of keys that are locked or waited for.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(crate) fn len(&self) -> usize {
        let stripes = self.stripes.iter();
        stripes.map(|stripe| stripe.locks.lock().len()).sum()
    }

    fn stripe(&self, key: &LockKey) -> &Stripe {
        // Not the bits that a map uses first.
        let at = (key.hash() >> 32) as usize % self.stripes.len();
        &self.stripes[at]
    }
}

#[cold]
fn timed_out(request: &Request<'_>, blockers: &[OwnerId]) -> Error {
    let key = KeyText(request.key.key());
    let (owner, family) = (request.owner.0, request.family);
    let blockers: Vec<String> = blockers.iter().map(|b| b.0.to_string()).collect();
    let blockers = blockers.join(", ");
    let waited = request.timeout.unwrap_or_default();
    Error::new(
        ErrorKind::LockTimeout,
        format!(
            "transaction {owner} has waited {waited:?} for the key {key} of column family {family}, \
             which transaction {blockers} has locked: retry, or raise LockOptions::timeout"
        ),
    )
}
