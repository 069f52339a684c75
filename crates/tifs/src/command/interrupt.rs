//! Ends a command that takes long when a signal asks for it, in an orderly way.

use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The interval at which a waiting reader looks for a signal.
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// Whether SIGINT, SIGTERM or SIGHUP has come. They do nothing else any more.
#[derive(Clone)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Begins to listen. Once in a process.
    pub(super) fn listen() -> Result<Self> {
        let came = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&came);
        ctrlc::set_handler(move || note.store(true, Ordering::Relaxed))
            .context("cannot handle signals")?;
        Ok(Interrupt(came))
    }

    /// Whether a signal has come.
    pub(super) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A reader that fails once a signal has come, even while it waits for a pipe.
    pub(super) fn reader<R: Read + AsFd>(&self, inner: R) -> impl Read {
        Reader {
            inner,
            interrupt: self.clone(),
        }
    }
}

struct Reader<R> {
    inner: R,
    interrupt: Interrupt,
}

impl<R: Read + AsFd> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.interrupt.came() {
                // Of kind `Interrupted`, it would be tried again.
                return Err(io::Error::other("interrupted"));
            }
            let mut ready = [PollFd::new(&self.inner, PollFlags::IN)];
            match poll(&mut ready, Some(&LOOK)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return self.inner.read(buffer),
                Err(e) => return Err(e.into()),
            }
        }
    }
}
