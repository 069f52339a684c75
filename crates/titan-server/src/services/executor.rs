//! Running calls within limits, on threads that may block unless they are short.
//!
//! - Bytes of requests, once they are decoded: a call beyond them is told that the server is busy,
//!   or that it is too large if it could never run.
//! - Running calls: further ones wait for a place in their [lane](super::lanes), up to their
//!   deadline.
//! - Bytes of answers: a call whose answer would exceed them is told that the server is busy.
//! - Timestamps that need no disk, and short calls while they are quick, run on the thread that
//!   asks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tonic::{Extensions, Status};

use super::deadlines::earlier;
use super::lanes::{Lane, Lanes, Share};
use super::short_calls::ShortCalls;
use crate::calls::{Abandoned, Call, Failure, Reserved, Work};
use crate::metrics::Metrics;
use crate::node::Shared;
use crate::permits::{PERMIT_BYTES, memory, permits};

/// The most calls that do nothing but sleep.
const SLEEPERS: usize = 256;

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
    lanes: Lanes,
    short_calls: ShortCalls,
    sleepers: Arc<Semaphore>,
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
            lanes: Lanes::new(&limits),
            short_calls: ShortCalls::new(network_threads()),
            sleepers: permits(SLEEPERS),
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

    /// The share in the reads of a request's connection. A request from elsewhere has one of its
    /// own.
    pub(super) fn share(&self, extensions: &Extensions) -> Share {
        let share = extensions.get::<Share>();
        share.map_or_else(|| Share::new(&self.shared.limits), Share::clone)
    }

    /// The place of a call that does nothing but sleep. `None` if there are too many.
    pub(super) fn sleeper(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sleepers).try_acquire_owned().ok()
    }

    /// Runs a call of a connection with a share in the reads, whose memory was `admitted` or
    /// refused. Returns what `refuse` makes of a failure. The memory of the answer is to be given
    /// back when that is sent.
    pub(crate) async fn answer<C: Call, E>(
        &self,
        call: C,
        share: &Share,
        admitted: Result<OwnedSemaphorePermit, Failure>,
        deadline: Option<Instant>,
        refuse: fn(Failure) -> Result<C::Answer, E>,
    ) -> Result<(C::Answer, Reserved), E> {
        let (result, memory) = self.call(call, share, admitted, deadline).await;
        let answer = result.or_else(refuse)?;
        // What the call has not reserved by itself, such as the locks of an error.
        let answer = match memory.cover(answer.encoded_len()) {
            Ok(()) => answer,
            Err(failure) => refuse(failure)?,
        };
        Ok((answer, memory))
    }

    async fn call<C: Call>(
        &self,
        call: C,
        share: &Share,
        admitted: Result<OwnedSemaphorePermit, Failure>,
        deadline: Option<Instant>,
    ) -> (Result<C::Answer, Failure>, Reserved) {
        let counted = self.metrics.begin(C::NAME);
        let region = call.context().map_or(0, |context| context.region_id);
        let reserved = self.reserved();
        let (result, reserved) = match self.run(call, share, admitted, deadline, reserved).await {
            Ok(done) => done,
            Err(failure) => (Err(failure), self.reserved()),
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
        share: &Share,
        admitted: Result<OwnedSemaphorePermit, Failure>,
        deadline: Option<Instant>,
        reserved: Reserved,
    ) -> Result<(Result<C::Answer, Failure>, Reserved), Failure> {
        let deadline = earlier(deadline, call.context());
        let held = admitted?;
        let wait = call.wait();
        let again = (!wait.is_zero()).then(|| call.clone());
        let is_short = call.is_short(&self.shared);
        let lane = match call.is_read() {
            true => Lane::Reads(share),
            false => Lane::Writes,
        };
        // Dropped with this future: nobody waits for the answer any more.
        let (abandoned, _waiter) = Abandoned::new();
        let is_abandoned = abandoned.clone();
        let run = move |shared: &Shared| {
            let work = Work {
                node: shared,
                deadline,
                wait: Duration::ZERO,
                reserved: &reserved,
                abandoned: &is_abandoned,
            };
            let result = call.run(&work);
            (held, result, reserved)
        };
        let (held, result, reserved) = match self.run_short(is_short, run) {
            Ok(done) => done?,
            Err(run) => self.on_thread(lane, deadline, run).await?,
        };
        let is_locked = matches!(&result, Err(Failure::Key(error)) if error.locked.is_some());
        let Some(again) = again.filter(|_| is_locked && self.lanes.has_room_to_wait()) else {
            return Ok((result, reserved));
        };
        let run = move |shared: &Shared| {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let work = Work {
                node: shared,
                deadline,
                wait: left.map_or(wait, |left| wait.min(left)),
                reserved: &reserved,
                abandoned: &abandoned,
            };
            let result = again.run(&work);
            drop(held);
            (result, reserved)
        };
        self.on_thread(Lane::Waits, deadline, run).await
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

    /// Runs a part of a call on a thread that may block, when there is a place in its lane. The
    /// thread goes on until it is done, whether the client waits or not.
    async fn on_thread<T: Send + 'static>(
        &self,
        lane: Lane<'_>,
        deadline: Option<Instant>,
        run: impl FnOnce(&Shared) -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let place = self.lanes.enter(lane, deadline).await?;
        let shared = Arc::clone(&self.shared);
        let done = spawn_blocking(move || {
            let _place = place;
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
        self.counted(name, Some(Lane::Others), run).await
    }

    /// The memory of an answer.
    pub(super) fn reserved(&self) -> Reserved {
        Reserved::new(Arc::clone(&self.answers), self.shared.limits.answer_bytes)
    }

    /// Takes timestamps.
    pub(crate) async fn timestamps<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let may_wait = self.shared.store().oracle().may_wait();
        let lane = may_wait.then_some(Lane::Timestamps);
        self.counted("tso", lane, run).await
    }

    /// Runs work on a thread that may block, when there is a place in the lane, or on this one
    /// without a lane.
    async fn counted<T: Send + 'static>(
        &self,
        name: &'static str,
        lane: Option<Lane<'_>>,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let counted = self.metrics.begin(name);
        let done = match lane {
            Some(lane) => self.on_thread(lane, None, run).await,
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
    Failure::from(error).into()
}
