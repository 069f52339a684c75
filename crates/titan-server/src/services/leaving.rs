//! The memory that answers take while they leave.
//!
//! The transport keeps all that it is given until the client reads it. So it gets an answer in
//! pieces, and the answer counts until the last one. If the transport asks for no further piece for
//! the time of [`Limits::unread`](crate::Limits::unread), the client does not read: the rest is
//! dropped, and the answer ends with an error.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use parking_lot::Mutex;
use prost::Message;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tonic::Status;
use tonic::body::Body;

use super::executor::Executor;
use crate::calls::Reserved;

/// The most bytes of a piece.
const PIECE: usize = 64 << 10;

/// An answer whose leaving is watched, among the extensions of its response.
#[derive(Clone)]
pub(super) struct Leaving {
    _memory: Option<Arc<Reserved>>,
}

impl Leaving {
    /// The answer of a call by itself. A small one is not watched.
    pub(super) fn of_call(memory: Reserved) -> Option<Self> {
        (!memory.is_none()).then(|| Leaving {
            _memory: Some(Arc::new(memory)),
        })
    }

    /// The answers of a stream, whose memory goes with each of them.
    pub(super) fn of_stream() -> Self {
        Leaving { _memory: None }
    }
}

/// The response of another service than the key-value one, whose bytes count until it is sent.
///
/// # Errors
/// `ResourceExhausted` for an answer beyond the limit; `Unavailable` if all answers take too much.
pub(super) fn counted<A: Message>(
    executor: &Executor,
    answer: A,
) -> Result<tonic::Response<A>, Status> {
    let memory = executor.reserved();
    memory.cover(answer.encoded_len())?;
    let mut response = tonic::Response::new(answer);
    if let Some(leaving) = Leaving::of_call(memory) {
        response.extensions_mut().insert(leaving);
    }
    Ok(response)
}

/// Watches a response if it is to be watched.
pub(crate) fn watched(executor: &Arc<Executor>, response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let body = match parts.extensions.remove::<Leaving>() {
        None => body,
        Some(leaving) => Body::new(Watched {
            executor: Arc::clone(executor),
            state: Arc::new(Mutex::new(State {
                answer: Some((body, leaving)),
                rest: Bytes::new(),
                given: None,
                is_given_up: false,
            })),
            watcher: None,
        }),
    };
    Response::from_parts(parts, body)
}

struct Watched {
    executor: Arc<Executor>,
    state: Arc<Mutex<State>>,
    watcher: Option<JoinHandle<()>>,
}

struct State {
    /// Gone when the client is given up.
    answer: Option<(Body, Leaving)>,
    /// The bytes of the answer that the transport has not asked for yet.
    rest: Bytes,
    /// The moment at which the transport got its last piece, unless it has asked for more.
    given: Option<Instant>,
    /// True from the giving up until the transport is told.
    is_given_up: bool,
}

impl http_body::Body for Watched {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let piece = {
            let mut state = self.state.lock();
            state.given = None;
            if state.rest.is_empty() {
                let Some((body, _)) = &mut state.answer else {
                    return Poll::Ready(state.end());
                };
                let frame = match ready!(Pin::new(body).poll_frame(context)) {
                    Some(Ok(frame)) => frame,
                    end => return Poll::Ready(end),
                };
                match frame.into_data() {
                    Ok(data) => state.rest = data,
                    Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
                }
            }
            state.given = Some(Instant::now());
            let len = state.rest.len().min(PIECE);
            state.rest.split_to(len)
        };
        if self.watcher.is_none() {
            let state = Arc::downgrade(&self.state);
            let executor = Arc::clone(&self.executor);
            self.watcher = Some(tokio::spawn(watch(state, executor)));
        }
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let state = self.state.lock();
        let is_over = |(body, _): &(Body, Leaving)| body.is_end_stream();
        state.rest.is_empty() && !state.is_given_up && state.answer.as_ref().is_none_or(is_over)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.abort();
        }
    }
}

impl State {
    /// The end of an answer that is given up: once an error, then nothing.
    fn end(&mut self) -> Option<Result<Frame<Bytes>, Status>> {
        if !std::mem::take(&mut self.is_given_up) {
            return None;
        }
        let mut trailers = HeaderMap::new();
        let told = Status::cancelled("the answers were not read").add_header(&mut trailers);
        Some(told.map(|()| Frame::trailers(trailers)))
    }

    /// Drops what is left if the last piece was given too long ago. Returns the moment at which to
    /// look again, or `None` if nothing is left.
    fn look(&mut self, unread: Duration) -> Option<Instant> {
        let now = Instant::now();
        let until = self.given.unwrap_or(now) + unread;
        if until > now {
            return Some(until);
        }
        (self.answer, self.rest) = (None, Bytes::new());
        self.is_given_up = true;
        None
    }
}

/// Gives the client of an answer up if it does not read.
async fn watch(state: Weak<Mutex<State>>, executor: Arc<Executor>) {
    let unread = executor.shared().limits.unread;
    let mut until = Instant::now() + unread;
    loop {
        sleep_until(until).await;
        let Some(state) = state.upgrade() else {
            return;
        };
        let look = state.lock().look(unread);
        match look {
            Some(later) => until = later,
            None => return executor.metrics.count_unread(),
        }
    }
}
