//! The threads of a mount that do something again and again, such as renewing its lease.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::io::Errno;
use titan::Process;

use crate::error::{Error, Result};
use crate::log;

/// The parts of a lease, and of the age of values that are dropped, between two times of work.
pub(in crate::kv) const PARTS: u32 = 3;

/// The longest wait of a mount before it first lets anything be dropped: many mounts are short.
pub(in crate::kv) const SOON: Duration = Duration::from_secs(30);

/// The threads. They end when this is dropped.
pub(in crate::kv) struct Upkeep {
    threads: Vec<JoinHandle<()>>,
    ends: Vec<Sender<()>>,
    started_by: Process,
}

impl Upkeep {
    /// No threads yet.
    pub(in crate::kv) fn new() -> Upkeep {
        Upkeep {
            threads: Vec::new(),
            ends: Vec::new(),
            started_by: Process::current(),
        }
    }

    /// Starts a thread that does something again and again, for the first time after a pause of its
    /// own.
    pub(in crate::kv) fn add(
        &mut self,
        name: &str,
        first: Duration,
        pause: Duration,
        work: impl Fn() -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let (end, ended) = channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || repeat(&ended, first, pause, work))
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

fn repeat(ended: &Receiver<()>, first: Duration, pause: Duration, work: impl Fn() -> Result<()>) {
    // A failure that lasts is said once.
    let mut said = String::new();
    let mut wait = first;
    while ended.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
        wait = pause;
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
