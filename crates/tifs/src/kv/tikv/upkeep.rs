//! The threads of a mount: one renews its lease, one lets the cluster drop replaced values.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use tikv_client::{Timestamp, TransactionClient};
use titan::Process;

use super::shared::Shared;
use crate::error::{Error, Result};
use crate::log;

/// The parts of a lease, and of the age of values that are dropped, between two times of work.
const PARTS: u32 = 3;

/// The threads. They end when this is dropped.
pub(super) struct Upkeep {
    threads: Vec<JoinHandle<()>>,
    ends: Vec<Sender<()>>,
    started_by: Process,
}

impl Upkeep {
    pub(super) fn start(store: &Arc<Shared>) -> Result<Upkeep> {
        let mut upkeep = Upkeep {
            threads: Vec::new(),
            ends: Vec::new(),
            started_by: Process::current(),
        };
        upkeep.add("tifs-lease", store, store.url.lease / PARTS, Shared::renew)?;
        if let Some(age) = store.url.gc {
            let drop_replaced = move |store: &Shared| drop_replaced(store, age);
            upkeep.add("tifs-gc", store, age / PARTS, drop_replaced)?;
        }
        Ok(upkeep)
    }

    /// Starts a thread that does something again and again.
    fn add(
        &mut self,
        name: &str,
        store: &Arc<Shared>,
        pause: Duration,
        work: impl Fn(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (end, ended) = channel();
        let store = Arc::clone(store);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || repeat(&ended, pause, || work(&store)))
            .map_err(|e| Error::new(Errno::AGAIN, format!("a thread of the mount: {e}")))?;
        self.threads.push(thread);
        self.ends.push(end);
        Ok(())
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        // A forked child does not have the threads, and their handles would name others.
        if !self.started_by.is_current() {
            std::mem::forget(std::mem::take(&mut self.threads));
            return;
        }
        self.ends.clear();
        for thread in self.threads.drain(..) {
            // Its work has no results.
            let _ = thread.join();
        }
    }
}

fn repeat(ended: &Receiver<()>, pause: Duration, work: impl Fn() -> Result<()>) {
    // A failure that lasts is said once.
    let mut said = String::new();
    while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        match work() {
            Ok(()) => said.clear(),
            Err(error) => {
                let text = error.to_string();
                if said != text {
                    log::record(&text);
                    said = text;
                }
            }
        }
    }
}

/// Lets the cluster drop values, of all its users, that were replaced before this time.
pub(super) fn drop_replaced(store: &Shared, age: Duration) -> Result<()> {
    let deadline = store.cluster.deadline();
    let now = store.cluster.timestamp(deadline)?;
    let age = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
    let safe_point = Timestamp {
        physical: now.physical.saturating_sub(age).max(0),
        ..now
    };
    // Another program may have moved it further. No repetition: it is done again later.
    let moved = store
        .cluster
        .once(store.url.timeout, async |client: TransactionClient| {
            client.gc(safe_point.clone()).await
        });
    moved.map(drop)
}
