//! A node in a directory, and its clients.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

use titan_server::proto::kvrpcpb::*;
use titan_server::proto::pdpb::pd_client::PdClient;
use titan_server::proto::pdpb::{GetMembersRequest, GetRegionRequest, RequestHeader, TsoRequest};
use titan_server::proto::tikvpb::tikv_client::TikvClient;
use titan_server::{Node, NodeOptions, StorageOptions};

/// The answer to a call of the key-value service.
macro_rules! ask {
    ($cluster:expr, $method:ident, $request:expr) => {{
        let (request, mut tikv) = ($request, $cluster.tikv());
        let answer = $cluster.runtime.block_on(tikv.$method(request));
        answer.unwrap().into_inner()
    }};
}
pub(crate) use ask;

/// A put of a transaction.
pub fn put(key: impl Into<Bytes>, value: impl Into<Bytes>) -> Mutation {
    Mutation {
        op: Op::Put.into(),
        key: key.into(),
        value: value.into(),
        ..Mutation::default()
    }
}

/// A node, and a connection to it.
pub struct Cluster {
    pub runtime: Runtime,
    pub channel: Channel,
    pub id: u64,
    node: Option<Node>,
    dir: PathBuf,
    options: NodeOptions,
    _temp: Option<TempDir>,
}

/// Options of a node at free ports, without waits for the disk.
pub fn options() -> NodeOptions {
    NodeOptions {
        metrics: Some(([127, 0, 0, 1], 0).into()),
        storage: unsynced(),
        ..NodeOptions::new(([127, 0, 0, 1], 0).into())
    }
}

/// Storage without waits for the disk.
pub fn unsynced() -> StorageOptions {
    StorageOptions {
        sync: false,
        ..StorageOptions::default()
    }
}

impl Cluster {
    pub fn new() -> Self {
        Cluster::with(options())
    }

    pub fn with(options: NodeOptions) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let mut cluster = Cluster::at(temp.path().join("node"), options);
        cluster._temp = Some(temp);
        cluster
    }

    /// A node in a directory that outlives it.
    pub fn at(dir: PathBuf, options: NodeOptions) -> Self {
        let node = Node::start(&dir, &options).unwrap();
        let runtime = runtime();
        let channel = runtime.block_on(connect(&node));
        let id = runtime.block_on(cluster_id(&channel));
        Cluster {
            runtime,
            channel,
            id,
            node: Some(node),
            dir,
            options,
            _temp: None,
        }
    }

    pub fn address(&self) -> String {
        self.node.as_ref().unwrap().address().to_string()
    }

    /// The page of metrics.
    pub fn metrics(&self) -> String {
        let address = self.node.as_ref().unwrap().metrics_address().unwrap();
        let mut page = TcpStream::connect(address).unwrap();
        page.write_all(b"GET /metrics HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        page.read_to_string(&mut text).unwrap();
        text
    }

    /// Stops the node, which may have failed.
    pub fn abandon(mut self) {
        let _ = self.node.take().unwrap().stop();
    }

    /// Starts the node again with a time of a second for clients that neither read nor send.
    pub fn lose_patience(&mut self) {
        self.options.limits.unread = Duration::from_secs(1);
        self.restart();
    }

    /// Waits until the page of metrics has this.
    pub fn wait_for(&self, metric: &str) {
        while !self.metrics().contains(metric) {
            std::thread::yield_now();
        }
    }

    /// Stops the node and starts it again in its directory.
    pub fn restart(&mut self) {
        self.node.take().unwrap().stop().unwrap();
        let node = Node::start(&self.dir, &self.options).unwrap();
        self.channel = self.runtime.block_on(connect(&node));
        self.node = Some(node);
    }

    pub fn tikv(&self) -> TikvClient<Channel> {
        TikvClient::new(self.channel.clone()).max_decoding_message_size(usize::MAX)
    }

    pub fn pd(&self) -> PdClient<Channel> {
        PdClient::new(self.channel.clone())
    }

    pub fn header(&self) -> Option<RequestHeader> {
        Some(RequestHeader {
            cluster_id: self.id,
            sender_id: 0,
        })
    }

    /// A run of timestamps: the first one.
    pub fn timestamps(&self, count: u32) -> u64 {
        let request = TsoRequest {
            header: self.header(),
            count,
            dc_location: String::new(),
        };
        let mut pd = self.pd();
        self.runtime.block_on(async move {
            let asked = tokio_stream::once(request);
            let mut answers = pd.tso(asked).await.unwrap().into_inner();
            let answer = answers.message().await.unwrap().unwrap();
            let last = answer.timestamp.unwrap();
            ((last.physical as u64) << 18) + last.logical as u64 + 1 - u64::from(count)
        })
    }

    pub fn ts(&self) -> u64 {
        self.timestamps(1)
    }

    /// The context of the region with a boundary or key in the form of boundaries.
    pub fn context_at(&self, key: &[u8]) -> Context {
        let request = GetRegionRequest {
            header: self.header(),
            region_key: Bytes::copy_from_slice(key),
            need_buckets: false,
        };
        let mut pd = self.pd();
        let answer = self.runtime.block_on(pd.get_region(request)).unwrap();
        let answer = answer.into_inner();
        let region = answer.region.unwrap();
        Context {
            region_id: region.id,
            region_epoch: region.region_epoch,
            peer: answer.leader,
            ..Context::default()
        }
    }

    pub fn context(&self) -> Option<Context> {
        Some(self.context_at(b""))
    }

    /// The first phase of a new transaction, whose first key is the primary one.
    pub fn prewriting(&self, mutations: Vec<Mutation>) -> PrewriteRequest {
        PrewriteRequest {
            context: self.context(),
            primary_lock: mutations[0].key.clone(),
            mutations,
            start_version: self.ts(),
            lock_ttl: 3000,
            ..PrewriteRequest::default()
        }
    }

    /// The pessimistic lock of a key, for the transaction that begins at `start`.
    pub fn locking(&self, start: u64, key: &str, wait_timeout: i64) -> PessimisticLockRequest {
        PessimisticLockRequest {
            context: self.context(),
            mutations: vec![Mutation {
                op: Op::PessimisticLock.into(),
                ..put(key.to_owned(), "")
            }],
            primary_lock: key.to_owned().into(),
            start_version: start,
            for_update_ts: start,
            lock_ttl: 60_000,
            wait_timeout,
            ..PessimisticLockRequest::default()
        }
    }

    /// Puts `v` at a key, which stays locked. Returns the transaction's start.
    pub fn prewrite(&self, key: &str) -> u64 {
        let request = self.prewriting(vec![put(key.to_owned(), "v")]);
        let start = request.start_version;
        assert_eq!(
            ask!(self, kv_prewrite, request),
            PrewriteResponse::default()
        );
        start
    }

    /// Commits a key of a transaction now.
    pub fn commit(&self, key: &str, start_version: u64) -> CommitResponse {
        let request = CommitRequest {
            context: self.context(),
            start_version,
            keys: vec![key.to_owned().into()],
            commit_version: self.ts(),
        };
        ask!(self, kv_commit, request)
    }

    /// Reads a key now.
    pub fn get(&self, key: &str) -> GetResponse {
        self.get_at(key, self.ts())
    }

    pub fn get_at(&self, key: &str, version: u64) -> GetResponse {
        let request = GetRequest {
            context: self.context(),
            key: key.to_owned().into(),
            version,
        };
        ask!(self, kv_get, request)
    }

    pub fn raw_put(&self, key: &str, value: impl Into<Bytes>) -> RawPutResponse {
        let request = RawPutRequest {
            context: self.context(),
            key: key.to_owned().into(),
            value: value.into(),
            ..RawPutRequest::default()
        };
        ask!(self, raw_put, request)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(node) = self.node.take() {
            node.stop().unwrap();
        }
    }
}

pub fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

async fn connect(node: &Node) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", node.address())).unwrap();
    let endpoint = endpoint.connect_timeout(Duration::from_secs(10));
    endpoint.connect().await.unwrap()
}

async fn cluster_id(channel: &Channel) -> u64 {
    let mut pd = PdClient::new(channel.clone());
    let members = pd.get_members(GetMembersRequest::default()).await.unwrap();
    members.into_inner().header.unwrap().cluster_id
}
