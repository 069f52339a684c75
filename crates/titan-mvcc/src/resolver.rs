//! What readers and writers do about locks of other transactions.
//!
//! The primary key of the other transaction says how it ended, or that it has not. A *reader* at a timestamp
//! waits for none of its decisions:
//!
//! - It committed at the timestamp of the reader or before: the lock that was found is turned into its version. If
//!   the engine takes no writes, the value is read where the lock has it.
//! - It committed later, or was rolled back: the reader reads what is below the lock.
//! - It is alive: its minimal commit timestamp is pushed past the reader, who reads what is below the lock.
//! - Its primary key is not locked and knows nothing of it: it has not been prewritten in full, so its commit
//!   timestamp is still to be taken, and later than the reader's.
//! - It is an async commit: it has committed if all its keys are prewritten. If one is missing, the prewrite of
//!   that key will make the commit later than the reader.
//!
//! A *writer* cannot go around a lock. It ends the locks of transactions that have ended or expired, and waits for
//! the others. It ends all locks of such a transaction at once, because it may be about to write many of its keys,
//! and looks at all of its own keys before it tries again.
//!
//! An *opening* ends the locks of those transactions that ended with the last one.
//!
//! Transactions that have expired are rolled back by both, through their primary key. No latches may be held by
//! those who call this module.

use std::time::Duration;

use bytes::Bytes;
use titan::{ErrorKind, LazyValue};

use crate::error::{Error, Result};
use crate::format::lock::{Lock, LockKind};
use crate::locks::{Held, Push, lost_value};
use crate::percolator::{
    Decided, Ended, SecondariesStatus, TransactionStatus, check_expired, check_secondaries,
    decided, ended, forget_all, resolve,
};
use crate::store::Core;
use crate::timestamp::Timestamp;
use crate::waits::NoWait;

/// How the transaction of a lock stands.
enum Standing {
    /// It committed at this timestamp.
    Committed(Timestamp),
    /// It was rolled back.
    RolledBack,
    /// It is alive.
    Alive,
}

/// What a reader finds on a key.
pub(crate) enum Settled {
    /// What the versions of the key say.
    Versions,
    /// The value that a transaction has committed, which is still with the lock; none for a deletion.
    Committed(Option<LazyValue>),
}

/// Where a reader at `at` finds what `key` has. If writes to the engine fail, it reads without.
///
/// # Errors
/// Those of the engine.
pub(crate) fn settle_for_read(core: &Core, key: &[u8], at: Timestamp) -> Result<Settled> {
    if core.locks.is_empty() {
        return Ok(Settled::Versions);
    }
    // A store that is read alone rolls back nothing: what has not committed by now does not concern it.
    // Neither does a child of the process that has it open.
    let may_write = !core.is_read_only && core.check_not_inherited().is_ok();
    match settle(core, key, at, may_write) {
        Err(Error::Engine(_)) => settle(core, key, at, false),
        found => found,
    }
}

fn settle(core: &Core, key: &[u8], at: Timestamp, may_write: bool) -> Result<Settled> {
    while let Some(held) = core.locks.get(key) {
        if !held.concerns(at) {
            break;
        }
        let lock = &held.lock;
        let deciding = core.locks.of(&lock.primary, lock.start);
        let is_expired = may_write && core.locks.is_expired(deciding.as_ref().unwrap_or(&held));
        if deciding.is_some() && !is_expired {
            match core.locks.push(&lock.primary, lock.start, at) {
                Push::Done => break,
                Push::Committing => {
                    // Its versions are being written, by a thread of the parent if this is a child.
                    core.check_not_inherited()?;
                    drop(core.latches.take(std::iter::once(&*lock.primary)));
                    continue;
                }
                Push::None => continue,
                Push::Async => {}
            }
        }
        match standing(core, &held, is_expired)? {
            Standing::Committed(commit) if commit > at => break,
            Standing::Committed(commit) if may_write => end(core, key, lock, Some(commit))?,
            Standing::Committed(_) if lock.kind == LockKind::Delete => {
                return Ok(Settled::Committed(None));
            }
            Standing::Committed(_) => {
                let value = core.locks.value(key)?;
                // Otherwise it has been moved to the version, and another lock may have one there.
                if core.locks.of(key, lock.start).is_some() {
                    return match value {
                        Some(_) => Ok(Settled::Committed(value)),
                        None => Err(lost_value(key)),
                    };
                }
            }
            Standing::RolledBack if may_write => end(core, key, lock, None)?,
            // Its owner has given a sign of life meanwhile.
            Standing::Alive if is_expired => {}
            Standing::RolledBack | Standing::Alive => break,
        }
    }
    Ok(Settled::Versions)
}

/// Waits until no other transaction has a lock that one of the keys had at the beginning, or `deadline`, a monotonic
/// time. Ends the locks of transactions that have ended or expired. If the deadline came first, returns a key that is
/// locked. `waiter` is the start of the caller's transaction.
///
/// # Errors
/// `Deadlock` if `waiter` would wait for itself; `Closed`; those of the engine.
pub(crate) fn wait_for_all<'k>(
    core: &Core,
    keys: impl Iterator<Item = &'k [u8]>,
    waiter: Option<Timestamp>,
    deadline: Duration,
) -> Result<Option<(&'k [u8], Held)>> {
    for key in keys {
        if let Some(held) = core.locks.get(key)
            && Some(held.lock.start) != waiter
            && !wait(core, key, &held, waiter, deadline)?
        {
            return Ok(Some((key, held)));
        }
    }
    Ok(None)
}

/// The same for the lock that was found on one key. False if the deadline came first.
fn wait(
    core: &Core,
    key: &[u8],
    found: &Held,
    waiter: Option<Timestamp>,
    deadline: Duration,
) -> Result<bool> {
    let holder = found.lock.start;
    loop {
        let Some(held) = core.locks.of(key, holder) else {
            return Ok(true);
        };
        match standing(core, &held, true)? {
            Standing::Committed(commit) => end_with(core, key, &held.lock, Some(commit))?,
            Standing::RolledBack => end_with(core, key, &held.lock, None)?,
            Standing::Alive => {
                let now = core.clock.monotonic();
                if now >= deadline {
                    return Ok(false);
                }
                // Its life may end before the deadline.
                let deciding = core.locks.of(&held.lock.primary, holder);
                let left = core.locks.time_left(deciding.as_ref().unwrap_or(&held));
                let expiry = now
                    .saturating_add(left)
                    .saturating_add(Duration::from_millis(1));
                let is_held = || core.locks.of(key, holder).is_some();
                let waited = core.locks.waits.wait(
                    &*core.clock,
                    waiter,
                    holder,
                    deadline.min(expiry),
                    is_held,
                );
                waited.map_err(|why| match why {
                    NoWait::Deadlock(circle) => Error::Deadlock {
                        key: Bytes::copy_from_slice(key),
                        circle,
                    },
                    NoWait::Closed => {
                        let what = "the store was closed during a wait for a lock";
                        titan::Error::new(ErrorKind::Closed, what).into()
                    }
                })?;
            }
        }
    }
}

/// Ends all locks of transactions that began at `until` or before and have ended or expired. One that cannot be ended
/// keeps no other one.
///
/// # Errors
/// Those of the engine, and `Corruption`: the first one.
pub(crate) fn end_expired(core: &Core, until: Timestamp) -> Result<()> {
    let mut result = Ok(());
    for (key, found) in core.locks.transactions(until) {
        let ended = end_if_expired(core, &key, found.lock.start);
        result = result.and(ended);
    }
    result
}

/// Ends the lock that the transaction that began at `start` has on a key, and all that the same primary key decides on,
/// if the transaction has ended or expired.
fn end_if_expired(core: &Core, key: &[u8], start: Timestamp) -> Result<()> {
    let Some(held) = core.locks.of(key, start) else {
        return Ok(());
    };
    match standing(core, &held, true)? {
        Standing::Committed(commit) => end_all(core, &held.lock, Some(commit)),
        Standing::RolledBack => end_all(core, &held.lock, None),
        Standing::Alive => Ok(()),
    }
}

/// Ends the locks whose owners ended with an earlier opening. What cannot be ended, because it cannot be read or written,
/// has expired, and whoever meets it tries again. No call of these transactions can come late, so no record of
/// a rollback is left. Cost: for a transaction that was committed a read and a write of its values, for others
/// deletions.
pub(crate) fn end_orphaned(core: &Core) {
    for (_, held) in core.locks.transactions(Timestamp::MAX) {
        // MUTANT: an opening leaves the locks of those who are gone.
        let stays = mutant!("orphaned-locks-stay", "-p titan-mvcc --test it two_phase::");
        if held.is_orphaned && !stays {
            let _ = end_orphan(core, &held);
        }
    }
}

fn end_orphan(core: &Core, held: &Held) -> Result<()> {
    // ORDER: nobody else uses the store yet, so what is not decided by now never will be.
    let commit = match standing(core, held, false)? {
        Standing::Committed(commit) => Some(commit),
        Standing::RolledBack | Standing::Alive => None,
    };
    if commit.is_some() {
        return end_all(core, &held.lock, commit);
    }
    let keys = with_same_primary(core, &held.lock);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    forget_all(core, &keys, held.lock.start)
}

/// The keys of all locks of a transaction on which the same primary key decides.
fn with_same_primary(core: &Core, lock: &Lock) -> Vec<Bytes> {
    let is_like = |other: &Lock| other.primary == lock.primary;
    core.locks.keys_of(lock.start, is_like)
}

/// How the transaction of a lock stands. With `may_roll_back` it is rolled back if it has expired.
fn standing(core: &Core, held: &Held, may_roll_back: bool) -> Result<Standing> {
    let (mut primary, start) = (&held.lock.primary, held.lock.start);
    let mut deciding = core.locks.of(primary, start);
    // A pessimistic transaction may give up its primary key and choose another one. A lock that stayed from before
    // ends as the transaction does.
    let chosen = deciding
        .as_ref()
        .map(|deciding| deciding.lock.primary.clone());
    if let Some(chosen) = chosen.as_ref().filter(|chosen| *chosen != primary) {
        (primary, deciding) = (chosen, core.locks.of(chosen, start));
    }
    let Some(deciding) = deciding else {
        return match ended(&core.versions, primary, start)? {
            Ended::Committed(at) => Ok(Standing::Committed(at)),
            Ended::RolledBack => Ok(Standing::RolledBack),
            Ended::Unknown if may_roll_back && core.locks.is_expired(held) => {
                of_status(check_expired(core, primary, start, true)?)
            }
            Ended::Unknown => Ok(Standing::Alive),
        };
    };
    let is_expired = may_roll_back && core.locks.is_expired(&deciding);
    if !deciding.lock.is_async() {
        return match is_expired {
            true => of_status(check_expired(core, primary, start, true)?),
            false => Ok(Standing::Alive),
        };
    }
    match decided(core, &deciding.lock)? {
        Decided::Committed(at) => Ok(Standing::Committed(at)),
        Decided::RolledBack => Ok(Standing::RolledBack),
        Decided::Open if is_expired => {
            let secondaries = deciding.lock.secondaries.as_deref().unwrap_or_default();
            let keys: Vec<&[u8]> = secondaries.iter().map(|key| &**key).collect();
            match check_secondaries(core, &keys, start)? {
                SecondariesStatus::Committed(at) => Ok(Standing::Committed(at)),
                SecondariesStatus::RolledBack => Ok(Standing::RolledBack),
                // The last one was prewritten meanwhile.
                SecondariesStatus::Locked(_) => Ok(Standing::Alive),
            }
        }
        Decided::Open => Ok(Standing::Alive),
    }
}

fn of_status(status: TransactionStatus) -> Result<Standing> {
    Ok(match status {
        TransactionStatus::Alive { .. } => Standing::Alive,
        TransactionStatus::Committed(at) => Standing::Committed(at),
        TransactionStatus::RolledBack => Standing::RolledBack,
    })
}

/// Ends all locks of a transaction that has ended on which the same primary key decides as on `lock`. One that cannot
/// be ended keeps no other one.
///
/// # Errors
/// Those of the engine, and `Corruption`: the first one.
fn end_all(core: &Core, lock: &Lock, commit: Option<Timestamp>) -> Result<()> {
    let keys = with_same_primary(core, lock);
    let keys: Vec<&[u8]> = keys.iter().map(|key| &**key).collect();
    match resolve(core, &keys, lock.start, commit) {
        Ok(_) => Ok(()),
        // It may be a value of one key alone that cannot be read.
        Err(e) if e.is_corruption() => {
            let each = keys.iter().map(|key| end(core, key, lock, commit));
            each.fold(Ok(()), Result::and)
        }
        Err(e) => Err(e),
    }
}

/// The same for a caller that waits for one of the keys. If that one has been ended, it is no error that others cannot be.
fn end_with(core: &Core, key: &[u8], lock: &Lock, commit: Option<Timestamp>) -> Result<()> {
    let ended = end_all(core, lock, commit);
    match core.locks.of(key, lock.start) {
        None => Ok(()),
        Some(_) => ended,
    }
}

/// Ends one lock of a transaction that has ended.
fn end(core: &Core, key: &[u8], lock: &Lock, commit: Option<Timestamp>) -> Result<()> {
    resolve(core, &[key], lock.start, commit)?;
    Ok(())
}
