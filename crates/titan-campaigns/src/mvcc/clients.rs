//! The calls of clients and of other actors on transactions of Percolator.

use bytes::Bytes;
use titan::SystemClock;
use titan_mvcc::{Error, Mutation, Prewrite, SecondariesStatus, Timestamp, TransactionStatus};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::versions::{At, Kind, Verb, Write};

use super::transactions::{Handle, State, Txn};
use super::world::{LOCK_TTL, World};

impl Txn {
    /// The keys that a client has not prewritten, or those that it has.
    fn keys(&self, locked: bool) -> Vec<Vec<u8>> {
        let keys = self.order.iter();
        let keys = keys.filter(|key| self.locked.contains(*key) == locked);
        keys.cloned().collect()
    }

    fn is_whole(&self) -> bool {
        !self.order.is_empty() && self.keys(false).is_empty()
    }
}

impl World {
    pub(super) fn timestamp(&self) -> Checked<Timestamp> {
        self.store.oracle().next().doing("a timestamp")
    }

    /// Prewrites these keys, or all.
    pub(super) fn prewrite_client(&mut self, id: u32, keys: &[Vec<u8>]) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let is_wanted = |key: &&Vec<u8>| keys.is_empty() || keys.contains(key);
        let wanted: Vec<Vec<u8>> = txn.order.iter().filter(is_wanted).cloned().collect();
        let Some(primary) = txn.order.first().cloned() else {
            return Ok(());
        };
        if wanted.is_empty() || self.is_waited_for(&wanted) {
            return Ok(());
        }
        let mutation = |key| match txn.writes.get(key) {
            Some(Write::Set(Some(value))) => Mutation::Put { key, value },
            Some(Write::Set(None)) => Mutation::Delete { key },
            Some(Write::Lock) | None => Mutation::Lock { key },
        };
        let mutations: Vec<Mutation<'_>> = wanted.iter().map(|key| mutation(key)).collect();
        let others = txn.order.iter().skip(1);
        let secondaries: Vec<Bytes> = others.map(|key| Bytes::copy_from_slice(key)).collect();
        let has_primary = wanted.contains(&primary);
        let request = Prewrite {
            mutations: &mutations,
            primary: &primary,
            start: txn.start,
            read_at: txn.read_at,
            ttl: LOCK_TTL,
            txn_size: 0,
            min_commit: Timestamp::ZERO,
            for_update: None,
            secondaries: match (txn.kind, has_primary) {
                (Kind::Async, true) => Some(&secondaries),
                (Kind::Async, false) => Some(&[]),
                _ => None,
            },
        };
        let (state, kind) = (txn.state, txn.kind);
        let mut recorded = wanted.iter().filter(|key| txn.records.contains(*key));
        let recorded = recorded.next().cloned();
        let prewritten = match self.store.percolator().prewrite(&request) {
            Ok(prewritten) => prewritten,
            Err(e) => return self.refused(id, e),
        };
        if let Some(key) = recorded {
            return Err(CheckFailure::wrong(format!(
                "transaction {id} was rolled back at {:?}, and is prewritten there",
                key.escape_ascii().to_string()
            )));
        }
        match (prewritten.committed, state) {
            (Some(at), State::Committed(known)) => {
                ensure!(
                    at == known,
                    "transaction {id} committed at {known}, and at {at}"
                );
                return Ok(());
            }
            (Some(at), _) => return self.committed(id, at),
            // Its locks decide, and stay until somebody meets them; or these are not the primary.
            (None, State::Committed(_)) => {
                ensure!(
                    kind == Kind::Async || !has_primary,
                    "transaction {id} has committed, and is prewritten again"
                );
                return Ok(());
            }
            (None, State::Open) => {}
            // The record is at another key.
            (None, State::RolledBack) => {
                if let Some(txn) = self.txns.get_mut(&id) {
                    txn.locked.extend(wanted);
                    txn.alive.1 = self.clock.monotonic();
                }
                return Ok(());
            }
        }
        for key in &wanted {
            self.take_key(id, key)?;
        }
        let now = self.clock.monotonic();
        let Some(txn) = self.txns.get_mut(&id) else {
            return Ok(());
        };
        // A repeated prewrite extends no life.
        let is_first = txn.locked.is_empty();
        if is_first || (has_primary && !txn.locked.contains(&primary)) {
            txn.alive.0 = now;
        }
        txn.alive.1 = now;
        txn.locked.extend(wanted);
        txn.min_commit = txn.min_commit.max(prewritten.min_commit);
        if txn.kind == Kind::Async && txn.is_whole() {
            let at = txn.min_commit;
            return self.committed(id, at);
        }
        Ok(())
    }

    /// A prewrite was refused.
    fn refused(&mut self, id: u32, error: Error) -> Checked<()> {
        let was_rolled_back = matches!(error, Error::RolledBack { .. });
        let Some(txn) = self.txns.get_mut(&id) else {
            return Ok(());
        };
        if txn.state == State::RolledBack {
            self.seen.returned += 1;
            if matches!(error, Error::Conflict { .. }) {
                // The record of another rollback may have replaced its own.
                return Ok(());
            }
        }
        if let Error::RolledBack { key, start } = &error {
            ensure!(*start == txn.start, "transaction {id}: {error}");
            txn.records.insert(key.to_vec());
        }
        self.explain(id, error)?;
        if was_rolled_back {
            self.end(id, State::RolledBack);
        }
        Ok(())
    }

    /// A commit of a client that has no lock of its primary key, and never will, is refused.
    fn commit_in_vain(&mut self, id: u32) -> Checked<()> {
        let at = self.timestamp()?;
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let committed = self.store.percolator().commit(&txn.order, txn.start, at);
        ensure!(
            matches!(&committed, Err(Error::LockNotFound { start, .. }) if *start == txn.start),
            "transaction {id}, {:?}, commits: {committed:?}",
            txn.state
        );
        self.seen.returned += u64::from(txn.state == State::RolledBack);
        Ok(())
    }

    /// Takes the commit timestamp of a transaction that is prewritten.
    fn commit_ts(&mut self, id: u32) -> Checked<()> {
        let is_ready = self.txns.get(&id).is_some_and(|txn| {
            txn.kind == Kind::Client && txn.is_whole() && txn.state == State::Open
        });
        if is_ready {
            let at = self.timestamp()?;
            if let Some(txn) = self.txns.get_mut(&id) {
                txn.commit_ts = Some(at);
            }
        }
        Ok(())
    }

    pub(super) fn commit_primary_of_client(&mut self, id: u32) -> Checked<()> {
        self.put_back(id, Handle::Client)?;
        let is_vain = |txn: &Txn| {
            let primary = txn.order.first();
            primary.is_some_and(|primary| match txn.state {
                State::Open => !txn.locked.contains(primary),
                State::RolledBack => txn.records.contains(primary),
                State::Committed(_) => false,
            })
        };
        if self.txns.get(&id).is_some_and(is_vain) {
            return self.commit_in_vain(id);
        }
        let has_one = self
            .txns
            .get(&id)
            .is_some_and(|txn| txn.commit_ts.is_some());
        if !has_one {
            self.commit_ts(id)?;
        }
        let Some(txn) = self.txns.get_mut(&id) else {
            return Ok(());
        };
        let (Some(at), Some(primary), State::Open) = (txn.commit_ts, txn.order.first(), txn.state)
        else {
            return Ok(());
        };
        let (start, primary) = (txn.start, primary.clone());
        match self.store.percolator().commit(&[primary], start, at) {
            Ok(()) => self.committed(id, at),
            Err(Error::CommitTsExpired {
                asked, min_commit, ..
            }) => {
                ensure!(
                    asked == at && min_commit > at,
                    "a commit at {at} is refused until {min_commit}"
                );
                // Only a reader at that time or later, or a restart, pushes it.
                self.seen.pushed += 1;
                txn.commit_ts = None;
                Ok(())
            }
            Err(e) => {
                self.explain(id, e)?;
                if let Some(txn) = self.txns.get_mut(&id) {
                    self.rolled_back += txn.writes.len();
                    txn.end(State::RolledBack);
                }
                Ok(())
            }
        }
    }

    /// Commits the primary key, and then the others.
    pub(super) fn commit_client(&mut self, id: u32) -> Checked<()> {
        self.commit_primary_of_client(id)?;
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let State::Committed(at) = txn.state else {
            return Ok(());
        };
        let committed = self.store.percolator().commit(&txn.order, txn.start, at);
        // The safe point has passed it, and versions that hide others are gone.
        let is_over = at <= self.safe_point && matches!(committed, Err(Error::LockNotFound { .. }));
        ensure!(is_over || committed.is_ok(), "{committed:?}");
        self.unlock(id);
        Ok(())
    }

    pub(super) fn rollback_client(&mut self, id: u32) -> Checked<()> {
        self.put_back(id, Handle::Client)?;
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        if txn.kind == Kind::Async && txn.state != State::Open {
            // Its client knows that it has committed.
            return Ok(());
        }
        let done = self
            .store
            .percolator()
            .batch_rollback(&txn.order, txn.start);
        match (done, txn.state) {
            (Ok(()), State::Open | State::RolledBack) => {
                self.rolled_back += txn.order.len();
                self.end(id, State::RolledBack);
                if let Some(txn) = self.txns.get_mut(&id) {
                    txn.records.extend(txn.order.iter().cloned());
                }
                Ok(())
            }
            (Err(Error::AlreadyCommitted { committed, .. }), State::Committed(at)) => {
                ensure!(committed == at, "committed at {at} and {committed}");
                Ok(())
            }
            // Its versions may be gone.
            (Ok(()), State::Committed(at)) if at <= self.safe_point => Ok(()),
            (done, state) => Err(CheckFailure::wrong(format!(
                "transaction {id}, {state:?}, is rolled back: {done:?}"
            ))),
        }
    }

    /// A record says that a transaction was rolled back at a key.
    fn recorded(&mut self, id: u32, key: &[u8]) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.records.insert(key.to_vec());
        }
    }

    fn end(&mut self, id: u32, state: State) {
        if let Some(txn) = self.txns.get_mut(&id) {
            txn.end(state);
        }
    }

    /// Calls of another actor, or of the client, beside its commit.
    pub(super) fn other_call(&mut self, id: u32, verb: Verb) -> Checked<()> {
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let Some(primary) = txn.order.first() else {
            return Ok(());
        };
        let (calls, start) = (self.store.percolator(), txn.start);
        let is_client = txn.is_of_client();
        match verb {
            Verb::CommitTs => self.commit_ts(id),
            Verb::Heartbeat if is_client => match calls.heartbeat(primary, start, LOCK_TTL) {
                Ok(_) => {
                    let may_be_locked = match txn.state {
                        State::Open => txn.locked.contains(primary),
                        State::RolledBack => !txn.records.contains(primary),
                        State::Committed(_) => txn.kind == Kind::Async,
                    };
                    ensure!(
                        may_be_locked,
                        "transaction {id}, {:?}, has a heartbeat",
                        txn.state
                    );
                    let now = self.clock.monotonic();
                    if let Some(txn) = self.txns.get_mut(&id) {
                        txn.alive = (now, now);
                    }
                    Ok(())
                }
                Err(Error::LockNotFound { .. }) => {
                    let now = self.clock.monotonic();
                    let has_lock = txn.state == State::Open
                        && txn.locked.contains(primary)
                        && !txn.may_have_expired(now);
                    ensure!(!has_lock, "the lock of transaction {id} is gone");
                    Ok(())
                }
                Err(e) => Err(CheckFailure::wrong(e)),
            },
            Verb::CheckSecondaries if txn.kind == Kind::Async => {
                let keys: Vec<&Vec<u8>> = txn.order.iter().skip(1).collect();
                let status = calls.check_secondary_locks(&keys, start);
                if self.safe_point >= start {
                    return Ok(());
                }
                let now = self.clock.monotonic();
                let lacks = |key: &&&Vec<u8>| !txn.locked.contains(**key);
                let lacking: Vec<Vec<u8>> =
                    keys.iter().filter(lacks).map(|&key| key.clone()).collect();
                let lacks_one = !lacking.is_empty();
                let is_recorded = keys.iter().any(|key| txn.records.contains(*key));
                let is_possible = match (status.doing("checking secondary keys")?, txn.state) {
                    (SecondariesStatus::Locked(_), State::RolledBack) => !is_recorded,
                    (SecondariesStatus::Locked(locks), State::Open) => {
                        !lacks_one && locks.len() == keys.len()
                    }
                    (SecondariesStatus::Locked(_), State::Committed(_)) => true,
                    (SecondariesStatus::Committed(at), state) => state == State::Committed(at),
                    (SecondariesStatus::RolledBack, State::Committed(_)) => false,
                    (SecondariesStatus::RolledBack, _) => {
                        let is_possible = lacks_one || txn.may_have_expired(now);
                        let is_open = txn.state == State::Open && !txn.is_doubtful;
                        self.rolled_back += 1;
                        self.end(id, State::RolledBack);
                        if let (true, [only]) = (is_open, &lacking[..]) {
                            self.recorded(id, only);
                        }
                        is_possible
                    }
                };
                ensure!(is_possible, "wrong status of the keys of transaction {id}");
                Ok(())
            }
            Verb::Resolve => {
                let commit = match txn.state {
                    State::Open => return Ok(()),
                    State::Committed(at) => Some(at),
                    State::RolledBack => None,
                };
                let ended = calls.resolve_lock(start, commit, None);
                ended.doing("resolving")?;
                self.rolled_back += txn.order.len();
                let ended = txn.locked.clone();
                // A crash may have taken the locks of one in doubt.
                if commit.is_none() && !txn.is_doubtful {
                    ended.iter().for_each(|key| self.recorded(id, key));
                }
                self.unlock(id);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Another actor asks for the status of a client's transaction.
    pub(super) fn check_status(&mut self, id: u32, at: At, expired: bool) -> Checked<()> {
        let Some(reader) = self.at(at) else {
            return Ok(());
        };
        let now = match expired {
            true => Timestamp::MAX,
            false => self.timestamp()?,
        };
        let Some(txn) = self.txns.get(&id) else {
            return Ok(());
        };
        let is_client = txn.is_of_client();
        let Some(primary) = txn.order.first().filter(|_| is_client) else {
            return Ok(());
        };
        let calls = self.store.percolator();
        let status = calls.check_transaction_status(primary, txn.start, reader, now, true);
        if self.safe_point >= txn.start {
            return Ok(());
        }
        // By this call, the time to live counts from the start, by the time of day.
        let has_lock = txn.locked.contains(primary);
        let may_end = !has_lock
            || (txn.kind == Kind::Client
                && (expired || now.unix_time() > txn.start.unix_time() + LOCK_TTL))
            || txn.may_have_expired(self.clock.monotonic());
        let is_possible = match (status.doing("a status")?, txn.state) {
            (TransactionStatus::Running { .. }, State::Open) => has_lock,
            (TransactionStatus::Running { .. }, State::Committed(_)) => txn.kind == Kind::Async,
            (TransactionStatus::Running { .. }, State::RolledBack) => {
                !txn.records.contains(primary)
            }
            (TransactionStatus::Committed(at), state) => state == State::Committed(at),
            (TransactionStatus::RolledBack, State::Committed(_)) => false,
            (TransactionStatus::RolledBack, state) => {
                let primary = primary.clone();
                self.rolled_back += 1;
                self.end(id, State::RolledBack);
                self.recorded(id, &primary);
                state == State::RolledBack || may_end
            }
        };
        ensure!(is_possible, "wrong status of transaction {id}");
        Ok(())
    }
}
