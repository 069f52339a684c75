//! The placement driver: members, stores, regions and safe points. There is one member and one
//! store.

use std::sync::Arc;

use titan::SystemClock;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use super::executor::{Executor, status};
use super::headers::{check_cluster, header, header_with};
use super::streams::Answers;
use super::tso::{self, answer_runs};
use crate::node::Shared;
use crate::options::NodeOptions;
use crate::proto::metapb;
use crate::proto::pdpb::pd_server::Pd;
use crate::proto::pdpb::{self, *};
use crate::regions::{Region, STORE_ID};

/// The version of TiKV whose calls this node answers. Some clients compare it.
const SPOKEN: &str = "7.5.0";
/// The number of the only member.
const MEMBER_ID: u64 = 1;
/// Peers of each region.
const COPIES: u32 = 1;
/// Regions that one answer has at most.
const REGIONS_AT_ONCE: usize = 100_000;

/// The placement driver.
pub(crate) struct PdService {
    executor: Arc<Executor>,
    /// Changes when the node stops.
    stopping: watch::Receiver<bool>,
    /// `http` or `https`.
    scheme: &'static str,
    /// Seconds since 1970.
    started: i64,
    clock: Arc<dyn SystemClock>,
}

impl PdService {
    pub(crate) fn new(
        executor: Arc<Executor>,
        stopping: watch::Receiver<bool>,
        options: &NodeOptions,
    ) -> Self {
        let clock = Arc::clone(&options.storage.db.clock);
        let started = clock.unix_time().as_secs();
        PdService {
            executor,
            stopping,
            scheme: if options.tls.is_some() {
                "https"
            } else {
                "http"
            },
            started: started as i64,
            clock,
        }
    }

    fn shared(&self) -> &Shared {
        self.executor.shared()
    }

    fn member(&self) -> Member {
        let url = format!("{}://{}", self.scheme, self.shared().address);
        Member {
            name: "titan".to_owned(),
            member_id: MEMBER_ID,
            peer_urls: vec![url.clone()],
            client_urls: vec![url],
            binary_version: SPOKEN.to_owned(),
            ..Member::default()
        }
    }

    fn store(&self) -> metapb::Store {
        let address = self.shared().address.clone();
        let now = self.clock.unix_time();
        metapb::Store {
            id: STORE_ID,
            peer_address: address.clone(),
            address,
            state: metapb::StoreState::Up.into(),
            version: SPOKEN.to_owned(),
            start_timestamp: self.started,
            last_heartbeat: i64::try_from(now.as_nanos()).unwrap_or_default(),
            node_state: metapb::NodeState::Serving.into(),
            ..metapb::Store::default()
        }
    }

    fn answer(&self, region: Option<Region>) -> GetRegionResponse {
        GetRegionResponse {
            header: header(self.shared()),
            leader: region.as_ref().map(Region::leader),
            region: region.as_ref().map(Region::message),
        }
    }

    /// Checks the cluster of a request.
    fn check(&self, header: Option<&RequestHeader>) -> Result<&Shared, Status> {
        check_cluster(self.shared(), header)?;
        Ok(self.shared())
    }
}

fn regions_of(regions: &[Region]) -> Vec<pdpb::Region> {
    let one = |region: &Region| pdpb::Region {
        region: Some(region.message()),
        leader: Some(region.leader()),
    };
    regions.iter().map(one).collect()
}

fn limit_of(limit: i32) -> usize {
    match usize::try_from(limit) {
        Ok(0) | Err(_) => REGIONS_AT_ONCE,
        Ok(limit) => limit.min(REGIONS_AT_ONCE),
    }
}

#[tonic::async_trait]
impl Pd for PdService {
    type TsoStream = Answers<TsoResponse>;

    /// Answers clients that do not know the cluster yet.
    async fn get_members(
        &self,
        _request: Request<GetMembersRequest>,
    ) -> Result<Response<GetMembersResponse>, Status> {
        let member = self.member();
        Ok(Response::new(GetMembersResponse {
            header: header(self.shared()),
            members: vec![member.clone()],
            leader: Some(member.clone()),
            etcd_leader: Some(member.clone()),
            tso_allocator_leaders: [("global".to_owned(), member)].into(),
        }))
    }

    async fn tso(
        &self,
        request: Request<Streaming<TsoRequest>>,
    ) -> Result<Response<Self::TsoStream>, Status> {
        let (executor, stopping) = (Arc::clone(&self.executor), self.stopping.clone());
        let answers = answer_runs(executor, request.into_inner(), stopping);
        Ok(Response::new(answers))
    }

    async fn get_min_ts(
        &self,
        request: Request<GetMinTsRequest>,
    ) -> Result<Response<GetMinTsResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let next = self.executor.timestamps(|shared| {
            let next = shared.store().oracle().next();
            next.map_err(|error| Status::unavailable(error.to_string()))
        });
        Ok(Response::new(GetMinTsResponse {
            timestamp: Some(tso::message(next.await?)),
            header: header(self.shared()),
        }))
    }

    async fn bootstrap(
        &self,
        request: Request<BootstrapRequest>,
    ) -> Result<Response<BootstrapResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let message = "cluster is already bootstrapped".to_owned();
        Ok(Response::new(BootstrapResponse {
            header: header_with(shared, ErrorType::AlreadyBootstrapped, message),
        }))
    }

    async fn is_bootstrapped(
        &self,
        request: Request<IsBootstrappedRequest>,
    ) -> Result<Response<IsBootstrappedResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        Ok(Response::new(IsBootstrappedResponse {
            header: header(shared),
            bootstrapped: true,
        }))
    }

    async fn alloc_id(
        &self,
        request: Request<AllocIdRequest>,
    ) -> Result<Response<AllocIdResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let id = self
            .executor
            .other("alloc_id", |shared| shared.ids.next().map_err(status));
        Ok(Response::new(AllocIdResponse {
            id: id.await?,
            header: header(self.shared()),
        }))
    }

    async fn get_store(
        &self,
        request: Request<GetStoreRequest>,
    ) -> Result<Response<GetStoreResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let id = request.get_ref().store_id;
        if id != STORE_ID {
            let message = format!("invalid store ID {id}, not found");
            return Ok(Response::new(GetStoreResponse {
                header: header_with(shared, ErrorType::Unknown, message),
                store: None,
            }));
        }
        Ok(Response::new(GetStoreResponse {
            header: header(shared),
            store: Some(self.store()),
        }))
    }

    /// Accepts the only store and refuses others.
    async fn put_store(
        &self,
        request: Request<PutStoreRequest>,
    ) -> Result<Response<PutStoreResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let store = request.get_ref().store.as_ref();
        match store.map_or(0, |store| store.id) {
            STORE_ID => Ok(Response::new(PutStoreResponse {
                header: header(shared),
            })),
            id => Err(Status::failed_precondition(format!(
                "store {id} cannot join: this node is a cluster of one"
            ))),
        }
    }

    async fn get_all_stores(
        &self,
        request: Request<GetAllStoresRequest>,
    ) -> Result<Response<GetAllStoresResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        Ok(Response::new(GetAllStoresResponse {
            header: header(shared),
            stores: vec![self.store()],
        }))
    }

    async fn get_region(
        &self,
        request: Request<GetRegionRequest>,
    ) -> Result<Response<GetRegionResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let region = shared.regions.of_key(&request.get_ref().region_key);
        Ok(Response::new(self.answer(region)))
    }

    async fn get_prev_region(
        &self,
        request: Request<GetRegionRequest>,
    ) -> Result<Response<GetRegionResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let region = shared.regions.before_key(&request.get_ref().region_key);
        Ok(Response::new(self.answer(region)))
    }

    async fn get_region_by_id(
        &self,
        request: Request<GetRegionByIdRequest>,
    ) -> Result<Response<GetRegionResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let found = shared.regions.of_id(request.get_ref().region_id);
        Ok(Response::new(self.answer(found.map(|(region, _)| region))))
    }

    async fn scan_regions(
        &self,
        request: Request<ScanRegionsRequest>,
    ) -> Result<Response<ScanRegionsResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let ScanRegionsRequest {
            start_key,
            end_key,
            limit,
            ..
        } = request.get_ref();
        let found = shared.regions.list(start_key, end_key, limit_of(*limit));
        Ok(Response::new(ScanRegionsResponse {
            header: header(shared),
            region_metas: found.iter().map(Region::message).collect(),
            leaders: found.iter().map(Region::leader).collect(),
            regions: regions_of(&found),
        }))
    }

    async fn batch_scan_regions(
        &self,
        request: Request<BatchScanRegionsRequest>,
    ) -> Result<Response<BatchScanRegionsResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        let limit = limit_of(request.get_ref().limit);
        let mut found: Vec<Region> = Vec::new();
        for range in &request.get_ref().ranges {
            let rest = limit - found.len();
            for region in shared.regions.list(&range.start_key, &range.end_key, rest) {
                // A region that ranges share comes once.
                if found.last().map(|last| last.id) != Some(region.id) {
                    found.push(region);
                }
            }
        }
        Ok(Response::new(BatchScanRegionsResponse {
            header: header(shared),
            regions: regions_of(&found),
        }))
    }

    async fn get_cluster_config(
        &self,
        request: Request<GetClusterConfigRequest>,
    ) -> Result<Response<GetClusterConfigResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        Ok(Response::new(GetClusterConfigResponse {
            header: header(shared),
            cluster: Some(metapb::Cluster {
                id: shared.cluster_id,
                max_peer_count: COPIES,
            }),
        }))
    }

    /// Done at once: there is no other store.
    async fn scatter_region(
        &self,
        request: Request<ScatterRegionRequest>,
    ) -> Result<Response<ScatterRegionResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        Ok(Response::new(ScatterRegionResponse {
            header: header(shared),
            finished_percentage: 100,
        }))
    }

    /// Every move of a region has succeeded: there is none.
    async fn get_operator(
        &self,
        request: Request<GetOperatorRequest>,
    ) -> Result<Response<GetOperatorResponse>, Status> {
        let shared = self.check(request.get_ref().header.as_ref())?;
        Ok(Response::new(GetOperatorResponse {
            header: header(shared),
            region_id: request.get_ref().region_id,
            desc: "scatter-region".into(),
            status: OperatorStatus::Success.into(),
            kind: bytes::Bytes::new(),
        }))
    }

    async fn split_regions(
        &self,
        request: Request<SplitRegionsRequest>,
    ) -> Result<Response<SplitRegionsResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let keys = request.into_inner().split_keys;
        let split = self.executor.other("split_regions", move |shared| {
            let mut new = Vec::new();
            for key in keys {
                let Some(region) = shared.regions.of_key(&key) else {
                    continue;
                };
                let parts = shared.regions.split(region.id, &[key]).map_err(status)?;
                let parts = parts.unwrap_or_default();
                new.extend(
                    parts
                        .iter()
                        .map(|part| part.id)
                        .filter(|id| *id != region.id),
                );
            }
            Ok(new)
        });
        Ok(Response::new(SplitRegionsResponse {
            regions_id: split.await?,
            header: header(self.shared()),
            finished_percentage: 100,
        }))
    }

    async fn get_gc_safe_point(
        &self,
        request: Request<GetGcSafePointRequest>,
    ) -> Result<Response<GetGcSafePointResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let found = self.executor.other("get_gc_safe_point", |shared| {
            Ok(shared.safe_points.present())
        });
        Ok(Response::new(GetGcSafePointResponse {
            safe_point: found.await?,
            header: header(self.shared()),
        }))
    }

    async fn update_gc_safe_point(
        &self,
        request: Request<UpdateGcSafePointRequest>,
    ) -> Result<Response<UpdateGcSafePointResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let to = request.get_ref().safe_point;
        let moved = self.executor.other("update_gc_safe_point", move |shared| {
            shared.safe_points.advance(to).map_err(status)
        });
        Ok(Response::new(UpdateGcSafePointResponse {
            new_safe_point: moved.await?,
            header: header(self.shared()),
        }))
    }

    async fn update_service_gc_safe_point(
        &self,
        request: Request<UpdateServiceGcSafePointRequest>,
    ) -> Result<Response<UpdateServiceGcSafePointResponse>, Status> {
        self.check(request.get_ref().header.as_ref())?;
        let UpdateServiceGcSafePointRequest {
            service_id,
            ttl,
            safe_point,
            ..
        } = request.into_inner();
        let set = self
            .executor
            .other("update_service_gc_safe_point", move |shared| {
                let set = shared.safe_points.set_service(service_id, safe_point, ttl);
                set.map_err(status)
            });
        let oldest = set.await?;
        Ok(Response::new(UpdateServiceGcSafePointResponse {
            header: header(self.shared()),
            service_id: oldest.service,
            ttl: oldest.ttl,
            min_safe_point: oldest.at,
        }))
    }
}
