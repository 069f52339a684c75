//! The memory that requests take while they arrive.
//!
//! The transport gathers the bytes of a message before it can be decoded. All messages that have
//! arrived in part share a limit, over all connections. A message beyond it ends its call with
//! `ResourceExhausted`: one that waited could keep the others from being completed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;

/// Bytes that one permit stands for.
const PERMIT_BYTES: usize = 1024;
/// The bytes before a message: a flag, and its length in four bytes.
const PREFIX: usize = 5;

/// The memory of all messages that arrive.
#[derive(Clone)]
pub(crate) struct Arriving {
    /// Those of the limit.
    all: usize,
    permits: Arc<Semaphore>,
}

impl Arriving {
    /// With a limit in bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let all = (limit / PERMIT_BYTES).clamp(1, Semaphore::MAX_PERMITS);
        Arriving {
            all,
            permits: Arc::new(Semaphore::new(all)),
        }
    }

    /// The bytes of messages that have arrived in part.
    pub(crate) fn bytes(&self) -> usize {
        (self.all - self.permits.available_permits()) * PERMIT_BYTES
    }

    /// The body of a request, whose messages count until they are complete.
    pub(crate) fn counted(&self, body: Body) -> Body {
        Body::new(Counted {
            body,
            permits: Arc::clone(&self.permits),
            held: None,
            place: Place::default(),
        })
    }
}

struct Counted {
    body: Body,
    permits: Arc<Semaphore>,
    /// The permits of the message that has arrived in part.
    held: Option<OwnedSemaphorePermit>,
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
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            self.place.pass(data);
            let wanted = self.place.arrived.div_ceil(PERMIT_BYTES);
            if !self.hold(wanted) {
                let reason = "too many bytes of requests arrive: ask again";
                return Poll::Ready(Some(Err(Status::resource_exhausted(reason))));
            }
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

impl Counted {
    /// Holds so many permits. Returns `false` if there are not enough.
    fn hold(&mut self, wanted: usize) -> bool {
        if wanted == 0 {
            self.held = None;
            return true;
        }
        let held = self.held.as_ref().map_or(0, |held| held.num_permits());
        match &mut self.held {
            Some(permits) if held > wanted => drop(permits.split(held - wanted)),
            _ if held == wanted => {}
            permits => {
                let more = u32::try_from(wanted - held).unwrap_or(u32::MAX);
                let Ok(taken) = Arc::clone(&self.permits).try_acquire_many_owned(more) else {
                    return false;
                };
                match permits {
                    Some(permits) => permits.merge(taken),
                    none => *none = Some(taken),
                }
            }
        }
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
    /// Passes bytes.
    fn pass(&mut self, mut bytes: &[u8]) {
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
            if self.arrived >= PREFIX && self.arrived == self.length + PREFIX {
                *self = Place::default();
            }
        }
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
            let (mut place, mut passed) = (Place::default(), 0);
            for part in stream.chunks(step) {
                place.pass(part);
                passed += part.len();
                let begun = [0, 8, 13, 218, 233].into_iter().rfind(|at| *at <= passed);
                assert_eq!(place.arrived, passed - begun.unwrap());
            }
        }
    }

    #[test]
    fn memory_is_given_back_with_the_message_and_with_the_call() {
        let arriving = Arriving::new(100 << 10);
        let counted = || Counted {
            body: Body::empty(),
            permits: Arc::clone(&arriving.permits),
            held: None,
            place: Place::default(),
        };
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
