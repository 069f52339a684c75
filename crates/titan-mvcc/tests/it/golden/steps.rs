//! Steps on a store: calls of Percolator transactions, transactions of the store, reads, time.
//!
//! `T` is the start timestamp of a transaction, `C` a commit timestamp, `X` the name of a
//! transaction of the store, `W` a write (`words`). Names in place of timestamps are given by `ts`
//! or `as`.
//!
//! - `ts NAME...`: takes timestamps from the oracle.
//! - `prewrite T W... [primary:K async:K,K for_update:T ttl:S read_at:T min_commit:T]`: the first
//!   key is the primary one.
//! - `check_status`, `get`, `list`, `destroy` and more options: the calls of clients (`requests`).
//! - `commit T C K...`, `rollback T K...`, `cleanup T K [now:T]`: the calls of these names.
//! - `lock T K... for_update:T [primary:K since:T wait:S ttl:S values]`: takes pessimistic locks;
//!   `unlock T K... for_update:T` releases them, `unlock_range T FROM TO for_update:T` those of a
//!   range, up to the end for `-`.
//! - `status T K [reader:T now:T or_roll_back]`, `secondaries T K...`, `heartbeat T K ttl:S`.
//! - `resolve T [C] [K...]`: ends the locks of a transaction; `-` in place of `C` rolls back.
//! - `txn W...`: runs an optimistic transaction of the store.
//! - `begin X [pessimistic]`, `write X W...`, `see X [K]`, `get_for_update X K`, `end X`, `drop X`,
//!   `abandon X`, `beat X` (a heartbeat): the steps of a transaction of the store.
//! - `prewrite_own X`, `commit_primary X`, `commit_secondaries X`: the phases of its commit.
//! - `read K [at:T]`, `scan [at:T backward]`, `versions K`, `locks [until:T from:K limit:N]`.
//! - `safe_point T`, `flush`, `drop_old`, `advance S`, `reopen`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use titan::SystemClock;
use titan_mvcc::{
    CommittedTransaction, Direction, Error, Mutation, Percolator, PessimisticTransaction,
    PrewrittenTransaction, Result, Snapshot, Store, Timestamp, Transaction,
};
use titan_testkit::clock::SimClock;

use super::answers;
use super::names::Names;
use super::words::{Words, list, mutation, seconds};
use crate::setup::Place;

/// Time to live of locks without an option.
pub(super) const TTL: Duration = Duration::from_secs(1000);

/// A transaction of the store between two steps.
enum Open {
    Optimistic(Transaction),
    Pessimistic(PessimisticTransaction),
    Prewritten(PrewrittenTransaction),
    Committed(CommittedTransaction),
}

/// A store, and the transactions and timestamps of a text.
pub(super) struct World {
    place: Place,
    clock: SimClock,
    store: Option<Store>,
    pub(super) names: Names,
    open: BTreeMap<String, Open>,
    /// Each read at a timestamp, with its result.
    reads: BTreeMap<(Timestamp, Read), String>,
}

/// A read that can be repeated.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Read {
    Get(String),
    Scan { is_backward: bool },
}

impl Read {
    fn result(&self, snapshot: &Snapshot) -> Result<String> {
        match self {
            Read::Get(key) => Ok(answers::value(snapshot.get(key.as_bytes())?)),
            Read::Scan { is_backward } => {
                let direction = match is_backward {
                    true => Direction::Backward,
                    false => Direction::Forward,
                };
                answers::rows(snapshot.scan(None, None, direction)?)
            }
        }
    }
}

impl Default for World {
    fn default() -> Self {
        World::new("")
    }
}

impl World {
    pub(super) fn new(settings: &str) -> Self {
        let mut place = Place::new(1);
        let options = &mut place.options.transactions;
        options.lock_ttl = TTL;
        for setting in settings.split_whitespace() {
            match setting.split_once(':').unwrap_or((setting, "")) {
                ("two-phases", _) => options.one_batch_bytes = 0,
                ("no-async", _) => options.async_commit = false,
                ("wait", time) => options.lock_wait = seconds(time),
                _ => panic!("unknown setting: {setting}"),
            }
        }
        // Threads of the engine wait in real time, so that the time in a text does not depend on
        // them.
        let test = std::thread::current().id();
        let clock = place
            .clock
            .with_waits(move |_| std::thread::current().id() == test);
        place.options.db.clock = Arc::new(clock.clone());
        let store = Some(place.open());
        World {
            place,
            clock,
            store,
            names: Names::default(),
            open: BTreeMap::new(),
            reads: BTreeMap::new(),
        }
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    pub(super) fn calls(&self) -> Percolator {
        self.store().percolator()
    }

    /// Takes a step. Returns its result, and the time that it took by the simulated clock.
    pub(super) fn step(&mut self, line: &str) -> String {
        let words = Words::of(line);
        let begun = self.clock.monotonic();
        let mut result = match self.perform(&words) {
            Ok(result) => result,
            Err(e) => answers::failure(&e, &mut self.names),
        };
        let passed = self.clock.monotonic() - begun;
        if passed > Duration::ZERO && words.command != "advance" {
            result += &format!(" (after {} ms)", passed.as_millis());
        }
        self.skip().unwrap();
        result
    }

    /// Takes a timestamp, and the next one, so that a text can tell a timestamp from a bound that
    /// is one after it.
    fn skip(&self) -> Result<Timestamp> {
        let at = self.store().oracle().next()?;
        self.store().oracle().next()?;
        Ok(at)
    }

    /// Checks every entry of the store, and repeats every read.
    pub(super) fn check(&self) {
        let report = self.store().check(&mut |_| {}).unwrap();
        assert_eq!(report.problems, [], "{report:?}");
        for ((at, read), expected) in &self.reads {
            let again = match self.store().snapshot_at(*at) {
                Ok(snapshot) => read.result(&snapshot).unwrap(),
                Err(Error::BeforeSafePoint { .. }) => continue,
                Err(e) => panic!("{e}"),
            };
            assert_eq!(again, *expected, "{read:?} at {at} has changed");
        }
    }

    fn perform(&mut self, words: &Words<'_>) -> Result<String> {
        let done = || Ok("ok".to_owned());
        match words.command {
            "ts" => {
                for name in &words.arguments {
                    let at = self.skip()?;
                    self.names.give(name, at);
                }
                done()
            }
            "advance" => {
                self.clock.advance(seconds(words.first()));
                done()
            }
            "reopen" => {
                self.open.clear();
                let store = self.store.take().unwrap();
                store.close()?;
                drop(store);
                self.store = Some(self.place.open());
                done()
            }
            "safe_point" => {
                let at = self.store().advance_safe_point(self.at(words.first()))?;
                Ok(self.names.show(at))
            }
            "flush" => {
                self.store().db().flush_all()?;
                done()
            }
            "drop_old" => {
                self.store().db().flush_all()?;
                self.store().drop_old_versions()?;
                done()
            }
            "read" | "scan" | "versions" | "locks" => self.look(words),
            "txn" | "begin" | "write" | "see" | "get_for_update" | "end" | "drop" | "abandon"
            | "beat" | "prewrite_own" | "commit_primary" | "commit_secondaries" => self.own(words),
            "get" | "list" => self.read_as_client(words),
            "destroy" => {
                let (from, to) = range(&words.arguments);
                self.calls().destroy_range(from, to)?;
                // Snapshots have lost the range.
                self.reads.clear();
                done()
            }
            _ => self.call(words),
        }
    }

    pub(super) fn at(&self, name: &str) -> Timestamp {
        self.names.get(name)
    }

    pub(super) fn option_at(&self, words: &Words<'_>, name: &str) -> Option<Timestamp> {
        words.option(name).map(|name| self.at(name))
    }

    /// The timestamp of a result, which gets the name that the step has for it.
    pub(super) fn named(&mut self, words: &Words<'_>, at: Timestamp) -> String {
        if let Some(name) = words.result {
            self.names.give(name, at);
        }
        self.names.show(at)
    }

    /// A call of a Percolator transaction.
    fn call(&mut self, words: &Words<'_>) -> Result<String> {
        let (calls, start) = (self.calls(), self.at(words.first()));
        let keys = |n: usize| -> Vec<&[u8]> {
            let keys = words.rest(n).iter();
            keys.map(|key| key.as_bytes()).collect()
        };
        let done = || Ok("ok".to_owned());
        match words.command {
            "prewrite" => self.prewrite(words, start),
            "commit" => {
                let commit = self.at(words.arguments[1]);
                calls.commit(&keys(2), start, commit)?;
                done()
            }
            "rollback" => {
                calls.batch_rollback(&keys(1), start)?;
                done()
            }
            "cleanup" => {
                let now = self.now(words)?;
                calls.cleanup(keys(1)[0], start, now)?;
                done()
            }
            "lock" => self.lock(words, start, &keys(1)),
            "unlock" => {
                let for_update = self.option_at(words, "for_update").unwrap();
                calls.pessimistic_rollback(&keys(1), start, for_update)?;
                done()
            }
            "unlock_range" => {
                let for_update = self.option_at(words, "for_update").unwrap();
                let (from, to) = range(&words.arguments[1..]);
                calls.pessimistic_rollback_range(start, for_update, from, to)?;
                done()
            }
            "status" => {
                let now = self.now(words)?;
                let reader = self.option_at(words, "reader").unwrap_or(Timestamp::ZERO);
                let rolls_back = words.option("or_roll_back").is_some();
                let primary = keys(1)[0];
                let status =
                    calls.check_transaction_status(primary, start, reader, now, rolls_back)?;
                Ok(answers::status(&status, &mut self.names))
            }
            "check_status" => self.check_status(words, start),
            "secondaries" => {
                let status = calls.check_secondary_locks(&keys(1), start)?;
                Ok(answers::secondaries(&status, &mut self.names))
            }
            "heartbeat" => {
                let ttl = words.seconds("ttl").unwrap();
                let ttl = calls.heartbeat(keys(1)[0], start, ttl)?;
                Ok(format!("{} s", ttl.as_secs()))
            }
            "resolve" => {
                let commit = words.arguments.get(1).filter(|word| **word != "-");
                let commit = commit.map(|name| self.at(name));
                let keys = words.rest(2.min(words.arguments.len()));
                let keys: Vec<_> = keys.iter().flat_map(|key| list(key)).collect();
                let keys = (!keys.is_empty()).then_some(&keys[..]);
                let ended = calls.resolve_lock(start, commit, keys)?;
                Ok(format!("{ended} locks"))
            }
            other => panic!("unknown step: {other}"),
        }
    }

    /// The timestamp of the option `now`, or of the present.
    pub(super) fn now(&self, words: &Words<'_>) -> Result<Timestamp> {
        match words.option("now") {
            Some(name) => Ok(self.at(name)),
            None => self.store().oracle().next(),
        }
    }

    /// A step of a transaction of the store.
    fn own(&mut self, words: &Words<'_>) -> Result<String> {
        let done = || Ok("ok".to_owned());
        if words.command == "txn" {
            let mut transaction = self.store().begin();
            for word in &words.arguments {
                write(&mut transaction, mutation(word));
            }
            let at = transaction.commit()?;
            return Ok(format!("committed at {}", self.named(words, at)));
        }
        let name = words.first();
        if words.command == "begin" {
            let open = match words.option("pessimistic") {
                Some(_) => Open::Pessimistic(self.store().begin_pessimistic()?),
                None => Open::Optimistic(self.store().begin()),
            };
            let start = match &open {
                Open::Pessimistic(transaction) => transaction.start(),
                Open::Optimistic(transaction) => transaction.start(),
                Open::Prewritten(_) | Open::Committed(_) => unreachable!(),
            };
            self.open.insert(name.to_owned(), open);
            return Ok(self.named(words, start));
        }
        let Some(open) = self.open.remove(name) else {
            return Ok("it has failed before".to_owned());
        };
        match (words.command, open) {
            ("write", Open::Optimistic(mut transaction)) => {
                for word in words.rest(1) {
                    write(&mut transaction, mutation(word));
                }
                let open = Open::Optimistic(transaction);
                self.open.insert(name.to_owned(), open);
                done()
            }
            ("write", Open::Pessimistic(mut transaction)) => {
                let mut written = Ok(());
                for word in words.rest(1) {
                    written = written.and(match mutation(word) {
                        Mutation::Put { key, value } => transaction.put(key, value),
                        Mutation::Delete { key } => transaction.delete(key),
                        Mutation::Lock { key } => transaction.lock(key),
                    });
                }
                let open = Open::Pessimistic(transaction);
                self.open.insert(name.to_owned(), open);
                written?;
                done()
            }
            ("see", Open::Optimistic(transaction)) => {
                let seen = match words.arguments.get(1) {
                    Some(key) => answers::value(transaction.get(key.as_bytes())?),
                    None => {
                        let scan = transaction.scan(None, None, Direction::Forward)?;
                        answers::rows(scan)?
                    }
                };
                let open = Open::Optimistic(transaction);
                self.open.insert(name.to_owned(), open);
                Ok(seen)
            }
            ("see", Open::Pessimistic(transaction)) => {
                let seen = transaction.get(words.arguments[1].as_bytes());
                let open = Open::Pessimistic(transaction);
                self.open.insert(name.to_owned(), open);
                Ok(answers::value(seen?))
            }
            ("beat", Open::Pessimistic(mut transaction)) => {
                let beaten = transaction.heartbeat();
                let open = Open::Pessimistic(transaction);
                self.open.insert(name.to_owned(), open);
                beaten?;
                done()
            }
            ("get_for_update", Open::Pessimistic(mut transaction)) => {
                let found = transaction.get_for_update(words.arguments[1].as_bytes());
                let open = Open::Pessimistic(transaction);
                self.open.insert(name.to_owned(), open);
                Ok(answers::value(found?))
            }
            ("end", open) => {
                let at = match open {
                    Open::Optimistic(transaction) => transaction.commit()?,
                    Open::Pessimistic(transaction) => transaction.commit()?,
                    Open::Prewritten(transaction) => transaction.commit()?,
                    Open::Committed(transaction) => transaction.commit_secondaries(),
                };
                Ok(format!("committed at {}", self.named(words, at)))
            }
            ("prewrite_own", Open::Optimistic(transaction)) => {
                let prewritten = transaction.prewrite()?;
                let start = self.named(words, prewritten.start());
                let committed = prewritten.committed();
                self.open
                    .insert(name.to_owned(), Open::Prewritten(prewritten));
                Ok(match committed {
                    Some(at) => format!("{start}, committed at {}", self.names.show(at)),
                    None => start,
                })
            }
            ("commit_primary", Open::Prewritten(transaction)) => {
                let committed = transaction.commit_primary()?;
                let at = committed.timestamp();
                self.open
                    .insert(name.to_owned(), Open::Committed(committed));
                Ok(format!("committed at {}", self.named(words, at)))
            }
            ("commit_secondaries", Open::Committed(transaction)) => {
                transaction.commit_secondaries();
                done()
            }
            ("abandon", Open::Pessimistic(transaction)) => {
                transaction.abandon();
                done()
            }
            ("drop", open) => {
                drop(open);
                done()
            }
            (step, _) => panic!("{name} cannot {step} now"),
        }
    }

    /// A read at the option `at`, or at the present.
    fn read(&mut self, words: &Words<'_>, read: Read) -> Result<String> {
        let snapshot = match self.option_at(words, "at") {
            Some(at) => self.store().snapshot_at(at)?,
            None => self.store().snapshot(),
        };
        let found = read.result(&snapshot)?;
        let at = snapshot.timestamp();
        let before = self.reads.get(&(at, read.clone()));
        assert!(
            before.is_none_or(|before| *before == found),
            "{read:?} at {at}: {before:?}, and then {found}"
        );
        self.reads.insert((at, read), found.clone());
        Ok(found)
    }

    /// A step that only looks.
    fn look(&mut self, words: &Words<'_>) -> Result<String> {
        match words.command {
            "read" => self.read(words, Read::Get(words.first().to_owned())),
            "scan" => {
                let is_backward = words.option("backward").is_some();
                self.read(words, Read::Scan { is_backward })
            }
            "versions" => {
                let versions = self.store().versions(words.first().as_bytes())?;
                let versions = versions.collect::<Result<Vec<_>>>()?;
                let lines = versions
                    .iter()
                    .map(|version| answers::version(version, &mut self.names));
                Ok(answers::all(lines.collect()))
            }
            _ => {
                let until = self.option_at(words, "until").unwrap_or(Timestamp::MAX);
                let from = words.option("from").unwrap_or_default().as_bytes();
                let limit = words.option("limit").map(|n| n.parse().unwrap());
                let locks = self
                    .calls()
                    .scan_locks(until, from, limit.unwrap_or(usize::MAX));
                let lines = locks
                    .iter()
                    .map(|lock| answers::lock(lock, &mut self.names));
                Ok(answers::all(lines.collect()))
            }
        }
    }
}

/// The range of two arguments; `-` is the end.
fn range<'a>(arguments: &[&'a str]) -> (&'a [u8], Option<&'a [u8]>) {
    let to = arguments[1].as_bytes();
    (arguments[0].as_bytes(), (to != b"-").then_some(to))
}

fn write(transaction: &mut Transaction, mutation: Mutation<'_>) {
    match mutation {
        Mutation::Put { key, value } => transaction.put(key, value),
        Mutation::Delete { key } => transaction.delete(key),
        Mutation::Lock { key } => transaction.lock(key),
    }
}
