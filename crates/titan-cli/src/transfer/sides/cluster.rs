//! A node or cluster that speaks TiKV's protocol.
//!
//! Reads are pages within one region. The number of rows of a page follows the bytes of the pages
//! before, so that answers have about [`PAGE_BYTES`]. An answer beyond [`LARGEST_ANSWER`] is not
//! received; the page is asked for again with fewer rows.

use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tikv_client::{
    Backoff, BoundRange, CheckLevel, Config, RetryOptions, TimestampExt, TransactionClient,
    TransactionOptions,
};
use titan::{Error, ErrorKind, Result};
use titan_mvcc::Timestamp;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tonic::transport::{Certificate, ClientTlsConfig, Identity};

use super::place::Network;
use super::placement::Placement;
use super::retries::{Failure, has_surely_failed, is_too_large, no_answer, repeated};
use super::side::{Pairs, Side, Transaction};
use crate::transfer::pairs::{KeyRange, Pair};

/// The bytes that a page is to have.
const PAGE_BYTES: u64 = 2 << 20;
/// The most rows of a page.
const MOST_ROWS: u32 = 2048;
/// Rows of the first page.
const FIRST_ROWS: u32 = 32;
/// The most bytes of an answer: a value of 32 MiB, the largest of a node, or several.
const LARGEST_ANSWER: usize = 72 << 20;
/// Seconds for which the safe point is held; a third of it between two renewals.
const HOLD_SECONDS: u64 = 300;

/// A node or cluster.
pub(super) struct Cluster {
    client: TransactionClient,
    placement: Arc<Placement>,
    patience: Duration,
    /// The timestamp at which the safe point is held, and the renewals.
    hold: Option<(Timestamp, JoinHandle<()>)>,
    /// The last field: the others end before it.
    runtime: Runtime,
}

impl Cluster {
    /// Connects to a cluster by its placement drivers.
    ///
    /// # Errors
    /// `Io` if none answers, or a file of TLS cannot be read.
    pub(super) fn open(addresses: &[String], network: &Network) -> Result<Self> {
        let patience = network.patience();
        let mut config = Config::default()
            .with_timeout(patience)
            .with_grpc_max_decoding_message_size(LARGEST_ANSWER);
        let mut tls = None;
        if let (Some(ca), Some(cert), Some(key)) = (&network.ca, &network.cert, &network.key) {
            let identity = Identity::from_pem(read(cert)?, read(key)?);
            let authority = Certificate::from_pem(read(ca)?);
            let files = ClientTlsConfig::new().identity(identity);
            tls = Some(files.ca_certificate(authority));
            config = config.with_security(ca, cert, key);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| Error::new(ErrorKind::Io, format!("threads of the network: {e}")))?;
        // First, since its errors name the address.
        let placement = runtime.block_on(Placement::connect(addresses, tls, patience))?;
        let client = runtime.block_on(async {
            let client = TransactionClient::new_with_config(addresses.to_vec(), config);
            let client = tokio::time::timeout(patience, client).await;
            let client = client.map_err(|_| no_answer())?;
            client.map_err(|error| error.translated())
        })?;
        Ok(Cluster {
            client,
            placement: Arc::new(placement),
            patience,
            hold: None,
            runtime,
        })
    }

    /// Options with this many attempts after errors of regions and of the transport.
    fn options(&self, attempts: u32) -> TransactionOptions {
        // Locks of dead clients last for seconds.
        let pauses = u32::try_from(self.patience.as_millis() / 500).unwrap_or(u32::MAX);
        TransactionOptions::new_optimistic()
            .drop_check(CheckLevel::None)
            .retry_options(RetryOptions::new(
                Backoff::no_jitter_backoff(2, 500, attempts),
                Backoff::no_jitter_backoff(2, 500, pauses.saturating_add(10)),
            ))
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn end_hold(&mut self) {
        if let Some((at, renewals)) = self.hold.take() {
            renewals.abort();
            // After a failure it ends by itself.
            let _ = self.wait(self.placement.hold(&service(at), at.0, 0));
        }
    }
}

/// The name under which the safe point is held at a timestamp. Other programs have other names.
fn service(at: Timestamp) -> String {
    format!("titan-mvcc-{}-{at}", std::process::id())
}

/// Refuses a timestamp before the safe point: a cluster answers such reads, and may find less.
fn check_readable(at: Timestamp, safe_point: u64) -> Result<()> {
    if safe_point <= at.0 {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "timestamp {at} is before the safe point {safe_point}: its versions may have been dropped"
    )))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::io(e, "read", path))
}

impl Side for Cluster {
    fn name(&self) -> String {
        format!("cluster {}", self.placement.cluster)
    }

    fn age(&self) -> u64 {
        0
    }

    fn is_resumable(&self) -> bool {
        true
    }

    fn timestamp(&self, at: Option<Timestamp>) -> Result<Timestamp> {
        let now = self.wait(repeated(self.patience, async || {
            self.client.current_timestamp().await
        }))?;
        let now = Timestamp(now.version());
        match at {
            Some(at) if at > now => {
                let what = format!("timestamp {at} is in the future: it is {now} now");
                Err(Error::invalid_argument(what))
            }
            Some(at) => Ok(at),
            None => Ok(now),
        }
    }

    fn hold(&mut self, at: Timestamp) -> Result<()> {
        let (placement, service) = (Arc::clone(&self.placement), service(at));
        let seconds = HOLD_SECONDS.cast_signed();
        let oldest = self.wait(placement.hold(&service, at.0, seconds))?;
        // ORDER: after the hold, so that the safe point does not pass it later.
        let safe_point = oldest.max(self.wait(placement.safe_point())?);
        check_readable(at, safe_point)?;
        let renewals = self.runtime.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs(HOLD_SECONDS / 3)).await;
                // A hold that is lost shows when it is checked.
                let _ = placement.hold(&service, at.0, seconds).await;
            }
        });
        self.end_hold();
        self.hold = Some((at, renewals));
        Ok(())
    }

    fn check_hold(&self) -> Result<()> {
        match &self.hold {
            Some((at, _)) => check_readable(*at, self.wait(self.placement.safe_point())?),
            None => Ok(()),
        }
    }

    fn scan<'a>(&'a self, at: Timestamp, range: KeyRange) -> Result<Pairs<'a>> {
        Ok(Box::new(Scan {
            cluster: self,
            at,
            is_over: range.is_empty(),
            range,
            region_end: None,
            rows: FIRST_ROWS,
            page: VecDeque::new(),
        }))
    }

    fn begin<'a>(&'a self) -> Result<Box<dyn Transaction + 'a>> {
        let transaction = self.wait(repeated(self.patience, async || {
            self.client.begin_with_options(self.options(10)).await
        }))?;
        Ok(Box::new(Writes {
            cluster: self,
            transaction,
        }))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end_hold();
        Ok(())
    }
}

/// A scan of a cluster, page by page.
struct Scan<'a> {
    cluster: &'a Cluster,
    at: Timestamp,
    /// The part that is not read yet.
    range: KeyRange,
    is_over: bool,
    /// The end of the region at the beginning of the range, once it is known.
    region_end: Option<Option<Bytes>>,
    /// Rows of the next page.
    rows: u32,
    page: VecDeque<Pair>,
}

impl Scan<'_> {
    /// Reads the next page.
    fn fill(&mut self) -> Result<()> {
        let cluster = self.cluster;
        let region_end = match self.region_end.take() {
            Some(end) => end,
            None => cluster.wait(cluster.placement.region_end(&self.range.from))?,
        };
        let within = KeyRange {
            from: self.range.from.clone(),
            to: match (&region_end, &self.range.to) {
                (Some(end), Some(to)) => Some(end.min(to).clone()),
                (end, to) => end.clone().or_else(|| to.clone()),
            },
        };
        let pairs = self.page_of(&within)?;
        let bytes: u64 = pairs.iter().map(Pair::bytes).sum();
        let is_whole = pairs.len() < self.rows as usize;
        if !pairs.is_sorted_by(|a, b| a.key < b.key)
            || !pairs.iter().all(|pair| within.contains(&pair.key))
        {
            return Err(wrong_pairs());
        }
        match (pairs.last(), within.to) {
            (Some(last), _) if !is_whole => {
                self.range = self.range.behind(&last.key);
                self.region_end = Some(region_end);
            }
            (_, Some(to)) if region_end.as_ref() == Some(&to) => self.range.from = to,
            _ => self.is_over = true,
        }
        self.is_over |= self.range.is_empty();
        // Twice as many rows at most: later ones may be larger.
        let average = bytes / (pairs.len() as u64).max(1);
        let fitting = PAGE_BYTES / average.max(1);
        let fitting = u32::try_from(fitting).unwrap_or(u32::MAX).max(1);
        self.rows = (2 * self.rows).min(fitting).min(MOST_ROWS);
        self.page = pairs.into();
        Ok(())
    }

    /// The first rows of a range, fewer than asked for if the answer would be too large.
    fn page_of(&mut self, range: &KeyRange) -> Result<Vec<Pair>> {
        loop {
            let read = self.cluster.wait(repeated(self.cluster.patience, async || {
                // A snapshot keeps all that it has read.
                let at = tikv_client::Timestamp::from_version(self.at.0);
                // The client repeats requests for too large answers as they are.
                let options = self.cluster.options(2);
                let mut snapshot = self.cluster.client.snapshot(at, options);
                match snapshot.scan(bounds(range), self.rows).await {
                    Ok(rows) => Ok(Some(rows.collect::<Vec<_>>())),
                    Err(error) if is_too_large(&error) && self.rows > 1 => Ok(None),
                    Err(error) => Err(error),
                }
            }));
            match read? {
                Some(rows) => {
                    let pair = |row: tikv_client::KvPair| {
                        let (key, value): (tikv_client::Key, Vec<u8>) = row.into();
                        Pair {
                            key: Vec::from(key).into(),
                            value: value.into(),
                        }
                    };
                    return Ok(rows.into_iter().map(pair).collect());
                }
                None => self.rows = (self.rows / 4).max(1),
            }
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<Pair>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.page.is_empty() && !self.is_over {
            if let Err(error) = self.fill() {
                self.is_over = true;
                return Some(Err(error));
            }
        }
        self.page.pop_front().map(Ok)
    }
}

fn bounds(range: &KeyRange) -> BoundRange {
    let from = range.from.to_vec();
    match &range.to {
        Some(to) => (from..to.to_vec()).into(),
        None => (from..).into(),
    }
}

/// The error for pairs that are not those of their range.
fn wrong_pairs() -> Error {
    Error::internal("a cluster answered with keys that were not asked for, or not in their order")
}

/// The writes of a transaction.
struct Writes<'a> {
    cluster: &'a Cluster,
    transaction: tikv_client::Transaction,
}

impl Transaction for Writes<'_> {
    fn start(&self) -> Timestamp {
        Timestamp(self.transaction.start_timestamp().version())
    }

    fn put(&mut self, pair: &Pair) -> Result<()> {
        let put = self.transaction.put(pair.key.to_vec(), pair.value.to_vec());
        self.cluster.wait(put).map_err(|e| e.translated())
    }

    fn delete(&mut self, key: &Bytes) -> Result<()> {
        let deleted = self.transaction.delete(key.to_vec());
        self.cluster.wait(deleted).map_err(|e| e.translated())
    }

    fn commit(mut self: Box<Self>) -> Result<()> {
        let (cluster, transaction) = (self.cluster, &mut self.transaction);
        let (mut attempts, mut has_failed) = (0, false);
        cluster.wait(async {
            // Both phases can be repeated.
            let committed = repeated(cluster.patience, async || {
                attempts += 1;
                has_failed = false;
                let committed = transaction.commit().await;
                // Later attempts may meet versions that an earlier one has committed.
                let error = committed.as_ref().err();
                has_failed = attempts == 1 && error.is_some_and(has_surely_failed);
                committed
            });
            let committed = committed.await;
            // After other failures the transaction may have committed in part. Its locks expire,
            // and clients that meet them find its fate.
            if has_failed {
                let _ = tokio::time::timeout(cluster.patience, transaction.rollback()).await;
            }
            committed.map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use titan_server::proto::pdpb::pd_client::PdClient;
    use titan_server::proto::pdpb::{RequestHeader, UpdateGcSafePointRequest};
    use titan_server::{Node, NodeOptions};
    use tonic::transport::Endpoint;

    use super::*;

    #[test]
    fn a_hold_is_lost_when_the_safe_point_passes_it() {
        let dir = tempfile::tempdir().unwrap();
        let options = NodeOptions::new(([127, 0, 0, 1], 0).into());
        let node = Node::start(dir.path().join("node"), &options).unwrap();
        let address = node.address().to_string();
        let network = Network {
            ca: None,
            cert: None,
            key: None,
            patience: 600,
        };
        let mut cluster = Cluster::open(std::slice::from_ref(&address), &network).unwrap();
        let at = cluster.timestamp(None).unwrap();
        cluster.hold(at).unwrap();
        cluster.check_hold().unwrap();
        // As another client does that knows of no holds.
        let moved = async {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
            let mut pd = PdClient::new(endpoint.connect().await.unwrap());
            let request = UpdateGcSafePointRequest {
                header: Some(RequestHeader {
                    cluster_id: cluster.placement.cluster,
                    sender_id: 0,
                }),
                safe_point: at.0 + 1,
            };
            pd.update_gc_safe_point(request).await.unwrap()
        };
        cluster.wait(moved);
        let lost = cluster.check_hold().unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::InvalidArgument);
        Box::new(cluster).close().unwrap();
        node.stop().unwrap();
    }
}
