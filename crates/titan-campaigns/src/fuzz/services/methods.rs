//! The calls, and the messages of their requests.

use std::fmt::Debug;

use prost::Message;
use titan_server::proto::{coprocessor, etcdserverpb, kvrpcpb, pdpb, tikvpb};

/// A call.
pub(super) struct Method {
    /// The path of the service and the call.
    pub(super) path: &'static str,
    /// Decodes bytes as a request. Panics if that is wrong.
    pub(super) decode: fn(&[u8]),
    pub(super) first: First,
}

/// The first field of a request.
#[derive(Clone, Copy)]
pub(super) enum First {
    /// The region of the call.
    Context,
    /// The cluster of the call.
    Header,
    Other,
}

fn decode<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else {
        return;
    };
    let encoded = message.encode_to_vec();
    assert_eq!(encoded.len(), message.encoded_len(), "{message:?}");
    assert_eq!(M::decode(&*encoded).as_ref(), Ok(&message));
}

macro_rules! methods {
    ($name:ident, $service:literal, $first:ident, $($method:literal: $request:ty,)*) => {
        pub(super) const $name: &[Method] = &[$(Method {
            path: concat!("/", $service, "/", $method),
            decode: decode::<$request>,
            first: First::$first,
        },)*];
    };
}

methods! {
    CALLS, "tikvpb.Tikv", Context,
    "KvGet": kvrpcpb::GetRequest,
    "KvScan": kvrpcpb::ScanRequest,
    "KvBatchGet": kvrpcpb::BatchGetRequest,
    "KvPrewrite": kvrpcpb::PrewriteRequest,
    "KvCommit": kvrpcpb::CommitRequest,
    "KvCleanup": kvrpcpb::CleanupRequest,
    "KvBatchRollback": kvrpcpb::BatchRollbackRequest,
    "KvPessimisticLock": kvrpcpb::PessimisticLockRequest,
    "KVPessimisticRollback": kvrpcpb::PessimisticRollbackRequest,
    "KvTxnHeartBeat": kvrpcpb::TxnHeartBeatRequest,
    "KvCheckTxnStatus": kvrpcpb::CheckTxnStatusRequest,
    "KvCheckSecondaryLocks": kvrpcpb::CheckSecondaryLocksRequest,
    "KvScanLock": kvrpcpb::ScanLockRequest,
    "KvResolveLock": kvrpcpb::ResolveLockRequest,
    "KvGC": kvrpcpb::GcRequest,
    "KvDeleteRange": kvrpcpb::DeleteRangeRequest,
    "UnsafeDestroyRange": kvrpcpb::UnsafeDestroyRangeRequest,
    "RawGet": kvrpcpb::RawGetRequest,
    "RawBatchGet": kvrpcpb::RawBatchGetRequest,
    "RawPut": kvrpcpb::RawPutRequest,
    "RawBatchPut": kvrpcpb::RawBatchPutRequest,
    "RawDelete": kvrpcpb::RawDeleteRequest,
    "RawBatchDelete": kvrpcpb::RawBatchDeleteRequest,
    "RawDeleteRange": kvrpcpb::RawDeleteRangeRequest,
    "RawScan": kvrpcpb::RawScanRequest,
    "RawBatchScan": kvrpcpb::RawBatchScanRequest,
    "RawGetKeyTTL": kvrpcpb::RawGetKeyTtlRequest,
    "RawCompareAndSwap": kvrpcpb::RawCasRequest,
    "RawCoprocessor": kvrpcpb::RawCoprocessorRequest,
    "SplitRegion": kvrpcpb::SplitRegionRequest,
    "GetStoreSafeTS": kvrpcpb::StoreSafeTsRequest,
    "Coprocessor": coprocessor::Request,
}

methods! {
    PLACEMENT, "pdpb.PD", Header,
    "GetMembers": pdpb::GetMembersRequest,
    "Bootstrap": pdpb::BootstrapRequest,
    "IsBootstrapped": pdpb::IsBootstrappedRequest,
    "AllocID": pdpb::AllocIdRequest,
    "GetStore": pdpb::GetStoreRequest,
    "PutStore": pdpb::PutStoreRequest,
    "GetAllStores": pdpb::GetAllStoresRequest,
    "GetRegion": pdpb::GetRegionRequest,
    "GetPrevRegion": pdpb::GetRegionRequest,
    "GetRegionByID": pdpb::GetRegionByIdRequest,
    "ScanRegions": pdpb::ScanRegionsRequest,
    "BatchScanRegions": pdpb::BatchScanRegionsRequest,
    "GetClusterConfig": pdpb::GetClusterConfigRequest,
    "ScatterRegion": pdpb::ScatterRegionRequest,
    "GetOperator": pdpb::GetOperatorRequest,
    "SplitRegions": pdpb::SplitRegionsRequest,
    "GetGCSafePoint": pdpb::GetGcSafePointRequest,
    "UpdateGCSafePoint": pdpb::UpdateGcSafePointRequest,
    "UpdateServiceGCSafePoint": pdpb::UpdateServiceGcSafePointRequest,
    "GetMinTS": pdpb::GetMinTsRequest,
}

methods! {
    ETCD, "etcdserverpb.KV", Other,
    "Range": etcdserverpb::RangeRequest,
    "Put": etcdserverpb::PutRequest,
    "DeleteRange": etcdserverpb::DeleteRangeRequest,
}

/// The calls with streams of requests: batches, and timestamps.
pub(super) const STREAMS: &[Method; 2] = &[
    Method {
        path: "/tikvpb.Tikv/BatchCommands",
        decode: decode::<tikvpb::BatchCommandsRequest>,
        first: First::Other,
    },
    Method {
        path: "/pdpb.PD/Tso",
        decode: decode::<pdpb::TsoRequest>,
        first: First::Header,
    },
];
