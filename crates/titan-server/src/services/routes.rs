//! All services, for a transport.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::service::Routes;

use super::etcd::EtcdService;
use super::executor::Executor;
use super::health::HealthService;
use super::pd::PdService;
use super::tikv::TikvService;
use crate::options::NodeOptions;
use crate::proto::etcdserverpb::kv_server::KvServer;
use crate::proto::health::health_server::HealthServer;
use crate::proto::pdpb::pd_server::PdServer;
use crate::proto::tikvpb::tikv_server::TikvServer;

/// The services of a node. Their streams end when `stopping` says so.
pub(crate) fn routes(
    executor: &Arc<Executor>,
    stopping: &watch::Receiver<bool>,
    options: &NodeOptions,
) -> Routes {
    let (request, any) = (options.limits.request_bytes, usize::MAX);
    let tikv = TikvService::new(Arc::clone(executor), stopping.clone());
    let pd = PdService::new(Arc::clone(executor), stopping.clone(), options);
    let etcd = EtcdService::new(Arc::clone(executor));
    Routes::default()
        .add_service(
            TikvServer::new(tikv)
                .max_decoding_message_size(request)
                .max_encoding_message_size(any),
        )
        .add_service(PdServer::new(pd).max_encoding_message_size(any))
        .add_service(KvServer::new(etcd))
        .add_service(HealthServer::new(HealthService))
}
