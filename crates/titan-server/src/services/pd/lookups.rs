//! Regions by keys and numbers.

use tonic::Status;

use super::PdService;
use crate::node::Shared;
use crate::proto::pdpb::{
    self, BatchScanRegionsRequest, BatchScanRegionsResponse, GetRegionByIdRequest,
    GetRegionRequest, GetRegionResponse, ScanRegionsRequest, ScanRegionsResponse,
};
use crate::regions::Region;

/// Regions that one answer has at most.
const REGIONS_AT_ONCE: usize = 100_000;
/// The bytes of boundaries after which an answer gets no further region. Each is in it twice.
const PAGE_BYTES: usize = 1 << 20;

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

    pub(super) async fn scan_regions(
        &self,
        request: ScanRegionsRequest,
    ) -> Result<ScanRegionsResponse, Status> {
        let listed = self.executor.other("scan_regions", move |shared| {
            let mut page = Page::new(request.limit);
            page.add(shared, &request.start_key, &request.end_key);
            Ok(page.regions)
        });
        let found = listed.await?;
        Ok(ScanRegionsResponse {
            header: self.header(),
            region_metas: found.iter().map(Region::message).collect(),
            leaders: found.iter().map(Region::leader).collect(),
            regions: regions_of(&found),
        })
    }

    pub(super) async fn batch_scan_regions(
        &self,
        request: BatchScanRegionsRequest,
    ) -> Result<BatchScanRegionsResponse, Status> {
        let listed = self.executor.other("batch_scan_regions", move |shared| {
            let mut page = Page::new(request.limit);
            for range in &request.ranges {
                if page.is_full() {
                    break;
                }
                page.add(shared, &range.start_key, &range.end_key);
            }
            Ok(page.regions)
        });
        Ok(BatchScanRegionsResponse {
            regions: regions_of(&listed.await?),
            header: self.header(),
        })
    }
}

/// The regions of an answer. Clients ask for those after the last one.
struct Page {
    regions: Vec<Region>,
    limit: usize,
    /// The bytes of the boundaries.
    bytes: usize,
}

impl Page {
    fn new(limit: i32) -> Self {
        Page {
            regions: Vec::new(),
            limit: limit_of(limit),
            bytes: 0,
        }
    }

    fn is_full(&self) -> bool {
        self.regions.len() >= self.limit || self.bytes >= PAGE_BYTES
    }

    /// Adds the regions of a range, as long as there is room. One that it shares with the range
    /// before comes once.
    fn add(&mut self, shared: &Shared, from: &[u8], to: &[u8]) {
        let rest = self.limit - self.regions.len();
        for region in shared.regions.list(from, to, rest) {
            if self.is_full() {
                return;
            }
            if self.regions.last().map(|last| last.id) != Some(region.id) {
                self.bytes += region.start.len() + region.end.len();
                self.regions.push(region);
            }
        }
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
