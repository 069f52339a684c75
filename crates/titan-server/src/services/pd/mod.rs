//! The placement driver. There is one member and one store.
//!
//! | file | owns |
//! |---|---|
//! | `members` | the cluster, its member and its store; numbers |
//! | `lookups` | regions by keys and numbers |
//! | `moves` | splits of regions, and moves that end at once |
//! | `safe_points` | safe points |
//! | `times` | timestamps |

mod lookups;
mod members;
mod moves;
mod safe_points;
mod times;

use std::sync::Arc;

use titan::SystemClock;
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use super::executor::Executor;
use super::headers::{check_cluster, header};
use super::leaving::counted;
use super::streams::{Answers, response};
use crate::node::Shared;
use crate::options::NodeOptions;
use crate::proto::pdpb::pd_server::Pd;
use crate::proto::pdpb::*;

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

    fn header(&self) -> Option<ResponseHeader> {
        header(self.shared())
    }
}

/// The calls of a client that knows the cluster: those that are answered from memory, and those
/// that may block.
macro_rules! service {
    (
        { $($method:ident: $request:ident => $answer:ident;)* }
        { $($slow:ident: $asked:ident => $answered:ident;)* }
    ) => {
        #[tonic::async_trait]
        impl Pd for PdService {
            type TsoStream = Answers<TsoResponse>;

            /// Answers clients that do not know the cluster yet.
            async fn get_members(
                &self,
                _request: Request<GetMembersRequest>,
            ) -> Result<Response<GetMembersResponse>, Status> {
                Ok(Response::new(self.members()))
            }

            async fn tso(
                &self,
                request: Request<Streaming<TsoRequest>>,
            ) -> Result<Response<Self::TsoStream>, Status> {
                Ok(response(self.timestamps(request.into_inner())))
            }

            $(
                async fn $method(
                    &self,
                    request: Request<$request>,
                ) -> Result<Response<$answer>, Status> {
                    let request = request.into_inner();
                    check_cluster(self.shared(), request.header.as_ref())?;
                    counted(&self.executor, PdService::$method(self, request)?)
                }
            )*

            $(
                async fn $slow(
                    &self,
                    request: Request<$asked>,
                ) -> Result<Response<$answered>, Status> {
                    let request = request.into_inner();
                    check_cluster(self.shared(), request.header.as_ref())?;
                    counted(&self.executor, PdService::$slow(self, request).await?)
                }
            )*
        }
    };
}

service! {
    {
        bootstrap: BootstrapRequest => BootstrapResponse;
        is_bootstrapped: IsBootstrappedRequest => IsBootstrappedResponse;
        get_store: GetStoreRequest => GetStoreResponse;
        put_store: PutStoreRequest => PutStoreResponse;
        get_all_stores: GetAllStoresRequest => GetAllStoresResponse;
        get_cluster_config: GetClusterConfigRequest => GetClusterConfigResponse;
        get_region: GetRegionRequest => GetRegionResponse;
        get_prev_region: GetRegionRequest => GetRegionResponse;
        get_region_by_id: GetRegionByIdRequest => GetRegionResponse;
        scatter_region: ScatterRegionRequest => ScatterRegionResponse;
        get_operator: GetOperatorRequest => GetOperatorResponse;
    }
    {
        scan_regions: ScanRegionsRequest => ScanRegionsResponse;
        batch_scan_regions: BatchScanRegionsRequest => BatchScanRegionsResponse;
        get_min_ts: GetMinTsRequest => GetMinTsResponse;
        alloc_id: AllocIdRequest => AllocIdResponse;
        split_regions: SplitRegionsRequest => SplitRegionsResponse;
        get_gc_safe_point: GetGcSafePointRequest => GetGcSafePointResponse;
        update_gc_safe_point: UpdateGcSafePointRequest => UpdateGcSafePointResponse;
        update_service_gc_safe_point:
            UpdateServiceGcSafePointRequest => UpdateServiceGcSafePointResponse;
    }
}
