//! Splits of regions, and moves that end at once: there is no other store.

use bytes::Bytes;
use tonic::Status;

use super::PdService;
use crate::proto::pdpb::{
    GetOperatorRequest, GetOperatorResponse, OperatorStatus, ScatterRegionRequest,
    ScatterRegionResponse, SplitRegionsRequest, SplitRegionsResponse,
};
use crate::services::executor::status;

impl PdService {
    pub(super) fn scatter_region(
        &self,
        _: ScatterRegionRequest,
    ) -> Result<ScatterRegionResponse, Status> {
        Ok(ScatterRegionResponse {
            header: self.header(),
            finished_percentage: 100,
        })
    }

    /// Every move of a region has succeeded.
    pub(super) fn get_operator(
        &self,
        request: GetOperatorRequest,
    ) -> Result<GetOperatorResponse, Status> {
        Ok(GetOperatorResponse {
            header: self.header(),
            region_id: request.region_id,
            desc: "scatter-region".into(),
            status: OperatorStatus::Success.into(),
            kind: Bytes::new(),
        })
    }

    pub(super) async fn split_regions(
        &self,
        request: SplitRegionsRequest,
    ) -> Result<SplitRegionsResponse, Status> {
        let keys = request.split_keys;
        let limit = self.shared().regions.key_limit;
        // Boundaries are durable, and each answer about their regions has them.
        for key in &keys {
            let checked = limit.check_bound(key);
            checked.map_err(|error| Status::invalid_argument(error.message))?;
        }
        let split = self.executor.other("split_regions", move |shared| {
            let mut new = Vec::new();
            for key in keys {
                let Some(region) = shared.regions.of_key(&key) else {
                    continue;
                };
                // A slice would keep all of the request.
                let key = Bytes::copy_from_slice(&key);
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
        Ok(SplitRegionsResponse {
            regions_id: split.await?,
            header: self.header(),
            finished_percentage: 100,
        })
    }
}
