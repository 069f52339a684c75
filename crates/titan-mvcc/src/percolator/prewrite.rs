//! The first phase of a commit: locks with values.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use titan::{WriteBatch, invariant};

use super::commit::check_recorded;
use super::demands::{AbsentKey, ConflictCheck, Demands, KeyDemand, check_presence};
use super::mutation::Mutation;
use super::one_phase::commit_in_one_phase;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::format::lock::{Lock, Owner};
use crate::lookup::{Outcome, newest_version, newest_write, outcome};
use crate::order::InFlight;
use crate::timestamp::Timestamp;

/// A request to prewrite keys.
#[derive(Clone, Copy, Debug)]
pub struct Prewrite<'a> {
    /// The writes, at most one for each key.
    pub mutations: &'a [Mutation<'a>],
    /// The primary key. This call or another one must prewrite it.
    pub primary: &'a [u8],
    /// The start timestamp, which identifies the transaction.
    pub start: Timestamp,
    /// Versions after this timestamp conflict. Usually the start; earlier for transactions that
    /// read at an earlier timestamp.
    pub read_at: Timestamp,
    /// Time to live of the locks after the owner's last heartbeat.
    pub ttl: Duration,
    /// Approximate number of keys of the transaction; zero if unknown.
    pub txn_size: u64,
    /// A lower bound of the commit timestamp, at most one after a timestamp of the oracle.
    pub min_commit: Timestamp,
    /// The last timestamp for update of a pessimistic transaction, which has locked all the keys.
    /// `None` for an optimistic one, which has no pessimistic lock.
    pub for_update: Option<Timestamp>,
    /// The other keys of an async commit, if the primary key is among the mutations; empty in its
    /// other prewrites. The transaction commits with its last successful prewrite, at the largest
    /// minimal commit timestamp that its prewrites returned.
    pub secondaries: Option<&'a [Bytes]>,
}

impl Prewrite<'_> {
    /// Versions after this timestamp conflict, for a key that the transaction has not locked.
    fn conflicts_after(&self) -> Timestamp {
        match self.for_update {
            // A pessimistic transaction that lost a lock may go on if the key was not written since
            // its start.
            Some(_) => self.start,
            None => self.read_at,
        }
    }
}

/// The result of a prewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prewritten {
    /// The first timestamp at which the transaction may commit.
    pub min_commit: Timestamp,
    /// The commit timestamp, if the transaction has committed: before the call, or by it in one
    /// phase.
    pub committed: Option<Timestamp>,
    /// True if the keys are locked for an async commit. If one prewrite of an async commit returns
    /// false, the transaction has fallen back to a commit in two phases, for good.
    pub is_async: bool,
}

/// The state of a key before a prewrite.
enum Found {
    /// Free: to be locked.
    New,
    /// A pessimistic lock of this transaction: to be replaced.
    Locked(Lock),
    /// Prewritten before, with this lock.
    Prewritten(Lock),
    /// Committed before.
    Committed(Timestamp),
}

/// Keys of a prewrite that the transaction may lock, as a look at each of them has found.
struct Examined<'m> {
    /// Mutations of keys that are to be locked, with the pessimistic locks that this replaces.
    to_lock: Vec<(&'m Mutation<'m>, Option<Lock>)>,
    /// The commit timestamp of an async commit that was prewritten before, as far as its locks show
    /// it.
    async_commit: Option<Timestamp>,
}

pub(crate) fn prewrite(
    core: &Core,
    request: &Prewrite<'_>,
    demands: &Demands<'_>,
    owner: Owner,
) -> Result<Prewritten> {
    let start = request.start;
    // A bound is one after a timestamp that somebody has read at.
    let given = request.min_commit.previous();
    let given = given.max(request.for_update.unwrap_or(start));
    core.order.check_handed_out(given.max(start))?;
    let keys = request.mutations.iter().map(Mutation::key);
    let latches = core
        .latches
        .take(keys.chain(demands.absent.iter().map(|absent| absent.key)));
    let mut result = Prewritten {
        min_commit: request.min_commit.max(start.next().unwrap_or(start)),
        committed: None,
        is_async: request.secondaries.is_some(),
    };
    gate!("prewrite: to be checked");
    let Examined {
        to_lock,
        async_commit,
    } = examine(core, request, demands, &mut result)?;
    if let Some(at) = result.committed {
        // ORDER: before the wait, so that no other call waits for this one's latches.
        drop(latches);
        check_recorded(core, start, at)?;
        // The call that committed it may not have returned yet.
        core.order.include(at);
        return Ok(result);
    }
    let was_prewritten = to_lock.len() < request.mutations.len();
    if to_lock.is_empty() && was_prewritten {
        drop(latches);
        // The call that prewrote it may still wait for older commits.
        async_commit.map_or(Ok(()), |at| core.order.wait_for_commits(at))?;
        return Ok(result);
    }
    for absent in demands.absent {
        check_absent(core, request, absent)?;
    }
    // After the checks, which searched for versions that must not have been dropped.
    core.safe_point.check(request.conflicts_after())?;
    if to_lock.is_empty() {
        return Ok(result);
    }
    let in_flight = begin_commit(core, demands, was_prewritten, &mut result)?;
    let in_flight = match in_flight {
        Some(in_flight) if !result.is_async => {
            let commit = commit_in_one_phase(core, latches, &to_lock, start, in_flight)?;
            result.min_commit = commit;
            result.committed = Some(commit);
            return Ok(result);
        }
        in_flight => in_flight,
    };
    if let Some(in_flight) = &in_flight
        && !mutant!(async_commit_before_readers)
    {
        result.min_commit = in_flight.timestamp();
    }
    write_locks(core, request, owner, to_lock, &result)?;
    // ORDER: before the wait for older commits: one of them may wait for a latch.
    drop(latches);
    if let Some(in_flight) = in_flight {
        in_flight.published();
    }
    Ok(result)
}

/// Looks at each key, and raises the minimal commit timestamp of `result` to those of its locks.
/// Ends at a key that is committed, whose timestamp `result` has then.
///
/// # Errors
/// Those of a key that the transaction may not lock.
fn examine<'m>(
    core: &Core,
    request: &Prewrite<'m>,
    demands: &Demands<'_>,
    result: &mut Prewritten,
) -> Result<Examined<'m>> {
    let start = request.start;
    let mut to_lock = Vec::with_capacity(request.mutations.len());
    let mut async_commit = None;
    for (number, mutation) in request.mutations.iter().enumerate() {
        let (key, demand) = (mutation.key(), demands.on_key(number));
        match check(core, request, key, demand.check)? {
            Found::New => {
                check_presence(core, key, start, demand)?;
                to_lock.push((mutation, None));
            }
            Found::Locked(lock) => {
                demand.check_lock(key, &lock)?;
                check_presence(core, key, start, demand)?;
                if !mutant!(converted_lock_forgets_push) {
                    result.min_commit = result.min_commit.max(lock.min_commit);
                }
                to_lock.push((mutation, Some(lock)));
            }
            Found::Prewritten(lock) => {
                result.min_commit = result.min_commit.max(lock.min_commit);
                result.is_async &= lock.is_async();
                if lock.is_async() {
                    async_commit = async_commit.max(Some(lock.min_commit));
                }
            }
            Found::Committed(at) => {
                result.committed = Some(at);
                break;
            }
        }
    }
    Ok(Examined {
        to_lock,
        async_commit,
    })
}

/// Begins the commit of a transaction whose timestamp no client gives: async or, if `result` says
/// that it is not, in one phase. `None` if it commits in two phases.
fn begin_commit<'c>(
    core: &'c Core,
    demands: &Demands<'_>,
    was_prewritten: bool,
    result: &mut Prewritten,
) -> Result<Option<InFlight<'c>>> {
    result.is_async &= !demands.one_phase;
    // A commit without a timestamp of the client must follow all reads of its keys. Earlier reads
    // are before this timestamp; later ones find the locks, or wait for the commit in flight.
    let in_flight = match result.is_async || (demands.one_phase && !was_prewritten) {
        true => Some(core.order.begin()?),
        false => None,
    };
    let is_late = |commit| demands.max_commit.is_some_and(|most| commit > most);
    let in_flight = in_flight.filter(|in_flight| !is_late(in_flight.timestamp()));
    result.is_async &= in_flight.is_some();
    Ok(in_flight)
}

/// Writes the locks, which may commit from the timestamp of `result` on.
fn write_locks(
    core: &Core,
    request: &Prewrite<'_>,
    owner: Owner,
    to_lock: Vec<(&Mutation<'_>, Option<Lock>)>,
    result: &Prewritten,
) -> Result<()> {
    let (start, min_commit) = (request.start, result.min_commit);
    invariant!(durable: start < min_commit, "{start} may commit from {min_commit} on")?;
    let secondaries = request.secondaries.filter(|_| result.is_async);
    let none: Option<Arc<[Bytes]>> = secondaries.map(|_| Arc::from([]));
    // Copies: slices would keep all of the caller's request as long as the lock.
    let secondaries: Option<Arc<[Bytes]>> = secondaries.map(|keys| {
        let copies = keys.iter().map(|key| Bytes::copy_from_slice(key));
        copies.collect()
    });
    let primary = Bytes::copy_from_slice(request.primary);
    let mut batch = WriteBatch::new();
    let mut locks = Vec::with_capacity(to_lock.len());
    for (mutation, replaced) in to_lock {
        let key = mutation.key();
        let (for_update, ttl) = match replaced {
            Some(lock) => (lock.for_update, lock.ttl),
            None => Default::default(),
        };
        let lock = Lock {
            kind: mutation.kind(),
            owner,
            primary: primary.clone(),
            start,
            for_update: for_update.max(request.for_update.unwrap_or_default()),
            min_commit,
            ttl: ttl.max(request.ttl),
            txn_size: request.txn_size,
            secondaries: match key == request.primary {
                true => secondaries.clone(),
                false => none.clone(),
            },
        };
        core.locks
            .batch_put(&mut batch, key, &lock, mutation.value())?;
        locks.push((Bytes::copy_from_slice(key), lock));
    }
    // ORDER: readers find the locks before the transaction can have a commit timestamp.
    let inserted = core.locks.insert_all(locks)?;
    invariant!(
        core.safe_point.get() < start,
        "{start} has locks, and the safe point has reached it"
    );
    core.db.write(batch, &core.config.write)?;
    inserted.keep();
    Ok(())
}

/// # Errors
/// `InvalidArgument` for two mutations of a key: its lock would be the last one's, its value the
/// last put's.
pub(super) fn refuse_repeated_keys(mutations: &[Mutation<'_>]) -> Result<()> {
    // The order in which most clients send them.
    if mutations.is_sorted_by(|a, b| a.key() < b.key()) {
        return Ok(());
    }
    let mut keys = BTreeSet::new();
    let repeated = mutations
        .iter()
        .map(Mutation::key)
        .find(|key| !keys.insert(*key));
    match repeated {
        None => Ok(()),
        Some(key) => {
            let what = format!("two mutations of the key \"{}\"", key.escape_ascii());
            Err(titan::Error::invalid_argument(what).into())
        }
    }
}

/// Checks a key that must have no value, and that is not locked.
fn check_absent(core: &Core, request: &Prewrite<'_>, absent: &AbsentKey<'_>) -> Result<()> {
    let check_for = match mutant!(absent_keys_unchecked) {
        true => ConflictCheck::Nothing,
        false => absent.check,
    };
    match check(core, request, absent.key, check_for)? {
        Found::Prewritten(_) | Found::Committed(_) => Ok(()),
        Found::New | Found::Locked(_) => {
            let demand = KeyDemand {
                absent: true,
                ..KeyDemand::default()
            };
            check_presence(core, absent.key, request.start, demand)
        }
    }
}

/// Checks that the transaction may lock a key.
fn check(
    core: &Core,
    request: &Prewrite<'_>,
    key: &[u8],
    check_for: ConflictCheck,
) -> Result<Found> {
    let start = request.start;
    if let Some(active) = core.locks.get(key) {
        return match active.lock.start == start {
            false => Err(active.key_is_locked(key)),
            true if active.lock.is_prewritten() => Ok(Found::Prewritten(active.lock)),
            true if request.for_update.is_none() && !mutant!(pessimistic_lock_ignored) => {
                Err(pessimistic_lock_of_optimist(key, start))
            }
            true => Ok(Found::Locked(active.lock)),
        };
    }
    let since = request.conflicts_after();
    let Some(newest) = newest_version(&core.versions, key)? else {
        return Ok(Found::New);
    };
    let key_bytes = || Bytes::copy_from_slice(key);
    if newest.commit >= start {
        match outcome(&core.versions, key, start)? {
            Outcome::Committed(at) => return Ok(Found::Committed(at)),
            Outcome::RolledBack if mutant!(rollback_forgotten) => {
                return Ok(Found::New);
            }
            Outcome::RolledBack => {
                return Err(Error::RolledBack {
                    key: key_bytes(),
                    start,
                });
            }
            Outcome::Unknown => {}
        }
    }
    if check_for == ConflictCheck::Nothing && request.for_update.is_some() {
        return Ok(Found::New);
    }
    // A later rollback record conflicts, because it may have replaced the record of this
    // transaction. An earlier one does not.
    let conflict = match newest.commit > start {
        true => Some(newest),
        false => newest_write(&core.versions, key)?.filter(|write| write.commit > since),
    };
    let is_lock_lost = request.for_update.is_some() && check_for == ConflictCheck::Usual;
    match conflict {
        None => Ok(Found::New),
        Some(_) if mutant!(prewrite_over_newer) => Ok(Found::New),
        Some(_) if is_lock_lost => Err(Error::PessimisticLockNotFound {
            key: key_bytes(),
            start,
        }),
        Some(newest) => Err(Error::Conflict {
            key: key_bytes(),
            start: request.read_at,
            committed: newest.commit,
            other: newest.start,
        }),
    }
}

/// The error for a prewrite without a timestamp for update over a pessimistic lock.
fn pessimistic_lock_of_optimist(key: &[u8], start: Timestamp) -> Error {
    let key = key.escape_ascii();
    let what = format!(
        "transaction {start} has a pessimistic lock on key \"{key}\", and its prewrite has no \
         timestamp for update"
    );
    titan::Error::invalid_argument(what).into()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::percolator::commit_at;
    use crate::{Store, StoreOptions};

    fn deletion<'a>(start: Timestamp, mutations: &'a [Mutation<'a>]) -> Prewrite<'a> {
        Prewrite {
            mutations,
            primary: b"k",
            start,
            read_at: start,
            ttl: Duration::from_secs(1000),
            txn_size: 1,
            min_commit: Timestamp::ZERO,
            for_update: None,
            secondaries: Some(&[]),
        }
    }

    fn call(core: &Core, request: &Prewrite<'_>) -> Result<Prewritten> {
        prewrite(core, request, &Demands::default(), Owner::Client)
    }

    #[test]
    fn an_async_prewrite_waits_for_older_commits_without_latches() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let core = store.percolator().0;
        let start = core.order.next_timestamp().unwrap();
        // A commit that has its timestamp and will take its latches.
        let older = core.order.begin().unwrap();
        let mutations = [Mutation::Delete { key: b"k" }];
        let request = deletion(start, &mutations);
        let (done, returned) = mpsc::channel();
        thread::scope(|scope| {
            let first = scope.spawn(|| call(&core, &request));
            while core.locks.get(b"k").is_none() {
                thread::yield_now();
            }
            // Its primary key has the same latch. A latch held here would block both for ever.
            drop(core.latches.take(std::iter::once(&b"k"[..])));
            // A repeated call, as of a client without an answer: the transaction is not
            // acknowledged yet.
            let again = scope.spawn(|| {
                let result = call(&core, &request);
                done.send(()).unwrap();
                result
            });
            for _ in 0..1000 {
                assert!(returned.try_recv().is_err());
                thread::yield_now();
            }
            let commit = older.published();
            let prewritten = first.join().unwrap().unwrap();
            assert_eq!(again.join().unwrap().unwrap(), prewritten);
            assert!(commit < prewritten.min_commit);
            assert_eq!(core.order.visible(), prewritten.min_commit);
        });
    }

    #[test]
    fn a_lock_keeps_nothing_of_its_request() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let core = store.percolator().0;
        let request_buffer = Bytes::from(vec![b's'; 1 << 20]);
        let secondaries = [request_buffer.slice(..1)];
        let mutations = [Mutation::Delete { key: b"k" }];
        let request = Prewrite {
            secondaries: Some(&secondaries),
            ..deletion(core.order.next_timestamp().unwrap(), &mutations)
        };
        assert!(call(&core, &request).unwrap().is_async);
        let lock = core.locks.get(b"k").unwrap().lock;
        assert_eq!(lock.secondaries.as_deref(), Some(&secondaries[..]));
        drop(secondaries);
        assert!(request_buffer.is_unique());
    }

    #[test]
    fn a_prewrite_that_finds_its_transaction_committed_returns_when_reads_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), &StoreOptions::default()).unwrap();
        let core = store.percolator().0;
        let start = core.order.next_timestamp().unwrap();
        let mutations = [Mutation::Delete { key: b"k" }];
        let request = Prewrite {
            secondaries: None,
            ..deletion(start, &mutations)
        };
        call(&core, &request).unwrap();
        // The engine has published the commit, and its call has not returned.
        let commit = core.order.next_timestamp().unwrap();
        commit_at(&core, &[b"k"], start, commit, &core.config.write).unwrap();
        assert_eq!(call(&core, &request).unwrap().committed, Some(commit));
        assert_eq!(core.order.visible(), commit);
    }
}
