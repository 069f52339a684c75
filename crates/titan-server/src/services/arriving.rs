//! The memory that requests take while they arrive.
//!
//! The transport gathers the bytes of a message before it can be decoded. All messages that have
//! arrived in part share a limit, over all connections. A message beyond it ends its call with
//! `Unavailable`: one that waited could keep the others from being completed. One of which no more
//! arrives for the time of [`Limits::unread`](crate::Limits::unread) ends its call, too. One that
//! is too large by itself ends its call before its bytes arrive, with `ResourceExhausted` and the
//! words of gRPC's servers.
//!
//! The node reads and drops the rest of a request whose call has ended, for some time. Frames that
//! meet a closed call are errors of the connection: after a thousand of them the transport closes
//! it, with the calls of everybody else on it.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use http::Request;
use http_body::{Body as _, Frame, SizeHint};
use titan::invariant;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep_until, timeout};
use tonic::Status;
use tonic::body::Body;

use crate::options::Limits;
use crate::permits::{PERMIT_BYTES, memory};

/// The bytes before a message: a flag, and its length in four bytes.
const PREFIX: usize = 5;
/// The name of the key-value service, as paths have it.
const KEY_VALUES: &str = "/tikvpb.Tikv/";
/// The most bytes of a message of the other services: gRPC's usual limit.
const OTHERS: usize = 4 << 20;
/// The time that a client has to end its side of a call that has ended.
const LINGER: Duration = Duration::from_secs(10);

/// The memory of all messages that arrive.
#[derive(Clone)]
pub(crate) struct Arriving {
    permits: Arc<Semaphore>,
    /// Those of the limit.
    all: usize,
    /// The most bytes of a message of the key-value service.
    largest: usize,
    /// The longest time in which nothing of a message arrives.
    unread: Duration,
    stopping: watch::Receiver<bool>,
}

impl Arriving {
    /// Nothing is waited for when the node is `stopping`.
    pub(crate) fn new(limits: &Limits, stopping: watch::Receiver<bool>) -> Self {
        // A message of the largest size must fit.
        let permits = memory(limits.bytes_in_flight.max(limits.request_bytes));
        Arriving {
            all: permits.available_permits(),
            permits,
            largest: limits.request_bytes,
            unread: limits.unread,
            stopping,
        }
    }

    /// The bytes of messages that have arrived in part.
    pub(crate) fn bytes(&self) -> usize {
        invariant!(
            self.permits.available_permits() <= self.all,
            "messages have given back more permits than they took"
        );
        (self.all - self.permits.available_permits()) * PERMIT_BYTES
    }

    /// A request whose messages count until they are complete.
    pub(crate) fn counted(&self, request: Request<Body>) -> Request<Body> {
        let largest = match request.uri().path().starts_with(KEY_VALUES) {
            true => self.largest,
            false => OTHERS,
        };
        request.map(|body| Body::new(self.count(body, largest)))
    }

    fn count(&self, body: Body, largest: usize) -> Counted {
        Counted {
            arriving: self.clone(),
            body,
            largest,
            is_over: false,
            held: None,
            stalled: None,
            place: Place::default(),
        }
    }
}

struct Counted {
    arriving: Arriving,
    body: Body,
    /// The most bytes of a message.
    largest: usize,
    /// True once the body has ended.
    is_over: bool,
    /// The permits of the message that has arrived in part.
    held: Option<OwnedSemaphorePermit>,
    /// Ends when nothing of that message has arrived for too long.
    stalled: Option<Pin<Box<Sleep>>>,
    place: Place,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = Status;

    /// The transport asks for more once it has taken all complete messages out of what it has.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            let Some(stalled) = &mut self.stalled else {
                return Poll::Pending;
            };
            ready!(stalled.as_mut().poll(context));
            let reason = "the rest of a message does not arrive";
            return Poll::Ready(Some(Err(Status::deadline_exceeded(reason))));
        };
        match &frame {
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let (length, largest) = (self.place.pass(data), self.largest);
                    if length > largest {
                        let reason =
                            format!("Received message larger than max ({length} vs. {largest})");
                        return Poll::Ready(Some(Err(Status::resource_exhausted(reason))));
                    }
                    let wanted = self.place.arrived.div_ceil(PERMIT_BYTES);
                    if !self.hold(wanted) {
                        let reason = "server is busy: too many bytes of requests arrive";
                        return Poll::Ready(Some(Err(Status::unavailable(reason))));
                    }
                }
            }
            None | Some(Err(_)) => self.is_over = true,
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.is_over || self.body.is_end_stream() {
            return;
        }
        // Without a runtime there is no connection any more.
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        let mut body = mem::replace(&mut self.body, Body::empty());
        let mut stopping = self.arriving.stopping.clone();
        runtime.spawn(async move {
            let rest = async {
                loop {
                    let next = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
                    if !matches!(next.await, Some(Ok(_))) {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = timeout(LINGER, rest) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        });
    }
}

impl Counted {
    /// Holds so many permits. Returns `false` if there are not enough.
    fn hold(&mut self, wanted: usize) -> bool {
        if wanted == 0 {
            (self.held, self.stalled) = (None, None);
            return true;
        }
        let until = Instant::now() + self.arriving.unread;
        match &mut self.stalled {
            Some(stalled) => stalled.as_mut().reset(until),
            none => *none = Some(Box::pin(sleep_until(until))),
        }
        let held = self.held.as_ref().map_or(0, |held| held.num_permits());
        match &mut self.held {
            Some(permits) if held > wanted => drop(permits.split(held - wanted)),
            _ if held == wanted => {}
            permits => {
                let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
                let Ok(taken) = Arc::clone(&self.arriving.permits).try_acquire_many_owned(more)
                else {
                    return false;
                };
                match permits {
                    Some(permits) => permits.merge(taken),
                    none => *none = Some(taken),
                }
            }
        }
        invariant!(
            self.held.as_ref().map(OwnedSemaphorePermit::num_permits) == Some(wanted),
            "a message that arrives has another number of permits than {wanted}"
        );
        true
    }
}

/// A place in a sequence of messages.
#[derive(Default)]
struct Place {
    /// The bytes of the present message that have arrived, its prefix included.
    arrived: usize,
    /// The length of the present message, once its prefix is complete.
    length: usize,
}

impl Place {
    /// Passes bytes. Returns the length of the longest message among those whose length is known.
    fn pass(&mut self, mut bytes: &[u8]) -> usize {
        let mut longest = 0;
        while !bytes.is_empty() {
            if self.arrived < PREFIX {
                let byte = usize::from(bytes[0]);
                // The flag is shifted out.
                self.length = (self.length << 8 | byte) & 0xffff_ffff;
                self.arrived += 1;
                bytes.advance(1);
            } else {
                let passed = bytes.len().min(self.length + PREFIX - self.arrived);
                self.arrived += passed;
                bytes.advance(passed);
            }
            if self.arrived < PREFIX {
                continue;
            }
            longest = longest.max(self.length);
            if self.arrived == self.length + PREFIX {
                *self = Place::default();
            }
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bytes_of_an_incomplete_message_count() {
        let message = |len: u8| [vec![1, 0, 0, 0, len], vec![7; len.into()]].concat();
        let stream = [message(3), message(0), message(200), message(10)].concat();
        for step in 1..stream.len() {
            let (mut place, mut passed, mut longest) = (Place::default(), 0, 0);
            for part in stream.chunks(step) {
                longest = longest.max(place.pass(part));
                passed += part.len();
                let begun = [0, 8, 13, 218, 233].into_iter().rfind(|at| *at <= passed);
                assert_eq!(place.arrived, passed - begun.unwrap());
            }
            assert_eq!(longest, 200);
        }
    }

    #[tokio::test]
    async fn memory_is_given_back_with_the_message_and_with_the_call() {
        let (_stop, stopping) = watch::channel(false);
        let limits = Limits {
            bytes_in_flight: 100 << 10,
            request_bytes: 100 << 10,
            ..Limits::default()
        };
        let arriving = Arriving::new(&limits, stopping);
        let counted = || arriving.count(Body::empty(), limits.request_bytes);
        let (mut first, mut second) = (counted(), counted());
        assert!(first.hold(60) && second.hold(40));
        assert!(!second.hold(41));
        assert!(first.hold(59) && second.hold(41));
        assert!(second.hold(0));
        assert!(first.hold(100));
        drop(first);
        assert_eq!(arriving.permits.available_permits(), 100);
    }
}
