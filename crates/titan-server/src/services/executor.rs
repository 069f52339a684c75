//! Running calls on threads that may block, within limits.
//!
//! - Bytes of requests: a call beyond them is told that the server is busy.
//! - Running calls: further ones wait, up to their deadline.
//! - Calls that wait for locks have threads of their own, so that the owners of the locks can go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout_at;
use tonic::Status;

use super::deadlines::earlier;
use crate::calls::{Call, Failure, Work};
use crate::metrics::Metrics;
use crate::node::Shared;

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1024;

/// Runs the calls of all clients.
pub(crate) struct Executor {
    shared: Arc<Shared>,
    pub(crate) metrics: Metrics,
    bytes: Arc<Semaphore>,
    running: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Executor {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let limits = shared.limits;
        let permits = |n: usize| Arc::new(Semaphore::new(n.clamp(1, Semaphore::MAX_PERMITS)));
        Executor {
            shared,
            metrics: Metrics::default(),
            bytes: permits(limits.bytes_in_flight / PERMIT_BYTES),
            running: permits(limits.running),
            waiting: permits(limits.waiting),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Runs a call.
    pub(crate) async fn call<C: Call>(
        &self,
        call: C,
        deadline: Option<Instant>,
    ) -> Result<C::Answer, Failure> {
        let counted = self.metrics.begin(C::NAME);
        let result = self.run(call, deadline).await;
        if result.is_err() {
            counted.failed();
        }
        result
    }

    async fn run<C: Call>(&self, call: C, deadline: Option<Instant>) -> Result<C::Answer, Failure> {
        let deadline = earlier(deadline, call.context());
        let bytes = call.encoded_len() / PERMIT_BYTES + 1;
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let held = Arc::clone(&self.bytes).try_acquire_many_owned(bytes);
        let held = held.map_err(|_| Failure::busy("too many bytes of requests"))?;
        let wait = call.wait();
        if wait.is_zero() {
            let (_held, result) = self
                .on_thread(&self.running, deadline, held, move |work| call.run(work))
                .await?;
            return result;
        }
        let again = call.clone();
        let (held, result) = self
            .on_thread(&self.running, deadline, held, move |work| call.run(work))
            .await?;
        match result {
            Err(Failure::Key(error)) if error.locked.is_some() => {
                if self.waiting.available_permits() == 0 {
                    return Err(Failure::Key(error));
                }
                let (_held, result) = self
                    .on_thread(&self.waiting, deadline, held, move |work| {
                        work.wait = match work.deadline {
                            Some(deadline) => {
                                wait.min(deadline.saturating_duration_since(Instant::now()))
                            }
                            None => wait,
                        };
                        again.run(work)
                    })
                    .await?;
                result
            }
            result => result,
        }
    }

    /// Runs a part of a call on a thread that may block, when there is a permit. The thread keeps
    /// `held` until it is done, whether the client waits or not.
    async fn on_thread<T: Send + 'static, H: Send + 'static>(
        &self,
        permits: &Arc<Semaphore>,
        deadline: Option<Instant>,
        held: H,
        run: impl FnOnce(&mut Work<'_>) -> T + Send + 'static,
    ) -> Result<(H, T), Failure> {
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
            let mut work = Work {
                node: &shared,
                deadline,
                wait: Duration::ZERO,
            };
            (held, run(&mut work))
        });
        let failed =
            |_| Failure::from(Status::internal("the call failed: see the server's output"));
        done.await.map_err(failed)
    }

    /// Runs work of another service than the key-value one.
    pub(crate) async fn other<T: Send + 'static>(
        &self,
        name: &'static str,
        run: impl FnOnce(&Shared) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let counted = self.metrics.begin(name);
        let done = self.on_thread(&self.running, None, (), move |work| run(work.node));
        let result = match done.await {
            Ok(((), result)) => result,
            Err(Failure::Status(status)) => Err(*status),
            Err(_) => Err(Status::unavailable("the server stops")),
        };
        if result.is_err() {
            counted.failed();
        }
        result
    }
}

/// The status for an error of a node's records.
pub(crate) fn status(error: crate::Error) -> Status {
    Status::internal(error.to_string())
}
