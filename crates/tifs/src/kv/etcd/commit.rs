//! Commits, and the fate of those without an answer.
//!
//! A commit is one transaction of etcd. Its conditions are the session, the slot, and each key that
//! others must not have written. If there are more keys than conditions in one request, the commit
//! runs alone: it stores the session's key again, which ends all commits that were sent before, and
//! looks at the keys. Nobody can write them before it has committed; if its fate stays unknown, the
//! next commit stores the session's key again before. Its operations are in transactions within the
//! transaction, of which etcd takes thousands.

use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use prost::Message;
use rustix::io::Errno;

use super::client::EtcdClient;
use super::failures;
use super::objects::Object;
use super::reads::Reads;
use super::shared::Shared;
use super::wire::{
    Compare, KeyValue, Operation, PutRequest, RangeRequest, Request, TransactionRequest,
    TransactionResponse,
};
use crate::error::{Error, Result};
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::slots::{Fate, Mark, Slot};
use crate::kv::{Commit, Space};

/// Conditions, and operations, of one request: a server takes 128.
const CONDITIONS: usize = 120;
/// Transactions within a transaction, and operations of each. Both together are below the limit.
const NESTED: usize = 60;
/// Bytes of a request: a server takes 1.5 MiB.
const BYTES: usize = 1_400_000;
/// The time after which the fate of a commit is found out in another way: half of what is left, so
/// that there is time for another attempt, within limits.
const ATTEMPT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));

/// Keys, and the revisions of their last changes.
pub(super) type Known = Vec<((Space, Vec<u8>), i64)>;

/// The parts of a commit.
pub(super) struct Prepared {
    /// Those that others must not have written.
    pub(super) known: Known,
    pub(super) operations: Vec<Operation>,
    /// The revision at which the transaction began.
    pub(super) at: i64,
}

/// Commits.
///
/// # Errors
/// `E2BIG` if it is too large; `ENOSPC` if etcd is full; `EIO` if another process has the volume;
/// `ETIMEDOUT` at the deadline.
pub(super) fn commit(
    store: &Shared,
    slot: &Slot<'_>,
    prepared: Prepared,
    deadline: Deadline,
) -> Result<Commit> {
    let is_small = prepared.known.len() < CONDITIONS && prepared.operations.len() < CONDITIONS;
    if is_small {
        let _beside = beside_others(store, deadline)?;
        let keys = { prepared.known.iter() }.map(|((space, key), revision)| {
            Compare::unchanged(store.base.keys.of(*space, key), *revision)
        });
        let fence = store.session()?.fence();
        let conditions = conditions(store, slot, prepared.at, fence, keys);
        let operations = prepared.operations;
        return request(store, slot, fence, conditions, operations, deadline);
    }
    let _alone = alone(store, deadline)?;
    store.session()?.replace(&store.base, deadline)?;
    if !is_unchanged(store, &prepared.known, deadline)? {
        return Ok(Commit::Conflict);
    }
    if prepared.operations.len() > NESTED * NESTED {
        let what = format!(
            "the operation changes {} keys at once, and etcd takes {}",
            prepared.operations.len(),
            NESTED * NESTED
        );
        return Err(Error::new(Errno::TOOBIG, what));
    }
    let mut rest = prepared.operations.into_iter();
    let mut nested = Vec::new();
    while rest.len() > 0 {
        let inner = TransactionRequest {
            success: rest.by_ref().take(NESTED).collect(),
            ..TransactionRequest::default()
        };
        nested.push(Operation::from(Request::Transaction(inner)));
    }
    let fence = store.session()?.fence();
    let conditions = conditions(store, slot, prepared.at, fence, std::iter::empty());
    // ORDER: before anybody else commits.
    store.is_one_late.store(true, Ordering::Relaxed);
    let done = request(store, slot, fence, conditions, nested, deadline);
    let is_known = !matches!(done, Ok(Commit::Undetermined));
    store.is_one_late.store(!is_known, Ordering::Relaxed);
    done
}

/// The right to commit beside others that compare the keys they write.
///
/// One that ran alone and whose fate is unknown is ended before: whenever its request arrived, it
/// would change keys that others have written since.
fn beside_others(store: &Shared, deadline: Deadline) -> Result<RwLockReadGuard<'_, ()>> {
    loop {
        let beside = store.commits.try_read_for(deadline.rest());
        let beside = beside.ok_or_else(|| waits(store))?;
        if !store.is_one_late.load(Ordering::Relaxed) || mutant!(late_commit_not_ended) {
            return Ok(beside);
        }
        drop(beside);
        let _alone = alone(store, deadline)?;
        store.session()?.replace(&store.base, deadline)?;
        store.is_one_late.store(false, Ordering::Relaxed);
    }
}

/// The right to commit while nobody else does.
fn alone(store: &Shared, deadline: Deadline) -> Result<RwLockWriteGuard<'_, ()>> {
    let alone = store.commits.try_write_for(deadline.rest());
    alone.ok_or_else(|| waits(store))
}

fn waits(store: &Shared) -> Error {
    store.base.cluster.out_of_reach("another commit waits, too")
}

fn conditions(
    store: &Shared,
    slot: &Slot<'_>,
    at: i64,
    fence: i64,
    keys: impl Iterator<Item = Compare>,
) -> Vec<Compare> {
    let mut conditions = vec![Compare::not_after(store.base.keys.slot(slot.number), at)];
    if !mutant!(session_not_compared) {
        conditions.push(Compare::unchanged(store.base.keys.session(), fence));
    }
    conditions.extend(keys);
    conditions
}

/// Whether keys are as they were known.
fn is_unchanged(store: &Shared, known: &Known, deadline: Deadline) -> Result<bool> {
    let reads = Reads::new(store, store.base.moments.open()).until(deadline);
    for space in [Space::Meta, Space::Data] {
        let of_space = known.iter().filter(|((of, _), _)| *of == space);
        let (keys, revisions): (Vec<Vec<u8>>, Vec<i64>) = of_space
            .map(|((_, key), revision)| (key.clone(), *revision))
            .unzip();
        let now = reads.stored(space, &keys, true)?;
        let revision = |found: &Option<KeyValue>| found.as_ref().map_or(0, |key| key.mod_revision);
        if now.iter().map(revision).ne(revisions) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Sends a commit, and judges the answer.
fn request(
    store: &Shared,
    slot: &Slot<'_>,
    fence: i64,
    compare: Vec<Compare>,
    mut operations: Vec<Operation>,
    deadline: Deadline,
) -> Result<Commit> {
    let mark = Request::Put(PutRequest {
        key: store.base.keys.slot(slot.number),
        value: slot.mark.encode().into(),
        ..PutRequest::default()
    });
    operations.push(mark.into());
    let session = Request::Range(RangeRequest {
        key: store.base.keys.session(),
        keys_only: true,
        ..RangeRequest::default()
    });
    let request = TransactionRequest {
        compare,
        success: operations,
        failure: vec![session.into()],
    };
    let bytes = request.encoded_len();
    if bytes > BYTES {
        let what = format!("the operation has {bytes} bytes of metadata, and etcd takes {BYTES}");
        return Err(Error::new(Errno::TOOBIG, what));
    }
    let (cluster, rest) = (&store.base.cluster, deadline.rest());
    if rest.is_zero() {
        return Err(cluster.out_of_reach("no time is left for the commit"));
    }
    let at_most = (rest / 2).clamp(ATTEMPT.0, ATTEMPT.1).min(rest);
    // Once: a repetition may do it again.
    let answer = cluster.attempt(at_most, async |client: EtcdClient| {
        client.transaction(request.clone()).await
    });
    match answer {
        Some(Ok(done)) => judge(store, fence, done, deadline),
        Some(Err(refused)) if failures::is_refused(&refused) => {
            Err(failures::translated(&refused, &cluster.place()))
        }
        // The member has judged it, so its slot tells, and nothing arrives later.
        Some(Err(full)) if failures::is_full(&full) => {
            match slot_of(store, slot, cluster.far_deadline()) {
                Ok(found) if Mark::decode(&found.value) == Some(slot.mark) => Ok(Commit::Committed),
                Ok(_) => Err(failures::translated(&full, &cluster.place())),
                Err(_) => Ok(Commit::Undetermined),
            }
        }
        _ => match fate(store, slot, cluster.far_deadline()) {
            Fate::Committed => Ok(Commit::Committed),
            Fate::Nothing => cluster.unanswered(deadline),
            Fate::Unknown => Ok(Commit::Undetermined),
        },
    }
}

/// The outcome of a commit with an answer.
fn judge(
    store: &Shared,
    fence: i64,
    done: TransactionResponse,
    deadline: Deadline,
) -> Result<Commit> {
    let (revision, is_done) = (done.revision(), done.succeeded);
    // ORDER: before the slot is free. The next transaction there begins after this one.
    store.base.moments.reached(revision);
    let pairs = done.into_pairs();
    if is_done {
        for replaced in pairs {
            let key = store.base.keys.own_part(&replaced.key);
            let path =
                Object::decode(&replaced.value).and_then(|object| store.objects.path(key, &object));
            // A value that cannot be read names nothing.
            store.garbage.add(revision, path.ok());
        }
        return Ok(Commit::Committed);
    }
    if pairs.first().map_or(0, |session| session.mod_revision) != fence {
        store.session()?.find_fence(&store.base, deadline)?;
    }
    Ok(Commit::Conflict)
}

/// Finds out the fate of a commit that had no answer, by its slot.
///
/// If the slot has its mark, it has committed. If not, this writes the slot again, which is a
/// condition of the commit: it fails from then on, wherever its request still is.
pub(super) fn fate(store: &Shared, slot: &Slot<'_>, deadline: Deadline) -> Fate {
    store.base.cluster.reconnect(deadline);
    loop {
        match settled(store, slot, deadline) {
            Ok(Some(fate)) => return fate,
            Ok(None) if store.base.cluster.wait_before_repetition(deadline).is_ok() => {}
            Ok(None) | Err(_) => return Fate::Unknown,
        }
    }
}

/// The slot of a commit as it is now.
fn slot_of(store: &Shared, slot: &Slot<'_>, deadline: Deadline) -> Result<KeyValue> {
    let range = RangeRequest {
        key: store.base.keys.slot(slot.number),
        ..RangeRequest::default()
    };
    let found = store
        .base
        .cluster
        .call(deadline, async |client: EtcdClient| {
            client.range(range.clone()).await
        })?;
    let revision = found.header.map_or(0, |header| header.revision);
    store.base.moments.reached(revision);
    Ok(found.kvs.into_iter().next().unwrap_or_default())
}

/// One attempt; `None` if it has to be repeated.
fn settled(store: &Shared, slot: &Slot<'_>, deadline: Deadline) -> Result<Option<Fate>> {
    let pair = slot_of(store, slot, deadline)?;
    match Mark::decode(&pair.value) {
        Some(found) if found == slot.mark => return Ok(Some(Fate::Committed)),
        // Another mount has the volume, and may have written the slot over the mark.
        Some(found) if found.session != slot.mark.session && pair.mod_revision > store.began => {
            return Ok(Some(Fate::Unknown));
        }
        _ => {}
    }
    if mutant!(fate_on_etcd_not_fixed) {
        return Ok(Some(Fate::Nothing));
    }
    // It leaves the mark that it found, so it may be repeated.
    let value = match pair.value.is_empty() {
        true => Mark {
            session: slot.mark.session,
            transaction: 0,
        }
        .encode()
        .into(),
        false => pair.value,
    };
    let key = store.base.keys.slot(slot.number);
    let session = store.session()?;
    let same = vec![
        Compare::unchanged(key.clone(), pair.mod_revision),
        Compare::unchanged(store.base.keys.session(), session.fence()),
    ];
    let again = Request::Put(PutRequest {
        key,
        value,
        ..PutRequest::default()
    });
    if store.base.change_if(same, vec![again], deadline)? {
        return Ok(Some(Fate::Nothing));
    }
    session.find_fence(&store.base, deadline)?;
    Ok(None)
}
