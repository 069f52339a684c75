//! Safe points.

use tonic::Status;

use super::PdService;
use crate::proto::pdpb::{
    GetGcSafePointRequest, GetGcSafePointResponse, UpdateGcSafePointRequest,
    UpdateGcSafePointResponse, UpdateServiceGcSafePointRequest, UpdateServiceGcSafePointResponse,
};
use crate::services::executor::status;

impl PdService {
    pub(super) async fn get_gc_safe_point(
        &self,
        _: GetGcSafePointRequest,
    ) -> Result<GetGcSafePointResponse, Status> {
        let found = self.executor.other("get_gc_safe_point", |shared| {
            Ok(shared.safe_points.present())
        });
        Ok(GetGcSafePointResponse {
            safe_point: found.await?,
            header: self.header(),
        })
    }

    pub(super) async fn update_gc_safe_point(
        &self,
        request: UpdateGcSafePointRequest,
    ) -> Result<UpdateGcSafePointResponse, Status> {
        let to = request.safe_point;
        let moved = self.executor.other("update_gc_safe_point", move |shared| {
            shared.safe_points.advance(to).map_err(status)
        });
        Ok(UpdateGcSafePointResponse {
            new_safe_point: moved.await?,
            header: self.header(),
        })
    }

    pub(super) async fn update_service_gc_safe_point(
        &self,
        request: UpdateServiceGcSafePointRequest,
    ) -> Result<UpdateServiceGcSafePointResponse, Status> {
        let UpdateServiceGcSafePointRequest {
            service_id,
            ttl,
            safe_point,
            ..
        } = request;
        let set = self
            .executor
            .other("update_service_gc_safe_point", move |shared| {
                let set = shared.safe_points.set_service(service_id, safe_point, ttl);
                set.map_err(status)
            });
        let oldest = set.await?;
        Ok(UpdateServiceGcSafePointResponse {
            header: self.header(),
            service_id: oldest.service,
            ttl: oldest.ttl,
            min_safe_point: oldest.at,
        })
    }
}
