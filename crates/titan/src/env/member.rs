//! A database as the threads of an `Env` see it: the kinds of threads, and its work for them.

use std::sync::Arc;
use std::time::Duration;

/// Background threads that look for the same kinds of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// As many as `max_background_jobs` says.
    Workers,
    /// The one thread that collects garbage: the device is the bottleneck.
    Collector,
    /// A thread that is there only while a database is to be warmed up.
    WarmUp,
}

impl Threads {
    pub(super) const ALL: [Threads; 3] = [Threads::Workers, Threads::Collector, Threads::WarmUp];

    /// Name of one of them.
    pub(super) fn name(self, number: usize) -> String {
        match self {
            Threads::Workers => format!("titan-{number}"),
            Threads::Collector => "titan-gc".to_owned(),
            Threads::WarmUp => "titan-warm-up".to_owned(),
        }
    }
}

/// A database, as the threads see it.
pub(crate) trait Member: Send + Sync {
    /// Claims the most urgent job that is due and that `threads` do; one that takes long only if it
    /// `may_be_long`.
    fn find(self: Arc<Self>, threads: Threads, may_be_long: bool) -> Found;
}

/// Work of a database for a thread.
pub(crate) enum Found {
    /// It has been claimed.
    Job {
        run: Box<dyn FnOnce() + Send>,
        /// A thread for short jobs must be left.
        is_long: bool,
    },
    /// Nothing, but for the time after which there may be something, in real time: a thread's wait
    /// here must not advance a clock that does not follow it.
    Nothing { look_after: Option<Duration> },
}
