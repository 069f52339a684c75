//! The answers of streams, and the ends of streams.
//!
//! A stream ends with an error for a client that reads nothing for the time of
//! [`Limits::unread`](crate::Limits::unread).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

use super::executor::Executor;

/// The time that a client has to end its side of a stream.
const LINGER: Duration = Duration::from_secs(10);

/// The answers of a stream, for the transport.
pub(crate) struct Answers<T> {
    messages: Receiver<Result<T, Status>>,
    is_given_up: Arc<AtomicBool>,
}

impl<T> Stream for Answers<T> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = std::task::ready!(self.messages.poll_recv(context));
        Poll::Ready(next.or_else(|| {
            let is_first = self.is_given_up.swap(false, Ordering::Relaxed);
            is_first.then(|| Err(Status::cancelled("the answers were not read")))
        }))
    }
}

/// The end of a stream into which answers go. The stream ends with its last outlet.
pub(super) struct Outlet<T> {
    executor: Arc<Executor>,
    messages: Sender<Result<T, Status>>,
    is_given_up: Arc<AtomicBool>,
}

impl<T> Clone for Outlet<T> {
    fn clone(&self) -> Self {
        Outlet {
            executor: Arc::clone(&self.executor),
            messages: self.messages.clone(),
            is_given_up: Arc::clone(&self.is_given_up),
        }
    }
}

/// An outlet, and the stream that it feeds: `waiting` answers wait for the transport at most.
pub(super) fn answers<T>(executor: &Arc<Executor>, waiting: usize) -> (Outlet<T>, Answers<T>) {
    let (send, messages) = mpsc::channel(waiting);
    let is_given_up = Arc::new(AtomicBool::new(false));
    let outlet = Outlet {
        executor: Arc::clone(executor),
        messages: send,
        is_given_up: Arc::clone(&is_given_up),
    };
    let answers = Answers {
        messages,
        is_given_up,
    };
    (outlet, answers)
}

impl<T> Outlet<T> {
    /// Sends an answer. Returns `false` when nobody reads it.
    pub(super) async fn send(&self, answer: Result<T, Status>) -> bool {
        let unread = self.executor.shared().limits.unread;
        match self.messages.send_timeout(answer, unread).await {
            Ok(()) => true,
            Err(SendTimeoutError::Closed(_)) => false,
            Err(SendTimeoutError::Timeout(_)) => {
                if !self.is_given_up.swap(true, Ordering::Relaxed) {
                    self.executor.metrics.count_unread_stream();
                }
                false
            }
        }
    }

    /// Waits until the client has left.
    pub(super) async fn closed(&self) {
        self.messages.closed().await;
    }
}

/// Drops what a client still sends on a stream whose answers have ended, until the client ends
/// it, its time is over, or the node stops.
///
/// Messages that meet a closed stream are errors of the connection. After a thousand of them the
/// transport closes it, with the streams of everybody else on it.
pub(super) async fn drain<M>(mut asked: Streaming<M>, mut stopping: watch::Receiver<bool>) {
    let rest = async { while let Ok(Some(_)) = asked.message().await {} };
    tokio::select! {
        _ = timeout(LINGER, rest) => {}
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
    }
}
