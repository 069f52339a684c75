//! The answers of streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio_stream::Stream;
use tonic::{Response, Status};

use super::leaving::Leaving;

/// The answers of a stream, for the transport. With each answer goes what it holds until the
/// transport asks for the next one.
pub(crate) struct Answers<T, H = ()> {
    messages: Receiver<(Result<T, Status>, H)>,
    last: Option<H>,
}

impl<T, H: Unpin> Stream for Answers<T, H> {
    type Item = Result<T, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.last = None;
        let next = std::task::ready!(self.messages.poll_recv(context));
        Poll::Ready(next.map(|(answer, held)| {
            self.last = Some(held);
            answer
        }))
    }
}

/// The end of a stream into which answers go. The stream ends with its last outlet.
pub(super) struct Outlet<T, H = ()> {
    messages: Sender<(Result<T, Status>, H)>,
}

impl<T, H> Clone for Outlet<T, H> {
    fn clone(&self) -> Self {
        Outlet {
            messages: self.messages.clone(),
        }
    }
}

/// An outlet, and the stream that it feeds: `waiting` answers wait for the transport at most.
pub(super) fn answers<T, H>(waiting: usize) -> (Outlet<T, H>, Answers<T, H>) {
    let (send, messages) = mpsc::channel(waiting);
    let last = None;
    (Outlet { messages: send }, Answers { messages, last })
}

/// The response with the answers of a stream.
pub(super) fn response<T, H>(answers: Answers<T, H>) -> Response<Answers<T, H>> {
    let mut response = Response::new(answers);
    response.extensions_mut().insert(Leaving::of_stream());
    response
}

impl<T, H> Outlet<T, H> {
    /// Sends an answer, with what it holds. Returns `false` when nobody reads it.
    pub(super) async fn send(&self, answer: Result<T, Status>, held: H) -> bool {
        self.messages.send((answer, held)).await.is_ok()
    }

    /// Waits until the client has left, or is given up.
    pub(super) async fn closed(&self) {
        self.messages.closed().await;
    }
}
