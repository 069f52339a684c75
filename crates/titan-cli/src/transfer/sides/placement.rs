//! The placement driver of a cluster: regions and safe points.
//!
//! The client of transactions asks all regions of a range at once, and has no calls for safe points
//! of services. So scans learn here where a region ends, and exports hold the safe point.

use std::future::Future;
use std::time::{Duration, Instant};

use bytes::Bytes;
use titan::{Error, ErrorKind, Result};
use titan_mvcc::codec;
use titan_server::proto::pdpb::pd_client::PdClient;
use titan_server::proto::pdpb::{
    GetGcSafePointRequest, GetMembersRequest, GetRegionRequest, RequestHeader, ResponseHeader,
    UpdateServiceGcSafePointRequest,
};
use tokio::sync::Mutex;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Status};

use super::retries::{Failure, NO_ANSWER, PAUSE, causes, no_answer};

/// The placement driver of a cluster.
pub(super) struct Placement {
    /// `HOST:PORT` of its members.
    addresses: Vec<String>,
    tls: Option<ClientTlsConfig>,
    patience: Duration,
    /// The number of the cluster.
    pub(super) cluster: u64,
    /// The member that answers, until a call fails.
    leader: Mutex<Option<PdClient<Channel>>>,
}

impl Placement {
    /// Finds the leader of the members.
    ///
    /// # Errors
    /// `Io` if no member answers.
    pub(super) async fn connect(
        addresses: &[String],
        tls: Option<ClientTlsConfig>,
        patience: Duration,
    ) -> Result<Self> {
        let mut placement = Placement {
            addresses: addresses.to_vec(),
            tls,
            patience,
            cluster: 0,
            leader: Mutex::default(),
        };
        let found = placement.find().await;
        let (cluster, leader) = found.map_err(|status| status.translated())?;
        placement.cluster = cluster;
        placement.leader = Mutex::new(Some(leader));
        Ok(placement)
    }

    /// The end of the region with a key, as a key; `None` for the last region.
    ///
    /// # Errors
    /// `Io`.
    pub(super) async fn region_end(&self, key: &[u8]) -> Result<Option<Bytes>> {
        let encoded = Bytes::from(codec::encode_key(key));
        let end = self.call(|mut leader, header| {
            let request = GetRegionRequest {
                header,
                region_key: encoded.clone(),
                need_buckets: false,
            };
            async move {
                let answer = leader.get_region(request).await?.into_inner();
                checked(answer.header)?;
                let region = answer.region;
                let region = region.ok_or_else(|| Status::unavailable("no region has the key"))?;
                Ok(region.end_key)
            }
        });
        let end = end.await?;
        if end.is_empty() {
            return Ok(None);
        }
        let key = codec::decode_key(&end).ok_or_else(|| {
            let end = end.escape_ascii();
            let what = format!("the end of a region, \"{end}\", is no key of transactions");
            Error::new(ErrorKind::Unsupported, what)
        })?;
        Ok(Some(key.into()))
    }

    /// Sets the safe point of a service for a number of seconds; 0 ends it. Returns the oldest of
    /// all services, which is later than `at` if the cluster refused. A driver without services
    /// refuses nothing.
    ///
    /// # Errors
    /// `Io`.
    pub(super) async fn hold(&self, service: &str, at: u64, seconds: i64) -> Result<u64> {
        let oldest = self.call(|mut leader, header| {
            let request = UpdateServiceGcSafePointRequest {
                header,
                service_id: Bytes::copy_from_slice(service.as_bytes()),
                ttl: seconds,
                safe_point: at,
            };
            async move {
                match leader.update_service_gc_safe_point(request).await {
                    Ok(answer) => {
                        let answer = answer.into_inner();
                        checked(answer.header)?;
                        Ok(answer.min_safe_point)
                    }
                    Err(status) if status.code() == Code::Unimplemented => Ok(0),
                    Err(status) => Err(status),
                }
            }
        });
        oldest.await
    }

    /// The safe point of the cluster.
    ///
    /// # Errors
    /// `Io`.
    pub(super) async fn safe_point(&self) -> Result<u64> {
        let found = self.call(|mut leader, header| async move {
            let request = GetGcSafePointRequest { header };
            let answer = leader.get_gc_safe_point(request).await?.into_inner();
            checked(answer.header)?;
            Ok(answer.safe_point)
        });
        found.await
    }

    /// Asks the leader, and looks for it again after a failure, while patience lasts.
    async fn call<T, F: Future<Output = Result<T, Status>>>(
        &self,
        call: impl Fn(PdClient<Channel>, Option<RequestHeader>) -> F,
    ) -> Result<T> {
        let begun = Instant::now();
        let header = RequestHeader {
            cluster_id: self.cluster,
            sender_id: 0,
        };
        // Not by `repeated`: the compiler does not see that its future may change threads.
        loop {
            let left = self.patience.saturating_sub(begun.elapsed());
            let asked = async { call(self.leader().await?, Some(header)).await };
            let Ok(answer) = tokio::time::timeout(left, asked).await else {
                return Err(no_answer());
            };
            let failure = match answer {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            *self.leader.lock().await = None;
            if !failure.passes() || begun.elapsed() > self.patience {
                return Err(failure.translated());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn leader(&self) -> Result<PdClient<Channel>, Status> {
        let mut leader = self.leader.lock().await;
        match &*leader {
            Some(leader) => Ok(leader.clone()),
            None => {
                let (_, found) = self.find().await?;
                Ok(leader.insert(found).clone())
            }
        }
    }

    /// Asks one member after the other for the number of the cluster and the leader. All have a
    /// part of the time.
    async fn find(&self) -> Result<(u64, PdClient<Channel>), Status> {
        let mut last = Status::unavailable("no address");
        let patience = self.patience / self.addresses.len().max(1) as u32;
        for address in &self.addresses {
            let asked = tokio::time::timeout(patience, self.ask(address)).await;
            match asked.unwrap_or_else(|_| Err(Status::deadline_exceeded(NO_ANSWER))) {
                Ok(found) => return Ok(found),
                Err(status) => {
                    let said = format!("{address}: {}", status.message());
                    last = Status::new(status.code(), said);
                }
            }
        }
        Err(last)
    }

    async fn ask(&self, address: &str) -> Result<(u64, PdClient<Channel>), Status> {
        let mut member = self.member(address).await?;
        let answer = member.get_members(GetMembersRequest::default()).await?;
        let answer = answer.into_inner();
        let cluster = answer.header.map_or(0, |header| header.cluster_id);
        let urls = answer.leader.map(|leader| leader.client_urls);
        let Some(url) = urls.into_iter().flatten().next() else {
            return Err(Status::unavailable("the placement driver has no leader"));
        };
        let leader = url.split_once("://").map_or(&*url, |(_, address)| address);
        match leader == address {
            true => Ok((cluster, member)),
            false => Ok((cluster, self.member(leader).await?)),
        }
    }

    /// Connects to a member.
    async fn member(&self, address: &str) -> Result<PdClient<Channel>, Status> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let unavailable = |e: tonic::transport::Error| Status::unavailable(causes(&e));
        let endpoint = Endpoint::from_shared(format!("{scheme}://{address}"));
        let mut endpoint = endpoint.map_err(unavailable)?;
        if let Some(tls) = &self.tls {
            endpoint = endpoint.tls_config(tls.clone()).map_err(unavailable)?;
        }
        let channel = endpoint.connect().await;
        Ok(PdClient::new(channel.map_err(unavailable)?))
    }
}

/// The failure that the header of an answer has.
fn checked(header: Option<ResponseHeader>) -> Result<(), Status> {
    match header.and_then(|header| header.error) {
        Some(error) if error.r#type != 0 => Err(Status::unavailable(error.message)),
        _ => Ok(()),
    }
}
