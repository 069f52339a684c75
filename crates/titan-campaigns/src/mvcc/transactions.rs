//! A transaction as a history knows it, and the transactions of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use titan::SystemClock;
use titan_mvcc::{
    CommittedTransaction, Error, PessimisticTransaction, PrewrittenTransaction, Timestamp,
    Transaction,
};
use titan_testkit::failure::{CheckFailure, Checked, ensure};
use titan_testkit::versions::{Change, Kind, Write};

use super::configurations::Phases;
use super::waits::{Call, Done};
use super::world::{LOCK_TTL, World};

/// The object of a transaction.
pub(super) enum Handle {
    Optimistic(Transaction),
    Pessimistic(Box<PessimisticTransaction>),
    Prewritten(PrewrittenTransaction),
    Committed(CommittedTransaction),
    /// Its client makes calls of Percolator.
    Client,
    /// Another thread has it, and waits for a lock.
    Waiting,
    /// Its owner is gone, or it has ended.
    Gone,
}

/// The outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Committed(Timestamp),
    RolledBack,
}

/// A transaction of a history.
pub(super) struct Txn {
    pub(super) kind: Kind,
    pub(super) handle: Handle,
    pub(super) state: State,
    /// The start timestamp, which identifies its locks.
    pub(super) start: Timestamp,
    /// The timestamp of its snapshot.
    pub(super) read_at: Timestamp,
    pub(super) writes: BTreeMap<Vec<u8>, Write>,
    /// The keys in the order of their first writes.
    pub(super) order: Vec<Vec<u8>>,
    /// The values that it read for update, with their timestamps: later commits conflict.
    pub(super) current: BTreeMap<Vec<u8>, (Timestamp, Option<Vec<u8>>)>,
    /// Keys on which a record says that it was rolled back: its client comes back in vain.
    pub(super) records: BTreeSet<Vec<u8>>,
    /// The keys that it has locked.
    pub(super) locked: BTreeSet<Vec<u8>>,
    /// The first timestamp at which it may commit.
    pub(super) min_commit: Timestamp,
    /// The commit timestamp that its client has taken.
    pub(super) commit_ts: Option<Timestamp>,
    /// The bounds of the time of its last sign of life.
    pub(super) alive: (Duration, Duration),
    /// Whether its locks may have been lost.
    pub(super) is_doubtful: bool,
}

impl Txn {
    /// Commits of a key after this timestamp conflict.
    fn conflicts_after(&self, key: &[u8]) -> Timestamp {
        let read = self.current.get(key).map(|(at, _)| *at);
        read.unwrap_or(self.read_at)
    }

    /// Whether others may have rolled it back by now.
    pub(super) fn may_have_expired(&self, now: Duration) -> bool {
        self.state == State::RolledBack
            || self.is_doubtful
            || now.saturating_sub(self.alive.0) > LOCK_TTL
    }

    /// Whether a lock of it may stop others.
    fn may_block(&self, key: &[u8], now: Duration) -> bool {
        let has_expired = now.saturating_sub(self.alive.1) > LOCK_TTL;
        // The record may be at another key than the primary, which decides.
        let is_undecided = match self.state {
            State::Open => true,
            State::RolledBack => self.kind == Kind::Async,
            State::Committed(_) => false,
        };
        is_undecided && self.locked.contains(key) && !has_expired
    }

    /// Whether its client makes calls of Percolator.
    pub(super) fn is_of_client(&self) -> bool {
        self.kind.is_of_client()
    }

    pub(super) fn end(&mut self, state: State) {
        self.state = state;
        if state == State::RolledBack {
            // Of an async commit, those without a record stay until they expire.
            if self.kind != Kind::Async {
                self.locked.clear();
            }
            // A transaction that ends another of its locks has ended the primary one before.
            if self.kind == Kind::Client && !self.is_doubtful {
                self.records.extend(self.order.first().cloned());
            }
        }
    }

    pub(super) fn note(&mut self, key: &[u8], write: Write) {
        if !self.writes.contains_key(key) {
            self.order.push(key.to_vec());
        }
        match write {
            Write::Lock => drop(self.writes.entry(key.to_vec()).or_insert(write)),
            write => drop(self.writes.insert(key.to_vec(), write)),
        }
    }
}

impl World {
    pub(super) fn begin(&mut self, id: u32, kind: Kind) -> Checked<()> {
        let (handle, start, read_at) = match kind {
            Kind::Optimistic => {
                let it = self.store.begin();
                let start = it.start();
                (Handle::Optimistic(it), start, start)
            }
            Kind::Pessimistic => {
                let it = self
                    .store
                    .begin_pessimistic()
                    .map_err(CheckFailure::wrong)?;
                let (start, read_at) = (it.start(), it.snapshot());
                (Handle::Pessimistic(Box::new(it)), start, read_at)
            }
            Kind::Client | Kind::Async => {
                let start = self.timestamp()?;
                self.clients.insert(start);
                (Handle::Client, start, start)
            }
        };
        let last = self.acknowledged;
        ensure!(
            read_at >= last,
            "a transaction begins at {read_at}, before an acknowledged commit"
        );
        let now = self.clock.monotonic();
        let txn = Txn {
            kind,
            handle,
            state: State::Open,
            start,
            read_at,
            writes: BTreeMap::new(),
            order: Vec::new(),
            current: BTreeMap::new(),
            records: BTreeSet::new(),
            locked: BTreeSet::new(),
            min_commit: Timestamp::ZERO,
            commit_ts: None,
            alive: (now, now),
            is_doubtful: false,
        };
        self.txns.insert(id, txn);
        Ok(())
    }

    pub(super) fn change(&mut self, id: u32, key: &[u8], change: Change) -> Checked<()> {
        let Some(txn) = self.txns.get_mut(&id) else {
            return Ok(());
        };
        let write = match change {
            Change::Put(value) => Write::Set(Some(value.bytes())),
            Change::Delete => Write::Set(None),
            Change::Lock | Change::GetForUpdate => Write::Lock,
        };
        match &mut txn.handle {
            Handle::Optimistic(it) => {
                match &write {
                    Write::Set(Some(value)) => it.put(key, value),
                    Write::Set(None) => it.delete(key),
                    Write::Lock => it.lock(key),
                }
                txn.note(key, write);
            }
            // Its first prewrite has named the keys.
            Handle::Client if txn.locked.is_empty() && txn.state == State::Open => {
                txn.note(key, write);
            }
            Handle::Pessimistic(_) => {
                let keys = [key.to_vec()];
                if !self.can_call(id, &keys) {
                    return Ok(());
                }
                let is_read = change == Change::GetForUpdate;
                if let Some(Handle::Pessimistic(it)) = self.take(id) {
                    let call = Call::Write(it, key.to_vec(), write, is_read);
                    self.call(id, &keys, call)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes the object of a transaction.
    pub(super) fn take(&mut self, id: u32) -> Option<Handle> {
        let txn = self.txns.get_mut(&id)?;
        Some(std::mem::replace(&mut txn.handle, Handle::Gone))
    }

    /// The result of a call, which may have run in another thread.
    pub(super) fn done(&mut self, id: u32, done: Done) -> Checked<()> {
        match done {
            Done::Committed(Ok(at)) => self.committed(id, at),
            Done::Committed(Err(e)) => self.has_failed(id, e),
            Done::Prewritten(Ok(it)) => self.prewritten(id, it),
            Done::Prewritten(Err(e)) => self.has_failed(id, e),
            Done::Wrote(it, key, write, read) => {
                let now = self.clock.monotonic();
                let read_for_update = match read {
                    Ok(found) => found,
                    Err(e) => {
                        if let Some(txn) = self.txns.get_mut(&id) {
                            txn.handle = Handle::Pessimistic(it);
                            // It may have sent a heartbeat.
                            txn.alive.1 = now;
                        }
                        return self.explain(id, e);
                    }
                };
                // One that has lost its locks hears that when it commits: it asks for none again.
                let has_lost_it = self.txns.get(&id).is_some_and(|txn| {
                    txn.state == State::RolledBack && txn.writes.contains_key(&key)
                });
                if !has_lost_it {
                    self.take_key(id, &key)?;
                }
                let present = self.store.now();
                let Some(txn) = self.txns.get_mut(&id) else {
                    return Ok(());
                };
                let is_first = txn.locked.is_empty();
                txn.alive = (if is_first { now } else { txn.alive.0 }, now);
                let is_own = matches!(txn.writes.get(&key), Some(Write::Set(_)));
                if let Some(found) = read_for_update {
                    let expected = match txn.writes.get(&key) {
                        Some(Write::Set(own)) => own.clone(),
                        _ => match txn.current.get(&key) {
                            Some((_, value)) => value.clone(),
                            None => self.model.get(&key, Timestamp::MAX).map(<[u8]>::to_vec),
                        },
                    };
                    ensure!(
                        found.as_deref() == expected.as_deref(),
                        "read for update: {found:?} instead of {expected:?}"
                    );
                    if !is_own {
                        txn.current
                            .entry(key.clone())
                            .or_insert((present, expected));
                    }
                }
                txn.handle = Handle::Pessimistic(it);
                txn.locked.insert(key.clone());
                txn.note(&key, write);
                Ok(())
            }
        }
    }

    /// Commits, as far as that is not done.
    pub(super) fn commit(&mut self, id: u32) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let is_own = matches!(txn.handle, Handle::Optimistic(_) | Handle::Pessimistic(_));
        let keys = txn.order.clone();
        if is_own && !self.can_call(id, &keys) {
            return Ok(());
        }
        match self.take(id) {
            Some(Handle::Optimistic(it)) => self.call(id, &keys, Call::Commit(it)),
            Some(Handle::Pessimistic(it)) => {
                let committed = Call::CommitPessimistic(it).run();
                self.done(id, committed)
            }
            Some(Handle::Prewritten(it)) => self.done(id, Done::Committed(it.commit())),
            Some(Handle::Committed(it)) => {
                let (at, again) = (it.timestamp(), it.commit_secondaries());
                ensure!(at == again, "committed at {at} and {again}");
                self.unlock(id);
                Ok(())
            }
            Some(Handle::Client) => self.commit_client(id),
            Some(other) => self.put_back(id, other),
            None => Ok(()),
        }
    }

    pub(super) fn commit_primary(&mut self, id: u32) -> Checked<()> {
        match self.take(id) {
            Some(Handle::Prewritten(it)) => match it.commit_primary() {
                Ok(it) => {
                    let at = it.timestamp();
                    self.put_back(id, Handle::Committed(it))?;
                    self.committed(id, at)
                }
                Err(e) => self.has_failed(id, e),
            },
            Some(Handle::Client) => self.commit_primary_of_client(id),
            Some(other) => self.put_back(id, other),
            None => Ok(()),
        }
    }

    pub(super) fn put_back(&mut self, id: u32, handle: Handle) -> Checked<()> {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.handle = handle;
        }
        Ok(())
    }

    /// The first phase of a transaction of the store.
    pub(super) fn prewrite(&mut self, id: u32, keys: &[Vec<u8>]) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let all = txn.order.clone();
        match txn.handle {
            Handle::Client => self.prewrite_client(id, keys),
            Handle::Optimistic(_)
                if self.configuration.phases != Phases::One
                    && self.can_call(id, &all)
                    && !self.is_blocked(id, &all) =>
            {
                match self.take(id) {
                    Some(Handle::Optimistic(it)) => self.done(id, Done::Prewritten(it.prewrite())),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn prewritten(&mut self, id: u32, it: PrewrittenTransaction) -> Checked<()> {
        let now = self.clock.monotonic();
        let (start, committed) = (it.start(), it.committed());
        self.put_back(id, Handle::Prewritten(it))?;
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.start = start;
            txn.alive = (now, now);
            txn.locked = txn.writes.keys().cloned().collect();
        }
        for key in self
            .txns
            .get(&id)
            .map(|txn| txn.order.clone())
            .unwrap_or_default()
        {
            self.take_key(id, &key)?;
        }
        committed.map_or(Ok(()), |at| self.committed(id, at))
    }

    pub(super) fn rollback(&mut self, id: u32) -> Checked<()> {
        match self.take(id) {
            Some(Handle::Optimistic(it)) => it.rollback(),
            Some(Handle::Pessimistic(it)) => it.rollback(),
            Some(Handle::Prewritten(it)) => it.rollback(),
            Some(Handle::Client) => return self.rollback_client(id),
            Some(other) => return self.put_back(id, other),
            None => return Ok(()),
        }
        if let Some(txn) = self.txns.get_mut(&id)
            && txn.state == State::Open
        {
            txn.end(State::RolledBack);
        }
        Ok(())
    }

    pub(super) fn abandon(&mut self, id: u32) -> Checked<()> {
        match self.take(id) {
            Some(Handle::Pessimistic(it)) => it.abandon(),
            Some(Handle::Waiting) => return self.put_back(id, Handle::Waiting),
            Some(Handle::Optimistic(it)) => {
                drop(it);
                if let Some(txn) = self.txns.get_mut(&id) {
                    txn.end(State::RolledBack);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The locks of a transaction are gone, after any outcome.
    pub(super) fn unlock(&mut self, id: u32) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.locked.clear();
        }
    }

    /// A commit of a transaction of the store has failed, which ends it.
    fn has_failed(&mut self, id: u32, error: Error) -> Checked<()> {
        self.explain(id, error)?;
        if let Some(txn) = self.txns.get_mut(&id) {
            // A commit in one batch that fails leaves no record.
            if self.configuration.phases != Phases::One {
                self.rolled_back += txn.writes.len();
            }
            txn.end(State::RolledBack);
        }
        Ok(())
    }

    /// Checks that a call could fail so.
    pub(super) fn explain(&mut self, id: u32, error: Error) -> Checked<()> {
        let now = self.clock.monotonic();
        let Some(txn) = self.txns.get(&id) else {
            return Err(CheckFailure::wrong(error));
        };
        let is_expected = match &error {
            Error::Conflict { key, committed, .. } => {
                self.seen.conflicts += 1;
                // Records of rollbacks conflict with clients that began before.
                let of_others = self.txns.values();
                let is_record = *committed > txn.start
                    && (self.clients.contains(committed)
                        || of_others
                            .filter(|other| !matches!(other.state, State::Committed(_)))
                            .any(|other| other.start == *committed));
                let since = txn.conflicts_after(key);
                let mut order = txn.order.iter();
                let first = order.find(|key| self.model.is_newer(key, txn.conflicts_after(key)));
                // In two phases the primary key comes first.
                let is_exact = self.configuration.phases == Phases::One
                    && txn.kind == Kind::Optimistic
                    && txn.start == txn.read_at;
                match is_exact {
                    true => first.is_some_and(|first| **first == **key),
                    false => is_record || self.model.is_newer(key, since),
                }
            }
            Error::KeyIsLocked(lock) => {
                self.seen.blocked += 1;
                let holder = self.txns.values().find(|other| other.start == lock.start);
                // Clients that have ended long ago may have left locks.
                let is_clients = self.clients.contains(&lock.start) || txn.is_of_client();
                holder.map_or(is_clients, |holder| match txn.is_of_client() {
                    // Its calls resolve no locks.
                    true => holder.writes.contains_key(&*lock.key),
                    false => holder.may_block(&lock.key, now),
                })
            }
            Error::RolledBack { .. }
            | Error::LockNotFound { .. }
            | Error::PessimisticLockNotFound { .. } => {
                self.seen.rolled_back += 1;
                txn.may_have_expired(now)
            }
            Error::Deadlock { circle, .. } => {
                self.seen.deadlocks += 1;
                let others = circle.iter().filter(|start| **start != txn.start);
                circle.contains(&txn.start) && others.clone().all(|start| self.waits(*start))
            }
            // Its client has no lock that holds the safe point.
            Error::BeforeSafePoint { safe_point, .. } => {
                txn.is_of_client() && txn.read_at <= *safe_point
            }
            _ => false,
        };
        ensure!(is_expected, "transaction {id}: {error}");
        Ok(())
    }

    /// A transaction has got this key: no other one has it.
    pub(super) fn take_key(&mut self, id: u32, key: &[u8]) -> Checked<()> {
        let now = self.clock.monotonic();
        for (other_id, other) in &mut self.txns {
            if *other_id == id || other.state != State::Open || !other.locked.contains(key) {
                continue;
            }
            ensure!(
                other.may_have_expired(now),
                "transaction {id} got {:?}, which transaction {other_id} has locked",
                key.escape_ascii().to_string()
            );
            if other.is_doubtful {
                // A crash took this lock, and perhaps not the others.
                other.locked.remove(key);
            } else {
                other.end(State::RolledBack);
            }
        }
        Ok(())
    }

    /// A transaction has committed.
    pub(super) fn committed(&mut self, id: u32, at: Timestamp) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        if let State::Committed(before) = txn.state {
            ensure!(
                before == at,
                "transaction {id} committed at {before} and {at}"
            );
            return Ok(());
        }
        ensure!(
            txn.state == State::Open,
            "transaction {id} committed after it was rolled back"
        );
        if txn.writes.is_empty() {
            ensure!(
                at == txn.read_at,
                "transaction {id} wrote nothing until {at}"
            );
            return Ok(());
        }
        ensure!(
            at > txn.start && at >= txn.min_commit,
            "transaction {id} committed at {at}"
        );
        // Clients take their timestamps before.
        ensure!(
            at > self.acknowledged || txn.is_of_client(),
            "{at} is committed after {}",
            self.acknowledged
        );
        for key in txn.writes.keys() {
            ensure!(
                !self.model.is_newer(key, txn.conflicts_after(key)),
                "transaction {id} overlooked a conflict at {:?}",
                key.escape_ascii().to_string()
            );
        }
        let present = self.store.now();
        ensure!(present >= at, "the commit at {at} is not seen at {present}");
        let (writes, start, kind) = (txn.writes.clone(), txn.start, txn.kind);
        for (key, write) in &writes {
            if matches!(write, Write::Set(_)) {
                self.was_not_read(key, at)?;
            }
            self.take_key(id, key)?;
            self.model.write(key.clone(), at, write.clone());
        }
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.end(State::Committed(at));
        }
        self.acknowledged = self.acknowledged.max(at);
        self.names.insert(id, at);
        // Others may begin at the same time.
        if self.clients.contains(&start) {
            self.starts.insert(start, (kind, at));
        }
        self.commits.push((at, writes.into_keys().collect()));
        if self.configuration.sync {
            self.durable = self.commits.len();
        }
        Ok(())
    }
}
