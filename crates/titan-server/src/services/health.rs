//! The health check: a node that answers serves.

use tokio_stream::Once;
use tonic::{Request, Response, Status};

use crate::proto::health::health_check_response::ServingStatus;
use crate::proto::health::health_server::Health;
use crate::proto::health::{HealthCheckRequest, HealthCheckResponse};

/// The health check.
pub(crate) struct HealthService;

fn serving() -> HealthCheckResponse {
    HealthCheckResponse {
        status: ServingStatus::Serving.into(),
    }
}

#[tonic::async_trait]
impl Health for HealthService {
    type WatchStream = Once<Result<HealthCheckResponse, Status>>;

    async fn check(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(serving()))
    }

    async fn watch(
        &self,
        _request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(Response::new(tokio_stream::once(Ok(serving()))))
    }
}
