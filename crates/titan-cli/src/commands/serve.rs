//! `titan serve`: a node of one machine that speaks TiKV's protocol.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::value_parser;
use titan::{DbOptions, Error, ErrorKind, Result, StatsLevel};
use titan_server::{Node, NodeOptions, RegionSizes, StorageOptions, TlsFiles};

use crate::global::Global;
use crate::output::Out;
use crate::store::{self, AnyClock};

/// Serve a directory by TiKV's protocol: one machine, durable, NOT replicated
///
/// Clients of TiKV find the placement driver and the store at one address, and run unchanged on a
/// cluster later. For development, tests, the edge and the first year. Without a certificate, only
/// this machine can connect. SIGTERM and SIGINT stop the node; killed, it loses nothing that was
/// acknowledged. --config and --json have no effect.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Directory of the node. Made if it is missing.
    dir: PathBuf,
    /// Address to listen at. Port 0 takes a free one.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:2379")]
    listen: SocketAddr,
    /// Address that clients are told to connect to, if it is not the one above.
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// File that gets the address, as HOST:PORT, when the node is ready.
    #[arg(long, value_name = "FILE")]
    port_file: Option<PathBuf>,
    /// Address of a page of metrics for Prometheus, /metrics.
    #[arg(long, value_name = "ADDR")]
    metrics_listen: Option<SocketAddr>,
    /// Times and counts of the databases on that page. `sampled` times one in 32 reads and writes.
    #[arg(long, value_name = "LEVEL", default_value = "off", value_parser = level_parser())]
    stats_level: StatsLevel,
    /// Keep hot ranges whole in memory. MIB is the limit of that memory.
    #[arg(long, value_name = "MIB", num_args = 0..=1, default_missing_value = "256")]
    ime: Option<usize>,
    /// Do not wait for the disk in commits: a power failure may lose the last ones.
    #[arg(long)]
    no_sync: bool,
    /// Hours for which replaced versions can be read. 0: until a client moves the safe point.
    #[arg(long, value_name = "HOURS", default_value_t = 1)]
    retention: u64,
    /// Size of regions.
    #[arg(long, value_name = "MIB", default_value_t = 96, value_parser = value_parser!(u64).range(1..))]
    region_size: u64,
    /// Number of keys of regions.
    #[arg(long, value_name = "N", default_value_t = 960_000, value_parser = value_parser!(u64).range(1..))]
    region_keys: u64,
    /// File of the node's certificates, in PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// File of the node's private key, in PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// File of authorities, in PEM. Clients need a certificate of one of them.
    #[arg(long, value_name = "FILE", requires = "cert")]
    ca: Option<PathBuf>,
    /// Let other machines connect without TLS.
    #[arg(long)]
    insecure: bool,
    #[command(flatten)]
    clock: AnyClock,
}

const EXAMPLES: &str = "Examples:
  titan serve cluster --listen 127.0.0.1:0 --port-file address &
  until [ -e address ]; do sleep 0.1; done; cat address
  kill $!; wait

Clients:
  Go      client, err := txnkv.NewClient([]string{\"127.0.0.1:2379\"})
  Rust    let client = TransactionClient::new(vec![\"127.0.0.1:2379\"]).await?;
  Python  client = tikv_client.TransactionClient.connect([\"127.0.0.1:2379\"])
  JuiceFS juicefs format tikv://127.0.0.1:2379/jfs myjfs";

/// Parses a level by the name that options give it.
fn level_parser() -> impl TypedValueParser<Value = StatsLevel> {
    PossibleValuesParser::new(["off", "sampled", "all"]).try_map(|name| name.parse::<StatsLevel>())
}

pub(crate) fn run(args: &Args, _global: &Global) -> Result<ExitCode> {
    let node = Node::start(&args.dir, &options(args)).map_err(translated)?;
    let mut out = Out::new();
    let (address, connections) = (node.address(), node.most_connections());
    out.line(format_args!(
        "serving at {address}, up to {connections} connections"
    ))?;
    if let Some(metrics) = node.metrics_address() {
        out.line(format_args!("metrics at http://{metrics}/metrics"))?;
    }
    out.flush()?;
    node.run_until_signal().map_err(translated)?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &Args) -> NodeOptions {
    let files = args.cert.clone().zip(args.key.clone());
    let tls = files.map(|(certificate, key)| TlsFiles {
        certificate,
        key,
        client_authority: args.ca.clone(),
    });
    let retention = Duration::from_secs(args.retention.saturating_mul(3600));
    NodeOptions {
        advertise: args.advertise.clone(),
        port_file: args.port_file.clone(),
        metrics: args.metrics_listen,
        tls,
        insecure: args.insecure,
        storage: StorageOptions {
            db: DbOptions {
                stats_level: args.stats_level,
                ..DbOptions::default()
            },
            range_cache: args.ime.map(|mib| mib.saturating_mul(1 << 20)),
            sync: !args.no_sync,
            retention: (!retention.is_zero()).then_some(retention),
            refuse_clock_jump: !args.clock.any_clock,
        },
        stops_by_signal: true,
        regions: RegionSizes {
            bytes: args.region_size.saturating_mul(1 << 20),
            keys: args.region_keys,
        },
        ..NodeOptions::new(args.listen)
    }
}

/// Translates an error of the node into one of the engine, with which commands end.
fn translated(error: titan_server::Error) -> Error {
    use titan_server::Error as Server;
    match error {
        Server::Engine(error) => error,
        Server::Store(error) => store::translated(error),
        Server::Exposed { .. }
        | Server::NoAddress { .. }
        | Server::NoHostAndPort { .. }
        | Server::Tls { .. }
        | Server::NotANode { .. } => Error::invalid_argument(error.to_string()),
        Server::Io { .. } => Error::new(ErrorKind::Io, error.to_string()),
        error => Error::internal(error.to_string()),
    }
}
