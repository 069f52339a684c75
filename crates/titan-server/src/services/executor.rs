//! Running calls within limits, on threads that may block unless they are short.
//!
//! - Bytes of requests, once they are decoded: a call beyond them is told that the server is busy,
//!   or that it is too large if it could never run.
//! - Running calls: further ones wait, up to their deadline.
//! - Calls that wait for locks have threads of their own, so that the owners of the locks go on.
//! - Bytes of answers: a call whose answer would exceed them is told that the server is busy.
//! - Timestamps and other services have threads of their own. Timestamps that need no disk, and
//!   short calls while they are quick, run on the thread that asks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use tonic::Status;

use super::deadlines::earlier;
use super::short_calls::ShortCalls;
use crate::calls::{Call, Failure, Reserved, Work};
use crate::metrics::Metrics;
use crate::node::Shared;
use crate::permits::{PERMIT_BYTES, memory, permits};

/// Threads for timestamps, which do not wait for calls that wait for the disk.
const FOR_TIMESTAMPS: usize = 2;
/// Threads for other services than the key-value one.
const FOR_OTHERS: usize = 4;

/// The message of an answer to a call that has panicked.
pub const PANICKED: &str = "the call failed: see the server's output";

/// Runs the calls of all clients.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    pub(crate) metrics: Metrics,
    bytes: Arc<Semaphore>,
    /// The permits of all bytes of requests.
    all_bytes: usize,
    /// Bytes of answers that are not sent.
    answers: Arc<Semaphore>,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    short_calls: ShortCalls,
    timestamps: Arc<Semaphore>,
    others: Arc<Semaphore>,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let limits = shared.limits;
        let bytes = memory(limits.bytes_in_flight);
        Executor {
            shared,
            metrics: Metrics::default(),
            all_bytes: bytes.available_permits(),
            bytes,
            answers: memory(limits.bytes_in_flight.max(limits.answer_bytes)),
            running: permits(limits.running),
            waiting: permits(limits.waiting),
            short_calls: ShortCalls::new(network_threads()),
            timestamps: permits(FOR_TIMESTAMPS),
            others: permits(FOR_OTHERS),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Takes memory for a decoded request of so many bytes.
    ///
    /// # Errors
    /// Too large for the limit of all requests; busy if other requests take too much.
    pub(crate) fn admit(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Failure> {
        let permits = bytes / PERMIT_BYTES + 1;
        if permits > self.all_bytes {
            let limit = self.all_bytes * PERMIT_BYTES;
            let reason = format!("the call takes {bytes} bytes: the limit of all calls is {limit}");
            return Err(Failure::too_large(reason, bytes));
        }
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let taken = Arc::clone(&self.bytes).try_acquire_many_owned(permits);
        taken.map_err(|_| Failure::busy("too many bytes of requests"))
    }

    /// Runs a call, whose memory was `admitted` or refused. The memory of its answer is to be given
    /// back when that is sent.
    pub(crate) async fn call<C: Call>(
        &self,
        call: C,
        admitted: Result<OwnedSemaphorePermit, Failure>,
        deadline: Option<Instant>,
    ) -> (Result<C::Answer, Failure>, Reserved) {
        let counted = self.metrics.begin(C::NAME);
        let region = call.context().map_or(0, |context| context.region_id);
        let limit = self.shared.limits.answer_bytes;
        let reserved = Reserved::new(Arc::clone(&self.answers), limit);
        let (result, reserved) = match self.run(call, admitted, deadline, reserved).await {
            Ok(done) => done,
            Err(failure) => {
                let none = Reserved::new(Arc::clone(&self.answers), limit);
                (Err(failure), none)
            }
        };
        if result.is_err() {
            counted.failed();
        }
        (
            result.map_err(|failure| failure.in_region(region)),
            reserved,
        )
    }

    async fn run<C: Call>(
        &self,
        call: C,
        admitted: Result<OwnedSemaphorePermit, Failure>,
        deadline: Option<Instant>,
        reserved: Reserved,
    ) -> Result<(Result<C::Answer, Failure>, Reserved), Failure> {
        let deadline = earlier(deadline, call.context());
        let held = admitted?;
        let wait = call.wait();
        let again = (!wait.is_zero()).then(|| call.clone());
        let is_short = call.is_short(&self.shared);
        let run = move |shared: &Shared| {
            let work = Work {
                node: shared,
                deadline,
                wait: Duration::ZERO,
                reserved: &reserved,
            };
            let result = call.run(&work);
            (held, result, reserved)
        };
        let (held, result, reserved) = match self.run_short(is_short, run) {
            Ok(done) => done?,
            Err(run) => self.on_thread(&self.running, deadline, run).await?,
        };
        let is_locked = matches!(&result, Err(Failure::Key(error)) if error.locked.is_some());
        let Some(again) = again.filter(|_| is_locked && self.waiting.available_permits() > 0)
        else {
            return Ok((result, reserved));
        };
        let run = move |shared: &Shared| {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let work = Work {
                node: shared,
                deadline,
                wait: left.map_or(wait, |left| wait.min(left)),
                reserved: &reserved,
            };
            let result = again.run(&work);
            drop(held);
            (result, reserved)
        };
        self.on_thread(&self.waiting, deadline, run).await
    }

    /// Runs a short call on this thread, or gives it back.
    fn run_short<T, F: FnOnce(&Shared) -> T>(
        &self,
        is_short: bool,
        run: F,
    ) -> Result<Result<T, Failure>, F> {
        let here = is_short.then(|| self.short_calls.begin_here()).flatten();
        match here {
            Some(_here) => Ok(self.here(run)),
            None => Err(run),
        }
    }

    /// Runs a part of a call on this thread.
    fn here<T>(&self, run: impl FnOnce(&Shared) -> T) -> Result<T, Failure> {
        let done = catch_unwind(AssertUnwindSafe(|| run(&self.shared)));
        done.map_err(|_| panicked())
    }

    /// Runs a part of a call on a thread that may block, when there is a permit. The thread goes on
    /// until it is done, whether the client waits or not.
    async fn on_thread<T: Send + 'static>(
        &self,
        permits: &Arc<Semaphore>,
        deadline: Option<Instant>,
        run: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let acquire = Arc::clone(permits).acquire_owned();
        let permit = match deadline {
            Some(deadline) => timeout_at(deadline.into(), acquire)
                .await
                .map_err(|_| Failure::deadline())?,
            None => acquire.await,
        };
        let permit = permit.map_err(|_| Failure::busy("the server stops"))?;
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            let _permit = permit;
            run(&shared)
        });
        done.await.map_err(|_| panicked())
    }

    /// Runs work of the placement driver, and of other services than the key-value one.
    pub(crate) async fn other<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        self.counted(name, Some(&self.others), run).await
    }

    /// Takes timestamps.
    pub(crate) async fn timestamps<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let permits = match self.shared.store().oracle().may_wait() {
            true => Some(&self.timestamps),
            false => None,
        };
        self.counted("tso", permits, run).await
    }

    /// Runs work on a thread that may block, when there is a permit, or on this one without
    /// permits.
    async fn counted<T: Send + 'static>(
        &self,
        name: &'static str,
        permits: Option<&Arc<Semaphore>>,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let counted = self.metrics.begin(name);
        let done = match permits {
            Some(permits) => self.on_thread(permits, None, run).await,
            None => self.here(run),
        };
        let result = match done {
            Ok(result) => result,
            Err(Failure::Status(status)) => Err(*status),
            Err(_) => Err(Status::unavailable("the server stops")),
        };
        if result.is_err() {
            counted.failed();
        }
        result
    }
}

/// The threads of the network, at least two: one may be held up.
pub(crate) fn network_threads() -> usize {
    std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2))
}

/// The failure of a call that panicked. Nobody knows what it has done.
fn panicked() -> Failure {
    Failure::from(Status::unknown(PANICKED))
}

/// The status for an error of a node's records.
pub(crate) fn status(error: crate::Error) -> Status {
    Status::internal(error.to_string())
}
