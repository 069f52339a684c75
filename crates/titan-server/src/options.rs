//! The options of a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use titan::DbOptions;

/// The options of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// The address to listen at. Port 0 takes a free one.
    pub listen: SocketAddr,
    /// The address that clients are told to connect to; the listening one if `None`.
    pub advertise: Option<String>,
    /// A file that gets the address, as `HOST:PORT`, when the node is ready.
    pub port_file: Option<PathBuf>,
    /// The address of the page of metrics, if there is one.
    pub metrics: Option<SocketAddr>,
    /// The files of TLS. Without them connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Allows connections of other machines without TLS.
    pub insecure: bool,
    /// The options of its databases.
    pub storage: StorageOptions,
    /// The limits of calls.
    pub limits: Limits,
    /// The sizes of regions.
    pub regions: RegionSizes,
    /// Catches SIGTERM and SIGINT from the start on, for [`Node::run_until_signal`].
    ///
    /// [`Node::run_until_signal`]: crate::Node::run_until_signal
    pub stops_by_signal: bool,
}

impl NodeOptions {
    /// The usual options at an address.
    pub fn new(listen: SocketAddr) -> Self {
        NodeOptions {
            listen,
            advertise: None,
            port_file: None,
            metrics: None,
            tls: None,
            insecure: false,
            storage: StorageOptions::default(),
            limits: Limits::default(),
            regions: RegionSizes::default(),
            stops_by_signal: false,
        }
    }
}

/// The options of the databases of a node.
#[derive(Clone, Debug)]
pub struct StorageOptions {
    /// Options of both databases: file system, clock, caches, threads.
    pub db: DbOptions,
    /// The limit of memory of the range cache; `None` without one.
    pub range_cache: Option<usize>,
    /// Waits for the disk in each commit. Otherwise a power failure may lose the last ones.
    pub sync: bool,
    /// The time for which replaced versions can be read; `None` until a client moves the safe
    /// point.
    pub retention: Option<Duration>,
    /// Refuses a start with a clock that is more than a year from the last timestamp. Otherwise
    /// [`Node::clock_jump`](crate::Node::clock_jump) or
    /// [`Node::clock_lag`](crate::Node::clock_lag) reports it.
    pub refuse_clock_jump: bool,
}

impl Default for StorageOptions {
    fn default() -> Self {
        StorageOptions {
            db: DbOptions::default(),
            range_cache: None,
            sync: true,
            retention: Some(Duration::from_secs(3600)),
            refuse_clock_jump: false,
        }
    }
}

/// The files of TLS, in PEM.
#[derive(Clone, Debug)]
pub struct TlsFiles {
    /// The certificates of the node, its own one first.
    pub certificate: PathBuf,
    /// The private key of the node.
    pub key: PathBuf,
    /// The certificates of authorities. If given, a client needs a certificate of one of them.
    pub client_authority: Option<PathBuf>,
}

/// The limits of calls.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The most bytes of a request.
    pub request_bytes: usize,
    /// The most bytes of an answer in memory. A larger one is refused: a scan that ended early
    /// would look like the end of its region.
    pub answer_bytes: usize,
    /// The most bytes of requests that are accepted and not answered. As many may have arrived in
    /// part, and as many of answers may wait to be sent.
    pub bytes_in_flight: usize,
    /// The most connections; fewer if the process may open few files.
    pub connections: usize,
    /// The most reads that run at the same time, half of them of one connection, and the most other
    /// calls.
    pub running: usize,
    /// The most calls that wait for locks of other transactions. Further ones do not wait.
    pub waiting: usize,
    /// The most bytes of a key.
    pub key_bytes: usize,
    /// The most bytes of a value.
    pub value_bytes: usize,
    /// The longest wait for a client that does not read its answers, or does not send the rest of
    /// a request. Then its call or its stream ends.
    pub unread: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Limits {
            request_bytes: 64 << 20,
            answer_bytes: 256 << 20,
            bytes_in_flight: 512 << 20,
            connections: 4096,
            running: (8 * cores).max(16),
            waiting: 256,
            key_bytes: 8 << 10,
            value_bytes: 32 << 20,
            unread: Duration::from_secs(60),
        }
    }
}

/// The sizes of regions.
#[derive(Clone, Copy, Debug)]
pub struct RegionSizes {
    /// The size of a new region in bytes of keys and values. A region is split at one and a half
    /// times the size. At least 1.
    pub bytes: u64,
    /// The number of keys of a new region. At least 1.
    pub keys: u64,
}

impl Default for RegionSizes {
    /// Those of TiKV.
    fn default() -> Self {
        RegionSizes {
            bytes: 96 << 20,
            keys: 960_000,
        }
    }
}
