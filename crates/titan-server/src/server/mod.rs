//! A running node: its listener, its transport, its end.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tower::util::MapRequestLayer;

use crate::error::{Error, Result};
use crate::node::{Keeper, Shared};
use crate::options::{NodeOptions, TlsFiles};
use crate::services::{Arriving, Executor, routes};

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

/// A running node.
pub struct Node {
    address: SocketAddr,
    metrics: Option<SocketAddr>,
    runtime: Runtime,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    stop: watch::Sender<bool>,
    shared: Arc<Shared>,
    keeper: Keeper,
    signals: Option<Signals>,
}

impl Node {
    /// Opens the node in the directory `dir`, or makes one of an empty or missing directory, and
    /// serves it. Returns when it accepts connections.
    ///
    /// # Errors
    /// `Exposed`, `Tls`, `NotANode`; `Io` if the address is taken; those of the databases.
    pub fn start(dir: impl AsRef<Path>, options: &NodeOptions) -> Result<Node> {
        let tls = options.tls.as_ref().map(tls_config).transpose()?;
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).map_err(Error::Transport)?;
        }
        if options.tls.is_none() && !options.insecure && !options.listen.ip().is_loopback() {
            let address = options.listen;
            return Err(Error::Exposed { address });
        }
        if options.listen.ip().is_unspecified() && options.advertise.is_none() {
            let address = options.listen;
            return Err(Error::NoAddress { address });
        }
        let limits = &options.limits;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("titan-serve")
            .max_blocking_threads(limits.running + limits.waiting + SPARE_THREADS)
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
        let (to_check, checked) = mpsc::channel();
        let advertised = options.advertise.clone();
        let advertised = advertised.unwrap_or_else(|| address.to_string());
        let shared = Arc::new(Shared::open(dir.as_ref(), options, advertised, to_check)?);
        let keeper = Keeper::start(Arc::clone(&shared), checked)?;
        let executor = Arc::new(Executor::new(Arc::clone(&shared)));
        let (stop, stopping) = watch::channel(false);
        let _inside = runtime.enter();
        let metrics_address = metrics
            .as_ref()
            .and_then(|metrics| metrics.local_addr().ok());
        let arriving = Arriving::new(limits.bytes_in_flight.max(limits.request_bytes));
        if let Some(metrics) = metrics {
            serve_metrics(metrics, Arc::clone(&executor), arriving.clone());
        }
        let counted =
            move |request: http::Request<Body>| request.map(|body| arriving.counted(body));
        let router = server
            .initial_stream_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_concurrent_streams(STREAMS)
            .http2_keepalive_interval(Some(KEEPALIVE))
            .tcp_keepalive(Some(KEEPALIVE))
            .layer(MapRequestLayer::new(counted))
            .add_routes(routes(&executor, &stopping, options));
        let mut stopped = stopping;
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let serving = runtime.spawn(router.serve_with_incoming_shutdown(incoming, async move {
            // An error means that the node is gone.
            let _ = stopped.wait_for(|is_stopping| *is_stopping).await;
        }));
        if let Some(file) = &options.port_file {
            write_port_file(file, reachable(address))?;
        }
        Ok(Node {
            address,
            metrics: metrics_address,
            runtime,
            serving,
            stop,
            shared,
            keeper,
            signals,
        })
    }

    /// The address at which the node listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the page of metrics.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics
    }

    /// The distance of the clock from the last timestamp of the run before, if it is more than a
    /// year.
    pub fn clock_jump(&self) -> Option<Duration> {
        self.shared.store().clock_jump()
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
            stop,
            shared,
            keeper,
            ..
        } = self;
        stop.send_replace(true);
        if !serving.is_finished() {
            // Clients that stay are disconnected.
            let _ = runtime.block_on(async { timeout(LAST_ANSWERS, &mut serving).await });
        }
        serving.abort();
        drop(keeper);
        let closed = shared.close();
        runtime.shutdown_timeout(LAST_ANSWERS);
        closed
    }
}

/// The signals that stop a node.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches the signals. Within a runtime.
    fn catch() -> Result<Self> {
        let catch = |kind| signal(kind).map_err(Error::io("catch signals"));
        Ok(Signals {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
        })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
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

fn tls_config(files: &TlsFiles) -> Result<ServerTlsConfig> {
    let read = |file: &Path| {
        let text = fs::read(file).map_err(Error::io(format!("read {}", file.display())))?;
        let is_pem = text.windows(11).any(|bytes| bytes == b"-----BEGIN ");
        match is_pem {
            true => Ok(text),
            false => Err(Error::tls(format!("{} is no PEM file", file.display()))),
        }
    };
    let identity = Identity::from_pem(read(&files.certificate)?, read(&files.key)?);
    let mut config = ServerTlsConfig::new().identity(identity);
    if let Some(authority) = &files.client_authority {
        config = config.client_ca_root(Certificate::from_pem(read(authority)?));
    }
    Ok(config)
}

/// Writes the address so that a reader finds all of it or no file.
fn write_port_file(file: &Path, address: SocketAddr) -> Result<()> {
    let doing = || format!("write {}", file.display());
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = file.with_file_name(name);
    fs::write(&new, address.to_string()).map_err(Error::io(doing()))?;
    fs::rename(&new, file).map_err(Error::io(doing()))
}

fn serve_metrics(listener: TcpListener, executor: Arc<Executor>, arriving: Arriving) {
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
