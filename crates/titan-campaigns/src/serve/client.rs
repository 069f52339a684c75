//! A client, which runs random transactions until the round is over.

use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use titan_server::proto::kvrpcpb::write_conflict::Reason;
use titan_server::proto::kvrpcpb::{
    GetRequest, LockInfo, Mutation, Op, PessimisticLockRequest, ScanLockRequest, ScanRequest,
    SplitRegionRequest, TxnHeartBeatRequest,
};
use titan_server::proto::pdpb::UpdateGcSafePointRequest;
use titan_testkit::failure::{CheckFailure, Checked};
use titan_testkit::versions::isolation::{Change, Changes, Content};
use tonic::Request;

use super::connection::{Called, Connection, Trouble, key, number, wrong};
use super::resolve::{Fate, Question, later};
use super::shared::{Pending, Shared};

const KEYS: u8 = 24;
/// Attempts to pass a lock, with a millisecond between them.
const ATTEMPTS: u32 = 30_000;
/// A time after which every lock has expired.
const FOREVER: u64 = 1 << 36;

pub(super) struct Client<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) connection: Connection<'a>,
    pub(super) rng: Rng,
    number: usize,
    /// The newest timestamp that it has seen.
    now: u64,
}

/// A transaction that has written nothing yet.
pub(super) struct Transaction {
    pub(super) start: u64,
    pub(super) ttl: u64,
    /// The newest timestamp at which it locked a key, or 0 for an optimistic one.
    pub(super) for_update: u64,
    pub(super) locked: Vec<u8>,
    pub(super) changes: Changes,
    /// Keys that must not be there.
    pub(super) inserts: Vec<u8>,
}

impl<'a> Client<'a> {
    pub(super) fn new(shared: &'a Shared<'a>, seed: u64, number: u64) -> Checked<Self> {
        Ok(Client {
            shared,
            connection: Connection::new(shared.node)?,
            rng: Rng::with_seed(seed),
            number: usize::try_from(number).unwrap_or(0),
            now: 0,
        })
    }

    /// Runs transactions until the round is over.
    pub(super) fn run(&mut self) {
        while !self.shared.is_over() {
            match self.transaction() {
                // A broken connection is the end of a transaction, as a dead client is.
                Ok(()) | Err(Trouble::Lost) => self.shared.count(),
                Err(Trouble::Failed(e)) => return self.shared.fail(e),
            }
        }
        self.shared.floors[self.number].store(u64::MAX, Ordering::SeqCst);
    }

    fn transaction(&mut self) -> Called<()> {
        self.shared.floors[self.number].store(self.now, Ordering::SeqCst);
        match self.rng.u32(..200) {
            0 => self.advance_safe_point(),
            1 => self.split(),
            2..30 => self.look(),
            30..100 => self.pessimistic(),
            _ => self.optimistic(),
        }
    }

    /// A new timestamp, not before the last acknowledged commit.
    pub(super) fn timestamp(&mut self) -> Called<u64> {
        let acknowledged = self.shared.history.last_acknowledged();
        let at = self.connection.timestamp()?;
        if at < acknowledged || at <= self.now {
            let text = format!("{at} after {} and a commit at {acknowledged}", self.now);
            return wrong(text);
        }
        self.now = at;
        Ok(at)
    }

    /// The time by which a client judges that a lock has expired. Some clocks are ahead.
    fn clock(&mut self) -> Called<u64> {
        let now = self.timestamp()?;
        Ok(match self.rng.u32(..20) {
            0 => later(now, 1_000),
            _ => now,
        })
    }

    /// Reads all keys.
    fn look(&mut self) -> Called<()> {
        let at = self.timestamp()?;
        let backward = self.rng.bool();
        // The same for ever: it is compared with the same commits each time.
        for _ in 0..self.rng.u32(1..3) {
            match self.rng.bool() {
                true => self.scan(at, backward)?,
                false => (0..KEYS).try_for_each(|one| self.get(at, one).map(drop))?,
            }
        }
        Ok(())
    }

    /// Reads a key. Waits for locks, or ends them.
    pub(super) fn get(&mut self, at: u64, one: u8) -> Called<Content> {
        let mut passed = Vec::new();
        for _ in 0..ATTEMPTS {
            let answer = self.connection.persist(|own| {
                own.region_of(one, async |tikv, mut context| {
                    context.resolved_locks = passed.clone();
                    let request = GetRequest {
                        context: Some(context),
                        key: key(one),
                        version: at,
                    };
                    tikv.kv_get(Request::new(request)).await
                })
            })?;
            let Some(error) = answer.error else {
                let found = (!answer.not_found).then(|| content(&answer.value));
                let found = found.transpose()?;
                self.shared.history.read(at, one, found);
                return Ok(found);
            };
            let Some(lock) = error.locked else {
                return wrong(format!("a get: {error:?}"));
            };
            if self.pass(&lock, at)? == Fate::CommitsLater {
                passed.push(lock.lock_version);
            }
        }
        wrong(format!("key {one} is locked for ever"))
    }

    /// Deals with a lock that is in the way of a reader, or a writer whose timestamp is 0.
    pub(super) fn pass(&mut self, lock: &LockInfo, reader: u64) -> Called<Fate> {
        let now = self.clock()?;
        let fate = self.connection.end(lock, reader, now)?;
        if fate == Fate::Alive {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(fate)
    }

    fn scan(&mut self, at: u64, reverse: bool) -> Called<()> {
        let mut found = vec![None; usize::from(KEYS)];
        for one in 0..KEYS {
            // Each key by a scan of its own: the region of one is that of all its versions.
            let (from, to) = (key(one), key(one + 1));
            let (start_key, end_key) = match reverse {
                true => (to, from),
                false => (from, to),
            };
            for attempt in 0.. {
                let answer = self.connection.persist(|own| {
                    own.region_of(one, async |tikv, context| {
                        let request = ScanRequest {
                            context: Some(context),
                            start_key: start_key.clone(),
                            end_key: end_key.clone(),
                            limit: 10,
                            version: at,
                            reverse,
                            ..ScanRequest::default()
                        };
                        tikv.kv_scan(Request::new(request)).await
                    })
                })?;
                let pairs = answer.pairs.decoded();
                let pairs = pairs.map_err(|e| CheckFailure::wrong(e.to_string()))?;
                let errors = pairs.iter().filter_map(|pair| pair.error.as_deref());
                let error = answer.error.as_ref().or(errors.last());
                let Some(error) = error else {
                    for pair in &pairs {
                        found[usize::from(number(&pair.key)?)] = Some(content(&pair.value)?);
                    }
                    break;
                };
                match &error.locked {
                    Some(lock) if attempt < ATTEMPTS => drop(self.pass(lock, at)?),
                    _ => return wrong(format!("a scan: {error:?}")),
                }
            }
        }
        for (one, found) in (0..).zip(found) {
            self.shared.history.read(at, one, found);
        }
        Ok(())
    }

    /// A key, and the change of it.
    fn change(&mut self) -> (u8, Option<Content>) {
        let content = match self.rng.u32(..5) {
            0 => None,
            1 => Some(None),
            _ => Some(Some(self.shared.history.new_value())),
        };
        (self.rng.u8(..KEYS), content)
    }

    fn begin(&mut self) -> Called<Transaction> {
        Ok(Transaction {
            start: self.timestamp()?,
            ttl: self.rng.u64(20..400),
            for_update: 0,
            locked: Vec::new(),
            changes: Changes::new(),
            inserts: Vec::new(),
        })
    }

    fn optimistic(&mut self) -> Called<()> {
        let mut transaction = self.begin()?;
        let since = transaction.start;
        for _ in 0..self.rng.usize(1..5) {
            let (one, content) = self.change();
            let found = match self.rng.bool() {
                true => Some(self.get(since, one)?),
                false => None,
            };
            transaction.inserts.retain(|insert| *insert != one);
            // An insert of a key that was seen to be there would always fail.
            if matches!((content, found), (Some(Some(_)), None | Some(None)))
                && self.rng.u32(..6) == 0
            {
                transaction.inserts.push(one);
            }
            transaction.changes.insert(one, Change { since, content });
        }
        self.commit(transaction)
    }

    fn pessimistic(&mut self) -> Called<()> {
        let mut transaction = self.begin()?;
        for _ in 0..self.rng.usize(1..5) {
            let (one, content) = self.change();
            if !transaction.locked.contains(&one) && !self.lock(&mut transaction, one)? {
                return self.connection.release(
                    transaction.start,
                    transaction.for_update,
                    &transaction.locked,
                );
            }
            if let Some(change) = transaction.changes.get_mut(&one) {
                change.content = content.or(change.content);
            }
            if self.rng.u32(..30) == 0 {
                // It dies, and others wait for its locks.
                return Ok(());
            }
        }
        if self.rng.u32(..4) == 0 && !self.beat(&transaction)? {
            return Ok(());
        }
        self.commit(transaction)
    }

    /// Locks a key. Returns `false` if the transaction is to end.
    fn lock(&mut self, transaction: &mut Transaction, one: u8) -> Called<bool> {
        let primary = *transaction.locked.first().unwrap_or(&one);
        for _ in 0..ATTEMPTS {
            let for_update = self.timestamp()?;
            let wait_timeout = [-1, 5, 1000][self.rng.usize(..3)];
            let answer = self.connection.region_of(one, async |tikv, context| {
                let request = PessimisticLockRequest {
                    context: Some(context),
                    mutations: vec![Mutation {
                        op: Op::PessimisticLock.into(),
                        key: key(one),
                        ..Mutation::default()
                    }],
                    primary_lock: key(primary),
                    start_version: transaction.start,
                    lock_ttl: transaction.ttl,
                    for_update_ts: for_update,
                    is_first_lock: transaction.locked.is_empty(),
                    wait_timeout,
                    return_values: true,
                    min_commit_ts: for_update + 1,
                    ..PessimisticLockRequest::default()
                };
                tikv.kv_pessimistic_lock(Request::new(request)).await
            })?;
            let Some(error) = answer.errors.first() else {
                let (Some(value), Some(not_found)) =
                    (answer.values.first(), answer.not_founds.first())
                else {
                    return wrong("a lock without the value that was asked for");
                };
                let found = (!not_found).then(|| content(value)).transpose()?;
                self.shared.history.read(for_update, one, found);
                transaction.for_update = for_update;
                transaction.locked.push(one);
                let change = Change {
                    since: for_update,
                    content: None,
                };
                transaction.changes.insert(one, change);
                return Ok(true);
            };
            // For a lock that was taken before its answer got lost.
            transaction.for_update = transaction.for_update.max(for_update);
            if let Some(lock) = &error.locked {
                self.pass(lock, 0)?;
            } else if error.deadlock.is_some() {
                return Ok(false);
            } else if let Some(conflict) = &error.conflict {
                if conflict.reason() == Reason::SelfRolledBack {
                    return Ok(false);
                }
            } else if error.abort.is_empty() && error.retryable.is_empty() {
                return wrong(format!("a lock: {error:?}"));
            } else {
                return Ok(false);
            }
        }
        wrong(format!("key {one} is locked for ever"))
    }

    /// Prolongs the life of a transaction. Returns `false` if it was given up by others.
    fn beat(&mut self, transaction: &Transaction) -> Called<bool> {
        let Some(primary) = transaction.locked.first() else {
            return Ok(true);
        };
        let answer = self.connection.region_of(*primary, async |tikv, context| {
            let request = TxnHeartBeatRequest {
                context: Some(context),
                primary_lock: key(*primary),
                start_version: transaction.start,
                advise_lock_ttl: transaction.ttl + 200,
            };
            tikv.kv_txn_heart_beat(Request::new(request)).await
        })?;
        Ok(answer.error.is_none())
    }

    fn split(&mut self) -> Called<()> {
        let at = self.rng.u8(1..KEYS);
        let split = self.connection.region_of(at, async |tikv, context| {
            let request = SplitRegionRequest {
                context: Some(context),
                split_keys: vec![key(at)],
                ..SplitRegionRequest::default()
            };
            tikv.split_region(Request::new(request)).await
        });
        split.map(drop)
    }

    /// Moves the safe point behind all that the clients still use, when nothing older is locked or
    /// has an unknown fate.
    fn advance_safe_point(&mut self) -> Called<()> {
        let now = self.timestamp()?;
        let floors = self.shared.floors.iter();
        let floor = floors.map(|floor| floor.load(Ordering::SeqCst)).min();
        let safe_point = floor.unwrap_or(0).min(now).saturating_sub(1);
        if safe_point == 0 {
            return Ok(());
        }
        self.end_locks_before(safe_point, now)?;
        self.settle(safe_point)?;
        self.connection.persist(|own| {
            own.pd(async |pd, header| {
                let request = UpdateGcSafePointRequest { header, safe_point };
                pd.update_gc_safe_point(request).await
            })
        })?;
        Ok(())
    }

    /// Ends all locks of transactions that began up to a timestamp: their clients are gone.
    fn end_locks_before(&mut self, start: u64, now: u64) -> Called<()> {
        for one in 0..KEYS {
            loop {
                let answer = self.connection.persist(|own| {
                    own.region_of(one, async |tikv, context| {
                        let request = ScanLockRequest {
                            context: Some(context),
                            max_version: start,
                            start_key: key(one),
                            end_key: key(one + 1),
                            limit: 10,
                        };
                        tikv.kv_scan_lock(Request::new(request)).await
                    })
                })?;
                if let Some(error) = answer.error {
                    return wrong(format!("a scan of locks: {error:?}"));
                }
                let Some(lock) = answer.locks.first() else {
                    break;
                };
                self.connection.end(lock, 0, later(now, FOREVER))?;
            }
        }
        Ok(())
    }

    /// Finds the fates of transactions that began up to a timestamp.
    fn settle(&mut self, until: u64) -> Called<()> {
        let mut pending = self.shared.pending.lock();
        let old = pending.extract_if(.., |it| it.start <= until);
        let old: Vec<Pending> = old.collect();
        drop(pending);
        for it in old {
            let fate = self.connection.fate(Question {
                start: it.start,
                primary: it.primary,
                reader: 0,
                now: later(it.start, FOREVER),
                gives_up: true,
                is_pessimistic: false,
            })?;
            match fate {
                Fate::Committed(commit) => self.shared.history.committed(commit, it.changes),
                Fate::RolledBack => {}
                other => return wrong(format!("{}: {other:?} for ever", it.start)),
            }
        }
        Ok(())
    }

    /// Ends everything that is open, when no other client runs, and reads all.
    pub(super) fn end(&mut self) -> Checked<()> {
        let ended = (|| {
            let now = self.timestamp()?;
            self.end_locks_before(now, now)?;
            self.settle(u64::MAX)
        })();
        ended.map_err(failure)?;
        self.read_everything()
    }

    /// Reads all keys in both ways.
    pub(super) fn read_everything(&mut self) -> Checked<()> {
        let read = (|| {
            let at = self.timestamp()?;
            self.scan(at, false)?;
            self.scan(at, true)?;
            (0..KEYS).try_for_each(|one| self.get(at, one).map(drop))
        })();
        read.map_err(failure)
    }
}

fn failure(trouble: Trouble) -> CheckFailure {
    match trouble {
        Trouble::Lost => CheckFailure::wrong("the connection broke"),
        Trouble::Failed(e) => e,
    }
}

/// The number in a value.
fn content(value: &[u8]) -> Called<u64> {
    match value.first_chunk() {
        Some(number) => Ok(u64::from_be_bytes(*number)),
        None => wrong(format!("a value of {} bytes", value.len())),
    }
}
