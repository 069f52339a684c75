//! A store that fails, conflicts, hesitates or does not answer, as a test wants it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use rustix::io::Errno;
use tifs::kv::{Commit, Kv, MemoryKv, Pair, Reader, Scan, Space, Transaction};
use tifs::{Error, Result};
use titan_testkit::mix;

/// The message of a call that fails.
pub const FAILURE: &str = "the store fails";

/// A store in memory with moods.
#[derive(Default)]
pub struct FickleKv {
    kv: MemoryKv,
    calls: AtomicU64,
    /// The number of the call that fails, once; 0 for none.
    failing: AtomicU64,
    /// One in so many commits conflicts for no reason; 0 for none.
    conflicts: AtomicU64,
    /// Threads let others go first, now and then.
    yields: AtomicBool,
    gate: Gate,
    before_get: Mutex<Option<(u8, Hook)>>,
}

/// An event at some moment.
type Hook = Box<dyn FnOnce() + Send>;

/// Where commits wait.
#[derive(Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    closed: bool,
    waiting: usize,
}

impl FickleKv {
    /// The call after `skip` more fails.
    pub fn fail_after(&self, skip: u64) {
        let next = self.calls.load(Ordering::SeqCst) + 1 + skip;
        self.failing.store(next, Ordering::SeqCst);
    }

    /// From now on, no call fails. True if none has since the last call of `fail_after`.
    pub fn spare(&self) -> bool {
        self.failing.swap(0, Ordering::SeqCst) != 0
    }

    /// One in so many commits conflicts; 0 for none.
    pub fn conflict_one_in(&self, commits: u64) {
        self.conflicts.store(commits, Ordering::SeqCst);
    }

    /// From now on, threads let others go first at some calls.
    pub fn yield_now_and_then(&self) {
        self.yields.store(true, Ordering::SeqCst);
    }

    /// Before a key with this first byte is read for the first time, something happens.
    pub fn before_get(&self, first: u8, hook: impl FnOnce() + Send + 'static) {
        *self.before_get.lock() = Some((first, Box::new(hook)));
    }

    fn happens_before(&self, key: &[u8]) {
        let due = self
            .before_get
            .lock()
            .take_if(|(first, _)| key.first() == Some(first));
        if let Some((_, hook)) = due {
            hook();
        }
    }

    /// Commits do not return.
    pub fn stop_answering(&self) {
        self.gate.state.lock().closed = true;
    }

    /// Waits until a commit waits.
    pub fn await_commit(&self) {
        let mut state = self.gate.state.lock();
        while state.waiting == 0 {
            self.gate.changed.wait(&mut state);
        }
    }

    /// Commits return again.
    pub fn answer(&self) {
        self.gate.state.lock().closed = false;
        self.gate.changed.notify_all();
    }

    /// Each call of the store begins here.
    fn call(&self) -> Result<()> {
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        if self.yields.load(Ordering::Relaxed) && mix(1, call).is_multiple_of(3) {
            std::thread::yield_now();
        }
        let fails = self
            .failing
            .compare_exchange(call, 0, Ordering::SeqCst, Ordering::SeqCst);
        match fails {
            Ok(_) => Err(Error::new(Errno::IO, FAILURE)),
            Err(_) => Ok(()),
        }
    }

    fn conflicts(&self) -> bool {
        let one_in = self.conflicts.load(Ordering::SeqCst);
        one_in > 0 && mix(2, self.calls.load(Ordering::SeqCst)).is_multiple_of(one_in)
    }

    fn pass_gate(&self) {
        let mut state = self.gate.state.lock();
        state.waiting += 1;
        self.gate.changed.notify_all();
        while state.closed {
            self.gate.changed.wait(&mut state);
        }
        state.waiting -= 1;
    }
}

/// The same store for several owners.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<FickleKv>);

impl Kv for Shared {
    fn begin(&self) -> Result<Box<dyn Transaction + '_>> {
        self.0.call()?;
        let transaction = self.0.kv.begin()?;
        let store = &*self.0;
        Ok(Box::new(FickleTransaction { store, transaction }))
    }

    fn snapshot(&self) -> Result<Box<dyn Reader + '_>> {
        self.0.call()?;
        self.0.kv.snapshot()
    }

    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.0.call()?;
        self.0.happens_before(key);
        self.0.kv.get(space, key)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        self.0.call()?;
        self.0.kv.multi_get(space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.0.call()?;
        self.0.kv.scan(scan)
    }

    fn sync(&self) -> Result<()> {
        self.0.call()?;
        self.0.kv.sync()
    }

    fn close(&self) -> Result<()> {
        self.0.kv.close()
    }
}

struct FickleTransaction<'a> {
    store: &'a FickleKv,
    transaction: Box<dyn Transaction + 'a>,
}

impl Reader for FickleTransaction<'_> {
    fn get(&self, space: Space, key: &[u8]) -> Result<Option<Bytes>> {
        self.store.call()?;
        self.transaction.get(space, key)
    }

    fn multi_get(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<Bytes>>> {
        self.store.call()?;
        self.transaction.multi_get(space, keys)
    }

    fn value_lengths(&self, space: Space, keys: &[Vec<u8>]) -> Result<Vec<Option<usize>>> {
        self.store.call()?;
        self.transaction.value_lengths(space, keys)
    }

    fn scan(&self, scan: &Scan) -> Result<Vec<Pair>> {
        self.store.call()?;
        self.transaction.scan(scan)
    }
}

impl Transaction for FickleTransaction<'_> {
    fn put(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<()> {
        self.store.call()?;
        self.transaction.put(space, key, value)
    }

    fn delete(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.store.call()?;
        self.transaction.delete(space, key)
    }

    fn guard(&mut self, space: Space, key: &[u8]) -> Result<()> {
        self.store.call()?;
        self.transaction.guard(space, key)
    }

    fn commit(self: Box<Self>) -> Result<Commit> {
        self.store.call()?;
        self.store.pass_gate();
        if self.store.conflicts() {
            return Ok(Commit::Conflict);
        }
        self.transaction.commit()
    }
}
