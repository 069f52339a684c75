//! The keys that clients save, by etcd's service.

use std::sync::Arc;

use bytes::Bytes;
use tonic::{Request, Response, Status};

use super::executor::{Executor, status};
use super::headers::MEMBER_ID;
use super::leaving::counted;
use crate::node::Shared;
use crate::proto::etcdserverpb::kv_server::Kv;
use crate::proto::etcdserverpb::{
    DeleteRangeRequest, DeleteRangeResponse, KeyValue, PutRequest, PutResponse, RangeRequest,
    RangeResponse, ResponseHeader,
};
use crate::records::SavedKey;

/// The service of saved keys.
pub(crate) struct EtcdService {
    executor: Arc<Executor>,
}

impl EtcdService {
    pub(crate) fn new(executor: Arc<Executor>) -> Self {
        EtcdService { executor }
    }
}

fn header(shared: &Shared, revision: u64) -> Option<ResponseHeader> {
    Some(ResponseHeader {
        cluster_id: shared.cluster_id,
        member_id: MEMBER_ID,
        revision: signed(revision),
        raft_term: 1,
    })
}

fn key_value(saved: SavedKey) -> KeyValue {
    KeyValue {
        key: saved.key,
        value: saved.value,
        create_revision: signed(saved.created),
        mod_revision: signed(saved.modified),
        version: signed(saved.version),
        lease: 0,
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The end of a range: just after the key without one, none for one zero byte.
fn end_of(key: &Bytes, end: Bytes) -> Option<Bytes> {
    match &*end {
        [] => Some([&**key, &[0]].concat().into()),
        [0] => None,
        _ => Some(end),
    }
}

#[tonic::async_trait]
impl Kv for EtcdService {
    async fn range(
        &self,
        request: Request<RangeRequest>,
    ) -> Result<Response<RangeResponse>, Status> {
        let request = request.into_inner();
        let range = self.executor.other("etcd_range", move |shared| {
            let end = end_of(&request.key, request.range_end);
            let limit = match usize::try_from(request.limit) {
                Ok(0) | Err(_) => usize::MAX,
                Ok(limit) => limit,
            };
            let wanted = if request.count_only { 0 } else { limit };
            let saved = &shared.saved_keys;
            let (found, count) = saved
                .range(&request.key, end.as_deref(), wanted)
                .map_err(status)?;
            let is_more = !request.count_only && found.len() < count;
            let mut kvs: Vec<KeyValue> = found.into_iter().map(key_value).collect();
            if request.keys_only {
                kvs.iter_mut().for_each(|kv| kv.value = Bytes::new());
            }
            Ok(RangeResponse {
                header: header(shared, saved.revision()),
                kvs,
                more: is_more,
                count: signed(count as u64),
            })
        });
        counted(&self.executor, range.await?)
    }

    async fn put(&self, request: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        let request = request.into_inner();
        if request.lease != 0 {
            return Err(Status::unimplemented("there are no leases"));
        }
        let put = self.executor.other("etcd_put", move |shared| {
            let put = shared.saved_keys.put(request.key, request.value);
            let (before, revision) = put.map_err(status)?;
            Ok(PutResponse {
                header: header(shared, revision),
                prev_kv: before.filter(|_| request.prev_kv).map(key_value),
            })
        });
        counted(&self.executor, put.await?)
    }

    async fn delete_range(
        &self,
        request: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        let request = request.into_inner();
        let delete = self.executor.other("etcd_delete_range", move |shared| {
            let end = end_of(&request.key, request.range_end);
            let deleted = shared.saved_keys.delete(&request.key, end.as_deref());
            let (deleted, revision) = deleted.map_err(status)?;
            let count = deleted.len();
            let before = deleted.into_iter().filter(|_| request.prev_kv);
            Ok(DeleteRangeResponse {
                header: header(shared, revision),
                deleted: signed(count as u64),
                prev_kvs: before.map(key_value).collect(),
            })
        });
        counted(&self.executor, delete.await?)
    }
}
