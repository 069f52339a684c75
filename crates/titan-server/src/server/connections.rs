//! Connections: how many, and their greeting.
//!
//! Each takes a descriptor of the process, which tables and logs need, too. So their number is
//! limited, and one beyond the limit is closed at once: its client is told more than by silence.
//! One whose client does not greet in time is closed, too.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use titan::vfs::Vfs;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tokio_stream::Stream;
use tonic::transport::server::Connected;

use crate::options::Limits;
use crate::permits::permits;
use crate::services::Share;

/// The part of the process's files that connections may take. The databases take most.
const PART: u64 = 8;
/// The least number of connections.
const FEWEST: usize = 16;
/// The time for the handshake of TLS and the beginning of HTTP/2.
const GREETING: Duration = Duration::from_secs(10);
/// The bytes with which HTTP/2 begins. Within TLS, the client's first confirmation, which it sends
/// after the handshake, takes more.
const PREFACE: usize = 24;
/// The pause after a failure to accept a connection, such as one for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The most connections.
pub(super) fn limit(limits: &Limits, vfs: &dyn Vfs) -> usize {
    let files = vfs.resources().open_files;
    let part = files.map(|files| usize::try_from(files / PART).unwrap_or(usize::MAX));
    limits
        .connections
        .min(part.map_or(usize::MAX, |part| part.max(FEWEST)))
}

/// The connections that a listener accepts.
pub(super) struct Connections {
    listener: TcpListener,
    limits: Limits,
    places: Arc<Semaphore>,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Connections {
    pub(super) fn new(listener: TcpListener, limits: &Limits, most: usize) -> Self {
        Connections {
            listener,
            limits: *limits,
            places: permits(most),
            pause: None,
        }
    }

    fn poll_accept(&mut self, context: &mut Context<'_>) -> Poll<(Connection, SocketAddr)> {
        loop {
            if let Some(pause) = &mut self.pause {
                ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            let Ok((stream, address)) = ready!(self.listener.poll_accept(context)) else {
                self.pause = Some(Box::pin(sleep(PAUSE)));
                continue;
            };
            // Without a place, the connection ends here.
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                // Answers are slower without it, that is all.
                let _ = stream.set_nodelay(true);
                let connection = Connection {
                    stream,
                    share: Share::new(&self.limits),
                    is_begun: AtomicBool::new(false),
                    greeting: Some(Greeting {
                        until: Box::pin(sleep(GREETING.min(self.limits.unread))),
                        bytes: 0,
                    }),
                    _place: place,
                };
                return Poll::Ready((connection, address));
            }
        }
    }
}

impl Stream for Connections {
    type Item = io::Result<Connection>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let accepted = self.poll_accept(context);
        accepted.map(|(connection, _)| Some(Ok(connection)))
    }
}

impl axum::serve::Listener for Connections {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        poll_fn(|context| self.poll_accept(context)).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection.
pub(super) struct Connection {
    stream: TcpStream,
    share: Share,
    /// True once the handshake of TLS has ended, or there is none.
    is_begun: AtomicBool,
    /// Gone with the end of the greeting.
    greeting: Option<Greeting>,
    _place: OwnedSemaphorePermit,
}

/// The greeting of a client.
struct Greeting {
    until: Pin<Box<Sleep>>,
    /// The bytes that have arrived since the handshake.
    bytes: usize,
}

impl Connected for Connection {
    type ConnectInfo = Share;

    /// Called once the handshake of TLS has ended.
    fn connect_info(&self) -> Share {
        self.is_begun.store(true, Ordering::Relaxed);
        self.share.clone()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(context, into);
        let is_begun = self.is_begun.load(Ordering::Relaxed);
        let Some(greeting) = &mut self.greeting else {
            return read;
        };
        if is_begun {
            greeting.bytes += into.filled().len() - before;
        }
        if greeting.bytes >= PREFACE {
            self.greeting = None;
        } else if read.is_pending() && greeting.until.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
