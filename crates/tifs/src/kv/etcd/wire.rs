//! The messages of etcd's protocol that a store needs, with the fields that it reads or sets.

use bytes::Bytes;
use prost::{Message, Oneof};

/// The head of each answer.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Header {
    /// The revision at the time of the answer.
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

/// A key as of a revision.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    /// The revision of the last change; 0 of a key without value.
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) value: Bytes,
    #[prost(int64, tag = "6")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    /// Empty for the key alone.
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) limit: i64,
    /// 0 for the present.
    #[prost(int64, tag = "4")]
    pub(super) revision: i64,
    /// 2 for descending keys.
    #[prost(int32, tag = "5")]
    pub(super) sort_order: i32,
    /// The member answers from its own state.
    #[prost(bool, tag = "7")]
    pub(super) serializable: bool,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
    #[prost(bool, tag = "4")]
    pub(super) prev_kv: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct PutResponse {
    #[prost(message, optional, tag = "2")]
    pub(super) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DeleteRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bool, tag = "3")]
    pub(super) prev_kv: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct DeleteResponse {
    #[prost(message, repeated, tag = "3")]
    pub(super) prev_kvs: Vec<KeyValue>,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Compare {
    /// 0 for equal, 2 for less.
    #[prost(int32, tag = "1")]
    result: i32,
    /// 2 for the revision of the last change.
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "vec", tag = "3")]
    key: Vec<u8>,
    #[prost(oneof = "CompareValue", tags = "6")]
    value: Option<CompareValue>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
enum CompareValue {
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    const LESS: i32 = 2;
    const MOD: i32 = 2;

    /// The last change of a key is that of a revision; 0 if it has no value.
    pub(super) fn unchanged(key: Vec<u8>, revision: i64) -> Compare {
        Compare {
            result: 0,
            target: Compare::MOD,
            key,
            value: Some(CompareValue::ModRevision(revision)),
        }
    }

    /// The last change of a key is not after a revision.
    pub(super) fn not_after(key: Vec<u8>, revision: i64) -> Compare {
        Compare {
            result: Compare::LESS,
            value: Some(CompareValue::ModRevision(revision + 1)),
            ..Compare::unchanged(key, revision)
        }
    }
}

/// An operation of a transaction.
#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Operation {
    #[prost(oneof = "Request", tags = "1, 2, 3, 4")]
    pub(super) request: Option<Request>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRequest),
    #[prost(message, tag = "4")]
    Transaction(TransactionRequest),
}

impl From<Request> for Operation {
    fn from(request: Request) -> Operation {
        Operation {
            request: Some(request),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct OperationResponse {
    #[prost(oneof = "Response", tags = "1, 2, 3, 4")]
    pub(super) response: Option<Response>,
}

#[derive(Clone, PartialEq, Eq, Oneof)]
pub(super) enum Response {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteResponse),
    #[prost(message, tag = "4")]
    Transaction(TransactionResponse),
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TransactionRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<Operation>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failure: Vec<Operation>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct TransactionResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<OperationResponse>,
}

impl TransactionResponse {
    pub(super) fn revision(&self) -> i64 {
        self.header.map_or(0, |header| header.revision)
    }

    /// The keys of all ranges, and the earlier values that puts and deletions report, in the order
    /// of the operations.
    pub(super) fn into_pairs(self) -> Vec<KeyValue> {
        let of_one = |response: OperationResponse| match response.response {
            Some(Response::Range(range)) => range.kvs,
            Some(Response::Put(put)) => put.prev_kv.into_iter().collect(),
            Some(Response::Delete(delete)) => delete.prev_kvs,
            Some(Response::Transaction(inner)) => inner.into_pairs(),
            None => Vec::new(),
        };
        self.responses.into_iter().flat_map(of_one).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
    /// The answer comes when the space is free.
    #[prost(bool, tag = "2")]
    pub(super) physical: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantRequest {
    /// Seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

/// The request of a keep-alive, of a revocation, and of the rest of the time.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseRequest {
    #[prost(int64, tag = "1")]
    pub(super) id: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct LeaseResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    /// Seconds; not positive if the lease has ended.
    #[prost(int64, tag = "3")]
    pub(super) ttl: i64,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct StatusResponse {
    #[prost(int64, tag = "9")]
    pub(super) db_size_in_use: i64,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) password: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub(super) token: String,
}
