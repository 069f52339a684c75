//! The key-value service: calls by themselves.

use std::sync::Arc;

use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};

use super::batch::{BatchAnswers, answer_batches};
use super::deadlines::of_metadata;
use super::executor::Executor;
use super::leaving::Leaving;
use super::streams::response;
use crate::calls::{Call, refused};
use crate::node::safe_ts;
use crate::proto::coprocessor;
use crate::proto::kvrpcpb::{self, StoreSafeTsRequest, StoreSafeTsResponse};
use crate::proto::tikvpb::BatchCommandsRequest;
use crate::proto::tikvpb::tikv_server::Tikv;

/// The key-value service.
pub(crate) struct TikvService {
    executor: Arc<Executor>,
    /// Changes when the node stops.
    stopping: watch::Receiver<bool>,
}

impl TikvService {
    pub(crate) fn new(executor: Arc<Executor>, stopping: watch::Receiver<bool>) -> Self {
        TikvService { executor, stopping }
    }

    async fn answer<C: Call>(&self, request: Request<C>) -> Result<Response<C::Answer>, Status> {
        let deadline = of_metadata(request.metadata());
        let share = self.executor.share(request.extensions());
        let call = request.into_inner();
        let admitted = self.executor.admit(call.memory());
        let executor = &self.executor;
        let answer = executor.answer(call, &share, admitted, deadline, refused::<C>);
        let (answer, memory) = answer.await?;
        let mut response = Response::new(answer);
        if let Some(leaving) = Leaving::of_call(memory) {
            response.extensions_mut().insert(leaving);
        }
        Ok(response)
    }
}

macro_rules! service {
    ($($method:ident: $request:ident => $answer:ident;)*) => {
        #[tonic::async_trait]
        impl Tikv for TikvService {
            type BatchCommandsStream = BatchAnswers;

            $(
                async fn $method(
                    &self,
                    request: Request<kvrpcpb::$request>,
                ) -> Result<Response<kvrpcpb::$answer>, Status> {
                    self.answer(request).await
                }
            )*

            async fn get_store_safe_ts(
                &self,
                _request: Request<StoreSafeTsRequest>,
            ) -> Result<Response<StoreSafeTsResponse>, Status> {
                let found = self.executor.other("get_store_safe_ts", |shared| {
                    Ok(safe_ts(shared.store()).0)
                });
                let safe_ts = found.await?;
                Ok(Response::new(StoreSafeTsResponse { safe_ts }))
            }

            async fn coprocessor(
                &self,
                request: Request<coprocessor::Request>,
            ) -> Result<Response<coprocessor::Response>, Status> {
                self.answer(request).await
            }

            async fn batch_commands(
                &self,
                request: Request<Streaming<BatchCommandsRequest>>,
            ) -> Result<Response<Self::BatchCommandsStream>, Status> {
                let share = self.executor.share(request.extensions());
                let asked = request.into_inner();
                let executor = Arc::clone(&self.executor);
                let stopping = self.stopping.clone();
                let answers = answer_batches(executor, share, asked, stopping);
                Ok(response(answers))
            }
        }
    };
}

service! {
    kv_get: GetRequest => GetResponse;
    kv_scan: ScanRequest => ScanResponse;
    kv_batch_get: BatchGetRequest => BatchGetResponse;
    kv_prewrite: PrewriteRequest => PrewriteResponse;
    kv_commit: CommitRequest => CommitResponse;
    kv_cleanup: CleanupRequest => CleanupResponse;
    kv_batch_rollback: BatchRollbackRequest => BatchRollbackResponse;
    kv_pessimistic_lock: PessimisticLockRequest => PessimisticLockResponse;
    kv_pessimistic_rollback: PessimisticRollbackRequest => PessimisticRollbackResponse;
    kv_txn_heart_beat: TxnHeartBeatRequest => TxnHeartBeatResponse;
    kv_check_txn_status: CheckTxnStatusRequest => CheckTxnStatusResponse;
    kv_check_secondary_locks: CheckSecondaryLocksRequest => CheckSecondaryLocksResponse;
    kv_scan_lock: ScanLockRequest => ScanLockResponse;
    kv_resolve_lock: ResolveLockRequest => ResolveLockResponse;
    kv_gc: GcRequest => GcResponse;
    kv_delete_range: DeleteRangeRequest => DeleteRangeResponse;
    unsafe_destroy_range: UnsafeDestroyRangeRequest => UnsafeDestroyRangeResponse;
    raw_get: RawGetRequest => RawGetResponse;
    raw_batch_get: RawBatchGetRequest => RawBatchGetResponse;
    raw_put: RawPutRequest => RawPutResponse;
    raw_batch_put: RawBatchPutRequest => RawBatchPutResponse;
    raw_delete: RawDeleteRequest => RawDeleteResponse;
    raw_batch_delete: RawBatchDeleteRequest => RawBatchDeleteResponse;
    raw_delete_range: RawDeleteRangeRequest => RawDeleteRangeResponse;
    raw_scan: RawScanRequest => RawScanResponse;
    raw_batch_scan: RawBatchScanRequest => RawBatchScanResponse;
    raw_get_key_ttl: RawGetKeyTtlRequest => RawGetKeyTtlResponse;
    raw_compare_and_swap: RawCasRequest => RawCasResponse;
    raw_coprocessor: RawCoprocessorRequest => RawCoprocessorResponse;
    split_region: SplitRegionRequest => SplitRegionResponse;
}
