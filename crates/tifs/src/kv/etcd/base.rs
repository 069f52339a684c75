//! The cluster as a volume sees it: the connection, its keys, and the revisions that are read at.

use std::sync::Arc;

use bytes::Bytes;

use super::client::{Cluster, EtcdClient};
use super::moments::Moments;
use super::wire::{Compare, RangeRequest, Request, TransactionRequest};
use crate::error::Result;
use crate::kv::RemoteUrl;
use crate::kv::remote::cluster::Deadline;
use crate::kv::remote::keys::Keys;

/// The cluster of a volume.
pub(super) struct Base {
    pub(super) url: RemoteUrl,
    pub(super) cluster: Cluster,
    pub(super) keys: Keys,
    pub(super) moments: Arc<Moments>,
}

impl Base {
    /// Connects.
    pub(super) fn connect(url: &RemoteUrl) -> Result<Base> {
        Ok(Base {
            url: url.clone(),
            cluster: Cluster::connect(url)?,
            keys: Keys::new(&url.name),
            moments: Arc::new(Moments::default()),
        })
    }

    /// Notes the latest revision of the cluster.
    pub(super) fn ask(&self) -> Result<()> {
        self.value(self.keys.session()).map(drop)
    }

    /// The present value of a key.
    pub(super) fn value(&self, key: Vec<u8>) -> Result<Option<Bytes>> {
        let range = RangeRequest {
            key,
            ..RangeRequest::default()
        };
        let deadline = self.cluster.deadline();
        let found = self.cluster.call(deadline, async |client: EtcdClient| {
            client.range(range.clone()).await
        })?;
        let revision = found.header.map_or(0, |header| header.revision);
        self.moments.reached(revision);
        Ok(found.kvs.into_iter().next().map(|pair| pair.value))
    }

    /// Changes keys, if conditions hold. False if one does not.
    pub(super) fn change_if(
        &self,
        conditions: Vec<Compare>,
        requests: Vec<Request>,
        deadline: Deadline,
    ) -> Result<bool> {
        let request = TransactionRequest {
            compare: conditions,
            success: requests.into_iter().map(Into::into).collect(),
            failure: Vec::new(),
        };
        let done = self.cluster.call(deadline, async |client: EtcdClient| {
            client.transaction(request.clone()).await
        })?;
        self.moments.reached(done.revision());
        Ok(done.succeeded)
    }
}
