//! Calls that wait for a lock of another transaction.
//!
//! Such a call runs in a thread of its own, and the history goes on once it blocks. After each
//! operation the history looks which of the locks are gone, and waits for those calls to end. So a
//! history has one order, and no wait takes real time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use titan::SystemClock;
use titan_mvcc::{
    Error, PessimisticLock, PessimisticTransaction, PrewrittenTransaction, Timestamp, Transaction,
    Wait,
};
use titan_testkit::failure::{CheckFailure, Checked, Doing, ensure};
use titan_testkit::versions::Write;

use super::clock::HistoryClock;
use super::transactions::Handle;
use super::world::{LOCK_TTL, World};

/// The longest wait for a lock, by the clock of the history.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(8);
/// A call that could go on and does not for so long was not woken.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same once that has happened, so that a list of it is reduced in reasonable time.
const LESS_PATIENCE: Duration = Duration::from_secs(2);
/// No transaction of a history has this key.
const WAKING: &[u8] = b"\xfe wake";

/// A call that may wait.
pub(super) enum Call {
    Commit(Transaction),
    CommitPessimistic(Box<PessimisticTransaction>),
    /// A write of a key, or a read for update.
    Write(Box<PessimisticTransaction>, Vec<u8>, Write, bool),
}

/// The result of a call.
pub(super) enum Done {
    Committed(Result<Timestamp, Error>),
    Prewritten(Result<PrewrittenTransaction, Error>),
    /// With the value, if it was read for update.
    Wrote(
        Box<PessimisticTransaction>,
        Vec<u8>,
        Write,
        Result<Option<Option<Bytes>>, Error>,
    ),
}

impl Call {
    pub(super) fn run(self) -> Done {
        match self {
            Call::Commit(it) => Done::Committed(it.commit()),
            Call::CommitPessimistic(it) => Done::Committed(it.commit()),
            Call::Write(mut it, key, write, true) => {
                let read = it.get_for_update(&key);
                Done::Wrote(it, key, write, read.map(Some))
            }
            Call::Write(mut it, key, write, false) => {
                let done = match &write {
                    Write::Set(Some(value)) => it.put(&key, value),
                    Write::Set(None) => it.delete(&key),
                    Write::Lock => it.lock(&key),
                };
                Done::Wrote(it, key, write, done.map(|()| None))
            }
        }
    }
}

enum Event {
    /// It blocks until this deadline; told at this time.
    Blocked {
        until: Duration,
        told: Duration,
    },
    Done(Box<Done>),
}

/// A call that waits.
pub(super) struct Waiter {
    /// The start of its transaction.
    start: Timestamp,
    /// Its keys. No other transaction gets them meanwhile.
    keys: Vec<Vec<u8>>,
    /// The locked key, and the start of the transaction that has it.
    key: Vec<u8>,
    holder: Timestamp,
    /// When it goes on in any case.
    until: Duration,
    events: Receiver<Event>,
    thread: JoinHandle<()>,
}

impl Waiter {
    /// Its next event; none if there is none for long, or the thread has ended without a result.
    fn event(&self) -> Option<Event> {
        static WAITED_IN_VAIN: AtomicBool = AtomicBool::new(false);
        let patience = match WAITED_IN_VAIN.load(Ordering::Relaxed) {
            true => LESS_PATIENCE,
            false => PATIENCE,
        };
        let event = self.events.recv_timeout(patience);
        if event.is_err() {
            WAITED_IN_VAIN.store(true, Ordering::Relaxed);
        }
        event.ok()
    }

    /// Waits until the call ends and its thread with it. Returns false if it waits on.
    fn end(self) -> bool {
        let ended = loop {
            match self.event() {
                Some(Event::Done(done)) => break Some(done),
                Some(Event::Blocked { .. }) => {}
                None => break None,
            }
        };
        // Another thread that is gone has panicked, which is another failure.
        match ended.is_some() || self.thread.is_finished() {
            true => drop(self.thread.join()),
            false => return false,
        }
        ended.is_some()
    }
}

impl World {
    /// Whether another transaction has locked one of these keys, and may still commit.
    pub(super) fn is_blocked(&self, id: u32, keys: &[Vec<u8>]) -> bool {
        self.holders(id, keys).next().is_some()
    }

    fn holders<'a>(
        &'a self,
        id: u32,
        keys: &'a [Vec<u8>],
    ) -> impl Iterator<Item = (Timestamp, Vec<u8>)> + 'a {
        let start = self.txns.get(&id).map(|txn| txn.start);
        keys.iter().filter_map(move |key| {
            let locks = self.store.percolator().scan_locks(Timestamp::MAX, key, 1);
            let lock = locks.into_iter().find(|lock| *lock.key == **key)?;
            (Some(lock.start) != start).then(|| (lock.start, key.clone()))
        })
    }

    /// Whether a call with these keys has one order with those that wait: it waits for at most one
    /// key, and no other call waits that has one of them.
    pub(super) fn can_call(&self, id: u32, keys: &[Vec<u8>]) -> bool {
        !self.configuration.waits
            || (!self.is_waited_for(keys) && self.holders(id, keys).count() <= 1)
    }

    /// Whether a call waits that has one of these keys.
    pub(super) fn is_waited_for(&self, keys: &[Vec<u8>]) -> bool {
        let mut waiters = self.waiters.values();
        waiters.any(|it| it.keys.iter().any(|key| keys.contains(key)))
    }

    /// Whether the transaction of this start waits.
    pub(super) fn waits(&self, start: Timestamp) -> bool {
        self.waiters.values().any(|it| it.start == start)
    }

    /// Makes a call, which may go on while the history does.
    pub(super) fn call(&mut self, id: u32, keys: &[Vec<u8>], call: Call) -> Checked<()> {
        let holder = match self.configuration.waits {
            true => self.holders(id, keys).next(),
            false => None,
        };
        let Some((holder, key)) = holder else {
            let (done, early) = self.run_beside_reads(call, keys)?;
            self.done(id, done)?;
            return early.iter().try_for_each(|early| self.check_early(early));
        };
        let (sender, events) = channel();
        let clock = self.clock.clone();
        let job = move || {
            let blocked = sender.clone();
            HistoryClock::tell(Box::new(move |until| {
                let told = clock.monotonic();
                // Once the history is over, nobody listens.
                drop(blocked.send(Event::Blocked { until, told }));
            }));
            drop(sender.send(Event::Done(Box::new(call.run()))));
        };
        let thread = thread::Builder::new().spawn(job).doing("a thread")?;
        self.put_back(id, Handle::Waiting)?;
        let start = self.txns.get(&id).map_or(Timestamp::ZERO, |txn| txn.start);
        let waiter = Waiter {
            start,
            keys: keys.to_vec(),
            key,
            holder,
            until: Duration::ZERO,
            events,
            thread,
        };
        self.waiters.insert(id, waiter);
        self.seen.waits += 1;
        match self.hear(id, Duration::ZERO)? {
            Some(done) => self.done(id, done),
            None => Ok(()),
        }
    }

    /// Waits until a call blocks after this time, or ends. Returns its result.
    fn hear(&mut self, id: u32, since: Duration) -> Checked<Option<Done>> {
        loop {
            let Some(waiter) = self.waiters.get_mut(&id) else {
                return Ok(None);
            };
            let event = waiter.event();
            let key = waiter.key.escape_ascii().to_string();
            match event {
                Some(Event::Blocked { until, told }) if told >= since => {
                    waiter.until = until;
                    self.has_no_circle(id)?;
                    return Ok(None);
                }
                Some(Event::Blocked { .. }) => {}
                Some(Event::Done(done)) => {
                    if let Some(ended) = self.waiters.remove(&id) {
                        drop(ended.thread.join());
                    }
                    // If it has ended, it holds the safe point no longer.
                    self.put_back(id, Handle::Gone)?;
                    return Ok(Some(*done));
                }
                None => {
                    return Err(CheckFailure::wrong(format!(
                        "transaction {id} waits on for the lock of {key}"
                    )));
                }
            }
        }
    }

    /// A transaction that waits is in no circle of them.
    fn has_no_circle(&self, id: u32) -> Checked<()> {
        let Some(first) = self.waiters.get(&id) else {
            return Ok(());
        };
        let mut at = first;
        for _ in 0..self.waiters.len() {
            ensure!(
                at.holder != first.start,
                "transaction {id} waits in a circle"
            );
            match self.waiters.values().find(|next| next.start == at.holder) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Lets the calls end whose locks are gone or whose time is over. Calls that end together count
    /// in the order of their commits.
    pub(super) fn settle_waiters(&mut self) -> Checked<()> {
        let mut ended = Vec::new();
        let ids: Vec<u32> = self.waiters.keys().copied().collect();
        for id in ids {
            let Some(waiter) = self.waiters.get(&id) else {
                continue;
            };
            let now = self.clock.monotonic();
            let key = [waiter.key.clone()];
            let holder = self.holders(id, &key).next().map(|(start, _)| start);
            if holder != Some(waiter.holder) {
                // It was woken, and nobody else can take the key.
                ended.extend(self.hear(id, Duration::MAX)?.map(|done| (id, done)));
            } else if now >= waiter.until {
                self.wake()?;
                ended.extend(self.hear(id, now)?.map(|done| (id, done)));
            }
        }
        ended.sort_by_key(|(_, done)| match done {
            Done::Committed(Ok(at)) => *at,
            _ => Timestamp::MAX,
        });
        for (id, done) in ended {
            self.done(id, done)?;
        }
        Ok(())
    }

    /// Wakes all calls that wait, so that they look at the clock: a lock ends.
    fn wake(&self) -> Checked<()> {
        let start = self.timestamp()?;
        let request = PessimisticLock {
            primary: WAKING,
            start,
            for_update: start,
            since: start,
            ttl: LOCK_TTL,
            wait: Wait::No,
            return_values: false,
        };
        let calls = self.store.percolator();
        let locked = calls.pessimistic_lock(&[WAKING], &request);
        locked.doing("a lock to wake")?;
        let released = calls.pessimistic_rollback(&[WAKING], start, start);
        released.doing("its release")
    }

    /// All calls end: the store was closed.
    pub(super) fn end_waiters(&mut self) -> Checked<()> {
        for (id, waiter) in std::mem::take(&mut self.waiters) {
            ensure!(waiter.end(), "transaction {id} waits on in a closed store");
        }
        Ok(())
    }
}

/// No thread stays when a history fails.
impl Drop for World {
    fn drop(&mut self) {
        if !self.waiters.is_empty() {
            // Its result does not matter: the history has failed already.
            drop(self.store.close());
            drop(self.end_waiters());
        }
    }
}

#[cfg(test)]
mod tests {
    use titan_testkit::ops::Ops;
    use titan_testkit::versions::Op;

    use crate::case::Judge;
    use crate::mvcc::configurations::Configuration;
    use crate::mvcc::world::World;

    /// The clock of a history has an owner in each thread that waits.
    #[test]
    fn a_history_that_ends_early_leaves_no_thread() {
        let mut all = Configuration::all().into_iter();
        let of = all.find(|of| of.name == "pessimistic, waits").unwrap();
        let list = "begin 1 pessimistic\nput 1 k 7*3\nbegin 2 pessimistic\nput 2 k 8*3";
        let list: Ops<Op> = list.parse().unwrap();
        let mut world = World::new(of).unwrap();
        list.0.iter().for_each(|op| world.step(op).unwrap());
        assert_eq!(world.waiters.len(), 1);
        let clock = world.clock.clone();
        drop(world);
        assert_eq!(clock.owners(), 1);
    }
}
