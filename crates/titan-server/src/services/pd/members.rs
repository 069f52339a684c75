//! The cluster, its member and its store; numbers.

use tonic::Status;

use super::PdService;
use crate::proto::metapb;
use crate::proto::pdpb::*;
use crate::regions::STORE_ID;
use crate::services::executor::status;
use crate::services::headers::{MEMBER_ID, header_with};

/// The version of TiKV whose calls this node answers. Some clients compare it.
const SPOKEN: &str = "7.5.0";
/// Peers of each region.
const COPIES: u32 = 1;

impl PdService {
    pub(super) fn members(&self) -> GetMembersResponse {
        let member = self.member();
        GetMembersResponse {
            header: self.header(),
            members: vec![member.clone()],
            leader: Some(member.clone()),
            etcd_leader: Some(member.clone()),
            tso_allocator_leaders: [("global".to_owned(), member)].into(),
        }
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

    pub(super) fn bootstrap(&self, _: BootstrapRequest) -> Result<BootstrapResponse, Status> {
        let message = "cluster is already bootstrapped".to_owned();
        Ok(BootstrapResponse {
            header: header_with(self.shared(), ErrorType::AlreadyBootstrapped, message),
        })
    }

    pub(super) fn is_bootstrapped(
        &self,
        _: IsBootstrappedRequest,
    ) -> Result<IsBootstrappedResponse, Status> {
        Ok(IsBootstrappedResponse {
            header: self.header(),
            bootstrapped: true,
        })
    }

    pub(super) fn get_store(&self, request: GetStoreRequest) -> Result<GetStoreResponse, Status> {
        let id = request.store_id;
        if id != STORE_ID {
            let message = format!("invalid store ID {id}, not found");
            return Ok(GetStoreResponse {
                header: header_with(self.shared(), ErrorType::Unknown, message),
                store: None,
            });
        }
        Ok(GetStoreResponse {
            header: self.header(),
            store: Some(self.store()),
        })
    }

    /// Accepts the only store and refuses others.
    pub(super) fn put_store(&self, request: PutStoreRequest) -> Result<PutStoreResponse, Status> {
        match request.store.map_or(0, |store| store.id) {
            STORE_ID => Ok(PutStoreResponse {
                header: self.header(),
            }),
            id => Err(Status::failed_precondition(format!(
                "store {id} cannot join: this node is a cluster of one"
            ))),
        }
    }

    pub(super) fn get_all_stores(
        &self,
        _: GetAllStoresRequest,
    ) -> Result<GetAllStoresResponse, Status> {
        Ok(GetAllStoresResponse {
            header: self.header(),
            stores: vec![self.store()],
        })
    }

    pub(super) fn get_cluster_config(
        &self,
        _: GetClusterConfigRequest,
    ) -> Result<GetClusterConfigResponse, Status> {
        Ok(GetClusterConfigResponse {
            header: self.header(),
            cluster: Some(metapb::Cluster {
                id: self.shared().cluster_id,
                max_peer_count: COPIES,
            }),
        })
    }

    pub(super) async fn alloc_id(&self, _: AllocIdRequest) -> Result<AllocIdResponse, Status> {
        let id = self
            .executor
            .other("alloc_id", |shared| shared.ids.next().map_err(status));
        Ok(AllocIdResponse {
            id: id.await?,
            header: self.header(),
        })
    }
}
