//! A running node: its listener, its transport, its end.
//!
//! | file | owns |
//! |---|---|
//! | `opened` | the parts of a node that takes calls, and their end |
//! | `connections` | how many connections there are, and their greeting |
//! | `port_file` | the file that tells the address |
//! | `tls` | the files of TLS |
//! | `signals` | the signals that stop a node |

mod connections;
mod opened;
mod port_file;
mod signals;
mod tls;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::transport::Server;
use tower::util::{MapRequestLayer, MapResponseLayer};

use self::connections::Connections;
use self::signals::Signals;
use crate::error::{Error, Result};
use crate::options::NodeOptions;
use crate::services::{Arriving, Executor, Lanes, network_threads, watched};

pub(crate) use self::opened::Opened;

/// Threads beyond those of calls: for files, names and signals.
const SPARE_THREADS: usize = 8;
/// The longest wait for the last answers when a node stops.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
/// The time after which a connection without traffic is asked whether it is alive.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Bytes that a client may send before the node reads them, for a stream and for a connection.
const WINDOWS: (u32, u32) = (2 << 20, 8 << 20);
/// The most calls of a connection that are not in batches.
const STREAMS: u32 = 1024;

/// The most connections to the page of metrics.
const METRICS_CONNECTIONS: usize = 16;

/// A running node.
pub struct Node {
    address: SocketAddr,
    most_connections: usize,
    metrics: Option<SocketAddr>,
    runtime: Runtime,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    opened: Opened,
    signals: Option<Signals>,
}

impl Node {
    /// Opens the node in the directory `dir`, or makes one of an empty or missing directory, and
    /// serves it. Returns when it accepts connections.
    ///
    /// # Errors
    /// `Exposed`, `NoAddress`, `NoHostAndPort`, `Tls`, `NotANode`; `Io` if the address is taken;
    /// those of the databases.
    pub fn start(dir: impl AsRef<Path>, options: &NodeOptions) -> Result<Node> {
        let tls = options.tls.as_ref().map(tls::config).transpose()?;
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).map_err(Error::Transport)?;
        }
        // The page of metrics has no TLS.
        let listen = options.tls.is_none().then_some(options.listen);
        let plain = [listen, options.metrics].into_iter().flatten();
        let mut exposed = plain.filter(|address| !address.ip().is_loopback());
        if !options.insecure
            && let Some(address) = exposed.next()
        {
            return Err(Error::Exposed { address });
        }
        if options.listen.ip().is_unspecified() && options.advertise.is_none() {
            let address = options.listen;
            return Err(Error::NoAddress { address });
        }
        if let Some(advertised) = &options.advertise
            && !has_host_and_port(advertised)
        {
            let address = advertised.clone();
            return Err(Error::NoHostAndPort { address });
        }
        let limits = &options.limits;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .worker_threads(network_threads())
            .thread_name("titan-serve")
            .max_blocking_threads(Lanes::threads(limits) + SPARE_THREADS)
            .build()
            .map_err(Error::io("start threads"))?;
        let listen = |address: SocketAddr| {
            let bound = runtime.block_on(TcpListener::bind(address));
            bound.map_err(Error::io(format!("listen at {address}")))
        };
        // First the addresses: a node that is taken is told before its files are opened.
        let listener = listen(options.listen)?;
        let address = listener
            .local_addr()
            .map_err(Error::io("read the own address"))?;
        let metrics = options.metrics.map(&listen).transpose()?;
        let signals = match options.stops_by_signal {
            true => Some(runtime.block_on(async { Signals::catch() })?),
            false => None,
        };
        let advertised = options.advertise.clone();
        let advertised = advertised.unwrap_or_else(|| address.to_string());
        let opened = Opened::open(dir.as_ref(), options, advertised)?;
        let executor = Arc::clone(opened.executor());
        let _inside = runtime.enter();
        let metrics_address = metrics
            .as_ref()
            .and_then(|metrics| metrics.local_addr().ok());
        let arriving = Arriving::new(limits, opened.stopping());
        if let Some(metrics) = metrics {
            let metrics = Connections::new(metrics, limits, METRICS_CONNECTIONS);
            serve_metrics(metrics, Arc::clone(&executor), arriving.clone());
        }
        let counted = move |request| arriving.counted(request);
        let watched = move |response: http::Response<Body>| watched(&executor, response);
        let router = server
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_concurrent_streams(STREAMS)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .layer(MapRequestLayer::new(counted))
            .layer(MapResponseLayer::new(watched))
            .add_routes(opened.routes(options));
        let mut stopped = opened.stopping();
        let most = connections::limit(limits, &*options.storage.db.vfs);
        let incoming = Connections::new(listener, limits, most);
        let serving = runtime.spawn(router.serve_with_incoming_shutdown(incoming, async move {
            // An error means that the node is gone.
            let _ = stopped.wait_for(|is_stopping| *is_stopping).await;
        }));
        if let Some(file) = &options.port_file {
            port_file::write(file, reachable(address))?;
        }
        Ok(Node {
            address,
            most_connections: most,
            metrics: metrics_address,
            runtime,
            serving,
            opened,
            signals,
        })
    }

    /// The address at which the node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The most connections of clients. Further ones are closed.
    pub fn most_connections(&self) -> usize {
        self.most_connections
    }

    /// The address of the page of metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The distance of the clock from the last timestamp of the run before, if it is more than a
    /// year ahead.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.opened.shared().store().clock_jump()
    }

    /// The same, if it is more than a year behind.
    pub fn clock_lag(&self) -> Option<Duration> {
        self.opened.shared().store().clock_lag()
    }

    /// Waits for SIGTERM or SIGINT, and stops. With [`NodeOptions::stops_by_signal`] signals count
    /// from the start on.
    ///
    /// # Errors
    /// Those of [`Node::stop`]; `Io` if signals cannot be caught; `Transport` if it ends by itself.
    pub fn run_until_signal(mut self) -> Result<()> {
        let signals = self.signals.take();
        let signal = self.runtime.block_on(async {
            let mut signals = match signals {
                Some(signals) => signals,
                None => Signals::catch()?,
            };
            tokio::select! {
                () = signals.wait() => Ok(()),
                ended = &mut self.serving => match ended {
                    Ok(Err(error)) => Err(Error::Transport(error)),
                    // Nobody stops it but this thread.
                    Ok(Ok(())) | Err(_) => Ok(()),
                },
            }
        });
        let stopped = self.stop();
        signal.and(stopped)
    }

    /// Takes no further calls, waits some seconds for the last answers, and closes the databases.
    ///
    /// # Errors
    /// Those of the databases.
    pub fn stop(self) -> Result<()> {
        let Node {
            runtime,
            mut serving,
            opened,
            ..
        } = self;
        opened.stop();
        if !serving.is_finished() {
            // Clients that stay are disconnected.
            let _ = runtime.block_on(async { timeout(LAST_ANSWERS, &mut serving).await });
        }
        serving.abort();
        let closed = opened.close();
        runtime.shutdown_timeout(LAST_ANSWERS);
        closed
    }
}

/// The address by which this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let mut address = address;
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Returns true for an address that a client can connect to: a host and a port.
fn has_host_and_port(address: &str) -> bool {
    let parsed = address.parse::<http::uri::Authority>();
    parsed.is_ok_and(|parsed| {
        let port = parsed.port_u16().is_some_and(|port| port > 0);
        port && !parsed.host().is_empty() && !address.contains('@')
    })
}

fn serve_metrics(listener: Connections, executor: Arc<Executor>, arriving: Arriving) {
    let page = move || {
        let (executor, arriving) = (Arc::clone(&executor), arriving.bytes());
        async move {
            let page = move || executor.metrics.page(executor.shared(), arriving);
            let page = tokio::task::spawn_blocking(page);
            page.await.unwrap_or_default()
        }
    };
    let router = Router::new().route("/metrics", get(page));
    tokio::spawn(async move {
        // Ends with the runtime.
        let _ = axum::serve(listener, router).await;
    });
}
