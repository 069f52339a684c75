//! The client of etcd: one connection to one member, and the calls that a store needs.
//!
//! The next connection is one to the next member, so a member that is gone is left.

use std::time::Duration;

use prost::Message;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::credentials::Credentials;
use super::failures;
use super::wire::{
    AuthenticateRequest, AuthenticateResponse, CompactionRequest, LeaseGrantRequest,
    LeaseGrantResponse, LeaseRequest, LeaseResponse, Nothing, RangeRequest, RangeResponse,
    StatusResponse, TransactionRequest, TransactionResponse,
};
use crate::error::Error;
use crate::kv::RemoteUrl;
use crate::kv::remote::cluster::{self, Client};

/// The time after which a connection is given up that does not come about.
const CONNECT: Duration = Duration::from_secs(2);
/// The most bytes of an answer.
const LARGEST_ANSWER: usize = 64 << 20;

/// A connection to a cluster of etcd.
pub(super) type Cluster = cluster::Cluster<EtcdClient>;

/// A connection to a member.
#[derive(Clone)]
pub(super) struct EtcdClient {
    channel: Channel,
    /// Names the user, if there is one.
    token: Option<MetadataValue<Ascii>>,
}

impl Client for EtcdClient {
    const ATTEMPT: Duration = Duration::from_secs(4);

    type Error = Status;

    async fn connect(url: &RemoteUrl, attempt: usize) -> Result<Self, Status> {
        let member = &url.endpoints[attempt % url.endpoints.len()];
        let wrong = |what: String| Status::new(Code::InvalidArgument, what);
        let scheme = if url.tls.is_some() { "https" } else { "http" };
        let endpoint = Endpoint::from_shared(format!("{scheme}://{member}"));
        let mut endpoint = endpoint
            .map_err(|e| wrong(e.to_string()))?
            .connect_timeout(CONNECT)
            .tcp_nodelay(true);
        if let Some(files) = &url.tls {
            let read = |file: &std::path::Path| {
                std::fs::read(file).map_err(|e| wrong(format!("{}: {e}", file.display())))
            };
            let authority = Certificate::from_pem(read(&files.ca)?);
            let mut tls = ClientTlsConfig::new().ca_certificate(authority);
            if let Some(client) = &files.client {
                tls = tls.identity(Identity::from_pem(read(&client.cert)?, read(&client.key)?));
            }
            endpoint = { endpoint.tls_config(tls) }.map_err(|e| wrong(e.to_string()))?;
        }
        let channel = endpoint.connect().await;
        let channel = channel.map_err(|e| Status::unavailable(failures::causes(&e)))?;
        let mut client = EtcdClient {
            channel,
            token: None,
        };
        let credentials = Credentials::read(url.credentials.as_deref());
        let credentials = credentials.map_err(|e| wrong(e.to_string()))?;
        let user = credentials.get("ETCD_USER");
        if let Some((name, password)) = user.zip(credentials.get("ETCD_PASSWORD")) {
            let request = AuthenticateRequest {
                name: name.to_owned(),
                password: password.to_owned(),
            };
            let path = "/etcdserverpb.Auth/Authenticate";
            let answer: AuthenticateResponse = client.unary(path, request).await?;
            let token = answer.token.parse();
            client.token = Some(token.map_err(|_| wrong("a token of etcd".to_owned()))?);
        }
        Ok(client)
    }

    fn passes(error: &Status) -> bool {
        failures::passes(error)
    }

    fn is_lost(error: &Status) -> bool {
        failures::passes(error)
    }

    fn text(error: &Status) -> String {
        failures::text(error)
    }

    fn translated(error: &Status, place: &str) -> Error {
        failures::translated(error, place)
    }
}

impl EtcdClient {
    /// The keys of a range. One at a revision is read from the member, if that has the revision.
    pub(super) async fn range(&self, range: RangeRequest) -> Result<RangeResponse, Status> {
        let path = "/etcdserverpb.KV/Range";
        if range.revision == 0 {
            return self.unary(path, range).await;
        }
        let mut range = RangeRequest {
            serializable: true,
            ..range
        };
        match self.unary(path, range.clone()).await {
            Err(error) if failures::is_behind(&error) => {
                range.serializable = false;
                self.unary(path, range).await
            }
            read => read,
        }
    }

    pub(super) async fn transaction(
        &self,
        request: TransactionRequest,
    ) -> Result<TransactionResponse, Status> {
        self.unary("/etcdserverpb.KV/Txn", request).await
    }

    pub(super) async fn compact(&self, revision: i64) -> Result<(), Status> {
        let request = CompactionRequest {
            revision,
            physical: true,
        };
        let path = "/etcdserverpb.KV/Compact";
        let done: Result<Nothing, Status> = self.unary(path, request).await;
        done.map(drop)
    }

    pub(super) async fn grant(&self, seconds: i64) -> Result<LeaseGrantResponse, Status> {
        let request = LeaseGrantRequest { ttl: seconds };
        self.unary("/etcdserverpb.Lease/LeaseGrant", request).await
    }

    pub(super) async fn revoke(&self, id: i64) -> Result<(), Status> {
        let path = "/etcdserverpb.Lease/LeaseRevoke";
        let done: Result<Nothing, Status> = self.unary(path, LeaseRequest { id }).await;
        done.map(drop)
    }

    /// The rest of the time of a lease.
    pub(super) async fn time_to_live(&self, id: i64) -> Result<LeaseResponse, Status> {
        let path = "/etcdserverpb.Lease/LeaseTimeToLive";
        self.unary(path, LeaseRequest { id }).await
    }

    /// Puts off the end of a lease.
    pub(super) async fn keep_alive(&self, id: i64) -> Result<LeaseResponse, Status> {
        let path = PathAndQuery::from_static("/etcdserverpb.Lease/LeaseKeepAlive");
        let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
        let one = futures_util::stream::once(std::future::ready(LeaseRequest { id }));
        let mut calls = self.calls().await?;
        let answers = calls.streaming(self.request(one), path, codec).await?;
        let answer = answers.into_inner().message().await?;
        answer.ok_or_else(|| Status::unavailable("no answer to a keep-alive"))
    }

    /// The sizes of the member's database.
    pub(super) async fn status(&self) -> Result<StatusResponse, Status> {
        let path = "/etcdserverpb.Maintenance/Status";
        self.unary(path, Nothing {}).await
    }

    async fn unary<Q, A>(&self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: Message + Default + 'static,
        A: Message + Default + 'static,
    {
        let codec = ProstCodec::<Q, A>::default();
        let mut calls = self.calls().await?;
        let path = PathAndQuery::from_static(path);
        let answer = calls.unary(self.request(message), path, codec).await?;
        Ok(answer.into_inner())
    }

    async fn calls(&self) -> Result<tonic::client::Grpc<Channel>, Status> {
        let calls = tonic::client::Grpc::new(self.channel.clone());
        let mut calls = calls.max_decoding_message_size(LARGEST_ANSWER);
        let ready = calls.ready().await;
        ready.map_err(|e| Status::unavailable(failures::causes(&e)))?;
        Ok(calls)
    }

    fn request<M>(&self, message: M) -> tonic::Request<M> {
        let mut request = tonic::Request::new(message);
        let metadata = request.metadata_mut();
        // A member that knows no leader refuses at once.
        metadata.insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &self.token {
            metadata.insert("token", token.clone());
        }
        request
    }
}
