//! Regions by keys and numbers.

use tonic::Status;

use super::PdService;
use crate::proto::pdpb::{
    self, BatchScanRegionsRequest, BatchScanRegionsResponse, GetRegionByIdRequest,
    GetRegionRequest, GetRegionResponse, ScanRegionsRequest, ScanRegionsResponse,
};
use crate::regions::Region;

/// Regions that one answer has at most.
const REGIONS_AT_ONCE: usize = 100_000;

impl PdService {
    fn region(&self, region: Option<Region>) -> GetRegionResponse {
        GetRegionResponse {
            header: self.header(),
            leader: region.as_ref().map(Region::leader),
            region: region.as_ref().map(Region::message),
        }
    }

    pub(super) fn get_region(
        &self,
        request: GetRegionRequest,
    ) -> Result<GetRegionResponse, Status> {
        let region = self.shared().regions.of_key(&request.region_key);
        Ok(self.region(region))
    }

    pub(super) fn get_prev_region(
        &self,
        request: GetRegionRequest,
    ) -> Result<GetRegionResponse, Status> {
        let region = self.shared().regions.before_key(&request.region_key);
        Ok(self.region(region))
    }

    pub(super) fn get_region_by_id(
        &self,
        request: GetRegionByIdRequest,
    ) -> Result<GetRegionResponse, Status> {
        let found = self.shared().regions.of_id(request.region_id);
        Ok(self.region(found.map(|(region, _)| region)))
    }

    pub(super) fn scan_regions(
        &self,
        request: ScanRegionsRequest,
    ) -> Result<ScanRegionsResponse, Status> {
        let ScanRegionsRequest {
            start_key,
            end_key,
            limit,
            ..
        } = request;
        let regions = &self.shared().regions;
        let found = regions.list(&start_key, &end_key, limit_of(limit));
        Ok(ScanRegionsResponse {
            header: self.header(),
            region_metas: found.iter().map(Region::message).collect(),
            leaders: found.iter().map(Region::leader).collect(),
            regions: regions_of(&found),
        })
    }

    pub(super) fn batch_scan_regions(
        &self,
        request: BatchScanRegionsRequest,
    ) -> Result<BatchScanRegionsResponse, Status> {
        let limit = limit_of(request.limit);
        let mut found: Vec<Region> = Vec::new();
        for range in &request.ranges {
            let rest = limit - found.len();
            let regions = &self.shared().regions;
            for region in regions.list(&range.start_key, &range.end_key, rest) {
                // A region that ranges share comes once.
                if found.last().map(|last| last.id) != Some(region.id) {
                    found.push(region);
                }
            }
        }
        Ok(BatchScanRegionsResponse {
            header: self.header(),
            regions: regions_of(&found),
        })
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
