//! The thread of a mount that renews its lease, and lets the cluster drop replaced values.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use tikv_client::{Timestamp, TransactionClient};
use titan::Process;

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::log;

/// The parts of a lease, and of the age of values that are dropped, between two times of work.
const PARTS: u32 = 3;

/// The thread. It ends when this is dropped.
pub(super) struct Upkeep {
    thread: Option<JoinHandle<()>>,
    end: Option<Sender<()>>,
    started_by: Process,
}

impl Upkeep {
    pub(super) fn start(store: &Arc<Shared>) -> Result<Upkeep> {
        let (end, ended) = channel();
        let store = Arc::clone(store);
        let thread = thread::Builder::new()
            .name("tifs-lease".to_owned())
            .spawn(move || work(&store, &ended))
            .map_err(|e| Error::new(Errno::AGAIN, format!("a thread for the lease: {e}")))?;
        Ok(Upkeep {
            thread: Some(thread),
            end: Some(end),
            started_by: Process::current(),
        })
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // A forked child does not have the thread, and its handle would name another one.
        if !self.started_by.is_current() {
            std::mem::forget(self.thread.take());
            return;
        }
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // Its work has no results.
            let _ = thread.join();
        }
    }
}

fn work(store: &Shared, ended: &Receiver<()>) {
    // A failure that lasts is said once.
    let mut said = String::new();
    let mut say = |done: Result<()>| match done {
        Ok(()) => said.clear(),
        Err(error) => {
            let text = error.to_string();
            if said != text {
                log::record(&text);
                said = text;
            }
        }
    };
    let mut dropped = Instant::now();
    let pause = store.url.lease / PARTS;
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        say(store.renew());
        if let Some(age) = store.url.gc.filter(|age| dropped.elapsed() >= *age / PARTS) {
            say(drop_replaced(store, age));
            dropped = Instant::now();
        }
    }
}

/// Lets the cluster drop values that were replaced before this time.
pub(super) fn drop_replaced(store: &Shared, age: Duration) -> Result<()> {
    let deadline = store.cluster.deadline();
    let now = store.cluster.timestamp(deadline)?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let safe_point = Timestamp {
        physical: now.physical.saturating_sub(age).max(0),
        ..now
    };
    // Another program may have moved it further.
    let moved = store
        .cluster
        .call(deadline, async |client: TransactionClient| {
            client.gc(safe_point.clone()).await
        });
    moved.map(drop)
}
